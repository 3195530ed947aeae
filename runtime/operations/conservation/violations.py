"""Violations for staff: list and close."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

import sql
from runtime import messages as m
from runtime import trace
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, unknown
from runtime.operations import audit, reading
from runtime.operations.checks import Checks
from runtime.operations.conservation.checks import CHECKS, OPEN_MAX
from runtime.operations.conservation.checks import audit as audit_rows
from runtime.settings import Settings
from runtime.stores.database import chosen
from runtime.stores.databases import opened
from runtime.wire.enums import enum, token
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("violations")

SHOWN_MAX: Final = 1_000


async def list_violations(engine: Engine, request: m.ListViolationsRequest) -> m.ListViolationsReply:
    """Violations, newest first. Filters: status, check and subject."""
    filters = (tenant_of(request), token(request.status), request.check, request.subject_id, merchant_of(request))
    rows, pagination = await reading.page(engine, _SQL["list"], request, *filters)
    return m.ListViolationsReply(items=[_message(row) for row in rows], pagination=pagination)


async def close_violation(engine: Engine, request: m.CloseViolationRequest) -> m.ViolationReply:
    """Closes a violation with a reason. If it persists unchanged, it is not reported again.

    NOT_FOUND UNKNOWN_VIOLATION; FAILED_PRECONDITION ILLEGAL_TRANSITION if it is already closed.
    """
    tenant_id = tenant_of(request)
    checks = Checks()
    checks.required("reason", request.reason)
    checks.raise_found()

    async def work(connection: asyncpg.Connection) -> m.Violation:
        before = await reading.for_update(connection, _SQL["get"], request, "violation", request.id)
        about = (tenant_id, request.id, request.reason, trace.actor.get())
        if await connection.fetchval(_SQL["close"], *about) is None:
            message = f"violation {request.id!r} is already closed"
            raise Fault(Status.FAILED_PRECONDITION, "ILLEGAL_TRANSITION", message)
        after = await connection.fetchrow(_SQL["get"], tenant_id, request.id, "", True)
        assert after is not None
        await audit.record(connection, tenant_id, "violation.close", request.id, before=dict(before), after=dict(after))
        return _message(after)

    return m.ViolationReply(violation=await engine.database.transaction(work))


def _message(row: Any) -> m.Violation:
    check = CHECKS.get(row["check"])
    return m.Violation(
        **{**row, "status": enum(m.ViolationStatus, row["status"])}, holds=check.holds if check is not None else ""
    )


async def audited(settings: Settings, tenant_id: str, report: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """Audits one tenant or all. Returns the open violations, at most SHOWN_MAX, and the checks that have more.

    NOT_FOUND UNKNOWN_TENANT.
    """
    async with opened(settings, size=2) as database:
        found: list[dict[str, Any]] = []
        known, more = False, set[str]()
        for part in database.parts:
            with chosen(part):
                tenants = await database.tenants(_SQL["tenants"], tenant_id)
                known = known or bool(tenants)
                more |= (await audit_rows(database, tenant_id, report))[1]
                for one in tenants:
                    about = (one, "open", "", "", "", None, SHOWN_MAX - len(found))
                    found += [{"tenant_id": one, **row} for row in await database.fetch(_SQL["list"], *about)]
                    listed = (one, OPEN_MAX, [row["id"] for row in found])
                    more |= {row["check_name"] for row in await database.fetch(_SQL["exceeding"], *listed)}
        if tenant_id and not known:
            raise unknown("tenant", tenant_id)
        return found, sorted(more)
