import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import asyncpg
import pytest

from runtime.actors.starts import QUARTER_SECONDS, Starts
from runtime.stores.database import Database, StoreUnavailable
from tests.support.commits import TENANT, filled
from tests.support.locks import blocked, somebody_waits
from tests.support.stack import new_stack, settings_of
from tests.support.waiting import until
from tests.support.world import new_world

NOW = 1_790_000_000.0
QUARTER = int(NOW) // QUARTER_SECONDS * QUARTER_SECONDS


async def stored_starts(database: Database) -> dict[tuple[str, str, int], int]:
    rows = await database.fetch("SELECT tenant_id, game_id, unix(quarter) AS quarter, starts FROM game_starts")
    return {(row["tenant_id"], row["game_id"], row["quarter"]): row["starts"] for row in rows}


async def test_starts_are_added_to_their_game_and_quarter(database: Database) -> None:
    starts = Starts(database)
    for tenant, game, at in ((TENANT, "b", 0), (TENANT, "a", 0), (TENANT, "a", 1), (TENANT, "a", QUARTER_SECONDS)):
        starts.record(tenant, game, QUARTER + at)
    starts.record("another", "a", QUARTER)
    await starts.write()
    first = {(TENANT, "b", QUARTER): 1, (TENANT, "a", QUARTER): 2, (TENANT, "a", QUARTER + QUARTER_SECONDS): 1}
    assert await stored_starts(database) == {**first, ("another", "a", QUARTER): 1}
    await starts.write()
    starts.record(TENANT, "a", QUARTER + QUARTER_SECONDS - 1)
    await starts.write()
    assert await stored_starts(database) == {**first, ("another", "a", QUARTER): 1, (TENANT, "a", QUARTER): 3}


async def test_starts_lock_rows_in_key_order(database: Database, rival: asyncpg.Connection) -> None:
    starts = Starts(database)
    for game in "ba":
        starts.record(TENANT, game, NOW)
    await starts.write()
    async with rival.transaction():
        await rival.execute("SELECT FROM game_starts WHERE game_id = 'a' FOR UPDATE")
        for game in "ba":
            starts.record(TENANT, game, NOW)
        keeping = await blocked(database, starts.write())
        free = await database.fetch("SELECT game_id FROM game_starts FOR UPDATE SKIP LOCKED")
        assert [row["game_id"] for row in free] == ["b"], "it waits for the first, and holds no other"
        asking = asyncio.ensure_future(starts.write_tenant(TENANT))
        await asyncio.sleep(0)
        assert not asking.done(), "who asks for figures has what is being added"
    await asking
    assert await stored_starts(database) == {(TENANT, game, QUARTER): 2 for game in "ab"}
    await keeping
    assert await stored_starts(database) == {(TENANT, game, QUARTER): 2 for game in "ab"}


async def test_starts_not_sent_are_kept_later_once(database_url: str) -> None:
    async with filled(database_url, size=2, acquire_seconds=0.2) as database:
        starts = Starts(database)
        starts.record(TENANT, "a", NOW)
        async with AsyncExitStack() as busy:
            for _ in range(database.size):
                await busy.enter_async_context(database.connection())
            with pytest.raises(StoreUnavailable):
                await starts.write_tenant(TENANT)
            starts.record(TENANT, "a", NOW)
        await starts.write()
        assert await stored_starts(database) == {(TENANT, "a", QUARTER): 2}


@asynccontextmanager
async def late(database_url: str, rival: asyncpg.Connection) -> AsyncIterator[tuple[Database, Starts]]:
    """A database that answers within 0.3 s or not at all, and one start of TENANT's "a" whose row somebody holds."""
    async with filled(database_url, statement_seconds=0.3) as database:
        starts = Starts(database)
        starts.record(TENANT, "a", NOW)
        await starts.write()
        async with rival.transaction():
            await rival.execute("SELECT FROM game_starts FOR UPDATE")
            yield database, starts


async def test_starts_that_may_be_written_are_not_counted_again(database_url: str, rival: asyncpg.Connection) -> None:
    async with late(database_url, rival) as (database, starts):
        starts.record(TENANT, "a", NOW)
        with pytest.raises(StoreUnavailable):
            await starts.write_tenant(TENANT)
        await until(lambda: somebody_waits(database), lambda it: not it)
        assert await stored_starts(database) == {(TENANT, "a", QUARTER): 1}
        trips = database.round_trips
        await starts.write_tenant(TENANT)
        assert database.round_trips == trips, "there is nothing left to be sent"


async def test_starts_of_one_failing_tenant_do_not_block_others(database_url: str, rival: asyncpg.Connection) -> None:
    async with late(database_url, rival) as (database, starts):
        for tenant in (TENANT, f"{TENANT}_after"):
            starts.record(tenant, "a", NOW)
        await starts.write()
        assert (await stored_starts(database))[f"{TENANT}_after", "a", QUARTER] == 1


async def test_starts_are_kept_when_a_process_stops(database_url: str, valkey_url: str, pool: asyncpg.Pool) -> None:
    async with new_stack(settings_of(database_url, valkey_url)) as stack, new_world(stack) as world:
        game = await world.wheel()
        assert (await world.start(game)).code == "OK"
        assert await stack.database.fetch("SELECT FROM game_starts") == []
    assert await pool.fetchval("SELECT sum(starts) FROM game_starts WHERE game_id = $1", game) == 1
