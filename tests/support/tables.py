"""What the stores hold: two readings that are equal say that nothing was changed."""

from typing import Any, Final

import asyncpg
import redis.asyncio

from runtime.stores.database import Database
from sql.tables import tenant_tables
from tests.support.stack import Stack

Contents = dict[str, list[Any]]
"""The rows of each table."""

NO_CHANGE: Final = {
    "audit_entries": "action NOT IN ('staff.sign_in', 'staff.refuse')",
    "login_rates": "rate_key !~ '^(signer|sign-in|refusals):'",
    "job_leases": "false",
    "key_holders": "false",
    "processes": "false",
}
"""What is none: that somebody came, or was refused, which is noted whatever they asked; that a process is there."""


async def contents(database: Database, tenant_id: str = "") -> Contents:
    """Of one tenant, or of all; a shared service may still work for the tenants of earlier tests."""
    tables = await database.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
    found = {}
    for name in (row["tablename"] for row in tables):
        kept = NO_CHANGE.get(name, "true")
        if tenant_id and name in tenant_tables():
            kept += f" AND tenant_id = '{tenant_id}'"
        found[name] = await database.fetch(f'SELECT * FROM "{name}" AS t WHERE {kept} ORDER BY t::text')
    return found


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


async def forgotten(stack: Stack) -> None:
    async with redis.asyncio.Redis.from_url(stack.process.settings.redis_url) as valkey:
        await valkey.flushall()


async def rows_of(url: str, tenant_id: str) -> dict[str, int]:
    """How many rows of a tenant each table holds, if any."""
    connection = await asyncpg.connect(url)
    try:
        counts = {
            name: await connection.fetchval(f"SELECT count(*) FROM {name} WHERE tenant_id = $1", tenant_id)
            for name in tenant_tables()
        }
    finally:
        await connection.close()
    return {name: count for name, count in counts.items() if count}
