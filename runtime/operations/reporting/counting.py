"""Counts plays per quarter of an hour, so that reports read a few thousand rows instead of a million plays.

As with campaign days (runtime/operations/campaigns/analytics.py), each play is counted once, up to a watermark before
which no new play can appear. A background job or a reader counts; plays write nothing extra. Quarters are the same in
every time zone, so a campaign may change its zone. Merging a guest does not change a game's counts.
"""

from __future__ import annotations

from typing import Final

import asyncpg

import sql
from runtime.actors.engine import Engine
from runtime.background import attempt
from runtime.operations.campaigns.analytics import COUNT_SECONDS
from runtime.stores.database import at

_SQL: Final = sql.load("figures")
_OF_CAMPAIGNS: Final = sql.load("analytics")

JOB: Final = "figures"

FRESH_SECONDS: Final = 5.0
"""The maximum age of figures, plus the age of the oldest running transaction."""


async def count(engine: Engine, tenant_id: str) -> bool:
    """Counts the tenant's plays up to now, except uncommitted ones. False if another process is counting."""
    await engine.database.execute(_SQL["create_watermark"], tenant_id)

    async def work(connection: asyncpg.Connection) -> bool:
        row = await connection.fetchrow(_SQL["lock_watermark"], tenant_id)
        if row is None:
            return False
        mark, horizon = row["counted_until"], await connection.fetchval(_OF_CAMPAIGNS["horizon"])
        if row["is_ahead"]:
            mark = await connection.fetchval(_SQL["take_back"], tenant_id, horizon)
        # A separate statement: its snapshot must be newer than the horizon, or plays committed in between are lost.
        await connection.execute(_SQL["count_plays"], tenant_id, horizon, mark, timeout=COUNT_SECONDS)
        return True

    return await engine.database.transaction(work)


async def count_if_stale(engine: Engine, tenant_id: str) -> bool:
    """Counts the tenant's plays unless that was done within FRESH_SECONDS. Returns whether it counted."""
    age = await engine.database.fetchval(_SQL["age"], tenant_id)
    return (age is None or age > FRESH_SECONDS) and await count(engine, tenant_id)


async def count_all(engine: Engine) -> None:
    """Counts every tenant. One tenant's failure does not block the others."""
    for tenant_id in await engine.database.tenants(_OF_CAMPAIGNS["tenants"]):
        await attempt(JOB, at(tenant_id, count(engine, tenant_id)), tenant_id=tenant_id)
