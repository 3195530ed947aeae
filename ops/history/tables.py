"""A tenant's rows for the judge, and the conservation checks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from runtime.operations.conservation.checks import CHECKS, KINDS, all_keys, run_checks
from runtime.settings import Settings
from runtime.stores.database import Database

Row = Any

READ: Final = {
    "players": "player_id, merged_into",
    "plays": "play_id, game_id, player_id, session_id, idempotency_key, outcome, played_at",
    "rewards": "reward_id, prize_id, player_id, play_id, game_id, milestone_id, status, quantity, type,"
    " claimed_at, fulfilled_at",
    "balances": "player_id, scope_key, currency, balance, seq",
    "ledger_entries": "entry_id, player_id, scope_key, currency, amount, balance_after, reason, reference_id,"
    " reward_id, seq",
    "turn_balances": "player_id, campaign_id, balance",
    "milestone_grants": "game_id, player_id, milestone_id, reward_id",
    "quest_completions": "quest_id, player_id, period, turns, balance_after, idempotency_key",
    "stock": "prize_id, total, remaining, awarded",
    "codes": "prize_id, code_id, reward_id",
    "game_players": "game_id, player_id, plays",
}


@dataclass
class Tables:
    """Rows by table, each with its columns by name."""

    rows: dict[str, list[Row]]

    def __getitem__(self, table: str) -> list[Row]:
        return self.rows.get(table, [])

    def by(self, table: str, column: str) -> dict[str, Row]:
        """A table's rows by one of its columns."""
        return {row[column]: row for row in self[table]}


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[Database]:
    """A direct connection to the database."""
    database = Database(settings.database_url, size=2, acquire_seconds=10, statement_seconds=60)
    await database.start()
    try:
        yield database
    finally:
        await database.close()


async def read(database: Database, tenant_id: str) -> Tables:
    """The tenant's rows."""
    return Tables(
        {
            table: list(await database.fetch(f"SELECT {columns} FROM {table} WHERE tenant_id = $1", tenant_id))
            for table, columns in READ.items()
        }
    )


async def broken(database: Database, tenant_id: str) -> dict[str, list[str]]:
    """The conservation checks that fail for the tenant, each with the violating rows."""
    found: dict[str, list[str]] = {}
    for kind in KINDS:
        async for keys in all_keys(database, tenant_id, kind):
            for name, rows in (await run_checks(database, tenant_id, kind, keys)).broken.items():
                if rows:
                    found.setdefault(CHECKS[name].holds, []).extend(map(str, rows))
    return found
