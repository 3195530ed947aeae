"""Live figures of a tenant or a merchant, from a few cheap queries, for the edges' live streams."""

from __future__ import annotations

from typing import Any, Final

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.operations.reporting.costs import by_currency, of_one
from runtime.operations.reporting.exports import SLACK_SECONDS
from runtime.operations.row import Operation
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("live")
_LIMITS: Final = sql.load("limits")

DAY_SECONDS: Final = 86_400
COUNTED_MAX: Final = 10_000
SHOWN_MAX: Final = 10
CODES_MAX: Final = 20_000
"""Larger code pools are not counted, so they get no run-out estimate."""


async def get_live(engine: Engine, request: m.GetLiveRequest) -> m.GetLiveReply:
    """Plays and wins of the last minute, deliveries and integrations; with `stock` also low stock and budget usage."""
    tenant_id, merchant_id = tenant_of(request), merchant_of(request)
    about = (tenant_id, merchant_id)
    async with engine.database.connection() as connection:
        plays: Any = await connection.fetchrow(_SQL["plays"], *about)
        tasks: Any = await connection.fetchrow(_SQL["deliveries"], *about, COUNTED_MAX)
        integrations = await connection.fetch(_SQL["integrations"], *about)
        won, stock, budgets, low = [], [], [], []
        if request.stock:
            since = ids.earliest("reward", plays["at"] - DAY_SECONDS - SLACK_SECONDS)
            won = await connection.fetch(_SQL["won"], *about, since)
            stock = await connection.fetch(_SQL["stock"], tenant_id, [row["prize_id"] for row in won], CODES_MAX)
            budgets = await connection.fetch(_LIMITS["budgets"], *about)
            low = await connection.fetch(_LIMITS["low_prizes"], *about)
    costs = by_currency(won)
    a_day = {row["prize_id"]: row["units"] for row in won}
    runways = [_runway(row, a_day[row["prize_id"]], plays["at"]) for row in stock]
    return m.GetLiveReply(
        at=plays["at"],
        plays=plays["plays"],
        wins=plays["wins"],
        deliveries_waiting=tasks["waiting"],
        deliveries_dead=tasks["dead"],
        integrations=[m.FailingIntegration(**dict(row)) for row in integrations],
        prizes=sorted(runways, key=lambda one: (one.empty_at, one.prize_id))[:SHOWN_MAX],
        cost_a_day=of_one(costs),
        costs_a_day=costs,
        budgets=[m.UsedBudget(**dict(row)) for row in budgets],
        low_prizes=[m.LowPrize(**dict(row)) for row in low],
    )


def _runway(row: Any, a_day: int, now: int) -> m.StockRunway:
    return m.StockRunway(
        prize_id=row["prize_id"],
        name=row["name"],
        remaining=row["remaining"],
        a_day=a_day,
        empty_at=now + row["remaining"] * DAY_SECONDS // max(1, a_day),
    )


GET_LIVE: Final = Operation("GetLive", "GET /live", run=get_live, not_while_suspended=True)
