"""Which rows somebody holds, as a rival finds them, and in which order."""

from __future__ import annotations

from typing import Final

import asyncpg

IN_NO_ORDER: Final = (
    "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SET enable_sort = off"
)
"""A connection that reads rows as they lie, the oldest first: what comes in another order was sorted, whatever plan a
table of more rows would have."""


async def held(rival: asyncpg.Connection, table: str, key: str) -> set[str]:
    """The keys of the table's rows that a rival could not lock so at this moment."""
    async with rival.transaction():
        every = {row[0] for row in await rival.fetch(f"SELECT {key} FROM {table}")}
        free = {row[0] for row in await rival.fetch(f"SELECT {key} FROM {table} FOR UPDATE SKIP LOCKED")}
    return every - free
