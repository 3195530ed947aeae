from datetime import timedelta
from itertools import product
from typing import Final

import asyncpg
import pytest

import sql
from runtime.actors.rewards import STATES
from runtime.stores.database import Database
from tests.support.neighbours import PLAYER, TENANT, Neighbours, surround
from tests.support.statements import insert

SQL: Final = sql.load("rewards")


@pytest.fixture
async def database(empty: Database, pool: asyncpg.Pool) -> Database:
    await pool.execute("""
        INSERT INTO tenants (tenant_id, name) VALUES ('t', 'T');
        INSERT INTO stock VALUES ('t', 'mug', 10, 6, 4), ('t', 'endless', 0, 0, 4), ('t', 'gone', 4, 0, 4);
        INSERT INTO codes (tenant_id, prize_id, code_id, key_id, ciphertext, code_hash) VALUES
            ('t', 'mug', 'code_1', 'k', 'one', '1'), ('t', 'mug', 'code_2', 'k', 'two', '2'),
            ('t', 'endless', 'code_3', 'k', 'three', '3')""")
    return empty


async def reward(
    database: Database,
    name: str,
    status: str = "won",
    *,
    prize: str = "mug",
    quantity: int = 1,
    task: str = "",
    late: float | None = None,
) -> str:
    """A reward, with a task in that state. late: seconds since it could be claimed."""
    at = await database.fetchval("SELECT now()")
    its = {"tenant_id": "t", "reward_id": name, "player_id": "ann", "prize_id": prize, "campaign_id": "camp"}
    of = {"name": "Mug", "type": "goods", "value": 5, "quantity": quantity, "status": status}
    await insert(database, "rewards", **its, **of, expires_at=None if late is None else at - timedelta(seconds=late))
    if task:
        lease = {"next_attempt_at": at, "lease_until": at, "lease_owner": "me"}
        await insert(database, "tasks", **its, task_id=name, channel="webhook", status=task, **lease)
    return name


async def stock(database: Database, prize: str) -> tuple[int, int]:
    """(remaining, awarded)"""
    row = await database.fetchrow("SELECT remaining, awarded FROM stock WHERE tenant_id = 't' AND prize_id = $1", prize)
    return row["remaining"], row["awarded"]


async def statuses(database: Database) -> dict[str, str]:
    rows = await database.fetch("SELECT reward_id, status FROM rewards WHERE tenant_id = 't' AND player_id = 'ann'")
    return {row["reward_id"]: row["status"] for row in rows}


async def codes(database: Database) -> dict[str, str | None]:
    rows = await database.fetch("SELECT code_id, reward_id FROM codes WHERE tenant_id = 't' AND prize_id <> 'gone'")
    return {row["code_id"]: row["reward_id"] for row in rows}


async def surrounded(database: Database) -> Neighbours:
    return await surround(database, "t", by=(TENANT, PLAYER))


async def test_stock_and_codes_of_ended_rewards_return(database: Database) -> None:
    await reward(database, "one", quantity=2)
    await reward(database, "two", quantity=1)
    await reward(database, "endless", prize="endless", quantity=3)
    await reward(database, "stays", quantity=1)
    for code, owner in (("code_1", "one"), ("code_2", "stays"), ("code_3", "endless")):
        await database.execute("UPDATE codes SET reward_id = $2, assigned_at = now() WHERE code_id = $1", code, owner)
    beside = await surrounded(database)
    await database.execute(SQL["return_stock"], "t", ["one", "two", "endless"])
    assert (await stock(database, "mug"), await stock(database, "endless")) == ((9, 1), (0, 1))
    assert await stock(database, "gone") == (0, 4)
    assert await codes(database) == {"code_1": None, "code_2": "stays", "code_3": None}
    assert await beside.changed(database) == {}


async def test_stock_returned_never_exceeds_what_is_out(database: Database) -> None:
    """A prize that was unlimited when the reward was won may have counted fewer awards."""
    await reward(database, "many", quantity=7)
    await reward(database, "endless", prize="endless", quantity=7)
    await database.execute(SQL["return_stock"], "t", ["many", "endless"])
    assert (await stock(database, "mug"), await stock(database, "endless")) == ((10, 0), (0, 0))


@pytest.mark.parametrize(
    ("prize", "quantity", "left"),
    [("mug", 2, (4, 6)), ("mug", 6, (0, 10)), ("mug", 7, None), ("endless", 9, (0, 13)), ("gone", 1, None)],
)
async def test_failed_reward_retakes_stock_if_there_is_some(
    database: Database, prize: str, quantity: int, left: tuple[int, int] | None
) -> None:
    await reward(database, "again", "failed", prize=prize, quantity=quantity)
    others = [other for other in ("mug", "endless", "gone") if other != prize]
    for other in others:
        await reward(database, f"of_{other}", "failed", prize=other)
    before, beneath = await stock(database, prize), [await stock(database, other) for other in others]
    beside = await surrounded(database)
    assert await database.fetchval(SQL["retake_stock"], "t", "again") == (prize if left else None)
    assert await stock(database, prize) == (left or before)
    assert [await stock(database, other) for other in others] == beneath
    assert await beside.changed(database) == {}


