"""How many games were started: counted in memory and added to their quarters of an hour now and then.

A start writes nothing by itself, and waits for nothing. So what a process has counted in its last EVERY_SECONDS goes
with it where it is killed; one that is stopped keeps it. What may have been written, or not, is not counted again.
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
"""The background job that it is, in logs and metrics."""

EVERY_SECONDS: Final = 5.0
QUARTER_SECONDS: Final = 900


class Starts:
    """What this process has counted, and not kept yet."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._counted: defaultdict[str, Counter[tuple[str, int]]] = defaultdict(Counter)
        self._keeping = asyncio.Lock()

    def note(self, tenant_id: str, game_id: str, now: float) -> None:
        """A player has started the game: `now`, by the database's clock."""
        self._counted[tenant_id][game_id, int(now) // QUARTER_SECONDS * QUARTER_SECONDS] += 1

    async def keep(self) -> None:
        """Adds all to what is kept, after whoever does so already. A tenant whose cannot be hinders no other."""
        async with self._keeping:
            for tenant_id in sorted(self._counted):
                await attempt(JOB, self._keep_of(tenant_id), tenant_id=tenant_id)

    async def keep_of(self, tenant_id: str) -> None:
        """Adds a tenant's, after whoever does so already. Raises what the database does."""
        async with self._keeping:
            await self._keep_of(tenant_id)

    async def _keep_of(self, tenant_id: str) -> None:
        """What is known not to be written is kept the next time."""
        if (counted := self._counted.pop(tenant_id, None)) is None:
            return
        games, quarters = zip(*counted, strict=True)
        try:
            await self._database.execute(_COUNT, tenant_id, list(games), list(quarters), list(counted.values()))
        except (StoreUnavailable, asyncpg.PostgresError) as error:
            if not getattr(error, "sent", False):
                self._counted[tenant_id].update(counted)
            raise
