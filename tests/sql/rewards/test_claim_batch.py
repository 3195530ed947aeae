from typing import Any, Final

import asyncpg
import pytest

from runtime.actors.claims import CLAIM
from runtime.stores.database import Database
from tests.support.bare_rows import scene
from tests.support.locks import blocked
from tests.support.neighbours import PLAYER, TENANT, Neighbours, surround
from tests.support.statements import ask_of_t as ask
from tests.support.statements import insert

MADE: Final = scene("""
    + tenants tenant_id=t name: T;
    + merchants tenant_id=t merchant_id name status: shop Shop active | shut Shut suspended;
    + campaigns tenant_id=t campaign_id merchant_id name=C status=active entry entry_needs: camp shop - - |
        camp_shut shut - - | camp_form shop '{"mode": "before_claim"}' '[["terms", ["terms"]]]' |
        camp_barred shop '{"mode": "before_claim", "countries": {"deny": ["XX"]}}' '[]';
    + entries tenant_id=t campaign_id player_id entry_id given: camp ann e1 '{terms}' | camp_form bob e2 '{terms}' |
        camp_barred ann e3 '{terms,country:XX}';
    + players tenant_id=t player_id status: ann active | sue suspended;
    + prizes tenant_id=t prize_id campaign_id=camp name type value=5 redemption_mode channel:
        mug Mug goods on_claim none | coupon Coupon voucher on_claim voucher_code |
        parcel Parcel goods on_claim webhook | trip Trip goods manual none | lamp Lamp goods on_claim manual |
        ticket Ticket voucher on_claim voucher_code;
    + codes tenant_id=t prize_id code_id key_id=key ciphertext code_hash reward_id: coupon code_1 one h1 - |
        coupon code_2 two h2 - | coupon code_3 three h3 has_a_code | mug code_4 four h4 - | ticket code_5 five h5 - |
        ticket expired six h6 with_ticket | mug expired seven h7 instant | ticket code_9 nine h9 -;
    UPDATE codes SET expires_at = now() WHERE code_id = 'expired';
    UPDATE codes SET expires_at = now() + interval '1 day' WHERE code_id = 'code_9';
    + tasks tenant_id=t task_id reward_id prize_id campaign_id player_id channel status:
        task_there on_its_way parcel camp ann webhook retry;
""")

REWARDS: Final = {
    # What it is of, whose, its state, and what is asked under which key by whom; then outcome, status and task.
    "instant": (("mug", "ann", "won"), ("ann", None), ("claimed", "fulfilled", "delivered")),
    "with_code_1": (("coupon", "ann", "won"), ("ann", "key_1"), ("claimed", "fulfilled", "delivered")),
    "sent": (("parcel", "ann", "won"), ("ann", None), ("claimed", "claimed", "pending")),
    "handed_over": (("trip", "ann", "won"), ("ann", None), ("claimed", "claimed", None)),
    "carried": (("lamp", "ann", "won"), ("ann", None), ("claimed", "claimed", "awaiting")),
    "on_its_way": (("parcel", "ann", "won"), ("ann", None), ("claimed", "claimed", "retry")),
    "of_another": (("mug", "bob", "won"), ("ann", None), ("unknown", None, None)),
    "claimed_before": (("mug", "ann", "claimed"), ("ann", "key_2"), ("illegal", "claimed", None)),
    "done_under_this_key": (("mug", "ann", "claimed"), ("ann", "key_3"), ("replayed", "claimed", None)),
    "of_one_suspended": (("mug", "sue", "won"), ("sue", None), ("suspended", "won", None)),
    "of_a_shut_shop": (("mug", "ann", "won"), ("ann", None), ("suspended", "won", None)),
    "unentered": (("mug", "ann", "won"), ("ann", None), ("unentered", "won", None)),
    "barred": (("mug", "ann", "won"), ("ann", None), ("barred", "won", None)),
    "with_code_2": (("coupon", "ann", "won"), ("ann", None), ("claimed", "fulfilled", "delivered")),
    "without_code": (("coupon", "ann", "won"), ("ann", None), ("out_of_stock", "won", None)),
    "with_ticket": (("ticket", "ann", "won"), ("ann", None), ("claimed", "fulfilled", "delivered")),
    "late": (("mug", "ann", "won"), ("ann", None), ("illegal", "expired", None)),
    "has_a_code": (("coupon", "ann", "won"), ("ann", None), ("claimed", "fulfilled", "delivered")),
    "that_is_not": (None, ("ann", None), ("unknown", None, None)),
}

CAMPAIGNS: Final = {"of_a_shut_shop": "camp_shut", "unentered": "camp_form", "barred": "camp_barred"}


