"""The events of draws. The backfill makes the same ones from the rows."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import sql
from runtime import events
from runtime.actors.engine import Engine

_ANNOUNCED: Final = sql.load("draws")["announced"]


async def announce(engine: Engine, tenant_id: str, draw_id: str, step: str) -> None:
    """Publishes the event of a step: "closed" or "drawn"."""
    row = await engine.database.fetchrow(_ANNOUNCED, tenant_id, draw_id)
    assert row is not None, "a draw with a history stays"
    engine.publisher.events([event(tenant_id, row, step)])


def event(tenant_id: str, row: Any, step: str, *, trace_id: str | None = None) -> events.Event:
    """draw.closed or draw.drawn, from a row of `announced`."""
    kind = events.DrawClosed if step == "closed" else events.DrawDrawn
    at: datetime = row[f"{step}_at"]
    return events.event_of(
        kind(**{name: row[name] for name in kind.__struct_fields__}),
        occurred_at=at.timestamp(),
        tenant_id=tenant_id,
        merchant_id=row["merchant_id"],
        campaign_id=row["campaign_id"],
        trace_id=trace_id,
    )
