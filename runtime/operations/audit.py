"""The audit log: who changed what, written in the change's own transaction, so neither exists without the other.

An entry has the resource before and after as the operator sees it (secrets are never in it).
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg

import sql
from runtime import ids, trace
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.operations import reading
from runtime.operations.row import STAFF, Operation
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("audit")


async def record(
    connection: asyncpg.Connection,
    tenant_id: str,
    action: str,
    subject_id: str,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    """Notes that the current actor (trace.actor) did `action`, such as "game.update", to the subject.

    The subject's type is the action's first part. `before` and `after` hold no secrets.
    """
    await connection.execute(
        _SQL["note"],
        tenant_id,
        ids.make("audit"),
        trace.actor.get(),
        action,
        action.partition(".")[0],
        subject_id,
        before,
        after,
        trace.current.get(),
        trace.merchant.get(),
    )


async def list_audit_entries(engine: Engine, request: m.ListAuditEntriesRequest) -> m.ListAuditEntriesReply:
    """The tenant's entries, newest first, of one subject type, subject or actor where given.

    A merchant's staff sees what was done in the merchant's name.
    """
    filters = (tenant_of(request), request.subject_type, request.subject_id, request.actor, merchant_of(request))
    rows, pagination = await reading.page(engine, _SQL["list"], request, *filters)
    return m.ListAuditEntriesReply(items=[m.AuditEntry(**dict(row)) for row in rows], pagination=pagination)


# -- rows ------------------------------------------------------------------------------------


ROWS: Final = (Operation("ListAuditEntries", "GET /audit", run=list_audit_entries, admin=STAFF),)