@pytest.fixture
async def database(empty: Database, pool: asyncpg.Pool) -> Database:
    await pool.execute(MADE)
    hour_ago = await empty.fetchval("SELECT now() - interval '1 hour'")
    of: dict[str, Any] = {"tenant_id": "t", "name": "X", "type": "goods", "value": 5, "quantity": 1}
    for name, (made, _, _) in REWARDS.items():
        if made is not None:
            of |= zip(("prize_id", "player_id", "status"), made, strict=True)
            of["campaign_id"] = CAMPAIGNS.get(name, "camp")
            at, key = (hour_ago, "key_3") if of["status"] == "claimed" else (None, None)
            late = hour_ago if name == "late" else None
            await insert(empty, "rewards", reward_id=name, **of, claimed_at=at, claim_key=key, expires_at=late)
    return empty


async def claim(database: Database, names: list[str], tenant_id: str = "t") -> list[Any]:
    requested = [REWARDS[name][1] for name in names]
    return await database.fetch(
        *(CLAIM, tenant_id, names, [player for player, _ in requested], [key for _, key in requested]),
        *([f"task_of_{name}" for name in names], ["none", "voucher_code"], [{} for _ in names]),
    )


@pytest.mark.parametrize("backwards", [False, True])
async def test_claims_of_a_batch_have_their_own_outcomes(database: Database, backwards: bool) -> None:
    names = [*reversed(REWARDS)] if backwards else [*REWARDS]
    beside: Neighbours = await surround(database, "t", by=(TENANT, PLAYER, "prize_id"), spare=("prizes", "players"))
    rows = await claim(database, names)
    assert [row["reward_id"] for row in rows] == names
    # Whoever comes first gets the first of the codes, and the last one none.
    first, second = ("with_code_1", "with_code_2") if not backwards else ("without_code", "with_code_2")
    none = "without_code" if not backwards else "with_code_1"
    for row in rows:
        name = row["reward_id"]
        twin = {none: "without_code", first: "with_code_1"}.get(name, name)
        outcome, status, task = REWARDS[twin][2]
        stored = await database.fetchrow(
            "SELECT r.status, r.claim_key, t.status AS task, t.task_id, t.attempts,"
            " t.next_attempt_at IS NOT NULL AS due FROM rewards AS r LEFT JOIN tasks AS t USING (tenant_id, reward_id)"
            " WHERE r.tenant_id = 't' AND r.reward_id = $1",
            name,
        )
        assert (row["outcome"], row["status"]) == (outcome, status), name
        if name in ("that_is_not", "of_another"):
            continue
        assert (stored["status"], stored["task"]) == ("won" if name == "late" else status, task), name
        assert row["sent_task_id"] == ("task_of_sent" if name == "sent" else None), name
        assert row["delivered"] == (outcome == "claimed" and status == "fulfilled"), name
        assert (row["claimed_at"] > 0) == (outcome == "claimed" or status == "claimed"), name
        assert (row["fulfilled_at"] > 0) == (status == "fulfilled"), name
        assert row["merchant_id"] == ("shut" if name == "of_a_shut_shop" else "shop"), name
        assert row["suspended"] == {"of_one_suspended": "player", "of_a_shut_shop": "merchant"}.get(name), name
        if outcome == "claimed":
            assert stored["claim_key"] == REWARDS[name][1][1], name
        if task is not None:
            assert stored["task_id"] == ("task_there" if name == "on_its_way" else f"task_of_{name}"), name
            assert (stored["due"], stored["attempts"]) == (name == "sent", task == "delivered"), name
        shown = {first: b"one", second: b"two", "has_a_code": b"three", "with_ticket": b"nine"}
        assert row["ciphertext"] == shown.get(name), name
        assert row["key_id"] == ("key" if name in shown else None), name
    codes = await database.fetch("SELECT code_id, reward_id FROM codes WHERE tenant_id = 't'")
    given = {("code_1", first), ("code_2", second), ("code_3", "has_a_code"), ("code_9", "with_ticket")}
    given |= {("expired", None), ("expired", "instant")}
    assert {(row["code_id"], row["reward_id"]) for row in codes} >= given
    assert await beside.changed(database) == {}


async def test_claim_of_a_suspended_tenant_is_refused(database: Database) -> None:
    await database.execute("INSERT INTO tenants (tenant_id, name, status) VALUES ('other', 'O', 'suspended')")
    assert [row["outcome"] for row in await claim(database, ["instant"])] == ["claimed"]
    await database.execute("UPDATE tenants SET status = 'suspended' WHERE tenant_id = 't'")
    (row,) = await claim(database, ["sent"])
    assert (row["outcome"], row["suspended"], row["status"]) == ("suspended", "tenant", "won")


async def test_claim_waits_for_a_rival_change_and_sees_it(database: Database, pool: asyncpg.Pool) -> None:
    async with pool.acquire() as rival:
        async with rival.transaction():
            await rival.execute("UPDATE rewards SET status = 'revoked' WHERE reward_id = 'instant'")
            claiming = await blocked(rival, claim(database, ["instant"]))
        (row,) = await claiming
    assert (row["outcome"], row["status"]) == ("illegal", "revoked")


