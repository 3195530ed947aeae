import json
import re
from typing import Any, Final

import asyncpg
import pytest

import sql
from tests.support.bare_rows import scene
from tests.support.locks import blocked

ADD: Final = sql.load("codes")["add"]
HOLD: Final = sql.load("codes")["lock"]
WITHDRAW: Final = sql.load("codes")["withdraw"]
EXPIRE: Final = sql.load("codes")["set_expiry"]
PAST, LATER = 1_000_000_000, 1_900_000_000
UNCOUNTED: Final = "SET LOCAL session_replication_role = 'replica'"
"""Without the trigger that counts a pool: its row is held from the end of a statement to that of its transaction."""

MADE: Final = scene("""
    + tenants tenant_id=t name: T;
    + merchants tenant_id=t merchant_id name: shop Shop | stall Stall;
    + campaigns tenant_id=t campaign_id name=C merchant_id: of_shop shop | of_stall stall;
    + prizes tenant_id=t prize_id campaign_id name type=voucher: coupon of_shop Coupon | ticket of_stall Ticket |
        loose '' Loose;
    + codes tenant_id=t prize_id code_id key_id=key ciphertext='' code_hash: coupon there h1 | ticket elsewhere h2;
    + rewards tenant_id=t reward_id player_id prize_id campaign_id name type value quantity:
        reward ann coupon of_shop C goods 1 1;
""")


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
    ends: int = 0,
) -> list[str | None]:
    count, old = len(hashes), older or {}
    codes = [list(hashes), ["key"] * count, [b""] * count, list(hashes.values())]
    rows = await on.fetch(ADD, "t", prize_id, *codes, list(old.values()), list(old), merchant_id, [ends] * count)
    return [row["code_id"] for row in rows]


async def pool_of(made: asyncpg.Pool, prize_id: str = "coupon") -> set[str]:
    rows = await made.fetch("SELECT code_id FROM codes WHERE tenant_id = 't' AND prize_id = $1", prize_id)
    return {row["code_id"] for row in rows}


async def test_code_is_added_once_and_a_duplicate_reported(made: asyncpg.Pool) -> None:
    assert await add(made, {"a": b"h2", "b": b"h3"}) == [None]
    assert await add(made, {"c": b"h1", "d": b"h4", "e": b"h4"}) in (["c", "d"], ["c", "e"])
    assert len(await pool_of(made) & {"d", "e"}) == 1
    assert await pool_of(made) - {"d", "e"} == {"there", "a", "b"}
    assert await pool_of(made, "ticket") == {"elsewhere"}


async def test_code_stored_under_an_older_key_is_not_added(made: asyncpg.Pool) -> None:
    assert await add(made, {"a": b"n1", "b": b"n2", "c": b"n3"}, {"a": b"h1", "b": b"h2", "c": b"h9"}) == ["a"]
    assert await pool_of(made) == {"there", "b", "c"}


@pytest.mark.parametrize(
    ("prize_id", "merchant_id", "reply"),
    [
        *(("loose", "", [None]), ("coupon", "shop", [None])),
        *(("none", "", []), ("ticket", "shop", []), ("loose", "shop", [])),
    ],
)
async def test_codes_are_added_only_to_a_writable_prize(
    made: asyncpg.Pool, prize_id: str, merchant_id: str, reply: list[None]
) -> None:
    before = await pool_of(made, prize_id)
    assert await add(made, {"a": b"n1"}, prize_id=prize_id, merchant_id=merchant_id) == reply
    assert await pool_of(made, prize_id) - before == ({"a"} if reply else set())


async def test_prize_is_not_deleted_while_codes_are_added(made: asyncpg.Pool) -> None:
    async with made.acquire() as rival, made.acquire() as connection, connection.transaction():
        await add(connection, {"a": b"n1"})
        assert await rival.fetch("SELECT FROM prizes WHERE prize_id = 'coupon' FOR NO KEY UPDATE SKIP LOCKED")
        assert not await rival.fetch("SELECT FROM prizes WHERE prize_id = 'coupon' FOR UPDATE SKIP LOCKED")


