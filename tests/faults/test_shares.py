import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace

import asyncpg
import pytest

from runtime import trace
from runtime.stores.database import Database
from runtime.stores.tenant_quota import TenantQuotas
from tests.support.scenario import Scenario
from tests.support.stack import AS_SHIPPED, Answer, Stack, make_tenant, new_stack, settings_of
from tests.support.waiting import until
from tests.support.world import World, new_world

Ask = Callable[[], Awaitable[Answer]]

POOL = 4
FLOOR_SECONDS = 0.05
"""A time below is noise: growth counts from here."""


class Tenant:
    def __init__(self, world: World, reward_id: str, quest_id: str, game_id: str) -> None:
        self.world, self.game_id = world, game_id
        stack, credit = world.stack, {"player_id": "ann", "scope_key": world.campaign_id, "currency": "points"}
        self.asks: list[Ask] = [
            lambda: stack.admin("POST", "/admin/wallet/adjustments", {**credit, "amount": 1}),
            lambda: stack.consumer("POST", f"/rewards/{reward_id}/claim", {}, player="ann"),
            lambda: stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player="ann"),
        ]


@asynccontextmanager
async def tenant(stack: Stack, tenant_id: str) -> AsyncIterator[Tenant]:
    async with new_world(await make_tenant(replace(stack), tenant_id)) as world:
        game_id = await world.wheel(await world.prize(fulfillment={"redemption_mode": "on_claim"}))
        reward_id = (await world.round(game_id)).data["rewards"][0]["reward_id"]
        quest = {"campaign_id": world.campaign_id, "name": "Q", "turns": 1, "type": "one_time", "status": "active"}
        quest_id = (await world.stack.admin("POST", "/admin/quests", quest)).data["id"]
        made = Tenant(world, reward_id, quest_id, game_id)
        await world.turns("ann", 1)
        assert (await made.asks[0]()).http == 200  # So there are rows to be held.
        yield made


@asynccontextmanager
async def rows_held(stack: Stack, like: str) -> AsyncIterator[None]:
    connection = await asyncpg.connect(stack.process.settings.database_url)
    transaction = connection.transaction()
    await transaction.start()
    for table in ("players", "turn_balances", "balances", "rewards"):
        await connection.execute(f"SELECT FROM {table} WHERE tenant_id LIKE $1 FOR UPDATE", like)
    try:
        yield
    finally:
        await transaction.rollback()
        await connection.close()


async def served(one: Tenant) -> bool:
    return {answer.http for answer in await asyncio.gather(*(ask() for ask in one.asks))} <= {200, 409}


@pytest.mark.fault("A tenant's rows locked for 10 s", size="three tenants held, one calm", figure="20 answers OK")
async def test_stuck_tenants_leave_connections_for_the_others(module_database_url: str, valkey_url: str) -> None:
    """A statement of each stuck tenant was late already. Their requests keep coming while the calm one plays."""
    bounds = {"database_acquire_timeout_seconds": 1.0, "database_statement_timeout_seconds": 60.0}
    bounds |= {"database_pool_size": POOL, "answer_timeout_seconds": 1.0}
    async with AsyncExitStack() as all_of_them:
        stack = await all_of_them.enter_async_context(new_stack(settings_of(module_database_url, valkey_url, **bounds)))
        made = [tenant(stack, name) for name in ("calm", "held_0", "held_1", "held_2")]
        good, *stuck = [await all_of_them.enter_async_context(one) for one in made]
        over = asyncio.Event()

        async def keeps_asking(ask: Ask) -> None:
            while not over.is_set():
                await ask()

        async with rows_held(stack, "held%"):
            first = await asyncio.gather(*(one.asks[0]() for one in stuck))
            assert all("no answer in time" in answer.envelope["message"] for answer in first)
            asking = [asyncio.ensure_future(keeps_asking(one.asks[nth % 2 * 2])) for one in stuck for nth in range(8)]
            rounds = []
            for _ in range(20):
                rounds.append(await good.world.round(good.game_id))
                await asyncio.sleep(0.1)  # sleeps: the pace of the player
            assert {answer.http for answer in rounds} == {200}
            over.set()
            await asyncio.gather(*asking)
        for one in stuck:
            await until(lambda one=one: served(one))  # type: ignore[misc]


