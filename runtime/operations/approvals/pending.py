"""Stores a request for approval: executes it, rolls it back, and stores it with the state before and after.

So an invalid request is refused at once, and the approver sees its effect. `may_need_approval` marks an operation.
`settle` is the last step of its transaction: it rolls the request back to await approval, or, once approved, marks the
approval as done in the same commit. A retry under the same Idempotency-Key gets the same approval.

The request is stored unencrypted, so one with a secret is refused. A created resource gets the id it was tried under.
What the approver decided by (such as the worth of the prizes behind a game's odds) is stored as a digest. If it has
changed by then, the approval fails with STALE_REVISION.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from hashlib import sha256
from typing import Any, Final, NamedTuple, TypeVar

import asyncpg
import msgspec

import sql
from runtime import ids, trace
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.idempotency import mismatch, staff_request_hash
from runtime.errors import Fault, Status
from runtime.operations import audit
from runtime.operations.idempotent_writes import route_of
from runtime.wire.codec import view
from runtime.wire.enums import enum
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("approvals")
_LOCK_REQUESTER: Final = sql.load("tokens")["lock_requester"]
_VIEW: Final = view(m.Approval, "number")

_Facts = Mapping[str, Any]
Reply = TypeVar("Reply")
Run = Callable[[Engine, Any], Awaitable[Reply]]


class NeedsApproval(Exception):
    """Rolls a request back, since it needs approval.

    pinned: the request to store in place of the original. rests_on: facts that must not change before the approval.
    """

    def __init__(
        self, subject_id: str, *, before: _Facts, after: _Facts, pinned: Any = None, rests_on: Any = None
    ) -> None:
        super().__init__(subject_id)
        self.subject_id = subject_id
        self.before = dict(before)
        self.after = dict(after)
        self.pinned = pinned
        rests = b"" if rests_on is None else sha256(msgspec.json.encode(rests_on, order="deterministic")).digest()
        self.rests_on = rests


class Approved(NamedTuple):
    """The approval being executed or decided, its requester, its approver and the reason."""

    tenant_id: str
    approval_id: str
    requested_by: str
    merchant_id: str
    approver: str
    reason: str
    rests_on: bytes = b""


_approved: ContextVar[Approved | None] = ContextVar("approved", default=None)


def may_need_approval(run: Run[Reply]) -> Run[Reply]:
    """Decorates an operation: if it raises NeedsApproval, the request is stored and APPROVAL_NEEDED is returned."""

    @wraps(run)
    async def wrapper(engine: Engine, request: Any) -> Reply:
        try:
            return await run(engine, request)
        except NeedsApproval as needs_approval:
            tried = needs_approval
        raise await _store(engine, request, tried)

    return wrapper


@contextmanager
def executing(approved: Approved) -> Iterator[None]:
    """Runs the block as an approved request, in the requester's name."""
    actor, merchant = trace.actor.set(approved.requested_by), trace.merchant.set(approved.merchant_id)
    token = _approved.set(approved)
    try:
        yield
    finally:
        _approved.reset(token)
        trace.merchant.reset(merchant)
        trace.actor.reset(actor)


def is_approved() -> bool:
    return _approved.get() is not None


def pinned_id(tried_id: str) -> str:
    """The id of a created resource if it was approved under that id, else "", even if the client sent one."""
    return tried_id if is_approved() else ""


def id_of_new(kind: str, tried_id: str) -> str:
    """The id of a created resource: the one that was approved, else a new one."""
    return pinned_id(tried_id) or ids.make(kind)


async def settle(connection: asyncpg.Connection, needed: bool, needs_approval: Callable[[], NeedsApproval]) -> None:
    """The last step, in its transaction, of an operation that may need approval.

    If it was approved, marks the approval as done, exactly once, by the same commit; ABORTED STALE_REVISION if what it
    rests on has changed. Otherwise raises `needs_approval()` if it is `needed`.
    """
    if (approved := _approved.get()) is not None:
        if needs_approval().rests_on != approved.rests_on:
            raise Fault(Status.ABORTED, "STALE_REVISION", "the data behind this request has changed; request it again")
        await decide(connection, approved, "done")
    elif needed:
        raise needs_approval()


async def decide(
    connection: asyncpg.Connection, by: Approved, status: str, outcome: Mapping[str, Any] | None = None
) -> None:
    """Decides a pending approval, and records who did. ILLEGAL_TRANSITION if it is not pending any more.

    by: `approver` and `reason` are those of the decision, also if it rejects or withdraws.
    """
    decision = (by.approver, by.reason, dict(outcome or {}))
    row = await connection.fetchrow(_SQL["decide"], by.tenant_id, by.approval_id, status, *decision)
    if row is None:
        raise not_pending(by.approval_id)
    await record_decision(connection, by, _VERBS[status], row)


