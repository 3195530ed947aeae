"""What the tables hold: two readings that are equal say that nothing was changed."""

from __future__ import annotations

import hashlib
from typing import Any

from runtime.stores.database import Database


async def snapshot(database: Database) -> dict[str, list[Any]]:
    """Every row of every table that a play may touch: two that are equal say that nothing was changed."""
    tables = (
        "balances codes game_players ledger_entries milestone_grants plays prize_days prize_players rewards stock"
        " tasks turn_balances turn_entries leaderboard_standings"
    )
    return {table: await database.fetch(f"SELECT * FROM {table} AS t ORDER BY t::text") for table in tables.split()}


async def contents(database: Database) -> dict[str, tuple[int, str]]:
    """(rows, a hash over them) of every table: two that are equal say that nothing was changed."""
    tables = await database.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
    found = {}
    for (table,) in tables:
        rows = [row[0] for row in await database.fetch(f'SELECT t::text FROM "{table}" AS t ORDER BY 1')]
        found[table] = (len(rows), hashlib.sha256("\n".join(rows).encode()).hexdigest())
    return found
