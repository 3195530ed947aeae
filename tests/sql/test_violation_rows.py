"""The auditor's notes: a violation is noted once, is gone when not found, and is new again after it was closed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import asyncpg

from tests.support.locks import blocked, held
from tests.support.statements import ask, wrong_answers
from tests.support.statements import ask_of_t as ask_t
from tests.support.waiting import HANG_SECONDS

SCENE: Final = """
INSERT INTO tenants (tenant_id, name) VALUES ('u', 'U'), ('t', 'T');
INSERT INTO campaigns (tenant_id, campaign_id, merchant_id, name) VALUES
    ('t', 'camp', 'shop', 'C'), ('t', 'theirs', 'other', 'C');
INSERT INTO violations (tenant_id, violation_id, check_name, subject_id, row_id, scope_key, expected, found, deviation,
                        first_seen_at, last_seen_at, gone_at, closed_at) VALUES
    ('t', 'v3', 'sum', 'a', '', 'camp', '1', '2', '1', now(), now(), NULL, NULL),
    ('t', 'v1', 'sum', 'a', 'r', 'shop', '1', '2', '1', now(), now(), NULL, now()),
    ('t', 'v2', 'sum', 'b', '', 'theirs', '1', '2', '1', now(), now(), NULL, NULL),
    ('t', 'v5', 'sign', 'a', '', 'camp', '1', '2', '1', now(), now(), NULL, NULL),
    ('t', 'v4', 'went', 'c', '', '', '1', '2', '1', now(), now(), now(), NULL);
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

FIRST: Final = None

SHOWN: Final[list[tuple[str, tuple[Any, ...], str]]] = [
    ("list", ("", "", "", "", FIRST, 9), "v5 v4 v3 v2 v1"),
    ("list", ("", "", "", "", FIRST, 2), "v5 v4"),
    ("list", ("", "", "", "", "v4", 9), "v3 v2 v1"),
    ("list", ("open", "", "", "", FIRST, 9), "v5 v4 v3 v2"),
    ("list", ("closed", "", "", "", FIRST, 9), "v1"),
    ("list", ("", "sum", "", "", FIRST, 9), "v3 v2 v1"),
    ("list", ("", "", "a", "", FIRST, 9), "v5 v3 v1"),
    ("list", ("", "", "", "shop", FIRST, 9), "v5 v4 v3 v1"),
    ("get", ("v1", "", True), "v1"),
    ("get", ("v1", "shop", True), "v1"),
    ("get", ("v3", "shop", True), "v3"),
    ("get", ("v2", "shop", False), ""),
    ("any_there", (["sum"], ["a"]), "sum"),
    ("any_there", (["none"], ["a"]), ""),
    ("any_there", (["sum"], ["d"]), ""),
    ("any_there", (["went"], ["c"]), ""),
]


async def test_violations_are_listed_by_filter(connection: asyncpg.Connection) -> None:
    assert await wrong_answers(connection, "violations", SHOWN) == []


async def test_violation_is_open_until_closed_once(connection: asyncpg.Connection) -> None:
    async def states() -> list[str]:
        listed = [row[7] for row in await ask_t(connection, "violations.list", "", "sum", "", "", FIRST, 9)]
        got = [(await ask_t(connection, "violations.get", one, "", False))[0][7] for one in ("v3", "v2", "v1")]
        assert listed == got
        return listed

    assert await states() == ["open", "open", "closed"]
    for closed in ([("v3",)], []):
        assert await ask_t(connection, "violations.close", "v3", "seen", "ann") == closed
    assert await states() == ["closed", "open", "closed"]
    assert sorted(await ask(connection, "violations.open_counts")) == [("sign", 3), ("sum", 8), ("went", 1)]


async def test_audit_covers_one_tenant_or_all(connection: asyncpg.Connection) -> None:
    assert await ask(connection, "violations.tenants", "") == [("t",), ("u",)]
    assert await ask(connection, "violations.tenants", "u") == [("u",)]


async def test_audit_lease_is_held_by_one_until_it_ends(connection: asyncpg.Connection) -> None:
    async with connection.transaction():  # In which now() is one moment.
        for way in ("round", "recent"):
            assert len(await ask_t(connection, "violations.take", way, 60.0)) == 1
        assert await ask_t(connection, "violations.take", "round", 60.0) == []
        ((_, until_then, lease, _),) = await ask_t(connection, "violations.take", "third", 0.0)
        assert len(await ask_t(connection, "violations.take", "third", 60.0)) == 1, "at the very moment it is over"
        lease += timedelta(seconds=60)
        for leased_until, kept in ((lease + timedelta(seconds=1), []), (lease, [(lease,)])):
            assert await ask_t(connection, "violations.keep", "round", "k", until_then, 60.0, leased_until) == kept
        rows = await connection.fetch("SELECT way, after_key FROM audit_marks")
        assert {row["way"]: row["after_key"] for row in rows} == {"round": "k", "recent": "", "third": ""}


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


async def note(
    connection: asyncpg.Connection, found: Sequence[tuple[str, str, str]], *, most_open: int = 99, whole: bool = True
) -> list[tuple[str, str]]:
    """Notes what check 'sum' found (thing, row, by how much) of the things a and b at second 20: the new ones."""
    subjects, rows, deviations = ([one[n] for one in found] for n in range(3))
    ids, same = [f"new{n}" for n in range(len(found))], ["2"] * len(found)
    noted = (ids, subjects, rows, same, same, same, deviations, most_open, whole)
    answer = await ask(connection, "violations.note", "u", "sum", ["a", "b"], at(20), *noted)
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
    assert {row[0]: tuple(row[1:]) for row in rows} == {
        "z": (20, 0, "2"),
        "y": (10, 20, "1"),
        "x": (10, 20, "1"),
        "w": (20, 0, "1"),
        "v": (10, 0, "1"),
        "u": (10, 5, "1"),
        "s": (10, 0, "1"),
        "r": (20, 0, "1"),
        "q": (30, 0, "1"),
        "p": (10, 15, "1"),
        "o": (10, 0, "1"),
        "n": (10, 0, "1"),
    }
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