async def test_imports_add_codes_in_one_order(made: asyncpg.Pool) -> None:
    """Otherwise two imports of the same codes in opposite orders deadlock."""
    async with made.acquire() as rival, made.acquire() as other:
        async with rival.transaction():
            await rival.execute(UNCOUNTED)
            await add(rival, {"theirs": b"n1"})
            waiting = await blocked(other, add(made, {"last": b"n9", "first": b"n1"}))
            async with other.transaction():
                await other.execute("SET LOCAL lock_timeout = '1s'")
                await other.execute(UNCOUNTED)
                assert await add(other, {"free": b"n9"}) == [None], "it waits for the first, and holds none"
        assert sorted(map(str, await waiting)) == ["first", "last"]


async def withdraw(on: asyncpg.Pool, *code_ids: str) -> set[str]:
    async with on.acquire() as connection, connection.transaction():
        await connection.execute(HOLD, "t", "coupon", list(code_ids))
        return {row["code_id"] for row in await connection.fetch(WITHDRAW, "t", "coupon", list(code_ids))}


@pytest.mark.parametrize("committed", [True, False])
async def test_withdrawal_waits_for_a_rival_win(made: asyncpg.Pool, committed: bool) -> None:
    await add(made, {"a": b"n1"})
    async with made.acquire() as rival, made.acquire() as other:
        winning = rival.transaction()
        await winning.start()
        await rival.execute("UPDATE codes SET reward_id = 'reward' WHERE code_id = 'a'")
        waiting = await blocked(other, withdraw(made, "a", "there"))
        await (winning.commit() if committed else winning.rollback())
        assert await waiting == ({"there"} if committed else {"a", "there"})


async def test_withdrawal_locks_codes_in_the_order_of_their_ids(made: asyncpg.Pool) -> None:
    await add(made, {"b": b"n1"})
    await add(made, {"c": b"n2"}, ends=LATER)
    async with made.acquire() as rival, made.acquire() as other:
        async with rival.transaction():
            await rival.execute("SELECT FROM codes WHERE code_id = 'b' FOR UPDATE")
            waiting = await blocked(other, withdraw(made, "c", "there", "b"))
            free = "SELECT code_id FROM codes WHERE prize_id = 'coupon' ORDER BY code_id FOR UPDATE SKIP LOCKED"
            assert [row["code_id"] for row in await other.fetch(free)] == ["c", "there"]
        assert await waiting == {"b", "c", "there"}


async def test_withdrawn_code_cannot_be_won(made: asyncpg.Pool) -> None:
    await withdraw(made, "there")
    with pytest.raises(asyncpg.CheckViolationError):
        await made.execute("UPDATE codes SET reward_id = 'reward' WHERE code_id = 'there'")


async def expire(on: asyncpg.Pool, *code_ids: str, state: str = "", ending_at: int = 0) -> set[str]:
    wanted = ("t", "coupon", list(code_ids), state, ending_at, LATER)
    async with on.acquire() as connection, connection.transaction():
        await connection.execute(HOLD, *wanted[:3])
        return {row["code_id"] for row in await connection.fetch(EXPIRE, *wanted)}


RIVALS: Final[list[tuple[str, str, dict[str, Any]]]] = [
    *(("won", "reward_id = 'reward'", {}), ("withdrawn", "withdrawn_at = now()", {})),
    ("expired", "expires_at = now()", {"state": "free"}),
    ("moved", "expires_at = now() + interval '1 day'", {"ending_at": 1_800_000_000}),
    ("moved there", "expires_at = to_timestamp(1900000000)", {}),
]


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize(("change", "requested"), [row[1:] for row in RIVALS], ids=[row[0] for row in RIVALS])
async def test_expiry_change_waits_for_a_rival_and_sees_its_change(
    made: asyncpg.Pool, change: str, requested: dict[str, Any], committed: bool
) -> None:
    await add(made, {"a": b"n1", "b": b"n2"}, ends=1_800_000_000)
    async with made.acquire() as rival, made.acquire() as other:
        changing = rival.transaction()
        await changing.start()
        await rival.execute(f"UPDATE codes SET {change} WHERE code_id = 'a'")
        waiting = await blocked(other, expire(made, "a", "b", **requested))
        await (changing.commit() if committed else changing.rollback())
        assert await waiting == ({"b"} if committed else {"a", "b"})
    rows = await made.fetch("SELECT code_id, unix(expires_at) AS end FROM codes WHERE code_id IN ('a', 'b')")
    ends = {row["code_id"]: row["end"] for row in rows}
    assert ends["b"] == LATER and (committed or ends["a"] == LATER)
    if committed and ("reward_id" in change or "withdrawn_at" in change):
        assert ends["a"] == 1_800_000_000


