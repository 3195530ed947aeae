"""What staff does while players play."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ops.certification.catalogue import STAFF, World, found, furnish
from ops.certification.errands import ELSEWHERE, never_done
from ops.certification.judge import judge
from ops.certification.load import LOAD_SECONDS_MAX, Load, Player, running
from ops.certification.row import row
from ops.certification.rows.merging import Guest, fair
from ops.certification.run import Run
from ops.history.record import History
from runtime.operations import BY_NAME

Act = Callable[[Run, Load, int], Awaitable[object]]

DONE_SECONDS: Final = 60.0
"""How long what the dice have not chosen yet is waited for."""

WINDOW_SECONDS: Final = 6.0
ACTS_PER_SECOND: Final = 20.0
"""Of staff, of all kinds together: more than any campaign's staff does, and time left to play."""


@dataclass
class Side:
    """A tenant that is played and managed. people: who has played; staff: who manages, and never plays."""

    world: World
    people: list[Player] = field(default_factory=list)
    staff: Load = field(init=False)

    def __post_init__(self) -> None:
        self.staff = Load(self.world, random.Random(), prefix="staff", people=self.people)

    async def played(self, run: Run, prefix: str, seconds: float, managed: Side | None = None) -> float:
        """The plays a second, as fast as they go, while ACTS_PER_SECOND are done on a side."""
        load = Load(self.world, run.dice, staff=False, think_seconds=0.0, prefix=prefix, people=self.people)
        async with running(load):
            await load.for_seconds(1)
            acts = (
                [] if managed is None else [asyncio.ensure_future(_paced(act, run, managed, seconds)) for act in ACTS]
            )
            rate = await load.for_seconds(seconds)
            await asyncio.gather(*acts)
        return rate


@row("admin-against-play", fault="Admin against play", quick=2, full=8, unit="rounds of three windows")
async def admin_against_play(run: Run) -> None:
    """Revokes, prizes, campaign, finalize and merges, 20 acts a second; how plays go beside as many on another tenant.

    Those take as much of the processors, and of the load's own, but hold no row and change no catalogue that the plays
    need: so the figure is what staff's locks and changes cost, and not how fast the machine is. Each tenant is played
    in its turn, so that both grow alike.
    """
    sides = [Side(run.world), Side(await found(run.stack, History()))]
    await furnish(sides[1].world, run.receiver.url)
    for side in sides:
        await fair(side.world)
        await side.played(run, "first", 2)
    deadlocks = len(run.stack.postgres.deadlocks())
    alone: list[float] = []
    beside: list[float] = []
    elsewhere: list[float] = []
    for nth in range(run.size):
        one, other = sides if nth % 2 == 0 else sides[::-1]
        alone.append(await one.played(run, f"a{nth}-", WINDOW_SECONDS))
        run.note("staff begins")
        beside.append(await one.played(run, f"b{nth}-", WINDOW_SECONDS, one))
        run.note("staff goes elsewhere")
        elsewhere.append(await one.played(run, f"e{nth}-", WINDOW_SECONDS, other))
        run.note("staff has ended")
    run.figure("plays a second without staff", sum(alone) / run.size, slowness=await run.slowness.read())
    run.figure("part of that rate beside staff", sum(beside) / sum(alone))
    run.figure("part of the rate beside acts elsewhere", sum(beside) / sum(elsewhere), least=0.5)
    run.figure("deadlocks", len(run.stack.postgres.deadlocks()) - deadlocks, exactly=0)
    await judge(replace(run, world=sides[1].world))


async def _paced(act: Act, run: Run, side: Side, seconds: float) -> None:
    """Does its part of the acts, each when it is due; one that comes late is not left out."""
    began, every = time.monotonic(), len(ACTS) / ACTS_PER_SECOND
    for nth in range(round(seconds / every)):
        await asyncio.sleep(began + nth * every - time.monotonic())
        await act(run, side.staff, nth)