async def test_reward_gets_one_code_of_its_prize_and_keeps_it(database: Database, pool: asyncpg.Pool) -> None:
    async def take(name: str, prize: str = "mug") -> bytes | None:
        row = await database.fetchrow(SQL["take_code"], "t", prize, name, ["won"])
        return None if row is None else row["ciphertext"]

    # A code of another prize may have the same id.
    await database.execute("INSERT INTO codes VALUES ('t', 'gone', 'code_2', 'k', 'of another', '2')")
    back = "SELECT tenant_id, prize_id, 'code_0', '', '', '', now() FROM codes WHERE code_id = 'code_1'"
    columns = "tenant_id, prize_id, code_id, key_id, ciphertext, code_hash, withdrawn_at"
    await database.execute(f"INSERT INTO codes ({columns}) {back}")
    beside = await surrounded(database)
    for name, status in (("a", "won"), ("b", "won"), ("c", "won"), ("d", "won"), ("e", "revoked")):
        await reward(database, name, status)
    assert [await take("e"), await take("d", "endless")] == [None, b"three"]
    async with pool.acquire() as rival, rival.transaction():
        await rival.execute("SELECT FROM codes WHERE tenant_id = 't' AND code_id = 'code_1' FOR UPDATE")
        assert await take("a") == b"two", "what a rival is about to take is passed by"
        assert await take("b") is None
    assert [await take("a"), await take("b"), await take("b")] == [b"two", b"one", b"one"]
    assert [await take("c"), await take("d", "endless")] == [None, b"three"]
    assert await database.fetchval("SELECT reward_id FROM codes WHERE tenant_id = 't' AND prize_id = 'gone'") is None
    assert await codes(database) == {"code_0": None, "code_1": "b", "code_2": "a", "code_3": "d"}
    assert await database.fetchval("SELECT count(*) FROM codes WHERE tenant_id = 't' AND assigned_at IS NULL") == 2
    await database.execute("UPDATE codes SET expires_at = now() WHERE reward_id = 'a'")
    assert await take("a") is None, "the only code has expired"
    await database.execute("UPDATE codes SET reward_id = NULL WHERE reward_id = 'b'")
    assert await take("a") == b"one" and (await codes(database))["code_2"] is None
    assert await beside.changed(database) == {}


async def test_rewards_are_fulfilled_and_revoked_from_the_named_states_alone(database: Database) -> None:
    legal = ["won", "claimed", "failed"]
    cases = list(product(STATES, ("", "pending", "delivered")))
    for state, task in cases:
        for name in ("fulfilled", "revoked", "neighbour"):
            await reward(database, f"{name} {state} {task}", state, task=task)
    beside = await surrounded(database)
    done = [
        await ended(database, legal, fulfilled=f"fulfilled {state} {task}", revoked=f"revoked {state} {task}")
        for state, task in cases
    ]
    assert done == [(state in legal, state in legal) for state, _ in cases]
    found = await statuses(database)
    rows = await database.fetch("""
        SELECT reward_id, status, lease_owner, channel, next_attempt_at IS NULL, lease_until IS NULL
        FROM tasks WHERE tenant_id = 't' AND player_id = 'ann'""")
    tasks = {row["reward_id"]: tuple(row)[1:] for row in rows}
    expected, expected_tasks = {}, {}
    for state, task in cases:
        may = state in legal
        names = [f"{name} {state} {task}" for name in ("fulfilled", "revoked", "neighbour")]
        expected.update(zip(names, ("fulfilled", "revoked", state) if may else (state,) * 3, strict=True))
        if task:
            expected_tasks.update(dict.fromkeys(names, (task, "me", "webhook", False, False)))
        if may:
            expected_tasks[names[0]] = ("delivered", "", "webhook" if task else "manual", True, True)
        if may and task == "pending":
            expected_tasks[names[1]] = ("cancelled", "", "webhook", True, True)
    assert found == expected
    assert tasks == expected_tasks
    assert await beside.changed(database) == {}


async def ended(database: Database, legal: list[str], *, fulfilled: str, revoked: str) -> tuple[bool, bool]:
    one = await database.fetchrow(SQL["fulfill"], "t", fulfilled, legal, f"new {fulfilled}", "manual")
    return one is not None, await database.fetchrow(SQL["revoke"], "t", revoked, legal) is not None


async def test_rewards_expire_only_if_won_late_and_without_a_task(database: Database, pool: asyncpg.Pool) -> None:
    await reward(database, "late", late=1.0)
    await reward(database, "later", late=2.0)
    await reward(database, "held", late=3.0)
    stored = [await reward(database, "in_time", late=-60.0), await reward(database, "for_ever")]
    stored += [await reward(database, "on_its_way", late=1.0, task="pending")]
    stored += [await reward(database, state, state, late=1.0) for state in STATES if state not in ("won", "expired")]
    before = await statuses(database)
    beside = await surround(database, "t", by=(TENANT,))
    assert [row["tenant_id"] for row in await database.fetch(SQL["tenants_with_expired"])] == ["t", "t~"]
    assert [row["reward_id"] for row in await database.fetch(SQL["overdue"], "t", 9)] == ["held", "later", "late"]
    assert [row["reward_id"] for row in await database.fetch(SQL["overdue"], "t", 1)] == ["held"]
    every = ["late", "later", "held", *stored]
    async with pool.acquire() as rival, rival.transaction():
        await rival.execute("SELECT FROM rewards WHERE reward_id = 'held' FOR UPDATE")
        expired = await database.fetch(SQL["expire"], "t", [name for name in every if name != "later"])
        assert [row["reward_id"] for row in expired] == ["late"]
    assert await statuses(database) == {**before, "late": "expired"}
    assert await beside.changed(database) == {}
    await database.fetch(SQL["expire"], "t", every)
    await database.execute("DELETE FROM rewards WHERE tenant_id = 't~'")
    assert await database.fetch(SQL["tenants_with_expired"]) == []