async def test_claim_locks_rewards_in_the_order_of_their_ids(database: Database, pool: asyncpg.Pool) -> None:
    """Otherwise two batches with the same rewards in opposite orders deadlock."""
    async with pool.acquire() as rival, pool.acquire() as onlooker:
        async with rival.transaction():
            await rival.execute("SELECT FROM rewards WHERE reward_id = 'carried' FOR UPDATE")
            claiming = await blocked(onlooker, claim(database, ["sent", "instant", "handed_over", "carried"]))
            others = "('sent', 'instant', 'handed_over')"
            free = await onlooker.fetch(f"SELECT FROM rewards WHERE reward_id IN {others} FOR UPDATE SKIP LOCKED")
            assert len(free) == 3, "it waits for the first of them, and holds none"
        assert {row["outcome"] for row in await claiming} == {"claimed"}


async def test_claim_locks_no_more_codes_than_it_gives(database: Database, pool: asyncpg.Pool) -> None:
    async with pool.acquire() as rival, pool.acquire() as connection, connection.transaction():
        names = ["instant", "has_a_code", "with_code_1"]
        requested = [["ann"] * 3, [None] * 3, ["task_1", "task_2", "task_3"]]
        await connection.fetch(CLAIM, "t", names, *requested, ["none", "voucher_code"], ["{}"] * 3)
        free = await rival.fetch("SELECT code_id FROM codes WHERE reward_id IS NULL FOR UPDATE SKIP LOCKED")
    assert sorted(row["code_id"] for row in free) == ["code_2", "code_4", "code_5", "code_9"]


SCENE: Final = """
+ tenants tenant_id=t name: T;
+ players tenant_id=t player_id auth_method erased_at: ann external - | bob external (now() + interval '1 day');
+ prizes tenant_id=t prize_id name type=goods redemption_mode=on_claim channel=webhook claim_fields:
    shirt Shirt '[{"key": "size", "label": "Size", "kind": "text", "required": true}]' |
    mug Mug '[{"key": "size", "label": "Size", "kind": "text", "required": false}]';
+ prizes tenant_id=t prize_id name type=voucher redemption_mode=on_claim channel: coupon Coupon voucher_code;
+ codes tenant_id=t prize_id=coupon key_id=k ciphertext='' code_id code_hash expires_at: c1 1 infinity |
    c2 2 (now() + interval '2 days') | c3 3 (now() + interval '1 day');
+ rewards tenant_id=t reward_id player_id=ann prize_id campaign_id=camp name=X type=goods value=5 quantity=1 status=won:
    r1 shirt | r2 shirt | r3 mug |
    r4 coupon;
"""


async def claim_with(connection: asyncpg.Connection, **answers: str) -> list[tuple[Any, ...]]:
    many = [list(answers), ["ann"] * len(answers), [None] * len(answers), [f"task_{one}" for one in answers]]
    return [row[:2] for row in await ask(connection, "claims.claim", *many, ["none"], list(answers.values()))]


async def stored_answers(connection: asyncpg.Connection) -> dict[str, str]:
    rows = await connection.fetch("SELECT reward_id, answers -> 0 ->> 'value' AS size FROM claim_answers")
    return {row["reward_id"]: row["size"] for row in rows}


async def test_claim_without_a_required_answer_moves_nothing(connection: asyncpg.Connection) -> None:
    assert await claim_with(connection, r1="{}", r3="{}") == [("unanswered", "r1"), ("claimed", "r3")]
    assert await connection.fetchval("SELECT status FROM rewards WHERE reward_id = 'r1'") == "won"
    assert await stored_answers(connection) == {}


async def test_claim_takes_the_code_that_expires_first(connection: asyncpg.Connection) -> None:
    assert await claim_with(connection, r4="{}") == [("claimed", "r4")]
    assert await connection.fetchval("SELECT code_id FROM codes WHERE reward_id = 'r4'") == "c3"


async def test_claims_of_one_batch_keep_and_deliver_their_own_answers(connection: asyncpg.Connection) -> None:
    both = await claim_with(connection, r1='{"size": "S"}', r2='{"size": "L"}', r3="{}")
    assert both == [("claimed", "r1"), ("claimed", "r2"), ("claimed", "r3")]
    assert await stored_answers(connection) == {"r1": "S", "r2": "L"}
    lease: tuple[Any, ...] = ("fulfillment.lease", 0.0, ["task_r1", "task_r2", "task_r3"], "me", [], [])
    delivered = {row[1]: row[-2] for row in await ask(connection, *lease)}
    assert set(delivered) == {"r1", "r2", "r3"} and delivered["r3"] == "[]"
    assert '"S"' in delivered["r1"] and '"L"' not in delivered["r1"] and '"L"' in delivered["r2"]
    await connection.execute("DELETE FROM claim_answers WHERE reward_id = 'r1'")
    assert not any(row[-1] for row in await ask(connection, *lease)), "another is erased"
    await connection.execute("UPDATE players SET erased_at = now()")
    assert {row[1] for row in await ask(connection, *lease) if row[-1]} == {"r1"}, "r3 may have had none"