async def require_not_rejected(engine: Engine) -> None:
    """Checks, before each part of a bulk request, that its approval was not rejected since: ILLEGAL_TRANSITION."""
    by = _approved.get()
    if by is not None and not await engine.database.fetchval(_SQL["is_unfinished"], by.tenant_id, by.approval_id):
        raise not_pending(by.approval_id)


async def withdraw_pending(connection: asyncpg.Connection, tenant_id: str, subject: str, reason: str) -> int:
    """Withdraws a subject's pending approvals, in the name of the person who ends its access. Returns how many.

    subject: a person, whose API tokens' requests are withdrawn, too; or an API token's id.
    """
    actor = trace.actor.get()
    rows = await connection.fetch(_SQL["withdraw"], tenant_id, subject, actor, reason)
    for row in rows:
        fields = (tenant_id, row["approval_id"], row["requested_by"], row["merchant_id"], actor, row["reason"])
        shown = {name: row[name] for name in ("operation", "requested_by", "subject_id")}
        await record_decision(connection, Approved(*fields), _VERBS["withdrawn"], shown)
    return len(rows)


def not_pending(approval_id: str) -> Fault:
    """FAILED_PRECONDITION: the approval is decided or expired."""
    return Fault(Status.FAILED_PRECONDITION, "ILLEGAL_TRANSITION", f"{approval_id} is no longer pending")


async def record_decision(connection: asyncpg.Connection, by: Approved, verb: str, row: Any) -> None:
    """Records a decision in the audit log, in the name of the person who made it."""
    actor, merchant = trace.actor.set(by.approver), trace.merchant.set(by.merchant_id)
    try:
        after = {**dict(row), "reason": by.reason}
        await audit.record(connection, by.tenant_id, f"approval.{verb}", by.approval_id, after=after)
    finally:
        trace.merchant.reset(merchant)
        trace.actor.reset(actor)


_VERBS: Final = {
    "done": "approve",
    "approved": "approve",
    "rejected": "reject",
    "withdrawn": "withdraw",
    "failed": "fail",
}


def approval(row: Any) -> m.Approval:
    return m.Approval(**{**row, "status": enum(m.ApprovalStatus, row["status"])})


async def _store(engine: Engine, request: Any, tried: NeedsApproval) -> Fault:
    """Stores a request, once for its key; returns APPROVAL_NEEDED. Raises TOKEN_INVALID for a revoked token."""
    tenant_id, merchant_id, requested_by = tenant_of(request), merchant_of(request), trace.actor.get()
    operation, route = type(request).__name__.removesuffix("Request"), route_of(request)
    key: str | None = getattr(request, "idempotency_key", "") or None
    request_hash = staff_request_hash(request)
    message = bytes(tried.pinned or request)

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        if await connection.fetchval(_LOCK_REQUESTER, tenant_id, requested_by):
            # The edge has not read the revocation yet, which has withdrawn the token's approvals. A new one would stay.
            raise Fault(Status.UNAUTHENTICATED, "TOKEN_INVALID", "the token is not valid")
        approval_id = ids.make("approval")
        request_columns = (tenant_id, approval_id, merchant_id, operation, route, message, request_hash, key)
        facts = (tried.subject_id, tried.before, tried.after, requested_by, tried.rests_on)
        if await connection.fetchval(_SQL["insert"], *request_columns, *facts) is None:
            existing = await connection.fetchrow(_SQL["find"], tenant_id, merchant_id, requested_by, route, key)
            assert existing is not None, "the conflicting approval is committed, and approvals are never deleted"
            if existing["request_hash"] != request_hash:
                raise mismatch()
            approval_id = existing["approval_id"]
        else:
            audit_facts = {"operation": operation, "subject_id": tried.subject_id}
            await audit.record(connection, tenant_id, "approval.ask", approval_id, after=audit_facts)
        row = await connection.fetchrow(_SQL["get"], tenant_id, approval_id, "")
        assert row is not None
        return row

    stored = _VIEW(approval(await engine.database.transaction(work)))
    return Fault(
        Status.FAILED_PRECONDITION,
        "APPROVAL_NEEDED",
        "this needs a second person's approval; nothing is done yet",
        http_status=202,
        approval=stored,
    )
