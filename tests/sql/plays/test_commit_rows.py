"""What a commit writes of rewards, tasks and codes, and which codes it holds while it is under way."""

from datetime import timedelta
from typing import Any

import asyncpg

from runtime.actors.changes import Changes, NewTask
from runtime.actors.committer import statement_of
from runtime.stores.database import Database
from tests.support.commits import TENANT, a_reward, commit


async def test_reward_has_the_times_of_its_state_and_terms(database: Database) -> None:
    changes = Changes()
    changes.rewards += [
        a_reward("won"),
        a_reward("of_three_days")._replace(expires_after_days=3),
        a_reward("fulfilled")._replace(status="fulfilled"),
    ]
    await commit(database, changes)
    rows = await database.fetch(
        "SELECT reward_id, fulfilled_at - won_at AS fulfilled, expires_at - won_at AS expires FROM rewards"
    )
    assert {row["reward_id"]: (row["fulfilled"], row["expires"]) for row in rows} == {
        "won": (None, None),
        "of_three_days": (None, timedelta(days=3)),
        "fulfilled": (timedelta(0), None),
    }


async def test_task_is_due_at_once_unless_delivered(database: Database) -> None:
    changes = Changes()
    for status in ("pending", "delivered"):
        changes.tasks.append(NewTask(status, f"reward_{status}", "prize_a", "camp", "ann", "webhook", status))
    await commit(database, changes)
    rows = await database.fetch("SELECT task_id, next_attempt_at - created_at AS due FROM tasks")
    assert {row["task_id"]: row["due"] for row in rows} == {"pending": timedelta(0), "delivered": None}


def coded(*reward_ids: str) -> Changes:
    changes = Changes()
    for reward_id in reward_ids:
        changes.take_code(reward_id, "prize_a")
    return changes


async def test_rewards_of_a_batch_get_codes_of_their_own_prizes(database: Database) -> None:
    await database.execute(
        "INSERT INTO codes (tenant_id, prize_id, code_id, key_id, ciphertext, code_hash)"
        " SELECT $1, 'prize_b', 'of_b_' || n, '1', '', n::text::bytea FROM generate_series(1, 3) AS n",
        TENANT,
    )
    changes = Changes()
    for nth in range(2):
        for prize_id in ("prize_a", "prize_b"):
            changes.take_code(f"reward_{nth}_of_{prize_id}", prize_id)
    await commit(database, changes)
    rows = await database.fetch("SELECT prize_id, reward_id FROM codes WHERE reward_id IS NOT NULL")
    assert len(rows) == 4
    assert all(row["reward_id"].endswith(row["prize_id"]) for row in rows)


async def test_commit_locks_no_more_codes_than_it_gives(database: Database, pool: asyncpg.Pool) -> None:
    """A rival skips locked codes: with too many locked it would find the prize out of codes."""
    async with pool.acquire() as connection, pool.acquire() as rival, connection.transaction():
        text, arguments = statement_of(coded("reward_1"))
        await connection.fetchrow(text, TENANT, 0, *arguments)
        free = await rival.fetch("SELECT code_id FROM codes WHERE reward_id IS NULL FOR UPDATE SKIP LOCKED")
    assert [row["code_id"] for row in free] == ["code_2", "code_3"]


async def test_commit_takes_no_code_that_is_withdrawn_or_expires_now(database: Database, pool: asyncpg.Pool) -> None:
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("UPDATE codes SET expires_at = now() WHERE code_id = 'code_1'")
        await connection.execute("UPDATE codes SET withdrawn_at = now() WHERE code_id = 'code_2'")
        text, arguments = statement_of(coded("reward_1"))
        await connection.fetchrow(text, TENANT, 0, *arguments)
        assigned = await connection.fetch("SELECT code_id FROM codes WHERE reward_id = 'reward_1'")
    assert [row["code_id"] for row in assigned] == ["code_3"]


async def test_commit_skips_a_code_that_a_rival_is_taking(database: Database, pool: asyncpg.Pool) -> None:
    async with pool.acquire() as rival, rival.transaction():
        await rival.execute("SELECT FROM codes WHERE code_id = 'code_1' FOR UPDATE")
        await commit(database, coded("reward_1"))
    rows: list[Any] = await database.fetch("SELECT code_id, reward_id FROM codes ORDER BY code_id")
    assert [tuple(row) for row in rows] == [("code_1", None), ("code_2", "reward_1"), ("code_3", None)]


async def test_commit_takes_the_code_that_expires_first(database: Database) -> None:
    await database.execute("DELETE FROM codes")
    await database.execute(
        "INSERT INTO codes (tenant_id, prize_id, code_id, key_id, ciphertext, code_hash, expires_at)"
        " SELECT $1, 'prize_a', 'code_' || n, '1', '', n::text::bytea, now() + make_interval(days => 9 - n)"
        " FROM generate_series(1, 5) AS n",
        TENANT,
    )
    await database.execute("ANALYZE codes")
    await commit(database, coded("reward_1"))
    await commit(database, coded("reward_2"))
    rows = await database.fetch("SELECT code_id, reward_id FROM codes WHERE reward_id IS NOT NULL ORDER BY reward_id")
    assert [tuple(row) for row in rows] == [("code_5", "reward_1"), ("code_4", "reward_2")]
