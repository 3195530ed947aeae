import asyncio
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import asyncpg
from asyncpg.pool import PoolConnectionProxy

import sql
from runtime.operations.campaigns import analytics
from sql.connections import in_transaction
from tests.support.bare_rows import bare, scene
from tests.support.statements import ask_of_t as ask
from tests.support.waiting import until

SCENE: Final = bare("""
+ campaigns campaign_id merchant_id status timezone: camp '' active Asia/Tokyo | shops shop active UTC |
    theirs rival ended UTC | quiet '' active UTC;
+ games game_id campaign_id: g camp | s shops | x theirs | q quiet;
""")

MARCH: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATE: Final = datetime(2026, 3, 1, 20, tzinfo=UTC)
DAYS: Final = (date(2026, 3, 1), date(2026, 3, 2))


async def play(connection: asyncpg.Connection, play_id: str, player: str, at: datetime, *, game: str = "g") -> None:
    """A play; one whose id ends with w won something."""
    insert = "INSERT INTO plays (play_id, player_id, game_id, played_at, wins) VALUES ($1, $2, $3, $4, $5)"
    await connection.execute(insert, play_id, player, game, at, play_id.endswith("w") * 2)


async def days(connection: asyncpg.Connection, campaign: str = "camp") -> list[tuple[Any, ...]]:
    return await ask(connection, "analytics.days", campaign)


async def test_campaign_days_are_the_same_however_many_plays_are_counted(connection: asyncpg.Connection) -> None:
    await connection.execute("INSERT INTO campaign_marks (campaign_id) VALUES ('camp'), ('shops')")
    await play(connection, "1w", "ann", MARCH)
    await play(connection, "2", "ann", MARCH + timedelta(minutes=1))
    await play(connection, "3", "bob", MARCH + timedelta(minutes=2))
    await play(connection, "4w", "ann", LATE)
    await play(connection, "5", "cas", LATE + timedelta(minutes=1))
    await play(connection, "6", "ann", LATE, game="s")
    expected = [(DAYS[0], 3, 2, 1, 3), (DAYS[1], 2, 2, 1, 3)]
    assert await days(connection) == expected
    minute = timedelta(minutes=1)
    for end in (MARCH, MARCH + minute, MARCH + 2 * minute, LATE, LATE + timedelta(minutes=1), LATE + timedelta(days=1)):
        await ask(connection, "analytics.count_plays", "camp", end)
        assert await days(connection) == expected, end
    # The clock may go back: what is counted is not counted again, and the mark stays.
    await ask(connection, "analytics.count_plays", "camp", MARCH)
    await play(connection, "7", "ann", LATE + timedelta(days=2))
    assert await days(connection) == [*expected, (date(2026, 3, 4), 1, 1, 0, 3)]
    assert await days(connection, "shops") == [(DAYS[0], 1, 1, 0, 1)]
    await ask(connection, "analytics.count_plays", "shops", LATE)
    assert await connection.fetch("SELECT FROM campaign_days WHERE campaign_id = 'shops'") == []
    await ask(connection, "analytics.count_plays", "shops", LATE + timedelta(days=1))
    await ask(connection, "analytics.reset_counts", "camp")
    query = "SELECT campaign_id, counted_until > '-infinity', players FROM campaign_marks ORDER BY 1"
    assert [tuple(row) for row in await connection.fetch(query)] == [("camp", False, 0), ("shops", True, 1)]
    assert await connection.fetchval("SELECT string_agg(campaign_id, ' ') FROM campaign_days") == "shops"
    assert await connection.fetchval("SELECT string_agg(campaign_id, ' ') FROM campaign_player_days") == "shops"
    assert (await days(connection))[:2] == expected
    await ask(connection, "analytics.count_plays", "camp", LATE + timedelta(days=1))
    assert (await days(connection))[:2] == expected, "both days at once"


async def test_campaign_mark_under_a_lock_is_skipped(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    await connection.execute("INSERT INTO campaign_marks (campaign_id) VALUES ('camp'), ('shops')")
    async with pool.acquire() as rival, rival.transaction():
        assert await ask(rival, "analytics.lock_watermark", "camp") == [(False,)]
        assert await ask(connection, "analytics.lock_watermark", "camp") == []
        assert await ask(connection, "analytics.lock_watermark", "shops") == [(False,)]
        assert await ask(connection, "analytics.lock_watermark", "quiet") == []
        # A reset waits for a running count, and removes what it counted.
        await play(connection, "1", "ann", MARCH)
        await ask(rival, "analytics.count_plays", "camp", LATE)
        reset = asyncio.create_task(in_transaction(connection, lambda c: analytics.forget(c, "t", "camp")))
        await until(lambda: rival.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))
    await reset
    assert await days(connection) == [(DAYS[0], 1, 1, 0, 1)]
    assert await connection.fetch("SELECT FROM campaign_player_days") == []


