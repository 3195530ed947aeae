"""Looks at budgets and stock every so often, and tells integrations of what was reached: once each.

No play waits for it or knows of it. What a tenant has is looked at in one transaction, which holds the tenant's mark:
so any number of processes may do it, one does at a time, and who comes next finds it done. What was reached is marked,
and the event that tells of it written (notices), by the same statement. Integrations hear of it by the streams, and
from the rows where these lose it (runtime/streams/backfill.py).

It costs little. Of stock: one statement, which reads the prizes that are watched by an index of them alone, a row of
stock for each, and of a pool of codes no more entries of its index than the prize's `low_stock_at`; a thousand prizes
are a few milliseconds. Of budgets: a campaign's rewards are added up by their index, which takes a second where there
are millions; therefore a look is followed by REST times as long without one.
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg
import msgspec

import sql
from runtime import events
from runtime.actors.engine import Engine
from runtime.background import attempt

_SQL: Final = sql.load("limits")

PURGES: Final = {"purge_notices": _SQL["purge"]}
"""What forgets, of one tenant ($1), what is over: at most $2 rows each."""

EVERY_SECONDS: Final = 20.0
"""How often it is looked: who is told hears of it within half a minute."""

REST: Final = 50.0
"""A look takes at most one part in so many of the time."""

COUNT_SECONDS: Final = 120.0
"""How long a count may take: of campaigns with very many rewards."""

JOB: Final = "limits"
"""The background job that it is, in logs and metrics."""

_DATA: Final[dict[str, type[events.EventData]]] = {one.TYPE: one for one in (events.BudgetReached, events.LowStock)}


async def look_all(engine: Engine) -> None:
    """Looks at every tenant: one that fails hinders no other."""
    for row in await engine.database.fetch(_SQL["tenants"]):
        await attempt(JOB, look(engine, row["tenant_id"]), tenant_id=row["tenant_id"])


async def look(engine: Engine, tenant_id: str, *, every_seconds: float = EVERY_SECONDS / 2) -> list[events.Event]:
    """Looks at a tenant's budgets and stock, and tells of what was reached. Nothing where it was looked just now."""

    async def work(connection: asyncpg.Connection) -> list[str]:
        if await connection.fetchval(_SQL["take"], tenant_id, every_seconds) is None:
            return []
        # Statements of their own: their snapshots must be younger than the mark's lock, or what the last one who
        # looked has told of would be told again.
        noticed = await connection.fetch(_SQL["count_budgets"], tenant_id, timeout=COUNT_SECONDS)
        noticed += await connection.fetch(_SQL["watch_stock"], tenant_id, timeout=COUNT_SECONDS)
        await connection.execute(_SQL["rest"], tenant_id, REST)
        return [row["event_id"] for row in noticed]

    noticed = await engine.database.transaction(work)
    rows = await engine.database.fetch(_SQL["noticed"], tenant_id, noticed) if noticed else []
    told = [noticed_event(tenant_id, row) for row in rows]
    engine.publisher.events(told)
    return told


def noticed_event(tenant_id: str, row: Any) -> events.Event:
    """The event of a row of `notices`: the same however often it is told."""
    return events.event_of(
        msgspec.convert(row["data"], _DATA[row["type"]]),
        occurred_at=row["at"].timestamp(),
        tenant_id=tenant_id,
        merchant_id=row["merchant_id"],
        campaign_id=row["campaign_id"],
        trace_id="",
        id=row["id"],
    )
