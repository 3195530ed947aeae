"""Processes of Tombola killed, stopped and paused under load."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from ops.certification.measuring import Watch
from ops.certification.node import Node
from ops.certification.row import row
from ops.certification.run import Run, paused

READY_SECONDS: Final = 5.0
EXIT_SECONDS: Final = 30.0
PAUSE_SECONDS: Final = 3.0
CORE_PAUSE_SECONDS: Final = 6.0
"""An edge notices within 2 s, and then there are to be plays."""


@row("core-killed", fault="Core killed (SIGKILL)", quick=6, full=50, unit="kills")
async def core_killed(run: Run) -> None:
    """Either Core is killed at random moments, and started again at once."""
    taken = []
    async with Watch() as watch, run.loaded() as load:
        for _ in range(run.size):
            await load.more(run.dice.randrange(1, 40))
            core = run.dice.choice(run.stack.cores)
            core.kill()
            run.note(f"{core.name} killed")
            taken.append((await _started(run, watch, core), await run.slowness.read()))
            run.note(f"{core.name} ready")
        await load.more(20)
    seconds, slow = max(taken)
    run.figure("plays", load.plays)
    run.figure("ready again, at worst", seconds, "s", most=READY_SECONDS, slowness=slow)


async def _started(run: Run, watch: Watch, node: Node) -> float:
    """Starts it; how many seconds until it is ready, as another process sees it, interpreter start included."""
    began = time.monotonic()
    ready, _ = await asyncio.gather(watch.ready(node), node.start(run.stack.http))
    return ready - began


@row("core-stopped", fault="Core stopped (SIGTERM)", quick=1, full=10, unit="rounds")
async def core_stopped(run: Run) -> None:
    """Each Core in turn is asked to end, and started again."""
    taken, codes = [], []
    async with run.loaded() as load:
        for _ in range(run.size):
            for core in run.stack.cores:
                await load.more(20)
                run.note(f"{core.name} is asked to end")
                code, seconds = await core.stop()
                codes.append(code)
                taken.append(seconds)
                await load.more(10)
                await core.start(run.stack.http)
                run.note(f"{core.name} ready")
        await load.more(20)
    run.figure("plays", load.plays)
    run.figure("exit, at worst", max(taken), "s", most=EXIT_SECONDS, slowness=await run.slowness.read())
    run.figure("exit codes other than 0", sum(code != 0 for code in codes), exactly=0)
    # Who asks a Core itself finds it gone: it is the edges that look for another one.
    cut = [one for one in run.history.attempts if one.http == 0 and not one.to.startswith("core")]
    run.figure("requests of an edge without an answer", len(cut), exactly=0)
    run.figure("told to come again", sum(one.http == 503 for one in run.history.attempts))


@row("process-killed", fault="", quick=1, full=5, unit="kills of each")
async def process_killed(run: Run) -> None:
    """Each edge and each worker is killed, and started again."""
    taken = []
    async with Watch() as watch, run.loaded() as load:
        for _ in range(run.size):
            for node in (*run.stack.consumers, *run.stack.admins, *run.stack.workers):
                await load.more(5)
                node.kill()
                run.note(f"{node.name} killed")
                taken.append((await _started(run, watch, node), await run.slowness.read()))
        await load.more(20)
    seconds, slow = max(taken)
    run.figure("plays", load.plays)
    run.figure("ready again, at worst", seconds, "s", most=READY_SECONDS, slowness=slow)


@row("process-paused", fault="", quick=1, full=5, unit="pauses of each")
async def process_paused(run: Run) -> None:
    """Each process stands still for some seconds, its connections open, and goes on."""
    fewest = None
    async with run.loaded() as load:
        for _ in range(run.size):
            for node in run.stack.nodes.values():
                await load.more(5)
                before = load.plays
                run.note(f"{node.name} stands still")
                async with paused(node):
                    await asyncio.sleep(CORE_PAUSE_SECONDS if node in run.stack.cores else PAUSE_SECONDS)
                run.note(f"{node.name} goes on")
                if node in run.stack.cores:
                    fewest = min(load.plays - before, fewest if fewest is not None else load.plays)
        await load.more(20)
    run.figure("plays", load.plays)
    run.figure("plays while one Core of two stood still, at least", fewest or 0, least=1)