async def test_waiting_requests_of_a_tenant_that_becomes_blocked_let_others_pass(module_database_url: str) -> None:
    database = Database(module_database_url, size=POOL, acquire_seconds=1.0, statement_seconds=60.0)

    async def waits_until_cancelled(tenant_id: str, query: str = "SELECT pg_sleep(60)") -> None:
        trace.tenant.set(tenant_id)
        await database.fetch(query)

    try:
        held = [asyncio.ensure_future(waits_until_cancelled(one)) for one in ("a", "b", "b", "b")]
        await until(lambda: database.busy == POOL)
        behind = [asyncio.ensure_future(waits_until_cancelled("a")) for _ in range(2)]
        calm = asyncio.ensure_future(waits_until_cancelled("calm", "SELECT 1"))
        await asyncio.sleep(0)  # sleeps: the others wait for a connection now
        for one in held[:2]:
            one.cancel()
        await asyncio.wait_for(calm, 0.9)
    finally:
        for one in (*held, *behind):
            one.cancel()
        await asyncio.gather(*held, *behind, return_exceptions=True)
        await database.close()


async def test_transaction_that_fails_counts_as_an_answer(module_database_url: str) -> None:
    database = Database(module_database_url, size=POOL, acquire_seconds=1.0, statement_seconds=1.0)
    database._quotas = TenantQuotas(POOL, quiet_seconds=0.0)
    database._quotas.record_timeout("a")
    trace.tenant.set("a")
    with pytest.raises(asyncpg.DivisionByZeroError):
        await database.transaction(lambda connection: connection.fetch("SELECT 1 / 0"))
    assert not database._quotas.blocks("a")
    await database.close()


@pytest.mark.fault(
    "A tenant's rows locked for 10 s",
    small=4,
    full=50,
    unit="tenants, the rows of one locked",
    figure="no answer of another fails, their p99 grows by 10 % at most",
)
async def test_locked_rows_slow_no_other_tenant(scenario: Scenario, module_database_url: str, valkey_url: str) -> None:
    """Windows with and without the lock, by turns.

    In the suite the pool is small, the locked tenant asks more, and only the median is judged: the machine is busy.
    """
    small = {"database_pool_size": POOL, "database_acquire_timeout_seconds": 5.0, "answer_timeout_seconds": 10.0}
    pool = {} if scenario.full else small
    settings = settings_of(module_database_url, valkey_url, **{**AS_SHIPPED, **pool})
    took = defaultdict[bool | None, list[float]](list)
    over, locked = asyncio.Event(), None

    async def plays(one: Tenant) -> None:
        while not over.is_set():
            began, then = time.monotonic(), locked
            assert (await one.world.round(one.game_id)).http == 200
            took[then] += [time.monotonic() - began] if then is locked else []
            await asyncio.sleep(0.02 * scenario.size)  # sleeps: the pace of the players

    async def keeps_asking(ask: Ask) -> None:
        while not over.is_set():
            await ask()

    async with AsyncExitStack() as all_of_them:
        stack = await all_of_them.enter_async_context(new_stack(settings))
        made = [tenant(stack, f"{'other' if nth else 'locked'}_{nth}") for nth in range(scenario.size)]
        first, *others = [await all_of_them.enter_async_context(one) for one in made]
        asks = [keeps_asking(ask) for ask in first.asks * (1 if scenario.full else 4)]
        running = [asyncio.ensure_future(one) for one in (*map(plays, others), *asks)]
        for locked in (None, False, True, True, False) if scenario.full else (False, True):  # None: to warm up.
            async with rows_held(stack, "locked%") if locked else nullcontext():
                await asyncio.wait(running, timeout=10 if scenario.full else 2, return_when=asyncio.FIRST_EXCEPTION)
        over.set()
        await asyncio.gather(*running)
    part = 99 if scenario.full else 50
    alone, beside = (sorted(took[one])[len(took[one]) * part // 100] for one in (False, True))
    scenario.figure(f"p{part} of the others alone", alone, "s")
    grown = beside / max(alone, FLOOR_SECONDS)
    scenario.figure(f"growth of their p{part}", grown, most=1.1 if scenario.full else 10)
