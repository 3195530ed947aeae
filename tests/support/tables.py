"""What the stores hold: two readings that are equal say that nothing was changed."""

from __future__ import annotations

from typing import Any, Final

import redis.asyncio

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


_READ: Final = {
    b"string": ("GET",),
    b"hash": ("HGETALL",),
    b"list": ("LRANGE", 0, -1),
    b"set": ("SMEMBERS",),
    b"zset": ("ZRANGE", 0, -1),
    b"stream": ("XRANGE", "-", "+"),
    b"none": ("GET",),  # It has expired since its key was seen.
}


async def everything_in(valkey: redis.asyncio.Redis) -> dict[str, str]:
    """Every key of the ephemeral store, and what it holds as text; not by DUMP, which compresses."""
    found = {}
    for key in await valkey.keys():
        command, *more = _READ[await valkey.type(key)]
        found[key.decode("utf-8", "replace")] = str(await valkey.execute_command(command, key, *more))
    return found
