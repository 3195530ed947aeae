"""Which row locks a transaction takes, one after the other, as the server itself has it.

Every row of a tenant is held by a connection of its own. What is watched then waits for the first row that
it wants; that is noted and let go, it goes on to the next, and so on to its end. So what is seen is neither
read from SQL nor guessed from a plan: it is the order in which the locks were asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any, Final, NamedTuple

import asyncpg

from sql.locks import LOCK_ORDER
from tests.support.waiting import HANG_SECONDS

ROWS_MAX: Final = 6
"""Of a table. More would use up the server's connections."""

# Taken with SKIP LOCKED alone: a free code that is held would be passed by, not waited for.
_NEVER_WAITED_FOR: Final = {"codes": "reward_id IS NOT NULL"}

_BLOCKED: Final = """
    SELECT a.pid, a.xact_start, b.pid AS holder
    FROM pg_stat_activity AS a CROSS JOIN LATERAL unnest(pg_blocking_pids(a.pid)) AS b (pid)
    WHERE a.datname = current_database() AND a.wait_event_type = 'Lock'
    ORDER BY a.xact_start, a.pid
"""


class Lock(NamedTuple):
    """A row that was waited for: its table's place in the declared order, and its primary key."""

    place: int
    key: tuple[str, ...]

    def __str__(self) -> str:
        return f"{LOCK_ORDER[self.place]} {' '.join(self.key)}"


class Transaction(NamedTuple):
    """One transaction of what was watched: by its backend, and when it began."""

    pid: int
    began: Any


Taken = dict[Transaction, list[Lock]]


def wrong_turns(taken: Taken) -> list[str]:
    """Each place where a transaction locked a row that comes before one it held."""
    return [
        f"{later} after {earlier}" for locks in taken.values() for earlier, later in pairwise(locks) if later < earlier
    ]


async def watch(database_url: str, tenant_id: str, work: Coroutine[Any, Any, Any]) -> tuple[Any, Taken]:
    """(what `work` returns, the locks of each of its transactions in the order in which they were taken)."""
    taken: Taken = {}
    async with AsyncExitStack() as stack, asyncio.timeout(HANG_SECONDS):
        onlooker = await _connect(stack, database_url)
        held = await _hold_all(stack, onlooker, database_url, tenant_id)
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                for row in await onlooker.fetch(_BLOCKED):
                    if (found := held.pop(row["holder"], None)) is not None:
                        lock, holder = found
                        taken.setdefault(Transaction(row["pid"], row["xact_start"]), []).append(lock)
                        await holder.close()
                await asyncio.wait([task], timeout=0.005)
            return await task, taken
        finally:
            task.cancel()


async def _hold_all(
    stack: AsyncExitStack, onlooker: asyncpg.Connection, database_url: str, tenant_id: str
) -> dict[int, tuple[Lock, asyncpg.Connection]]:
    """Holds each row alone; {the holder's pid: (row, connection)}."""
    held = {}
    for place, table in enumerate(LOCK_ORDER):
        columns = await onlooker.fetchval(
            "SELECT array_agg(a.attname::text ORDER BY k.nth) FROM pg_index AS i"
            " CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (attnum, nth)"
            " JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum"
            " WHERE i.indisprimary AND i.indrelid = $1::regclass",
            table,
        )
        key = ", ".join(f"{name}::text" for name in columns[1:]) or "''"
        rows = await onlooker.fetch(
            f"SELECT ctid, ARRAY[{key}] AS key FROM {table}"
            f" WHERE tenant_id = $1 AND {_NEVER_WAITED_FOR.get(table, 'true')} LIMIT {ROWS_MAX}",
            tenant_id,
        )
        for row in rows:
            holder = await _connect(stack, database_url)
            await holder.execute("BEGIN")
            await holder.fetchval(f"SELECT 1 FROM {table} WHERE ctid = $1 FOR UPDATE", row["ctid"])
            held[holder.get_server_pid()] = (Lock(place, tuple(row["key"])), holder)
    return held


async def _connect(stack: AsyncExitStack, database_url: str) -> asyncpg.Connection:
    connection = await asyncpg.connect(database_url)
    stack.push_async_callback(connection.close)
    return connection
