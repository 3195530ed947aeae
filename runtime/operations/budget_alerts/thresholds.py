"""Checks budget and stock thresholds periodically, and emits one event for each threshold crossed.

Plays do not wait for it. One transaction checks a tenant and locks the tenant's mark row, so that of several processes
one checks at a time and the next finds it done. One statement marks a threshold as crossed and writes its event
(notices, an outbox). Integrations get the event from the streams, or from the row by the backfill if a stream loses it
(runtime/streams/backfill.py).

The stock check is one statement. It reads the watched prizes by a partial index, one stock row each, and at most
`low_stock_at` index entries of a code pool; a thousand prizes take a few milliseconds. The budget check sums a
campaign's rewards by their index, which takes a second for millions; so each check is followed by a pause of REST times
its duration.
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg
import msgspec

import sql
from runtime import events
from runtime.actors.engine import Engine
from runtime.background import attempt
from runtime.stores.database import at

_SQL: Final = sql.load("limits")

PURGES: Final = {"purge_notices": _SQL["purge"]}
"""Statements that delete expired rows of a tenant ($1), at most $2 rows each."""

EVERY_SECONDS: Final = 20.0
"""The interval of the checks: an event arrives within half a minute."""

REST: Final = 50.0
"""The pause after a check, as a multiple of its duration."""

COUNT_SECONDS: Final = 120.0
"""The statement timeout, for campaigns with very many rewards."""

JOB: Final = "limits"

_DATA: Final[dict[str, type[events.EventData]]] = {one.TYPE: one for one in (events.BudgetReached, events.LowStock)}


async def check_all(engine: Engine) -> None:
    """Checks every tenant. One tenant's failure does not block the others."""
    for tenant_id in await engine.database.tenants(_SQL["tenants"]):
        await attempt(JOB, at(tenant_id, check(engine, tenant_id)), tenant_id=tenant_id)


async def check(engine: Engine, tenant_id: str, *, every_seconds: float = EVERY_SECONDS / 2) -> list[events.Event]:
    """Checks a tenant's thresholds and emits an event for each one crossed. Skips a tenant that was just checked."""

    async def work(connection: asyncpg.Connection) -> list[str]:
        if await connection.fetchval(_SQL["lock_mark"], tenant_id, every_seconds) is None:
            return []
        # Separate statements: their snapshots must be newer than the mark's lock. Otherwise they would miss what the
        # previous check marked, and emit its events again.
        noticed = await connection.fetch(_SQL["count_budgets"], tenant_id, timeout=COUNT_SECONDS)
        noticed += await connection.fetch(_SQL["watch_stock"], tenant_id, timeout=COUNT_SECONDS)
        await connection.execute(_SQL["delay_next"], tenant_id, REST)
        return [row["event_id"] for row in noticed]

    event_ids = await engine.database.transaction(work)
    rows = await engine.database.fetch(_SQL["events"], tenant_id, event_ids) if event_ids else []
    emitted = [noticed_event(tenant_id, row) for row in rows]
    engine.publisher.events(emitted)
    return emitted


def noticed_event(tenant_id: str, row: Any) -> events.Event:
    """The event of a row of `notices`. Its id is deterministic, so a backfill emits the same event."""
    return events.event_of(
        msgspec.convert(row["data"], _DATA[row["type"]]),
        occurred_at=row["at"].timestamp(),
        tenant_id=tenant_id,
        merchant_id=row["merchant_id"],
        campaign_id=row["campaign_id"],
        trace_id="",
        id=row["id"],
    )
