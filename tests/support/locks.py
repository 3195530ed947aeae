import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import asyncpg

from runtime.stores.database import Database
from tests.support.waiting import until

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


async def somebody_waits(connection: asyncpg.Connection | Database) -> bool:
    return bool(await connection.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"))


async def blocked(onlooker: asyncpg.Connection | Database, asks: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """What is asked, once it has begun and waits for a lock; or is over, which it should not be."""
    asking = asyncio.ensure_future(asks)

    async def waits() -> bool:
        return asking.done() or await somebody_waits(onlooker)

    await until(waits)
    return asking