async def test_code_whose_expiry_is_changing_is_skipped_by_a_win(made: asyncpg.Pool) -> None:
    take = sql.load("rewards")["take_code"]
    await add(made, {"a": b"n1", "b": b"n2"}, ends=1_800_000_000)
    async with made.acquire() as other, made.acquire() as observer:
        async with other.transaction():
            await other.execute(HOLD, "t", "coupon", ["a"])
            await other.execute(EXPIRE, "t", "coupon", ["a"], "", 0, LATER)
            # It has taken another code, and waits to count it.
            winning = await blocked(observer, made.fetch(take, "t", "coupon", "reward", ["won"]))
        assert await winning
    rows = await made.fetch("SELECT code_id, reward_id, unix(expires_at) AS end FROM codes WHERE code_id IN ('a', 'b')")
    found = {row["code_id"]: (row["reward_id"], row["end"]) for row in rows}
    assert found == {"a": (None, LATER), "b": ("reward", 1_800_000_000)}


@pytest.mark.parametrize(("file", "name"), [("commit", "commit"), ("claims", "claim"), ("rewards", "take_code")])
async def test_pick_reads_no_expired_or_withdrawn_code(made: asyncpg.Pool, file: str, name: str) -> None:
    picks = re.search(r"SELECT c\.code_id FROM codes AS c\n.*?SKIP LOCKED", sql.load(file)[name], re.DOTALL)
    pick = re.sub(r"\s+AND (NOT )?EXISTS \(SELECT FROM \w+\)", "", picks[0])
    tenant, prize = dict.fromkeys(("w.tenant_id", "$1"), "'t'"), dict.fromkeys(("w.prize_id", "$2"), "'coupon'")
    for word, value in {**tenant, **prize, "w.wanted": "1"}.items():
        pick = pick.replace(word, value)
    await add(made, {f"past{nth:04}": f"p{nth}".encode() for nth in range(2_000)}, ends=PAST)
    await add(made, {f"gone{nth:04}": f"g{nth}".encode() for nth in range(2_000)})
    await made.execute("UPDATE codes SET withdrawn_at = now() WHERE code_id LIKE 'gone%'")
    await add(made, {f"z{nth:04}": f"f{nth}".encode() for nth in range(2_000)})
    await made.execute("VACUUM ANALYZE codes")
    assert await made.fetchval(pick) == "there", "free, and the first of those that never end"
    for name, days in (("a_later", 9), ("soon", 8)):
        ends = await made.fetchval("SELECT unix(now() + make_interval(days => $1))::bigint", days)
        await add(made, {name: name.encode()}, ends=ends)
    assert await made.fetchval(pick) == "soon", "the first that expires"
    plan = json.loads(await made.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {pick}"))[0]["Plan"]
    while "Plans" in plan:
        plan = plan["Plans"][0]
    assert plan["Index Name"] == "codes_free"
    assert (plan["Actual Rows"], plan.get("Rows Removed by Filter", 0)) == (1, 0)


@pytest.mark.parametrize("name", ["lock", "withdraw", "set_expiry"])
async def test_pool_without_statistics_is_read_at_most_once(made: asyncpg.Pool, name: str) -> None:
    await made.execute("ALTER TABLE codes SET (autovacuum_enabled = false)")
    for part in range(4):
        await add(made, {f"{part}{nth:04}": f"{part} {nth}".encode() for nth in range(2_500)})
    ids = [f"1{nth:04}" for nth in range(2_500)]
    explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {sql.load('codes')[name]}"
    more = ("", 0, LATER) if name == "set_expiry" else ()
    plans, looked = [json.loads(await made.fetchval(explained, "t", "coupon", ids, *more))[0]["Plan"]], 0
    while plans:
        plan = plans.pop()
        plans += plan.get("Plans", [])
        looked += plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Join Filter", 0)
    assert looked <= 10_000, "each at most once"
