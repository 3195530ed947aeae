"""How a request comes to wait for a second person: it is tried, undone, and kept with what it would have done.

So what would be refused is refused at once, and who decides sees it before and after. `may_wait` marks an operation;
`settle` is its last step, in its transaction: there the request is undone to wait, or, where a second person has
approved it, the approval is moved to done by the same commit. Asked again under its Idempotency-Key, it is the same
approval.

The request is kept as it came, in the open: what has a secret in it is refused in place of waiting. What is made has
the id that it was tried under. What it rests on (the prizes' worth of a game's odds) is kept as a digest: where that is
another by then, who approves saw another, and it fails as STALE_REVISION.
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
_HOLD_ASKER: Final = sql.load("tokens")["hold_asker"]
_SHOWN: Final = view(m.Approval, "number")

_Facts = Mapping[str, Any]
Reply = TypeVar("Reply")
Run = Callable[[Engine, Any], Awaitable[Reply]]


class Held(Exception):
    """Undoes what was tried: it waits for a second person.

    pinned: the request to keep, where it is another. rests_on: what must still be so when it is approved.
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
    """What is done now in another's name: the approval, by whom and why."""

    tenant_id: str
    approval_id: str
    asked_by: str
    merchant_id: str
    approver: str
    reason: str
    rests_on: bytes = b""


_approved: ContextVar[Approved | None] = ContextVar("approved", default=None)


def may_wait(run: Run[Reply]) -> Run[Reply]:
    """Marks an operation that may wait: what it holds is kept, and answered APPROVAL_NEEDED with the approval."""

    @wraps(run)
    async def kept(engine: Engine, request: Any) -> Reply:
        try:
            return await run(engine, request)
        except Held as held:
            tried = held
        raise await _keep(engine, request, tried)

    return kept


@contextmanager
def doing(approved: Approved) -> Iterator[None]:
    """The block does what was asked, in the name of who asked it; `settle` passes it."""
    actor, merchant = trace.actor.set(approved.asked_by), trace.merchant.set(approved.merchant_id)
    token = _approved.set(approved)
    try:
        yield
    finally:
        _approved.reset(token)
        trace.merchant.reset(merchant)
        trace.actor.reset(actor)


def is_approved() -> bool:
    """Whether what is being done was approved."""
    return _approved.get() is not None


def pinned_id(tried_id: str) -> str:
    """The id of what is made, where somebody approved it under that; else none yet, whatever was sent."""
    return tried_id if is_approved() else ""


def id_of_new(kind: str, tried_id: str) -> str:
    """The id of what is made: that which who approved it saw, else a new one."""
    return pinned_id(tried_id) or ids.make(kind)


async def settle(connection: asyncpg.Connection, waits: bool, held: Callable[[], Held]) -> None:
    """The last step of what may wait, in its transaction.

    Where it was approved, moves the approval to done: once, with what the transaction did; ABORTED STALE_REVISION where
    it rests on what is another now. Else, where it `waits`, raises what undoes it.
    """
    if (approved := _approved.get()) is not None:
        if held().rests_on != approved.rests_on:
            raise Fault(Status.ABORTED, "STALE_REVISION", "what this rests on was changed since it was asked for")
        await move(connection, approved, "done")
    elif waits:
        raise held()


async def move(
    connection: asyncpg.Connection, by: Approved, status: str, outcome: Mapping[str, Any] | None = None
) -> None:
    """Moves an approval that waits, and notes who did. ILLEGAL_TRANSITION where it waits no more.

    by: whose move it is; `approver` and `reason` are theirs also where it is no approval.
    """
    why = (by.approver, by.reason, dict(outcome or {}))
    row = await connection.fetchrow(_SQL["decide"], by.tenant_id, by.approval_id, status, *why)
    if row is None:
        raise decided(by.approval_id)
    await note(connection, by, _VERBS[status], row)


async def go_on(engine: Engine) -> None:
    """Before each part of what is done in several. ILLEGAL_TRANSITION where it was approved, and rejected since."""
    by = _approved.get()
    if by is not None and not await engine.database.fetchval(_SQL["goes_on"], by.tenant_id, by.approval_id):
        raise decided(by.approval_id)


async def withdraw_of(connection: asyncpg.Connection, tenant_id: str, subject: str, why: str) -> int:
    """Withdraws all that waits of somebody, in the name of who ends their access: how many.

    subject: who is dismissed, which takes what was asked for by tokens that they made along; or a token's id.
    """
    who = trace.actor.get()
    rows = await connection.fetch(_SQL["withdraw_of"], tenant_id, subject, who, why)
    for row in rows:
        named = (tenant_id, row["approval_id"], row["asked_by"], row["merchant_id"], who, row["reason"])
        shown = {name: row[name] for name in ("operation", "asked_by", "subject_id")}
        await note(connection, Approved(*named), _VERBS["withdrawn"], shown)
    return len(rows)


def decided(approval_id: str) -> Fault:
    """FAILED_PRECONDITION: somebody has decided it, or nobody did in time."""
    return Fault(Status.FAILED_PRECONDITION, "ILLEGAL_TRANSITION", f"{approval_id} does not wait any more")


async def note(connection: asyncpg.Connection, by: Approved, verb: str, row: Any) -> None:
    """Notes a move in the audit log, under the name of who made it."""
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
    """The message of a row of `get` and its kin."""
    return m.Approval(**{**row, "status": enum(m.ApprovalStatus, row["status"])})


async def _keep(engine: Engine, request: Any, held: Held) -> Fault:
    """Keeps a request, once for its key, and says so. UNAUTHENTICATED TOKEN_INVALID where its token was revoked."""
    tenant_id, merchant_id, asked_by = tenant_of(request), merchant_of(request), trace.actor.get()
    operation, route = type(request).__name__.removesuffix("Request"), route_of(request)
    key: str | None = getattr(request, "idempotency_key", "") or None
    request_hash = staff_request_hash(request)
    message = bytes(held.pinned or request)

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        if await connection.fetchval(_HOLD_ASKER, tenant_id, asked_by):
            # An edge has not heard of it yet; what waits of a revoked token nobody would withdraw.
            raise Fault(Status.UNAUTHENTICATED, "TOKEN_INVALID", "the token is not valid")
        approval_id = ids.make("approval")
        named = (tenant_id, approval_id, merchant_id, operation, route, message, request_hash, key)
        about = (held.subject_id, held.before, held.after, asked_by, held.rests_on)
        if await connection.fetchval(_SQL["keep"], *named, *about) is None:
            known = await connection.fetchrow(_SQL["find"], tenant_id, merchant_id, asked_by, route, key)
            assert known is not None, "what was in the way is committed, and never removed"
            if known["request_hash"] != request_hash:
                raise mismatch()
            approval_id = known["approval_id"]
        else:
            noted = {"operation": operation, "subject_id": held.subject_id}
            await audit.record(connection, tenant_id, "approval.ask", approval_id, after=noted)
        row = await connection.fetchrow(_SQL["get"], tenant_id, approval_id, "")
        assert row is not None
        return row

    kept = _SHOWN(approval(await engine.database.transaction(work)))
    return Fault(
        Status.FAILED_PRECONDITION,
        "APPROVAL_NEEDED",
        "this waits for a second person; nothing is done yet",
        http_status=202,
        approval=kept,
    )
