import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from tests.support.stack import Stack
from tests.support.waiting import until


@asynccontextmanager
async def held(stack: Stack, statement: str, *args: Any, undone: bool = False) -> AsyncIterator[asyncpg.Connection]:
    """A rival that has run the statement, and commits (or undoes it) at the end of the block."""
    rival = await asyncpg.connect(stack.database_url)
    try:
        await rival.execute("BEGIN")
        await rival.execute(statement, *args)
        yield rival
        await rival.execute("ROLLBACK" if undone else "COMMIT")
    finally:
        await rival.close()


async def waits(stack: Stack, *naming: str, seconds: float = 0.0) -> bool:
    """Whether a statement of one of these names waits for a lock, and was asked so long ago."""
    query = (
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        " AND query LIKE ANY ($1::text[]) AND clock_timestamp() - query_start >= make_interval(secs => $2))"
    )
    return bool(await stack.database.fetchval(query, [f"%-- {name}%" for name in naming], seconds))


async def begun(stack: Stack, asks: Coroutine[Any, Any, Any], *naming: str, seconds: float = 0.0) -> asyncio.Task[Any]:
    """What is asked, once a statement of one of these names waits for a lock."""
    asking = asyncio.ensure_future(asks)
    await until(lambda: waits(stack, *naming, seconds=seconds))
    return asking
