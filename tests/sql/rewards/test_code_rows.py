from typing import Any, Final

import asyncpg
import pytest

from tests.support.statements import ask_of_t as ask

SCENE: Final = """
+ tenants tenant_id=t name: T;
+ prizes tenant_id=t prize_id name type=voucher: p P | q Q;
+ codes tenant_id=t prize_id code_id key_id=k ciphertext='' code_hash expires_at reward_id withdrawn_at:
    p c1 1 infinity - - | p c6 6 infinity - - | p c2 2 (now() + interval '1 day') - - |
    p c3 3 (now() + interval '2 days') won - | p c4 4 (now() + interval '2 days') - (now()) |
    p c5 5 (to_timestamp(1000000000)) - - | q c7 7 infinity - -;
"""
"""Of pool p: free are c1, c6 and, until tomorrow, c2; c3 is won, c4 withdrawn, c5 expired. c7 is another's."""

PAST, LATER = 1_000_000_000, 1_900_000_000
EVERY: Final = [f"c{nth}" for nth in (7, 6, 5, 4, 3, 2, 1)]

FOUND: Final[list[tuple[str, tuple[Any, ...], str]]] = [
    *(("codes.list_free", ("p", 9), "c6 c1 c2"), ("codes.list_free", ("p", 2), "c6 c1")),
    *(("codes.lock", ("p", EVERY), "c1 c2 c5 c6"), ("codes.lock", ("p", ["c2"]), "c2")),
    *(("codes.withdraw", ("p", ["c3", "c4", "c7", "c5", "c2"]), "c2 c5"), ("codes.states", ("p", ["c7", "c3"]), "c3")),
    ("codes.with_other_expiry", ("p", "free", 0, LATER, 9), "c6 c1 c2"),
    ("codes.with_other_expiry", ("p", "free", 0, LATER, 2), "c6 c1"),
    ("codes.with_other_expiry", ("p", "free", 0, 0, 9), "c2"),
    ("codes.with_other_expiry", ("p", "expired", 0, 0, 9), "c5"),
    ("codes.with_other_expiry", ("p", "expired", PAST, LATER, 9), "c5"),
    *(("codes.with_other_expiry", ("p", "expired", at, 0, 9), "") for at in (PAST - 1, LATER)),
    ("codes.with_other_expiry", ("p", "free", LATER, PAST, 9), ""),
    ("codes.with_other_expiry", ("p", "expired", 0, PAST - 1, 9), "c5"),
    ("codes.set_expiry", ("p", EVERY, "", 0, LATER), "c1 c2 c5 c6"),
    ("codes.set_expiry", ("p", EVERY, "", 0, 0), "c2 c5"),
    ("codes.set_expiry", ("p", EVERY, "free", 0, LATER), "c1 c2 c6"),
    ("codes.set_expiry", ("p", EVERY, "expired", 0, LATER), "c5"),
    ("codes.set_expiry", ("p", EVERY, "", PAST, LATER), "c5"),
    ("codes.set_expiry", ("p", ["c2", "c3"], "", 0, LATER), "c2"),
    *(("codes.list", ("p", "", None, 9), "c6 c5 c4 c3 c2 c1"), ("codes.list", ("p", "", "c4", 2), "c3 c2")),
    ("codes.list", ("p", "free", None, 9), "c6 c2 c1"),
]


@pytest.mark.parametrize(("name", "arguments", "found"), FOUND)
async def test_code_statements_find_their_codes_in_order(
    connection: asyncpg.Connection, name: str, arguments: tuple[Any, ...], found: str
) -> None:
    rows = [row[0] for row in await ask(connection, name, *arguments)]
    assert (sorted(rows) if name in ("codes.set_expiry", "codes.withdraw") else rows) == found.split()


async def test_code_that_expires_now_is_not_free(connection: asyncpg.Connection) -> None:
    async with connection.transaction():
        await connection.execute("UPDATE codes SET expires_at = now() WHERE code_id = 'c2'")
        assert await ask(connection, "codes.list_free", "p", 9) == [("c6",), ("c1",)]
        assert await ask(connection, "codes.available", "p") == [(2,)]
        assert await ask(connection, "codes.with_other_expiry", "p", "expired", 0, 0, 9) == [("c2",), ("c5",)]
        assert await ask(connection, "codes.totals", "p") == [(2, 2, 1, 1)]


MOVES: Final[list[tuple[str, int, int]]] = [
    # What becomes of codes, how many of p are free then, and of q.
    *(("UPDATE codes SET key_id = 'other'", 3, 1), ("UPDATE codes SET reward_id = 'r' WHERE code_id = 'c1'", 2, 1)),
    ("UPDATE codes SET reward_id = NULL WHERE code_id = 'c3'", 4, 1),
    ("UPDATE codes SET reward_id = 'r' || code_id WHERE reward_id IS NULL AND withdrawn_at IS NULL", 0, 0),
    ("UPDATE codes SET withdrawn_at = now() WHERE code_id IN ('c1', 'c5', 'c7')", 2, 0),
    ("UPDATE codes SET expires_at = 'infinity'", 4, 1),
    ("UPDATE codes SET expires_at = now() WHERE code_id IN ('c2', 'c6')", 1, 1),
    ("UPDATE codes SET prize_id = 'q' WHERE code_id = 'c1'", 2, 2),
    ("DELETE FROM codes WHERE code_id IN ('c2', 'c3', 'c7')", 2, 0),
    ("INSERT INTO codes SELECT 't', 'q', code_id, key_id, ciphertext, code_hash FROM codes WHERE prize_id = 'p'", 3, 7),
]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(("change", "of_p", "of_q"), MOVES)
async def test_free_codes_are_counted_as_they_change(
    connection: asyncpg.Connection, change: str, of_p: int, of_q: int, late: bool
) -> None:
    """late: where a code of the pool has ended since the pool was counted last."""
    async with connection.transaction():
        if late:
            await connection.execute("UPDATE codes SET expires_at = now() - interval '1 day' WHERE code_id = 'c5'")
        await connection.execute(change)
        assert [await ask(connection, "codes.available", prize) for prize in "pqz"] == [[(of_p,)], [(of_q,)], [(0,)]]
        assert await ask(connection, "conservation.prize_free_codes", ["p", "q"]) == []
        # Counted anew at the next change; what was counted off before is not counted off twice.
        await connection.execute("UPDATE codes SET withdrawn_at = now() WHERE reward_id IS NULL")
        await connection.execute("UPDATE codes SET withdrawn_at = NULL WHERE code_id IN ('c5', 'c6')")
        assert await ask(connection, "conservation.prize_free_codes", ["p", "q"]) == []


async def test_totals_count_the_codes_of_each_state(connection: asyncpg.Connection) -> None:
    rows = [await ask(connection, "codes.totals", prize) for prize in "pqz"]
    assert rows == [[(3, 1, 1, 1)], [(1, 0, 0, 0)], [(0, 0, 0, 0)]]


async def test_code_without_expiry_is_listed_without_one(connection: asyncpg.Connection) -> None:
    ends = {row[0]: bool(row[-1]) for row in await ask(connection, "codes.list", "p", "free", None, 9)}
    assert ends == {"c1": False, "c2": True, "c6": False}
