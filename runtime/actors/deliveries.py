"""Deliveries that were given up, as others hear of them (`delivery_failed`).

Published after the commit that gave them up, and found in the tasks' rows where that was lost
(runtime/streams/backfill.py): under one id, which follows from the task and the time, since a task that is retried
may be given up once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import asyncpg

import sql
from runtime import events
from runtime.actors.engine import Engine
from runtime.errors import Fault

_DEAD: Final = sql.load("fulfillment")["dead"]

_NAMES: Final = ("reward_id", "player_id", "prize_id", "channel", "attempts", "error")


async def tell_failed(engine: Engine, tenant_id: str, task_ids: Sequence[str]) -> None:
    """Tells of those of the tasks that are dead. A database that is away is not waited for."""
    if not task_ids:
        return
    with suppress(Fault, asyncpg.PostgresError):
        rows = await engine.database.fetch(_DEAD, tenant_id, list(task_ids))
        engine.publisher.events([failed_event(tenant_id, row) for row in rows])


def failed_event(tenant_id: str, row: Any, trace_id: str | None = None) -> events.Event:
    """delivery_failed of a row of `dead`; in the current trace where none is given."""
    died_at = row["at"].timestamp()
    return events.event_of(
        events.DeliveryFailed(task_id=row["id"], **{name: row[name] for name in _NAMES}),
        occurred_at=died_at,
        tenant_id=tenant_id,
        merchant_id=row["merchant_id"],
        campaign_id=row["campaign_id"],
        trace_id=trace_id,
        id=f"evt_{row['id'].rpartition('_')[2]}_{round(died_at * 1_000_000)}",
    )
