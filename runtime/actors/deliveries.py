"""Publishes the delivery_failed event of deliveries that reached their last attempt.

Published after the commit; if lost, the backfill finds the task's row (runtime/streams/backfill.py). The event id is
deterministic, from the task and the time: a task that is retried may fail again.
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


async def publish_failed(engine: Engine, tenant_id: str, task_ids: Sequence[str]) -> None:
    """Publishes an event for each dead task. Best effort: does nothing if the database is unavailable."""
    if not task_ids:
        return
    with suppress(Fault, asyncpg.PostgresError):
        rows = await engine.database.fetch(_DEAD, tenant_id, list(task_ids))
        engine.publisher.events([failed_event(tenant_id, row) for row in rows])


def failed_event(tenant_id: str, row: Any, trace_id: str | None = None) -> events.Event:
    """The delivery_failed event of a row of `dead`. trace_id: default the current trace."""
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
