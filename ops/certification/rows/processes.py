"""Processes of Tombola killed, stopped and paused under load."""

from __future__ import annotations

import time

from ops.certification.row import row
from ops.certification.run import Run

READY_SECONDS = 5.0


@row("core-killed", fault="Core killed (SIGKILL)", quick=6, full=50, unit="kills")
async def core_killed(run: Run) -> None:
    """Either Core is killed at random moments, and started again at once; it is ready again within 5 s."""
    taken = []
    slow = []
    async with run.loaded() as load:
        for _ in range(run.size):
            await load.more(run.dice.randrange(1, 40))
            core = run.dice.choice(run.stack.cores)
            core.kill()
            run.note(f"{core.name} killed")
            began = time.monotonic()
            await core.start(run.stack.http)
            taken.append(time.monotonic() - began)
            run.note(f"{core.name} ready")
            slow.append(await run.slowness.read())
        await load.more(20)
    worst = max(range(len(taken)), key=taken.__getitem__)
    run.figure("plays", load.plays)
    run.figure("ready again, at worst", taken[worst], "s", most=READY_SECONDS, slowness=slow[worst])