@row("staff-and-kills", fault="Admin against play", quick=3, full=20, unit="kills")
async def staff_and_kills(run: Run) -> None:
    """The same acts beside plays, while either Core is killed at random moments; each board is finalized once."""
    await fair(run.world)
    stop = asyncio.Event()
    async with run.loaded(staff=False) as load:
        await load.more(10)
        loops = [asyncio.ensure_future(_loop(act, run, load, stop)) for act in ACTS]
        for _ in range(run.size):
            await load.more(run.dice.randrange(1, 30))
            core = run.dice.choice(run.stack.cores)
            core.kill()
            run.note(f"{core.name} killed")
            await core.start(run.stack.http)
        await load.more(10)
        stop.set()
        acts = sum(await asyncio.gather(*loops))
    finals = {asked.of: _standings(asked.data) for asked in run.history.of("FinalizeLeaderboard") if asked.ok}
    others = 0
    for board, standings in finals.items():
        path = f"/admin/leaderboards/{board}/finalize"
        again = await run.world.client.ask("FinalizeLeaderboard", STAFF, "POST", path, {}, surface="admin", of=board)
        others += _standings(again.data) != standings
    run.figure("acts of staff", acts, least=len(ACTS))
    run.figure("boards finalized", len(finals), least=1)
    run.figure("boards whose standings are others when asked again", others, exactly=0)


@row("all-operations", fault="", quick=1, full=2, unit="rounds of every errand")
async def all_operations(run: Run) -> None:
    """Every operation is asked beside the load until each errand was gone; each is answered as done at least once."""
    load = Load(run.world, run.dice)
    load.errands.pause_seconds = 0.05
    async with running(load):
        await run.until(lambda: _gone(load, run.size), LOAD_SECONDS_MAX * run.size)
        with suppress(TimeoutError):  # Then the figure says so.
            await run.until(lambda: _all_done(run, load), DONE_SECONDS)
    never = never_done(run.history.asked)
    run.note(f"never answered as done: {', '.join(never)}")
    run.figure("operations that were answered as done", len(BY_NAME) - len(ELSEWHERE) - len(never))
    run.figure("operations never answered as done", len(never), exactly=0)


async def _all_done(run: Run, load: Load) -> bool:
    await load.look()
    return not never_done(run.history.asked)


async def _gone(load: Load, rounds: int) -> bool:
    await load.look()
    return load.errands.rounds_least >= rounds


def _standings(board: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Ranks and prizes; not whose they are: a guest may have become somebody since."""
    return [(one["rank"], one["score"], one["prize_id"], one["reward_id"]) for one in board["standings"]]


async def _loop(act: Act, run: Run, load: Load, stop: asyncio.Event) -> int:
    done = 0
    while not stop.is_set():
        await act(run, load, done)
        done += 1
    return done


async def _revoke(run: Run, load: Load, nth: int) -> None:
    rewards = [reward for player in load.people[-20:] for reward in player.rewards]
    if not rewards:
        await asyncio.sleep(0.1)
        return
    reward = run.dice.choice(rewards)
    await load.manage("RevokeReward", "POST", f"/admin/rewards/{reward}/revoke", {}, of=reward)


async def _prize(run: Run, load: Load, nth: int) -> None:
    world = load.world
    total = world.stock["trophy"] = world.stock["trophy"] + 1
    path = f"/admin/prizes/{world.ids['trophy']}"
    await load.manage("UpdatePrize", "PUT", path, {"stock": {"total": total}}, of="trophy")


async def _campaign(run: Run, load: Load, nth: int) -> None:
    path = f"/admin/campaigns/{load.world.campaign}"
    await load.manage("UpdateCampaign", "PUT", path, {"settings": {"changed": nth}})


async def _finalize(run: Run, load: Load, nth: int) -> None:
    world, name = load.world, f"board {run.dice.random()}"
    prizes = [{"from_rank": 1, "to_rank": 3, "prize_id": world.ids["trophy"]}]
    board = {"metric": "LEADERBOARD_METRIC_PLAYS", "mode": "LEADERBOARD_MODE_SUM", "prizes": prizes}
    made = await world.make("leaderboard", name, campaign_id=world.campaign, **board)
    await load.manage("FinalizeLeaderboard", "POST", f"/admin/leaderboards/{made}/finalize", {}, of=made)


async def _merge(run: Run, load: Load, nth: int) -> None:
    guest = Guest(load.world, run.dice.randrange(1 << 30))
    await guest.arrive(1)
    await guest.play()
    await guest.log_in()


ACTS: Final[tuple[Act, ...]] = (_revoke, _prize, _campaign, _finalize, _merge)
