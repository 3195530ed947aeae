"""Counts game starts in memory and adds them to quarter-hour buckets periodically.

A start itself writes nothing and waits for nothing. A killed process loses the counts of its last EVERY_SECONDS; a
stopped one writes them. If a write has an unknown outcome, its counts are not written again.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import Final

import asyncpg

import sql
from runtime.background import attempt
from runtime.stores.database import Database, StoreUnavailable

_COUNT: Final = sql.load("figures")["count_starts"]

JOB: Final = "starts"
"""The background job's name in logs and metrics."""

EVERY_SECONDS: Final = 5.0
QUARTER_SECONDS: Final = 900


class Starts:
    """Counts of this process that are not written yet."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._counted: defaultdict[str, Counter[tuple[str, int]]] = defaultdict(Counter)
        self._writing = asyncio.Lock()

    def record(self, tenant_id: str, game_id: str, now: float) -> None:
        """Counts a start of the game at `now`, by the database's clock."""
        self._counted[tenant_id][game_id, int(now) // QUARTER_SECONDS * QUARTER_SECONDS] += 1

    async def write(self) -> None:
        """Writes all counts, one writer at a time. One tenant's failure does not block the others."""
        async with self._writing:
            for tenant_id in sorted(self._counted):
                await attempt(JOB, self._write_tenant(tenant_id), tenant_id=tenant_id)

    def has(self, tenant_id: str) -> bool:
        """Whether starts of the tenant are counted that are not written yet."""
        return tenant_id in self._counted

    async def write_tenant(self, tenant_id: str) -> None:
        """Writes a tenant's counts, one writer at a time. Raises database errors."""
        async with self._writing:
            await self._write_tenant(tenant_id)

    async def _write_tenant(self, tenant_id: str) -> None:
        """Writes the counts; those known not to be written stay for the next time."""
        if (counted := self._counted.pop(tenant_id, None)) is None:
            return
        games, quarters = zip(*counted, strict=True)
        try:
            database = self._database.route(tenant_id)
            await database.execute(_COUNT, tenant_id, list(games), list(quarters), list(counted.values()))
        except (StoreUnavailable, asyncpg.PostgresError) as error:
            if not getattr(error, "sent", False):
                self._counted[tenant_id].update(counted)
            raise
