"""The order in which a transaction takes row locks, as the server shows it.

A separate connection locks each row. The row that the transaction waits for is recorded and released, until it ends.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any, Final, NamedTuple

import asyncpg

from sql.locks import LOCK_ORDER
from tests.support.waiting import HANG_SECONDS

ROWS_MAX: Final = 6
"""Rows of a table; more would exhaust the connections of the server."""

# Taken with SKIP LOCKED alone: a free code that is held would be passed by, not waited for.
_NEVER_WAITED_FOR: Final = {"codes": "reward_id IS NOT NULL"}

_BLOCKED: Final = """
    SELECT a.pid, a.xact_start, b.pid AS holder
    FROM pg_stat_activity AS a CROSS JOIN LATERAL unnest(pg_blocking_pids(a.pid)) AS b (pid)
    WHERE a.datname = current_database() AND a.wait_event_type = 'Lock'
    ORDER BY a.xact_start, a.pid
"""


_KEY: Final = """
    SELECT array_agg(a.attname::text ORDER BY k.nth) FROM pg_index AS i
    CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (attnum, nth)
    JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
    WHERE i.indisprimary AND i.indrelid = $1::regclass
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
    return [f"{later} after {prior}" for locks in taken.values() for prior, later in pairwise(locks) if later < prior]


class Watch:
    """Watches what locks rows in a database. Its connections are used again by each call."""

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url
        self._free: list[asyncpg.Connection] = []
        self._keys: dict[str, str] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Watch":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def __call__(self, tenant_id: str, work: Coroutine[Any, Any, Any]) -> tuple[Any, Taken]:
        """(what `work` returns, the locks of each of its transactions in the order in which they were taken)."""
        taken: Taken = {}
        onlooker = await self._connection()
        held = await self._hold_all(onlooker, tenant_id)
        task = asyncio.ensure_future(work)
        try:
            async with asyncio.timeout(HANG_SECONDS):
                while not task.done():
                    for row in await onlooker.fetch(_BLOCKED):
                        if (found := held.pop(row["holder"], None)) is not None:
                            lock, holder = found
                            taken.setdefault(Transaction(row["pid"], row["xact_start"]), []).append(lock)
                            await self._release(holder)
                    await asyncio.wait([task], timeout=0.002)
                return await task, taken
        finally:
            task.cancel()
            for _, holder in held.values():
                await self._release(holder)
            self._free.append(onlooker)

    async def _hold_all(
        self, onlooker: asyncpg.Connection, tenant_id: str
    ) -> dict[int, tuple[Lock, asyncpg.Connection]]:
        """Holds each row alone; {the holder's pid: (row, connection)}."""
        held = {}
        for place, table in enumerate(LOCK_ORDER):
            if table not in self._keys:
                columns = await onlooker.fetchval(_KEY, table)
                self._keys[table] = ", ".join(f"{name}::text" for name in columns[1:]) or "''"
            rows = await onlooker.fetch(
                f"SELECT ctid, ARRAY[{self._keys[table]}] AS key FROM {table}"
                f" WHERE tenant_id = $1 AND {_NEVER_WAITED_FOR.get(table, 'true')} LIMIT {ROWS_MAX}",
                tenant_id,
            )
            for row in rows:
                (block, nth), holder = row["ctid"], await self._connection()
                await holder.execute(f"BEGIN; SELECT FROM {table} WHERE ctid = '({block},{nth})' FOR UPDATE")
                held[holder.get_server_pid()] = (Lock(place, tuple(row["key"])), holder)
        return held

    async def _connection(self) -> asyncpg.Connection:
        if self._free:
            return self._free.pop()
        connection = await asyncpg.connect(self._database_url)
        self._stack.push_async_callback(connection.close)
        return connection

    async def _release(self, holder: asyncpg.Connection) -> None:
        await holder.execute("ROLLBACK")
        self._free.append(holder)
