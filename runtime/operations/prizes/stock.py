"""Stock moves by staff: who moved it, when and why, and the total before and after."""

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
from runtime.operations.games import frozen
from runtime.operations.idempotent_writes import once
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("prizes")
_RAISE_VERSION: Final = sql.load("tenancy")["raise_catalog_version"]

COUNT_MAX: Final = 2**31 - 1


async def move_stock(engine: Engine, request: m.MoveStockRequest) -> m.StockMoveReply:
    """Changes a prize's total by an amount, to a number or to unlimited, with a reason.

    INVALID_ARGUMENT for a lowering below the units of the prize's release. FAILED_PRECONDITION STOCK_BELOW_AWARDED
    (`awarded`), or FROZEN for less of a prize of a frozen campaign. With an Idempotency-Key a retry returns the first
    move.
    """
    tenant_id = tenant_of(request)
    checks = Checks()
    checks.required("reason", request.reason)
    checks.between("change", request.change, -COUNT_MAX, COUNT_MAX)
    checks.between("total", request.total, 0, COUNT_MAX)
    if [bool(request.change), bool(request.total), request.unlimited].count(True) != 1:
        checks.problem("change", "is required, or total, or unlimited: exactly one of the three")
    checks.raise_found()
    total = None if request.change else request.total
    versions: list[int] = []

    async def work(connection: asyncpg.Connection) -> m.StockMoveReply:
        version = await connection.fetchval(_RAISE_VERSION, tenant_id)
        if version is None:
            raise unknown("tenant", tenant_id)
        prize = await reading.for_update(connection, _SQL["get"], request, "prize", request.id)
        row = await set_stock(
            connection, tenant_id, request.id, total=total, change=request.change, reason=request.reason
        )
        units = 0 if prize["release"] is None else prize["release"]["terms"]["units"]
        if row["total_after"] < units and not 0 < row["total_before"] <= row["total_after"]:  # 0: unlimited
            set_by = "unlimited" if request.unlimited else "total" if request.total else "change"
            raise invalid(set_by, f"must leave a total of at least {units}, the units of the prize's release")
        # The audit entry has its own actor.
        facts = {name: value for name, value in row.items() if name != "actor"}
        await audit.record(connection, tenant_id, "prize.move_stock", request.id, after=facts)
        versions.append(version)
        return m.StockMoveReply(move=m.StockMove(**row))

    done = await once(engine, request, m.StockMoveReply, work)
    if not done.repeated:
        engine.catalog_changed(tenant_id, versions[-1])
    reply: m.StockMoveReply = done.reply
    return reply


async def list_stock_moves(engine: Engine, request: m.ListStockMovesRequest) -> m.ListStockMovesReply:
    """Lists the moves of a prize's stock, newest first. NOT_FOUND UNKNOWN_PRIZE."""
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
    """Sets the prize's total, or moves it by `change` if total is None. Returns the row of the move.

    FAILED_PRECONDITION STOCK_BELOW_AWARDED or FROZEN; INVALID_ARGUMENT if a change would lead from or to unlimited. The
    caller has locked the tenant's catalogue.
    """
    arguments = (total, None if total is not None else change, trace.actor.get(), reason)
    row = await connection.fetchrow(_SQL["set_total_stock"], tenant_id, prize_id, *arguments)
    if row is not None:
        before, after = row["total_before"], row["total_after"]
        if after and (not before or after < before):  # 0: unlimited
            await frozen.refuse_lowered(connection, tenant_id, prize_id, "stock.total")
        return row
    current = await connection.fetchrow(_SQL["awarded"], tenant_id, prize_id)
    assert current is not None, "the caller has read the prize, which has a stock"
    requested = current["total"] + change if total is None else total
    if total is None and not current["total"]:
        raise invalid("change", "cannot apply to unlimited stock; use total")
    if requested > COUNT_MAX:
        raise invalid("change", f"must not raise the total above {COUNT_MAX}")
    if not requested and not current["awarded"]:
        raise invalid("change", "must leave at least 1: 0 is unlimited; to stop, archive the prize or pause its games")
    raise Fault(
        Status.FAILED_PRECONDITION,
        "STOCK_BELOW_AWARDED",
        f"the total cannot be {requested}: {current['awarded']} are already awarded",
        awarded=current["awarded"],
    )
