"""A crowd at once: players, guests, staff, workflows and time on one tenant, through two Cores, with faults in between.

Beside the walks of `test_walks.py`, where one thing is done at a time and a model says what must come of it, here all
is in flight together, on the real stores: plays, claims, redeems, quests, merges, revokes, bulks, turns, stock, caps,
zones, revisions, pauses, suspensions, boards, deletions, erasures, callbacks, expiry. Nobody can say what must come of
that, but what must never: an error of ours, a refusal that the operation does not name, an answer that a repeat
contradicts, and, whenever nobody is asking, a broken invariant, a cap that was passed or an effect that is not what
was answered (`verdict.py`); nor, in the end, a word of somebody who was erased.

A seed gives the same plan each time: who does what, beside whom, through which Core, and what breaks. In which order
the machine does it is its own, so a seed that failed fails again most of the time and not always: the failure
prints the history as it was, and

    TOMBOLA_TEST_CROWD_SEED=17 TOMBOLA_TEST_CROWDS=20 ./ops/test tests/model/test_crowds.py

tries that plan twenty times. TOMBOLA_TEST_CROWDS alone says how many seeds are tried. Where the order itself is to be
replayed, the simulation does so (ops/simulation).
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ops.servers.valkey import Valkey
from tests.model.acts import PERFORM
from tests.model.crowd import Act, Plan, Round, draw
from tests.model.tenant import WORKER, Tenant
from tests.model.verdict import in_the_end, problems
from tests.support.deliveries import working
from tests.support.receiver import Receiver, status
from tests.support.seed import SEED
from tests.support.stack import TO_LOOPBACK
from tests.support.two_cores import Stage
from tests.support.waiting import HANG_SECONDS

CROWDS = int(os.environ.get("TOMBOLA_TEST_CROWDS", "12"))
ONE = os.environ.get("TOMBOLA_TEST_CROWD_SEED", "")
SEEDS = [int(ONE)] * CROWDS if ONE else [SEED * 1_000 + nth for nth in range(CROWDS)]


@pytest.fixture
async def stage(module_database_url: str, tmp_path: Path) -> AsyncIterator[Stage]:
    valkey = Valkey(tmp_path / "valkey")
    valkey.start()
    async with AsyncExitStack() as parts:
        parts.callback(valkey.stop)
        stage = Stage(module_database_url, valkey, TO_LOOPBACK)
        for nth in (0, 1, WORKER):
            await stage.open_core(nth)
            parts.push_async_callback(lambda nth=nth: stage.stacks[nth].aclose())
        await parts.enter_async_context(
            working(stage.cores[WORKER].engine, "deliveries", "integrations", "leaderboards")
        )
        yield stage


async def strike(stage: Stage, fault: str) -> None:
    """Breaks something, and has it come back."""
    match fault.split():
        case ["flush"]:
            stage.valkey.command("FLUSHALL")
        case ["cut"]:
            await stage.cut_connections()
        case ["valkey"]:
            stage.valkey.kill()
            stage.valkey.start()
        case ["core", nth]:
            await stage.open_core(int(nth))


async def do(tenant: Tenant, part: Round) -> None:
    """All lanes at once, to their ends; what breaks does so in their midst."""
    over, struck = 0, asyncio.Event()

    async def lane(acts: tuple[Act, ...]) -> None:
        nonlocal over
        for act in acts:
            await PERFORM[act.kind](tenant, act)
            over += 1
            if over >= part.after:
                struck.set()

    async def breaks() -> None:
        if part.fault:
            await struck.wait()
            tenant.history.note(f"{part.fault} breaks")
            await strike(tenant.stage, part.fault)
            tenant.history.note(f"{part.fault} is back")

    async with asyncio.timeout(2 * HANG_SECONDS), asyncio.TaskGroup() as group:
        group.create_task(breaks())
        for acts in part.lanes:
            group.create_task(lane(acts))


async def walk(tenant: Tenant, plan: Plan, receiver: Receiver) -> list[str]:
    """What is wrong after one of its rounds, or in one; empty: nothing ever was."""
    for part in plan.rounds:
        receiver.replies += [status(500), status(503)]
        found: list[str] = []
        try:
            await do(tenant, part)
        except* (AssertionError, TimeoutError) as group:
            found += [str(error) or repr(error) for error in group.exceptions]
        if found := found or await problems(tenant):
            return found
        tenant.history.note("all is quiet, and right")
    return await in_the_end(tenant, receiver)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.fault(
    "Random walks",
    size="12 crowds of 456 acts, 19 lanes at once, 2 Cores, faults in between",
    figure="invariants hold, each answer has its one effect, no 5xx but 503, no refusal without its reason",
)
async def test_a_crowd_breaks_nothing(stage: Stage, receiver: Receiver, seed: int) -> None:
    plan = draw(seed)
    tenant = Tenant(stage, plan.world)
    await tenant.furnish(receiver.url)
    found = await walk(tenant, plan, receiver)
    assert not found, "\n".join([*found, f"seed {seed}", tenant.history.told(), *found])
    told = Counter(attempt.outcome for attempt in tenant.history.attempts)
    assert told["ok"] > len(tenant.history.attempts) / 3, told


def test_a_seed_draws_one_plan() -> None:
    plans = [draw(seed) for seed in (1, 2, 1)]
    assert plans[0] == plans[2] != plans[1]
    kinds = {act.kind for plan in map(draw, range(20)) for part in plan.rounds for lane in part.lanes for act in lane}
    assert kinds == PERFORM.keys()
