from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import asyncpg

from tests.support.bare_rows import bare
from tests.support.statements import ask, undone
from tests.support.statements import ask_of_t as ask_of

SCENE: Final = bare("""
+ campaigns campaign_id merchant_id: open '' | mine shop | theirs rival;
+ integrations integration_id merchant_id campaign_id type status: i3 '' '' webhook active | i1 '' open crm active |
    i5 '' mine webhook paused | i2 '' theirs webhook active | i4 shop '' crm active | i6 rival open webhook active |
    i0 rival mine webhook active;
""")
"""The tenant's own of every scope, the shop's, and its rival's; keys in no order."""


async def keys(connection: asyncpg.Connection, name: str, *arguments: Any) -> str:
    return " ".join(str(row[0]) for row in await ask_of(connection, f"integrations.{name}", *arguments))


async def each(connection: asyncpg.Connection, name: str, *arguments: Any, before: Sequence[Any] = ()) -> str:
    """Those of which the statement, asked about one after the other, answers; nothing of it stays."""
    found = []
    for one in ["i6", "i5", "i4", "i3", "i2", "i1", "i0"]:
        async with undone(connection):
            if await ask_of(connection, f"integrations.{name}", one, *before, *arguments):
                found.append(one)
    return " ".join(found)


async def test_integration_resumed_gets_no_events_of_its_pause(connection: asyncpg.Connection) -> None:
    await connection.execute("UPDATE integrations SET active_since = '2026-01-01'")
    late: dict[tuple[str, str], bool] = {}
    for one, status in (("i5", "paused"), ("i3", "active"), ("i2", "paused"), ("i5", "active")):
        await ask_of(connection, "integrations.update", one, "", [], "{}", status, "")
        heard = "SELECT active_since > '2026-01-01' FROM integrations WHERE integration_id = $1"
        late[one, status] = await connection.fetchval(heard, one)
    assert [one for one, is_late in late.items() if is_late] == [("i5", "active")]


