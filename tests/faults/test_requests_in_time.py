import asyncio
from collections.abc import Awaitable

import pytest

from ops.servers.postgres import Postgres
from runtime.errors import Fault
from tests.support.rivals import held, waits
from tests.support.stack import Answer, new_stack, settings_of
from tests.support.waiting import HANG_SECONDS, until
from tests.support.world import World, new_world

ANSWER_SECONDS = 2.0
LATE_SECONDS = 2.5 * ANSWER_SECONDS
"""By the clock that the answer's own time goes by: how busy the machine is makes both later."""

SLOW = {"database_acquire_timeout_seconds": 60.0, "database_statement_timeout_seconds": 60.0}
pytestmark = pytest.mark.settings(**SLOW, answer_timeout_seconds=ANSWER_SECONDS)


@pytest.fixture(scope="module")
def module_database_url(server: Postgres) -> str:
    return server.url("tombola")


async def held_reward(world: World) -> tuple[str, str]:
    prize_id = await world.prize(total=6, fulfillment={"redemption_mode": "on_claim"})
    return prize_id, (await world.round(await world.wheel(prize_id))).data["rewards"][0]["reward_id"]


def revoke(world: World, reward_id: str) -> Awaitable[Answer]:
    return world.stack.core("POST", f"/rewards/{reward_id}/revoke", {"idempotency_key": "k"})


def unavailable(answer: Answer) -> bool:
    return (answer.http, answer.reason) == (503, "STORE_UNAVAILABLE") and int(answer.headers["Retry-After"]) >= 1


@pytest.mark.fault("Postgres backend frozen", size="a lock held, three kinds of requests", figure="503, then 200")
async def test_request_that_waits_too_long_is_503_and_done_once_by_its_retry(world: World) -> None:
    prize_id, reward_id = await held_reward(world)
    quest_id = await world.quest(turns=2)
    await world.turns("ann", 1)

    def ask() -> Awaitable[list[Answer]]:
        complete, key = f"/quests/{quest_id}/complete", {"Idempotency-Key": "k"}
        return asyncio.gather(
            *(revoke(world, reward_id), world.stack.consumer("POST", complete, {}, player="ann", headers=key)),
            world.stack.core("PUT", f"/prizes/{prize_id}", {"prize": {"stock": {"total": 9}}}),
        )

    async with asyncio.timeout(HANG_SECONDS):
        async with (
            held(world.stack, "SELECT FROM stock WHERE prize_id = $1 FOR UPDATE", prize_id),
            held(world.stack, "SELECT FROM turn_balances WHERE tenant_id = $1 FOR UPDATE", world.stack.tenant_id),
        ):
            late = asyncio.ensure_future(asyncio.sleep(LATE_SECONDS))  # sleeps: it is what the answers are held to.
            refused = await ask()
            assert not late.done()
            late.cancel()
        assert all(unavailable(answer) for answer in refused), [answer.envelope for answer in refused]
        answer = await ask()
    assert [answer.http for answer in answer] == [200] * 3
    assert [answer.data for answer in (await ask())[:2]] == [answer.data for answer in answer[:2]]
    assert answer[1].data["balance"] == 3
    assert await world.stock(prize_id) == (9, 0)


async def test_committed_request_without_answer_is_503_and_answered_on_retry(world: World, server: Postgres) -> None:
    """Every commit waits for a missing standby before Postgres confirms it."""
    prize_id, reward_id = await held_reward(world)
    server.psql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    server.psql("SELECT pg_reload_conf()")
    try:
        async with asyncio.timeout(HANG_SECONDS):
            await until(lambda: server.psql("SHOW synchronous_standby_names") == "nobody")
            refused = await revoke(world, reward_id)
    finally:
        server.psql("ALTER SYSTEM RESET synchronous_standby_names")
        server.psql("SELECT pg_reload_conf()")
    assert unavailable(refused) and "with the same Idempotency-Key" in refused.envelope["message"], refused.envelope
    await until(lambda: world.stock(prize_id), lambda it: it == (6, 0))
    again = (await revoke(world, reward_id)).data["reward"]
    assert again["status"] == "REWARD_STATUS_REVOKED", "else it would be refused: revoked before"
    assert await world.stock(prize_id) == (6, 0)


async def test_board_count_is_not_bound_by_the_answer_timeout(world: World) -> None:
    _, reward_id = await held_reward(world)
    board = await world.board()
    rows = "SELECT FROM leaderboards AS b, rewards AS r WHERE b.board_id = $1 AND r.reward_id = $2 FOR UPDATE"
    async with asyncio.timeout(HANG_SECONDS):
        async with held(world.stack, rows, board, reward_id):
            finalized = asyncio.ensure_future(world.stack.core("POST", f"/leaderboards/{board}/finalize", {}))
            await until(lambda: waits(world.stack, "leaderboards.lock"))
            assert unavailable(await revoke(world, reward_id))
            assert not finalized.done()
        assert (await finalized).data["leaderboard"]["status"] == "LEADERBOARD_STATUS_FINALIZED"


async def test_request_waits_for_connections_count_as_one_wait(module_database_url: str, valkey_url: str) -> None:
    """The request began its last wait later than its rival but is refused first, because it waited before."""
    bounds = {"database_acquire_timeout_seconds": 3.0, "database_statement_timeout_seconds": 60.0}
    settings = settings_of(module_database_url, valkey_url, database_pool_size=1, **bounds)
    async with new_stack(settings) as stack, new_world(stack) as world:
        _, reward_id = await held_reward(world)
        database, refused = stack.database, list[str]()

        async def rival() -> None:
            async with database.connection():
                await until(lambda: len(refused) == 2)

        async def another() -> None:
            with pytest.raises(Fault):
                await database.fetchval("SELECT 1")
            refused.append("another")

        async def request() -> None:
            assert unavailable(await revoke(world, reward_id))
            refused.append("the request")

        async with database.connection():
            sent = asyncio.ensure_future(request())
            await asyncio.sleep(1.5)  # sleeps: so long the request waits for the first time.
            others = [asyncio.ensure_future(rival()), asyncio.ensure_future(another())]
            await asyncio.sleep(0)  # They stand in the queue now, the rival first.
        await asyncio.gather(sent, *others)
        assert refused == ["the request", "another"]
