"""Plays counted by quarters of an hour, so that a million of them are a few thousand rows to read.

As with campaigns' days (runtime/operations/campaigns/analytics.py), plays are counted once, up to a mark before which
none can appear any more, in the background or by who asks; a play writes nothing of it. Quarters are the same in
every time zone, so a campaign may change its own; and a game's plays are its own whoever a guest becomes.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import asyncpg

import sql
from runtime.actors.engine import Engine
from runtime.background import attempt
from runtime.operations.campaigns.analytics import COUNT_SECONDS

_SQL: Final = sql.load("figures")
_OF_CAMPAIGNS: Final = sql.load("analytics")

JOB: Final = "figures"
"""The background job that it is, in logs and metrics."""

FRESH_SECONDS: Final = 5.0
"""Figures are at most so old, and as much as the oldest transaction under way."""


async def count(engine: Engine, tenant_id: str) -> bool:
    """Counts the tenant's plays up to now, but for those that are under way. False where another process does."""
    await engine.database.execute(_SQL["make_mark"], tenant_id)

    async def work(connection: asyncpg.Connection) -> bool:
        mark: datetime | None = await connection.fetchval(_SQL["lock_mark"], tenant_id)
        if mark is None:
            return False
        horizon: datetime = await connection.fetchval(_OF_CAMPAIGNS["horizon"])
        # A statement of its own: its snapshot must be younger than the look at what is under way.
        await connection.execute(_SQL["count_plays"], tenant_id, horizon, mark, timeout=COUNT_SECONDS)
        return True

    return await engine.database.transaction(work)


async def count_lately(engine: Engine, tenant_id: str) -> None:
    """Counts the tenant's plays where that was not done in the last few seconds."""
    age = await engine.database.fetchval(_SQL["age"], tenant_id)
    if age is None or age > FRESH_SECONDS:
        await count(engine, tenant_id)


async def count_all(engine: Engine) -> None:
    """Counts every tenant: one that fails hinders no other."""
    for tenant in await engine.database.fetch(_OF_CAMPAIGNS["tenants"]):
        await attempt(JOB, count(engine, tenant["tenant_id"]), tenant_id=tenant["tenant_id"])