async def test_integration_lock_holds_that_one_alone(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    async with pool.acquire() as rival, rival.transaction():
        assert await ask_of(rival, "integrations.lock", "i3") == [("i3",)]
        free = "SELECT count(*) FROM (SELECT FROM integrations FOR KEY SHARE SKIP LOCKED) AS free"
        assert await connection.fetchval(free) == 6
        assert await ask_of(rival, "integrations.lock", "i7") == []


async def note(connection: Any, *rows: tuple[str, str, str, str, int], pause: float = 0, most: float = 3600) -> None:
    ids, deliveries, events, statuses, attempts = [list(column) for column in zip(*rows, strict=True)]
    said = [f'{{"by": "{one}"}}' for one in deliveries]
    times = [len(rows) * [value] for value in (500, 7, pause)]
    fields = [ids, deliveries, events, len(rows) * ["t"], statuses, attempts, said]
    fields += [times[0], deliveries, times[1], times[2], deliveries]
    await ask_of(connection, "integrations.record_deliveries", *fields, [10.0, 20.0, 30.0], most)


async def logged(connection: asyncpg.Connection) -> dict[str, tuple[Any, ...]]:
    """By integration and event: delivery, status, attempts, which one told it and which one failed; seconds to wait."""
    rows = await connection.fetch("""
        SELECT integration_id || event_id AS key, delivery_id, status, attempts, event ->> 'by' AS told, error,
               extract(epoch FROM next_attempt_at - now())::int AS wait
        FROM integration_deliveries ORDER BY key""")
    return {row["key"]: tuple(row)[1:] for row in rows}


async def test_delivery_note_keeps_the_newest_attempt_and_undoes_no_delivery(connection: asyncpg.Connection) -> None:
    async with connection.transaction():  # In which now() is one moment.
        rows = [("i1", "d1", "e1", "retry", 1), ("i1", "d2", "e2", "delivered", 1), ("i3", "d3", "e1", "dead", 1)]
        await note(connection, *rows, ("i9", "d4", "e1", "retry", 1))
        first: dict[str, tuple[Any, ...]] = {
            "i1e1": ("d1", "retry", 1, "d1", "d1", 10),
            "i1e2": ("d2", "delivered", 1, "d2", "d2", None),
            "i3e1": ("d3", "dead", 1, "d3", "d3", None),
        }
        assert await logged(connection) == first
        await note(connection, ("i1", "d5", "e1", "retry", 2), ("i1", "d6", "e2", "retry", 2), pause=25)
        first["i1e1"] = ("d1", "retry", 2, "d1", "d5", 25)
        assert await logged(connection) == first
        # An event is tried for an hour; what is delivered after it is, all the same.
        created = "UPDATE integration_deliveries SET created_at = now() - interval '1 hour' - $1::interval"
        await connection.execute(created, timedelta(0))
        await note(connection, ("i1", "d7", "e1", "retry", 3))
        first["i1e1"] = ("d1", "retry", 3, "d1", "d7", 30)
        assert await logged(connection) == first
        await connection.execute(created, timedelta(seconds=1))
        await note(connection, ("i1", "d8", "e1", "retry", 0), ("i3", "d9", "e1", "delivered", 2))
        first["i1e1"] = ("d1", "dead", 0, "d1", "d8", None)
        first["i3e1"] = ("d3", "delivered", 2, "d3", "d9", None)
        assert await logged(connection) == first
        # What an erasure took of an event that is over stays away; of one of which nothing was kept, it is there.
        await connection.execute("UPDATE integration_deliveries SET event = NULL")
        await note(connection, ("i1", "da", "e1", "dead", 4))
        first["i1e1"] = ("d1", "dead", 4, "da", "da", None)
        first["i1e2"], first["i3e1"] = ((*first[key][:3], None, *first[key][4:]) for key in ("i1e2", "i3e1"))
        assert await logged(connection) == first


async def test_delivery_note_holds_its_integrations(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    free = "SELECT integration_id FROM integrations ORDER BY 1 FOR UPDATE SKIP LOCKED"
    async with pool.acquire() as rival, rival.transaction():
        await note(rival, ("i3", "d1", "e1", "dead", 1), ("i1", "d2", "e1", "dead", 1))
        assert [row[0] for row in await connection.fetch(free)] == ["i0", "i2", "i4", "i5", "i6"]


async def test_deliveries_of_an_event_name_existing_integrations(connection: asyncpg.Connection) -> None:
    await note(connection, ("i1", "d1", "e1", "retry", 1), ("i3", "d2", "e2", "dead", 1), ("i2", "d3", "e3", "dead", 1))
    await connection.execute("""INSERT INTO integration_deliveries (integration_id, delivery_id, event_id, status)
        VALUES ('gone', 'd4', 'e1', 'dead')""")
    assert sorted(await ask_of(connection, "integrations.delivered", ["e1", "e2"])) == [("i1", "e1"), ("i3", "e2")]


async def retries(connection: asyncpg.Connection) -> None:
    """Of i1 three are due, e3 for the longest; of i3 one is, of i4 none, and i5 is paused."""
    rows = [("i1", f"d{n}", f"e{n}", "retry", 1) for n in (2, 3, 1)]
    more = [("i3", "d4", "e4", "retry", 2), ("i4", "d4", "e5", "retry", 1), ("i4", "d6", "e6", "delivered", 1)]
    await note(connection, *rows, *more, ("i5", "d7", "e7", "retry", 1))
    await connection.execute("""
        UPDATE integration_deliveries SET next_attempt_at = now() - CASE event_id
            WHEN 'e3' THEN interval '9 minutes' WHEN 'e1' THEN interval '5 minutes' WHEN 'e5' THEN interval '-1 minute'
            WHEN 'e4' THEN interval '0' ELSE interval '1 minute' END""")


async def test_due_retries_are_leased_once_oldest_first(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    async with connection.transaction():
        await retries(connection)
        assert await ask(connection, "integrations.tenants_with_retries") == [("t",)]
        arguments = (["i1", "i3", "i4"], [2, 5, 5], 60.0)
        taken = await ask_of(connection, "integrations.lease_retries", *arguments)
        assert sorted((row[0], row[1], row[3]) for row in taken) == [("i1", "e1", 1), ("i1", "e3", 1), ("i3", "e4", 2)]
        waits = {key: row[-1] for key, row in (await logged(connection)).items()}
        assert waits == {"i1e1": 60, "i1e2": -60, "i1e3": 60, "i3e4": 60, "i4e5": 60, "i4e6": -60, "i5e7": -60}
        assert [row[1] for row in await ask_of(connection, "integrations.lease_retries", *arguments)] == ["e2"]
        assert await ask(connection, "integrations.tenants_with_retries") == []
    await connection.execute("UPDATE integration_deliveries SET next_attempt_at = now()")
    async with pool.acquire() as rival, rival.transaction():
        held = "SELECT event_id FROM integration_deliveries WHERE integration_id = 'i1' FOR UPDATE"
        assert len(await rival.fetch(held)) == 3
        # Another process takes those of i1 just now.
        taken = await ask_of(connection, "integrations.lease_retries", *arguments)
        assert sorted(row[1] for row in taken) == ["e4", "e5"]


async def test_retry_that_nobody_attempts_ends_when_its_event_is_too_old(connection: asyncpg.Connection) -> None:
    async def end(most: int, seconds: float) -> set[str]:
        await ask_of(connection, "integrations.end_retries", ["i1", "i3", "i4"], most, seconds, "old")
        return {key for key, row in (await logged(connection)).items() if row[1:] == ("dead", 1, row[0], "old", None)}

    async with connection.transaction():
        await retries(connection)
        await connection.execute("""
            UPDATE integration_deliveries SET created_at = now() - interval '2 hours', attempts = 1,
                next_attempt_at = next_attempt_at - interval '1 hour' WHERE event_id <> 'e2'""")
        assert await end(9, 7199) == set(), "they were resumed just now"
        await connection.execute("UPDATE integrations SET active_since = now() - interval '1 hour'")
        assert await end(9, 7200) == set()
        assert await end(1, 7199) == {"i1e3", "i3e4"}, "the longest waiting of each"
        assert await end(9, 7199) == {"i1e1", "i1e3", "i3e4"}, "e5 was due less than an hour ago"


async def test_tenants_with_retries_omit_paused_early_and_done_ones(connection: asyncpg.Connection) -> None:
    async with connection.transaction():  # In which now() is one moment.
        await retries(connection)
        for done in ("integration_id = 'i1'", "event_id = 'e4'"):
            assert await ask(connection, "integrations.tenants_with_retries") == [("t",)]
            await connection.execute(f"UPDATE integration_deliveries SET status = 'dead' WHERE {done}")
        assert await ask(connection, "integrations.tenants_with_retries") == []
        await connection.execute("UPDATE integrations SET status = 'active' WHERE integration_id = 'i5'")
        assert await ask(connection, "integrations.tenants_with_retries") == [("t",)]


async def test_message_retention_deletes_old_skipped_ones_alone(connection: asyncpg.Connection) -> None:
    await connection.execute("INSERT INTO integrations (integration_id, type) VALUES ('messages_m', 'email')")
    statuses = ("delivered", "dead", "skipped", "skipped", "skipped")
    await note(connection, *(("messages_m", f"d{n}", f"e{n}", status, 1) for n, status in enumerate(statuses)))
    await connection.execute("UPDATE integration_deliveries SET created_at = now() - interval '11 minutes'")
    await ask_of(connection, "integrations.prune_deliveries", "messages_m", 1, 9)
    assert [row[0] for row in (await logged(connection)).values()] == ["d0", "d1", "d3", "d4"]


async def test_delivery_retention_keeps_the_newest_and_pending_ones(connection: asyncpg.Connection) -> None:
    rows = [("i1", f"d{n}", f"e{n}", "retry" if n == 2 else "dead", 1) for n in (3, 1, 5, 2, 4, 6)]
    await note(connection, *rows, ("i3", "d9", "e1", "dead", 1))

    async def left(keep: int, most: int = 9) -> str:
        async with undone(connection):
            await ask_of(connection, "integrations.prune_deliveries", "i1", keep, most)
            return " ".join(row[0] for row in (await logged(connection)).values())

    everything = "d1 d2 d3 d4 d5 d6 d9"
    assert await left(1) == everything, "all of them are of the last ten minutes"
    await connection.execute("UPDATE integration_deliveries SET created_at = now() - interval '11 minutes'")
    assert await left(1) == "d2 d5 d6 d9"
    assert await left(1, most=2) == "d2 d4 d5 d6 d9"
    assert await left(3) == "d2 d3 d4 d5 d6 d9"
    assert await left(5) == everything
    await connection.execute("INSERT INTO event_marks (backfilled_until) VALUES (now() - interval '2 minutes')")
    assert await left(1) == everything, "not everything since then was told"
    async with connection.transaction():
        await connection.execute("UPDATE event_marks SET backfilled_until = now()")
        await connection.execute("UPDATE integration_deliveries SET created_at = now() - interval '10 minutes'")
        assert await left(1) == everything, "those of just ten minutes ago"
