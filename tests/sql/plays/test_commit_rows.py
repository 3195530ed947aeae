"""What a commit writes of rewards, tasks and codes, and which codes it holds while it is under way."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import asyncpg
import pytest

from runtime.actors.changes import BalanceMove, Changes, NewTask, StandingAward, StockTake, TurnMove
from runtime.actors.committer import statement_of
from runtime.stores.database import Database
from tests.support.commits import TENANT, a_reward, commit, whole
from tests.support.locks import IN_NO_ORDER, blocked, held
from tests.support.neighbours import PLAYER, surround


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


KEYS: Final = {
    "turn_balances": "concat_ws(' ', tenant_id, player_id, campaign_id)",
    "balances": "concat_ws(' ', tenant_id, player_id, scope_key, currency)",
    "stock": "concat_ws(' ', tenant_id, prize_id)",
    "leaderboard_standings": "concat_ws(' ', tenant_id, board_id, rank)",
}


async def test_commit_locks_only_the_rows_that_it_names(database: Database, pool: asyncpg.Pool) -> None:
    columns = (PLAYER, "tenant_id", "scope_key", "currency", "campaign_id", "prize_id", "board_id", "rank")
    await surround(database, TENANT, by=columns)
    changes = whole()
    async with database.connection() as connection, pool.acquire() as rival, connection.transaction():
        text, arguments = statement_of(changes)
        await connection.fetchrow(text, TENANT, changes.catalog_version, *arguments)
        found = {table: await held(rival, table, key) for table, key in KEYS.items()}
    assert found == {
        "turn_balances": {f"{TENANT} ann camp"},
        # That of leaves is new, so no rival sees it.
        "balances": {f"{TENANT} ann camp coin"},
        "stock": {f"{TENANT} prize_a", f"{TENANT} prize_free"},
        "leaderboard_standings": {f"{TENANT} board 1"},
    }


def _turns(changes: Changes) -> None:
    for player in ("zoe", "abe"):
        changes.turns[player, "camp"] = TurnMove(player, "camp", 2, 1)


def _balances(changes: Changes) -> None:
    for player in ("zoe", "abe"):
        changes.balances[player, "camp", "coin"] = BalanceMove(player, "camp", "coin", 5, 4)


def _stock(changes: Changes) -> None:
    for prize in ("prize_z", "prize_0"):
        changes.stock[prize] = StockTake(prize, 1)


def _standings(changes: Changes) -> None:
    changes.awards += [StandingAward("board_z", 1, "reward_1"), StandingAward("board_0", 1, "reward_2")]


ORDERS: Final[dict[str, tuple[str, str, Callable[[Changes], None]]]] = {
    "turn_balances": (
        "player_id",
        "INSERT INTO turn_balances (tenant_id, player_id, campaign_id, balance) VALUES ($1, $2, 'camp', 2)",
        _turns,
    ),
    "balances": (
        "player_id",
        "INSERT INTO balances (tenant_id, player_id, scope_key, currency, balance) VALUES ($1, $2, 'camp', 'coin', 5)",
        _balances,
    ),
    "stock": ("prize_id", "INSERT INTO stock VALUES ($1, $2, 9, 9, 0)", _stock),
    "leaderboard_standings": (
        "board_id",
        "INSERT INTO leaderboard_standings (tenant_id, board_id, rank, player_id, score, achieved_at, reason)"
        " VALUES ($1, $2, 1, 'ann', 9, now(), 'PENDING')",
        _standings,
    ),
}

ROWS: Final = {"player_id": ("zoe", "abe"), "prize_id": ("prize_z", "prize_0"), "board_id": ("board_z", "board_0")}


@pytest.mark.parametrize("table", ORDERS)
async def test_commit_locks_rows_in_the_order_of_their_keys(database: Database, pool: asyncpg.Pool, table: str) -> None:
    key, insert, change = ORDERS[table]
    last, first = ROWS[key]
    for row in (last, *(f"other_{nth}" for nth in range(200)), first):
        await database.execute(insert, TENANT, row)
    await database.execute(f"ANALYZE {table}")
    changes = Changes()
    change(changes)
    text, arguments = statement_of(changes)
    async with pool.acquire() as connection, pool.acquire() as rival, pool.acquire() as onlooker:
        await connection.execute(IN_NO_ORDER)
        async with rival.transaction():
            # As another commit holds it: whoever only shares its key would pass.
            await rival.execute(f"SELECT FROM {table} WHERE {key} = $1 FOR NO KEY UPDATE", first)
            committing = await blocked(onlooker, connection.fetchrow(text, TENANT, 0, *arguments))
            assert await held(onlooker, table, key) == {first} and not committing.done()
        await committing
