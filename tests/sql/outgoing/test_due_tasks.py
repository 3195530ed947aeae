import asyncio
from typing import Any, Final

import asyncpg
import pytest

from tests.support.locks import blocked, held
from tests.support.outbox import SQL
from tests.support.waiting import HANG_SECONDS

SCENE: Final = """
INSERT INTO tasks (tenant_id, task_id, reward_id, prize_id, campaign_id, player_id, channel, status, next_attempt_at,
                   lease_until, lease_owner, attempts)
    SELECT 't', task, task, prize, 'camp', 'ann', 'webhook', status, now() + due * interval '1 s',
           now() + lease * interval '1 s', CASE WHEN status = 'delivering' THEN 'me' ELSE '' END,
           CASE task WHEN 'l2' THEN 5 WHEN 'o2' THEN 6 ELSE strpos(task, 's') * 6 END
    FROM (VALUES ('z', 'p3', 'pending', -1, NULL), ('c', 'p1', 'pending', -1, NULL), ('y', 'p2', 'retry', -1, NULL),
                 ('b', 'p1', 'retry', -2, NULL), ('a', 'p1', 'pending', -3, NULL), ('l2', 'p1', 'delivering', NULL, -1),
                 ('l1', 'p4', 'delivering', NULL, -2), ('o2', 'p1', 'awaiting', NULL, -1),
                 ('o1', 'p1', 'awaiting', NULL, -2), ('o3', 'p1', 'awaiting', NULL, 60),
                 ('o4', 'p1', 'awaiting', NULL, NULL), ('d1', 'p1', 'dead', NULL, NULL),
                 ('d2', 'p1', 'dead', NULL, NULL), ('x', 'p0', 'delivered', NULL, NULL),
                 ('f', 'p1', 'pending', 60, NULL), ('l3', 'p1', 'delivering', NULL, 60),
                 ('s0', 'p4', 'delivering', NULL, 60), ('s2', 'p4', 'delivering', NULL, -8),
                 ('s1', 'p4', 'delivering', NULL, -9))
        AS v (task, prize, status, due, lease);
INSERT INTO tasks (tenant_id, task_id, reward_id, prize_id, campaign_id, player_id, channel, status, next_attempt_at,
                   lease_until)
    VALUES ('u', 'theirs', 'theirs', 'p1', 'camp', 'ann', 'webhook', 'pending', now(), NULL),
           ('u', 'called', 'called', 'p1', 'camp', 'ann', 'webhook', 'awaiting', NULL, now() + interval '1 hour');
INSERT INTO rewards (tenant_id, reward_id, player_id, prize_id, campaign_id, name, type, value, quantity, status)
    SELECT tenant_id, reward_id, player_id, prize_id, campaign_id, 'M', 'goods', 1, 1, 'fulfilling' FROM tasks
    ORDER BY reward_id DESC;
"""


async def ask(connection: asyncpg.Connection, name: str, *arguments: Any) -> list[Any]:
    return [row[0] for row in await connection.fetch(SQL[name], *arguments)]


async def due(connection: asyncpg.Connection, limit: int, **rooms: int) -> set[str]:
    return set(await ask(connection, "lock_due", "t", limit, list(rooms), list(rooms.values())))


async def test_due_tasks_are_found_for_every_prize_longest_waiting_first(connection: asyncpg.Connection) -> None:
    assert await due(connection, 20) == {"a", "b", "c", "y", "z", "l1", "l2", "s1"}, "of tasks leased often, one"
    assert await due(connection, 20, p1=2) == {"a", "b", "y", "z", "l1", "l2", "s1"}
    assert await due(connection, 20, p4=0) == {"a", "b", "c", "y", "z", "l2"}
    assert await due(connection, 20, p1=0) == {"y", "z", "l1", "s1"}
    assert len(await due(connection, 2)) == 2
    assert sorted(await ask(connection, "tenants_with_due")) == ["t", "u"]
    assert await connection.fetchval(SQL["due"]) == 6
    await connection.execute("DELETE FROM tasks WHERE next_attempt_at <= now()")
    assert await due(connection, 1) == {"l1"} and await ask(connection, "tenants_with_due") == ["t"]
    await connection.execute("DELETE FROM tasks WHERE status = 'delivering' AND lease_until <= now()")
    assert await due(connection, 9) == set()
    assert await ask(connection, "tenants_with_due") == [] and await connection.fetchval(SQL["due"]) == 0


