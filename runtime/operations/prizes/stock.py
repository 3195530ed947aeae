"""A prize's stock as staff move it: each move with who, when and why, and what it was before and after."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

import sql
from runtime import messages as m
from runtime import trace
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, invalid, unknown
from runtime.operations import audit, reading
from runtime.operations.checks import Checks
from runtime.operations.idempotent_writes import once
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("prizes")
_RAISE_VERSION: Final = sql.load("tenancy")["raise_catalog_version"]

COUNT_MAX: Final = 2**31 - 1


async def move_stock(engine: Engine, request: m.MoveStockRequest) -> m.StockMoveReply:
    """Sets a prize's total, by how many more or fewer there are, or to a number, or to unlimited; for a reason.

    FAILED_PRECONDITION STOCK_BELOW_AWARDED (`awarded`). With an Idempotency-Key a retry answers the move of the
    first time.
    """
    tenant_id = tenant_of(request)
    checks = Checks()
    checks.required("reason", request.reason)
    checks.between("change", request.change, -COUNT_MAX, COUNT_MAX)
    checks.between("total", request.total, 0, COUNT_MAX)
    if [bool(request.change), bool(request.total), request.unlimited].count(True) != 1:
        checks.problem("change", "must be given, not 0, or else total, or else unlimited: one of the three")
    checks.raise_found()
    total = None if request.change else request.total
    versions: list[int] = []

    async def work(connection: asyncpg.Connection) -> m.StockMoveReply:
        version = await connection.fetchval(_RAISE_VERSION, tenant_id)
        if version is None:
            raise unknown("tenant", tenant_id)
        await reading.to_write(connection, _SQL["get"], request, "prize", request.id)
        row = await set_stock(
            connection, tenant_id, request.id, total=total, change=request.change, reason=request.reason
        )
        await audit.record(connection, tenant_id, "prize.move_stock", request.id, after=dict(row))
        versions.append(version)
        return m.StockMoveReply(move=m.StockMove(**row))

    done = await once(engine, request, m.StockMoveReply, work)
    if not done.repeated:
        engine.catalog_changed(tenant_id, versions[-1])
    reply: m.StockMoveReply = done.reply
    return reply


async def list_stock_moves(engine: Engine, request: m.ListStockMovesRequest) -> m.ListStockMovesReply:
    """The moves of a prize's stock, newest first. NOT_FOUND UNKNOWN_PRIZE."""
    await reading.one(engine, _SQL["get"], request, "prize")
    rows, pagination = await reading.page(engine, _SQL["stock_moves"], request, tenant_of(request), request.id)
    return m.ListStockMovesReply(items=[m.StockMove(**row) for row in rows], pagination=pagination)


async def set_stock(
    connection: asyncpg.Connection,
    tenant_id: str,
    prize_id: str,
    *,
    total: int | None,
    change: int = 0,
    reason: str = "",
) -> Any:
    """Sets the prize's total, or where that is None moves it by `change`; the row of the move.

    FAILED_PRECONDITION STOCK_BELOW_AWARDED; INVALID_ARGUMENT where a change would lead from or to unlimited. The
    caller holds the tenant's catalogue.
    """
    asked = (total, None if total is not None else change, trace.actor.get(), reason)
    row = await connection.fetchrow(_SQL["set_total_stock"], tenant_id, prize_id, *asked)
    if row is not None:
        return row
    now = await connection.fetchrow(_SQL["awarded"], tenant_id, prize_id)
    assert now is not None, "the caller has read the prize, which has a stock"
    wanted = now["total"] + change if total is None else total
    if total is None and not now["total"]:
        raise invalid("change", "the stock is unlimited: give total")
    if wanted > COUNT_MAX:
        raise invalid("change", f"the total would be more than {COUNT_MAX}")
    if not wanted and not now["awarded"]:
        raise invalid("change", "would leave none, and 0 is unlimited: archive the prize, or pause its games")
    raise Fault(
        Status.FAILED_PRECONDITION,
        "STOCK_BELOW_AWARDED",
        f"{now['awarded']} are awarded already; the total cannot be {wanted}",
        awarded=now["awarded"],
    )
