"""What a commit holds while it is under way: the rows that it names and no others, the first of them first."""

from collections.abc import Callable
from typing import Final

import asyncpg
import pytest

from runtime.actors.changes import BalanceMove, Changes, StandingAward, StockTake, TurnMove
from runtime.actors.committer import statement_of
from runtime.stores.database import Database
from tests.support.commits import TENANT, whole
from tests.support.locks import IN_NO_ORDER, blocked, held
from tests.support.neighbours import PLAYER, surround

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
