"""What the tables hold: two readings that are equal say that nothing was changed."""

from __future__ import annotations

from typing import Any

from runtime.stores.database import Database

Contents = dict[str, list[Any]]
"""The rows of each table."""


async def contents(database: Database) -> Contents:
    """Every row of every table, in one order whenever it is asked for."""
    tables = await database.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
    return {
        row["tablename"]: await database.fetch(f'SELECT * FROM "{row["tablename"]}" AS t ORDER BY t::text')
        for row in tables
    }