async def test_horizon_is_before_every_open_transaction(
    connection: asyncpg.Connection, pool: asyncpg.Pool, empty_database_url: str
) -> None:
    ask_horizon = sql.load("analytics")["horizon"]

    async def passed(began: datetime, over: asyncpg.Connection | PoolConnectionProxy = connection) -> None:
        """Until that is longer ago than the second by which the horizon is behind."""

        async def later() -> bool:
            now = await over.fetchval("SELECT clock_timestamp()")
            return bool(now - began > timedelta(seconds=1.2))

        await until(later)

    async with connection.transaction():
        # One's own transaction begins before its plays are looked for, and writes none.
        own: datetime = await connection.fetchval("SELECT now()")
        await passed(own)
        assert own < await connection.fetchval(ask_horizon) < own + timedelta(seconds=30)
    other = await asyncpg.connect(empty_database_url)
    try:
        async with other.transaction():
            began = await other.fetchval("SELECT now() FROM pg_current_xact_id()")
            await passed(began)
            assert await connection.fetchval(ask_horizon) > began, "what another database does is its own"
    finally:
        await other.close()
    for work in ("SELECT FROM campaigns", "UPDATE campaigns SET revision = 2 WHERE campaign_id = 'quiet'"):
        async with pool.acquire() as rival, rival.transaction():
            await rival.execute(work)
            began = await rival.fetchval("SELECT now()")
            await passed(began)
            assert await connection.fetchval(ask_horizon) == began - timedelta(seconds=1), work


async def test_campaign_marks_of_a_player_are_locked(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    await connection.execute("INSERT INTO campaign_marks (campaign_id) VALUES ('camp'), ('shops'), ('theirs')")
    await play(connection, "1", "ann", MARCH)
    await play(connection, "2", "ann", MARCH, game="x")
    await play(connection, "3", "bob", MARCH, game="s")
    async with pool.acquire() as rival, rival.transaction():
        assert await ask(rival, "analytics.lock_watermarks_of_player", "ann") == [("camp",), ("theirs",)]
        held = {one: await ask(connection, "analytics.lock_watermark", one) for one in ("camp", "shops", "theirs")}
        assert held == {"camp": [], "shops": [(False,)], "theirs": []}


async def test_campaign_days_of_a_guest_move_to_its_player(connection: asyncpg.Connection) -> None:
    await connection.execute(
        scene("""
        + campaign_player_days player_id campaign_id day: guest camp 2026-03-01 | guest camp 2026-03-02 |
            ann camp 2026-03-02 | ann camp 2026-03-05 | bob camp 2026-03-01 | guest shops 2026-03-01 |
            bob shops 2026-03-01;
        + campaign_days campaign_id day players: camp 2026-03-01 2 | camp 2026-03-02 2 | camp 2026-03-05 1 |
            shops 2026-03-01 2 | shops 2026-03-02 7;
        INSERT INTO campaign_marks (campaign_id, players, returned) VALUES
            ('camp', 3, 2), ('shops', 2, 0), ('theirs', 5, 5)""")
    )
    await ask(connection, "analytics.merge_players", "guest", "ann")
    counted = "SELECT campaign_id, extract(day FROM day)::int, players FROM campaign_days ORDER BY 1, 2"
    found = [tuple(row) for row in await connection.fetch(counted)]
    assert found == [("camp", 1, 2), ("camp", 2, 1), ("camp", 5, 1), ("shops", 1, 2), ("shops", 2, 7)]
    there = "SELECT player_id || ' ' || campaign_id || extract(day FROM day) AS d FROM campaign_player_days ORDER BY d"
    assert [row["d"] for row in await connection.fetch(there)] == [
        *("ann camp1", "ann camp2", "ann camp5", "ann shops1", "bob camp1", "bob shops1")
    ]
    marks = "SELECT campaign_id, players, returned FROM campaign_marks ORDER BY 1"
    assert [tuple(row) for row in await connection.fetch(marks)] == [("camp", 2, 1), ("shops", 2, 0), ("theirs", 5, 5)]
