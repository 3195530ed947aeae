import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import asyncpg

from tests.support.locks import blocked, held
from tests.support.statements import ask
from tests.support.waiting import HANG_SECONDS

SCENE: Final = """
+ tenants tenant_id name: u U | t T;
+ campaigns tenant_id=t campaign_id merchant_id name=C: camp shop | theirs other;
+ violations tenant_id=t violation_id check_name subject_id row_id scope_key expected=1 found=2 deviation=1
    first_seen_at=(now()) last_seen_at=(now()) gone_at closed_at: v3 sum a '' camp - - | v1 sum a r shop - (now()) |
    v2 sum b '' theirs - - | v5 sign a '' camp - - | v4 went c '' '' (now()) -;
INSERT INTO violations (tenant_id, violation_id, check_name, subject_id, row_id, expected, found, deviation,
                        first_seen_at, last_seen_at, gone_at, closed_at)
    SELECT 'u', id, name, subject, row, '1', '1', '1', to_timestamp(1), to_timestamp(seen), to_timestamp(gone),
           to_timestamp(closed)
    FROM (VALUES
        ('z', 'sum', 'a', '', 10, NULL, NULL), ('y', 'sum', 'a', 'lost', 10, NULL, NULL),
        ('x', 'sum', 'b', '', 10, NULL, NULL), ('w', 'sum', 'b', 'same', 10, NULL, 11),
        ('v', 'sum', 'b', 'other', 10, NULL, 11), ('u', 'sum', 'b', 'gone', 10, 5, 11),
        ('s', 'sum', 'c', '', 10, NULL, NULL), ('r', 'sum', 'a', 'now', 20, NULL, NULL),
        ('q', 'sum', 'a', 'later', 30, NULL, NULL), ('p', 'sum', 'a', 'went', 10, 15, NULL),
        ('o', 'sign', 'a', '', 10, NULL, NULL), ('n', 'sign', 'a', 'lost', 10, NULL, NULL)
    ) AS noted (id, name, subject, row, seen, gone, closed);
"""
"""Of tenant t what staff is shown, of u what the auditor finds again: z, w, v and u, at second 20."""


async def test_audit_covers_one_tenant_or_all(connection: asyncpg.Connection) -> None:
    assert await ask(connection, "violations.tenants", "") == [("t",), ("u",)]
    assert await ask(connection, "violations.tenants", "u") == [("u",)]


async def test_audit_lease_and_time_from_the_future_do_not_count(connection: asyncpg.Connection) -> None:
    async with connection.transaction():
        await ask(connection, "violations.lease", "t", "changed", 7200.0)
        await connection.execute("UPDATE audit_marks SET seen_until = now() + interval '1 day'")
        ((_, seen_until, *_),) = await ask(connection, "violations.lease", "t", "changed", 60.0)
        assert seen_until == await connection.fetchval("SELECT now()")
        assert await ask(connection, "violations.lease", "t", "changed", 60.0) == []


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


async def note(
    connection: asyncpg.Connection, found: Sequence[tuple[str, str, str]], *, most_open: int = 99, whole: bool = True
) -> list[tuple[str, str]]:
    """Notes what check 'sum' found (thing, row, by how much) of the things a and b at second 20: the new ones."""
    subjects, rows, deviations = ([one[n] for one in found] for n in range(3))
    ids, same = [f"new{n}" for n in range(len(found))], ["2"] * len(found)
    arguments = (ids, subjects, rows, same, same, same, deviations, most_open, whole)
    answer = await ask(connection, "violations.record", "u", "sum", ["a", "b"], at(20), *arguments)
    return [(row[1], row[2]) for row in answer]


FOUND: Final = (
    *(("b", "new", "1"), ("b", "gone", "1"), ("b", "other", "2")),
    *(("b", "same", "1"), ("a", "same", "1"), ("a", "", "2")),
)


async def test_violation_found_again_is_kept_and_one_not_found_is_gone(connection: asyncpg.Connection) -> None:
    assert await note(connection, FOUND, most_open=10) == [("a", "same"), ("b", "gone"), ("b", "new")]
    rows = await connection.fetch(
        "SELECT violation_id, unix(last_seen_at), unix(gone_at), deviation FROM violations"
        " WHERE tenant_id = 'u' AND violation_id NOT LIKE 'new%'"
    )
    expected = {"z": (20, 0, "2"), **dict.fromkeys("yx", (10, 20, "1")), **dict.fromkeys("wr", (20, 0, "1"))}
    expected |= {"u": (10, 5, "1"), "q": (30, 0, "1"), "p": (10, 15, "1"), **dict.fromkeys("vson", (10, 0, "1"))}
    assert {row[0]: tuple(row[1:]) for row in rows} == expected
    assert await note(connection, FOUND, most_open=99) == [("b", "other")], "for which there was no room"


async def test_violation_not_looked_for_is_not_gone(connection: asyncpg.Connection) -> None:
    assert await note(connection, [("b", "new", "1"), ("b", "new", "1")], whole=False) == [("b", "new")]
    gone = await connection.fetch("SELECT violation_id FROM violations WHERE tenant_id = 'u' AND gone_at IS NOT NULL")
    assert {row[0] for row in gone} == {"u", "p"}


async def test_violations_are_locked_in_order(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    for found in ((), FOUND):
        async with pool.acquire() as rival, pool.acquire() as onlooker:
            async with rival.transaction():
                await rival.execute("SELECT FROM violations WHERE tenant_id = 'u' AND violation_id = 'z' FOR UPDATE")
                noting = await blocked(onlooker, note(connection, found))
                assert await held(onlooker, "violations", "violation_id") == set("pqruvwxyz")
            async with asyncio.timeout(HANG_SECONDS):
                await noting
