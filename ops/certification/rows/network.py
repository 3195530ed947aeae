"""What is between two processes is slow, cut, held back, or forgets a connection: by a proxy of ours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ops.certification.catalogue import STAFF
from ops.certification.load import Load
from ops.certification.node import Node
from ops.certification.proxy import Proxy
from ops.certification.row import row
from ops.certification.run import Run

FAULT_SECONDS: Final = 3.0
BACK_SECONDS: Final = 5.0
"""Within how long of a healed network plays must be answered again."""

Break = Callable[[Proxy], object]


def _slow(proxy: Proxy) -> None:
    proxy.delay_seconds = 0.15


def _away(proxy: Proxy) -> None:
    proxy.accepting = False
    proxy.cut()


FAULTS: Final[dict[str, Break]] = {
    "slow": _slow,
    "cut": Proxy.cut,
    "held back": Proxy.partition,
    "half open": Proxy.half_open,
    "refused": _away,
}


async def _break_in_turn(run: Run, node: Node, to: str, *, every: bool = True, staff: bool = False) -> None:
    """Each fault on one way, under load. every: on all proxies of it, else on one of them. staff: it is their edge."""
    what, answered = ("staff answered", _next_of_staff) if staff else ("plays", _next_play)
    back: list[float] = []
    run.history.forgetful = to == "valkey"
    async with run.linked(node, to) as proxies, run.loaded() as load:
        for _ in range(run.size):
            for name, breaks in FAULTS.items():
                chosen: Sequence[Proxy] = proxies if every else [run.dice.choice(proxies)]
                await load.more(5)
                run.note(f"{node.name} to {to}: {name}")
                before = load.plays
                for proxy in chosen:
                    breaks(proxy)
                await asyncio.sleep(FAULT_SECONDS)
                during = load.plays - before
                for proxy in proxies:
                    proxy.heal()
                run.note(f"{node.name} to {to}: healed, {during} plays meanwhile")
                back.append(await _seconds(answered(run, load)))
        await load.more(10)
    run.figure("plays", load.plays)
    run.figure(
        f"{what} again after healing, at worst", max(back), "s", most=BACK_SECONDS, slowness=await run.slowness.read()
    )
    run.figure("told to come again", sum(one.http == 503 for one in run.history.attempts))


async def _next_play(_: Run, load: Load) -> None:
    await load.more(1)


async def _next_of_staff(run: Run, load: Load) -> None:
    """What was changed is read back: both cross the way."""
    path = f"/admin/campaigns/{load.world.campaign}"
    await load.manage("UpdateCampaign", "PUT", path, {"settings": {"changed": time.monotonic()}})
    await run.world.client.ask("GetCampaign", STAFF, "GET", path, surface="admin")


async def _seconds(waited: Awaitable[None]) -> float:
    began = time.monotonic()
    await waited
    return time.monotonic() - began


@row("edge-to-core", fault="", quick=1, full=10, unit="rounds of 5 faults")
async def edge_to_core(run: Run) -> None:
    """The way from the consumer edge to one of its two Cores is slow, cut, held back, forgotten, refused."""
    await _break_in_turn(run, run.stack.consumers[0], "core", every=False)


@row("admin-to-core", fault="", quick=1, full=10, unit="rounds of 5 faults")
async def admin_to_core(run: Run) -> None:
    """The way from the admin edge to one of the two Cores likewise: staff's writes are done once, as they were told."""
    await _break_in_turn(run, run.stack.admins[0], "core", every=False, staff=True)


@row("admin-to-valkey", fault="", quick=1, full=10, unit="rounds of 5 faults")
async def admin_to_valkey(run: Run) -> None:
    """The way from the admin edge to Valkey likewise."""
    await _break_in_turn(run, run.stack.admins[0], "valkey", staff=True)


@row("core-to-postgres", fault="", quick=1, full=10, unit="rounds of 5 faults")
async def core_to_postgres(run: Run) -> None:
    """The way from one Core to PostgreSQL likewise."""
    await _break_in_turn(run, run.stack.cores[0], "postgres")


@row("core-to-valkey", fault="", quick=1, full=10, unit="rounds of 5 faults")
async def core_to_valkey(run: Run) -> None:
    """The way from one Core to Valkey likewise."""
    await _break_in_turn(run, run.stack.cores[0], "valkey")


@row("edge-to-valkey", fault="", quick=1, full=10, unit="rounds of 5 faults")
async def edge_to_valkey(run: Run) -> None:
    """The way from the consumer edge to Valkey likewise."""
    await _break_in_turn(run, run.stack.consumers[0], "valkey")


@row("worker-to-valkey", fault="", quick=1, full=10, unit="rounds of 5 faults")
async def worker_to_valkey(run: Run) -> None:
    """The way from the delivery worker to Valkey likewise."""
    await _break_in_turn(run, run.stack.worker("deliveries"), "valkey")


@row("worker-to-postgres", fault="", quick=1, full=10, unit="rounds of 5 faults")
async def worker_to_postgres(run: Run) -> None:
    """The way from the delivery worker to PostgreSQL likewise."""
    await _break_in_turn(run, run.stack.worker("deliveries"), "postgres")
