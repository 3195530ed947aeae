"""How a pool of codes is filled: each code once, by who may, and beside rivals."""

from __future__ import annotations

import asyncio
from typing import Final

import asyncpg
import pytest

import sql
from tests.support.waiting import until

ADD: Final = sql.load("codes")["add"]

MADE: Final = """
    INSERT INTO tenants (tenant_id, name) VALUES ('t', 'T');
    INSERT INTO merchants (tenant_id, merchant_id, name) VALUES ('t', 'shop', 'Shop'), ('t', 'stall', 'Stall');
    INSERT INTO campaigns (tenant_id, campaign_id, name, merchant_id) VALUES
        ('t', 'of_shop', 'C', 'shop'), ('t', 'of_stall', 'C', 'stall');
    INSERT INTO prizes (tenant_id, prize_id, campaign_id, name, type) VALUES
        ('t', 'coupon', 'of_shop', 'Coupon', 'voucher'), ('t', 'ticket', 'of_stall', 'Ticket', 'voucher'),
        ('t', 'loose', '', 'Loose', 'voucher');
    INSERT INTO codes (tenant_id, prize_id, code_id, key_id, ciphertext, code_hash) VALUES
        ('t', 'coupon', 'there', 'key', '', 'h1'), ('t', 'ticket', 'elsewhere', 'key', '', 'h2');
"""


@pytest.fixture
async def made(pool: asyncpg.Pool) -> asyncpg.Pool:
    await pool.execute(MADE)
    return pool


async def add(
    on: asyncpg.Pool | asyncpg.Connection,
    hashes: dict[str, bytes],
    older: dict[str, bytes] | None = None,
    *,
    prize_id: str = "coupon",
    merchant_id: str = "",
) -> list[str | None]:
    """Adds codes by their ids' fingerprints; what it tells: the ids of those that were there, or [None]."""
    count, old = len(hashes), older or {}
    codes = [list(hashes), ["key"] * count, [b""] * count, list(hashes.values())]
    rows = await on.fetch(ADD, "t", prize_id, *codes, list(old.values()), list(old), merchant_id)
    return [row["code_id"] for row in rows]


async def pool_of(made: asyncpg.Pool, prize_id: str = "coupon") -> set[str]:
    rows = await made.fetch("SELECT code_id FROM codes WHERE tenant_id = 't' AND prize_id = $1", prize_id)
    return {row["code_id"] for row in rows}


async def test_a_code_is_added_once_and_what_was_there_is_told(made: asyncpg.Pool) -> None:
    assert await add(made, {"a": b"h2", "b": b"h3"}) == [None]
    assert await add(made, {"c": b"h1", "d": b"h4", "e": b"h4"}) in (["c", "d"], ["c", "e"])
    assert len(await pool_of(made) & {"d", "e"}) == 1
    assert await pool_of(made) - {"d", "e"} == {"there", "a", "b"}
    assert await pool_of(made, "ticket") == {"elsewhere"}


async def test_a_code_that_the_pool_has_under_an_older_key_is_not_added(made: asyncpg.Pool) -> None:
    """Of the older fingerprints, the first is the pool's, the second another pool's, and the third nobody's."""
    older = {"a": b"h1", "b": b"h2", "c": b"h9"}
    assert await add(made, {"a": b"n1", "b": b"n2", "c": b"n3"}, older) == ["a"]
    assert await pool_of(made) == {"there", "b", "c"}


@pytest.mark.parametrize(
    ("prize_id", "merchant_id", "told"),
    [
        ("none", "", []),
        ("loose", "", [None]),
        ("coupon", "shop", [None]),
        ("ticket", "shop", []),
        ("loose", "shop", []),
    ],
)
async def test_only_who_may_write_a_prize_adds_codes_to_it(
    made: asyncpg.Pool, prize_id: str, merchant_id: str, told: list[None]
) -> None:
    before = await pool_of(made, prize_id)
    assert await add(made, {"a": b"n1"}, prize_id=prize_id, merchant_id=merchant_id) == told
    assert await pool_of(made, prize_id) - before == ({"a"} if told else set())


async def test_a_prize_is_not_deleted_while_codes_are_added_to_it(made: asyncpg.Pool) -> None:
    async with made.acquire() as rival, made.acquire() as connection, connection.transaction():
        await add(connection, {"a": b"n1"})
        assert await rival.fetch("SELECT FROM prizes WHERE prize_id = 'coupon' FOR NO KEY UPDATE SKIP LOCKED")
        assert not await rival.fetch("SELECT FROM prizes WHERE prize_id = 'coupon' FOR UPDATE SKIP LOCKED")


async def test_codes_are_added_in_one_order_whatever_the_imports(made: asyncpg.Pool) -> None:
    """Two imports of the same codes in opposite orders would each wait for what the other has added."""
    async with made.acquire() as rival, made.acquire() as other:
        async with rival.transaction():
            await add(rival, {"theirs": b"n1"})
            waiting = asyncio.ensure_future(add(made, {"last": b"n9", "first": b"n1"}))
            await until(lambda: _somebody_waits(other))
            async with other.transaction():
                await other.execute("SET LOCAL lock_timeout = '1s'")
                assert await add(other, {"free": b"n9"}) == [None], "it waits for the first, and holds none"
        assert sorted(map(str, await waiting)) == ["first", "last"]


async def _somebody_waits(connection: asyncpg.Connection) -> bool:
    return bool(await connection.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"))


async def test_free_codes_of_a_prize_are_counted(made: asyncpg.Pool) -> None:
    await made.execute("UPDATE codes SET reward_id = 'reward' WHERE code_id = 'there'")
    await add(made, {"a": b"n1", "b": b"n2"})
    for prize_id, count in (("coupon", 2), ("ticket", 1), ("loose", 0)):
        assert await made.fetchval(sql.load("codes")["available"], "t", prize_id) == count