@pytest.mark.parametrize(("task", "left"), [("a", "b c y z l1 l2 s1"), ("l1", "a b c y z l2 s1")])
async def test_due_tasks_are_locked_and_those_of_a_rival_skipped(
    connection: asyncpg.Connection, pool: asyncpg.Pool, task: str, left: str
) -> None:
    async with pool.acquire() as rival, connection.transaction():
        async with rival.transaction():
            await rival.execute("SELECT FROM tasks WHERE task_id = $1 FOR UPDATE", task)
            async with asyncio.timeout(HANG_SECONDS):
                assert await due(connection, 20) == set(left.split())
        assert await held(rival, "tasks", "task_id") == set(left.split())


async def test_task_due_now_is_due(connection: asyncpg.Connection) -> None:
    async with connection.transaction():
        await connection.execute("DELETE FROM tasks WHERE task_id NOT IN ('a', 'l1', 'o1', 's1')")
        await connection.execute("UPDATE tasks SET next_attempt_at = now(), lease_until = now()")
        assert await due(connection, 20) == {"a", "l1", "s1"} and await ask(connection, "due") == [1]
        assert await ask(connection, "overdue", "t", 9) == ["o1"]
        assert await ask(connection, "tenants_with_overdue") == ["t"]
        for task in ("a", "l1"):
            await connection.execute("SAVEPOINT alone")
            await connection.execute("DELETE FROM tasks WHERE task_id <> $1", task)
            assert await ask(connection, "tenants_with_due") == ["t"]
            assert await ask(connection, "lease", "t", 60.0, ["a", "l1"], "me", [], []) == [task]
            await connection.execute("ROLLBACK TO SAVEPOINT alone")
        assert (await connection.fetchrow(SQL["rearm"], "t", "l1", ""))["rearmed"] is True
        assert await ask(connection, "fail_overdue", "t", ["o1"], ["o1"], "late") == ["o1"]


async def test_overdue_tasks_are_listed_longest_first_and_their_tenant_once(connection: asyncpg.Connection) -> None:
    assert [await ask(connection, "overdue", "t", most) for most in (9, 1)] == [["o1", "o2"], ["o1"]]
    assert await ask(connection, "tenants_with_overdue") == ["t"]


async def test_give_up_takes_named_tasks_and_their_rewards(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    async with connection.transaction(), pool.acquire() as rival:
        assert await ask(connection, "fail_overdue", "t", ["o1", "l1"], ["o2", "o1", "l1"], "late") == ["o1"]
        assert await held(rival, "rewards", "reward_id") == {"o1", "o2", "l1"}
        assert await held(rival, "tasks", "task_id") == {"o1"}, "nor is held what is being delivered"
    await connection.execute("UPDATE rewards SET status = 'fulfilled' WHERE reward_id = 'o2'")
    await connection.execute("UPDATE tasks SET status = 'awaiting', lease_until = now() WHERE task_id = 'o1'")
    await connection.execute("UPDATE rewards SET status = 'fulfilling' WHERE reward_id = 'o1'")
    rows = await connection.fetch(SQL["fail_overdue"], "t", ["o1", "o2"], ["o1", "o2"], "late")
    assert sorted((row["task_id"], row["failed_reward_id"] or "") for row in rows) == [("o1", "o1"), ("o2", "")]


async def test_rearm_waits_for_a_lease_and_changes_nothing(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    async with pool.acquire() as rival, pool.acquire() as onlooker:
        async with rival.transaction():
            await rival.fetch(SQL["lease"], "t", 60.0, ["a"], "me", [], [])
            asking = await blocked(onlooker, connection.fetchrow(SQL["rearm"], "t", "a", ""))
        row = await asking
        assert row is not None and (row["rearmed"], row["status"]) == (False, "delivering")


async def test_rearm_moves_only_a_failed_reward(connection: asyncpg.Connection) -> None:
    for task, before, after in (("a", "won", "won"), ("b", "claimed", "claimed"), ("c", "failed", "fulfilling")):
        await connection.execute("UPDATE rewards SET status = $2 WHERE reward_id = $1", task, before)
        await ask(connection, "rearm", "t", task, "")
        assert await connection.fetchval("SELECT status FROM rewards WHERE reward_id = $1", task) == after


async def test_receiver_and_subject_are_those_of_the_task(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "INSERT INTO prizes (tenant_id, prize_id, name, type)"
        " VALUES ('t', 'p1', 'P', 'goods'), ('t', 'p2', 'P', 'goods')"
    )
    assert await ask(connection, "receiver", "t", "y") == ["p2"]
    assert await ask(connection, "about", "t", "y") == ["y"]
