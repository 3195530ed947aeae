"""Tenants whose rows somebody holds: whatever they ask, the others find connections."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from tests.support.stack import Answer, Stack, make_tenant, new_stack, settings_of
from tests.support.waiting import until
from tests.support.world import World, new_world

Ask = Callable[[], Awaitable[Answer]]

POOL = 4


@pytest.fixture(scope="module")
def module_extra_settings() -> dict[str, Any]:
    # A statement that waits for a row holds its connection for longer than anybody waits for one.
    seconds = {"database_acquire_timeout_seconds": 1.0, "database_statement_timeout_seconds": 2.0}
    return {"database_pool_size": POOL, **seconds}


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
        prize_id = await world.prize(fulfillment={"redemption_mode": "on_claim"})
        game_id = await world.wheel(prize_id)
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
    answers = await asyncio.gather(*(ask() for ask in one.asks))
    return {answer.http for answer in answers} <= {200, 409}


@pytest.mark.fault("A tenant's rows locked for 10 s", size="three tenants held, one calm", figure="20 answers OK")
async def test_stuck_tenants_together_leave_connections_for_the_others(module_stack: Stack) -> None:
    await leaves_connections(module_stack, lambda stuck: stuck.asks, "did not answer")


async def test_stuck_tenants_leave_connections_for_the_others(module_database_url: str, valkey_url: str) -> None:
    """The request times out before any of its statements does."""
    bounds = {"database_acquire_timeout_seconds": 1.0, "database_statement_timeout_seconds": 60.0}
    settings = settings_of(
        module_database_url, valkey_url, database_pool_size=POOL, answer_timeout_seconds=1.0, **bounds
    )
    async with new_stack(settings) as stack:
        await leaves_connections(stack, lambda stuck: [stuck.asks[0], stuck.asks[2]], "no answer in time")


async def leaves_connections(stack: Stack, asks: Callable[[Tenant], list[Ask]], late_says: str) -> None:
    """Fails unless a tenant plays on while three others ask for what somebody holds, once each of these was late."""
    names = [f"held_{nth}" for nth in range(3)]
    async with (
        tenant(stack, names[0]) as one,
        tenant(stack, names[1]) as two,
        tenant(stack, names[2]) as three,
        tenant(stack, "calm") as good,
    ):
        over, late = asyncio.Event(), Counter[str]()

        async def keeps_asking(stuck: Tenant, ask: Ask) -> None:
            while not over.is_set():
                answer = await ask()
                if late_says in answer.envelope["message"]:
                    late[stuck.world.stack.tenant_id] += 1

        async with rows_held(stack, "held%"):
            asking = [asyncio.ensure_future(keeps_asking(it, ask)) for it in (one, two, three) for ask in asks(it) * 4]
            await until(lambda: len(late) == len(names))
            rounds = [await good.world.round(good.game_id) for _ in range(20)]
            assert {answer.http for answer in rounds} == {200}
            over.set()
            await asyncio.gather(*asking)
        for stuck in (one, two, three):
            await until(lambda stuck=stuck: served(stuck))  # type: ignore[misc]


async def test_work_without_a_tenant_may_use_the_whole_pool(module_database_url: str, valkey_url: str) -> None:
    settings = settings_of(module_database_url, valkey_url, database_pool_size=2)
    async with new_stack(settings) as stack:
        database = stack.database
        async with database.connection() as first, database.connection() as second:
            assert await asyncio.gather(first.fetchval("SELECT 1"), second.fetchval("SELECT 2")) == [1, 2]
