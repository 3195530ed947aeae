"""Lists and decides pending approvals.

The approver is another person than the requester, with the role and scope that the request needs. The request is
executed unchanged, in the requester's name, and checked again. The same commit moves the approval, so concurrent
approvals and retries execute it once. A request of several transactions (bulk rewards) is approved first. Each part
is idempotent under the request's key, and approving it again resumes it after a crash.

An approval fails with STALE_REVISION if its game, prize or quest has changed since the request, or the worth of the
prizes behind a game's odds: the approver saw another state. After any other refusal it stays pending, since it may
succeed later. A bulk request that broke off can be resumed for 7 days, or rejected; its finished parts stay.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import asyncpg

import sql
from runtime import messages as m
from runtime import trace
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, unknown
from runtime.operations import desk, games, packs, prizes, quests, reading, suspension, wallet
from runtime.operations.approvals.pending import Approved, approval, decide, executing, not_pending, record_decision
from runtime.operations.players.revocations import API_TOKEN
from runtime.operations.row import STAFF, Command, Operation
from runtime.operations.staff.tokens import person_behind
from runtime.wire.codec import view
from runtime.wire.enums import token
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("approvals")


class _Kind(NamedTuple):
    """An operation that may need approval. in_parts: it takes several transactions."""

    request: Any
    run: Callable[[Engine, Any], Awaitable[Any]]
    roles: frozenset[str]
    in_parts: bool

    @classmethod
    def of(cls, row: Operation) -> _Kind:
        assert row.run is not None and row.admin is not None
        return cls(row.request, row.run, row.admin.writers, row.lengthy)


KINDS: Final[Mapping[str, _Kind]] = {
    row.name: _Kind.of(row)
    for row in (*desk.ROWS, *games.ROWS, *packs.ROWS, *prizes.ROWS, *quests.ROWS, *wallet.ROWS)
    if "APPROVAL_NEEDED" in row.refusals
}
"""The operations that may need approval. The rules: runtime.operations.approvals.policy."""

_RESULTS: Final = view(m.BulkRewardsReply, "number")


async def list_approvals(engine: Engine, request: m.ListApprovalsRequest) -> m.ListApprovalsReply:
    """Lists pending and decided approvals, newest first. A merchant's staff sees requests made for that merchant."""
    filters = (tenant_of(request), token(request.status), merchant_of(request))
    rows, pagination = await reading.page(engine, _SQL["list"], request, *filters)
    return m.ListApprovalsReply(items=[approval(row) for row in rows], pagination=pagination)


async def get_approval(engine: Engine, request: m.GetApprovalRequest) -> m.ApprovalReply:
    """Returns one approval, with the state before and after. NOT_FOUND UNKNOWN_APPROVAL."""
    return m.ApprovalReply(approval=approval(await _find(engine, request)))


async def approve(engine: Engine, request: m.DecideApprovalRequest) -> m.ApprovalReply:
    """Executes the request unchanged, and returns the approval with its new status.

    PERMISSION_DENIED: OWN_REQUEST for the requester, ROLE_REQUIRED without a role that may make the request. If the
    request is refused, the approver gets that refusal and the approval stays pending. With STALE_REVISION it is FAILED.
    The approver may repeat the call, and gets the outcome.
    """
    row = await _decidable(engine, request)
    kind, decision = KINDS[row["operation"]], _decision_of(request, row)
    if row["status"] == "done" and row["decided_by"] == decision.approver:
        return m.ApprovalReply(approval=approval(row))
    stored, rests_on = await _stored_request(engine, kind, decision)
    decision = decision._replace(rests_on=rests_on)
    await suspension.refuse(engine, stored, "")
    try:
        if kind.in_parts:
            await _execute_in_parts(engine, kind, stored, decision, row["status"])
        else:
            await _execute(engine, kind, stored, decision)
    except Fault as fault:
        if fault.reason != "ILLEGAL_TRANSITION":
            raise
        # A concurrent decision came first: answer as if this request had come after it.
        if (await _find(engine, request))["status"] == row["status"]:
            raise
        return await approve(engine, request)
    row = await _find(engine, request)
    if not kind.in_parts and row["decided_by"] != decision.approver:
        raise not_pending(decision.approval_id)  # A concurrent approval executed it; its key answered this one.
    return m.ApprovalReply(approval=approval(row))


async def reject(engine: Engine, request: m.DecideApprovalRequest) -> m.ApprovalReply:
    """Rejects a request, with the same rights as `approve`. ILLEGAL_TRANSITION if it is not pending any more.

    An APPROVED bulk request can be rejected until all its parts are done. Finished parts stay.
    """
    return await _end(engine, request, await _decidable(engine, request), "rejected")


async def withdraw(engine: Engine, request: m.WithdrawApprovalRequest) -> m.ApprovalReply:
    """Withdraws one's own request. PERMISSION_DENIED FORBIDDEN for anyone but its requester."""
    row = await _find(engine, request)
    if row["requested_by"] != trace.actor.get():
        raise Fault(Status.PERMISSION_DENIED, "FORBIDDEN", "only the requester may withdraw it")
    return await _end(engine, request, row, "withdrawn")


async def _end(
    engine: Engine, request: m.DecideApprovalRequest | m.WithdrawApprovalRequest, row: Any, status: str
) -> m.ApprovalReply:
    await engine.database.transaction(lambda connection: decide(connection, _decision_of(request, row), status))
    return m.ApprovalReply(approval=approval(await _find(engine, request)))


async def _find(engine: Engine, request: reading.IdRequest) -> asyncpg.Record:
    row = await engine.database.fetchrow(_SQL["get"], tenant_of(request), request.id, merchant_of(request))
    if row is None:
        raise unknown("approval", request.id)
    return row


async def _decidable(engine: Engine, request: m.DecideApprovalRequest) -> asyncpg.Record:
    """The approval, if the caller may decide it."""
    row = await _find(engine, request)
    if row["operation"] not in request.may_decide:
        roles = sorted(KINDS[row["operation"]].roles)
        raise Fault(Status.PERMISSION_DENIED, "ROLE_REQUIRED", f"needs a role of {', '.join(roles)}", roles=roles)
    if API_TOKEN.search(trace.actor.get()):
        raise Fault(Status.PERMISSION_DENIED, "FORBIDDEN", "an API token cannot decide it; sign in as a person")
    requested_by = await person_behind(engine, tenant_of(request), row["requested_by"])
    if trace.actor.get() in ("", row["requested_by"], requested_by):
        # An anonymous caller could be the requester.
        raise Fault(Status.PERMISSION_DENIED, "OWN_REQUEST", "the requester cannot decide it; another person must")
    return row


def _decision_of(request: m.DecideApprovalRequest | m.WithdrawApprovalRequest, row: Any) -> Approved:
    named = (tenant_of(request), request.id, row["requested_by"], row["merchant_id"])
    return Approved(*named, trace.actor.get(), request.reason)


async def _stored_request(engine: Engine, kind: _Kind, decision: Approved) -> tuple[Any, bytes]:
    """The stored request, keyed by its own key or else the approval's id, and the digest of what it rests on."""
    row = await engine.database.fetchrow(_SQL["request"], decision.tenant_id, decision.approval_id)
    assert row is not None, "approvals are never deleted"
    request = kind.request.parse(row["request"])
    if hasattr(request, "idempotency_key"):
        request.idempotency_key = row["idempotency_key"] or decision.approval_id
    return request, row["rests_on"]


async def _execute(engine: Engine, kind: _Kind, request: Any, decision: Approved) -> None:
    """Executes the request in one transaction, which also marks the approval as done."""
    try:
        with executing(decision):
            await kind.run(engine, request)
    except asyncpg.UniqueViolationError:
        raise not_pending(decision.approval_id) from None  # A concurrent approval created the same resource.
    except Fault as fault:
        if fault.reason == "STALE_REVISION":
            why = {"reason": fault.reason, "message": fault.message}
            await engine.database.transaction(lambda connection: decide(connection, decision, "failed", why))
        raise
    row = await engine.database.fetchrow(_SQL["get"], decision.tenant_id, decision.approval_id, "")
    if row is not None and row["status"] == "waiting":
        # The request was executed before under its key, when it needed no approval.
        await engine.database.transaction(lambda connection: decide(connection, decision, "done"))


async def _execute_in_parts(engine: Engine, kind: _Kind, request: Any, decision: Approved, status: str) -> None:
    """Approves the request, executes each part once, and stores the parts' results."""
    if status != "approved":
        await engine.database.transaction(lambda connection: decide(connection, decision, "approved"))
    with executing(decision):
        outcome = _RESULTS(await kind.run(engine, request))

    async def finish(connection: asyncpg.Connection) -> None:
        row = await connection.fetchrow(_SQL["finish"], decision.tenant_id, decision.approval_id, outcome)
        if row is not None:
            await record_decision(connection, decision, "finish", row)

    await engine.database.transaction(finish)


# -- rows ------------------------------------------------------------------------------------


ROWS: Final = (
    Operation(
        "ListApprovals",
        "GET /approvals",
        run=list_approvals,
        admin=STAFF,
        command=Command(
            "approvals list --status --most",
            "List approvals, newest first.",
            columns="id, operation, about=subject_id, asked by=requested_by, status",
        ),
    ),
    Operation(
        "GetApproval",
        "GET /approvals/{id}",
        run=get_approval,
        admin=STAFF,
        command=Command(
            "approvals show APPROVAL",
            "Show an approval with the resource before and after.",
            help={"approval": "The approval's id."},
            as_json=True,
        ),
    ),
    Operation(
        "ApproveApproval",
        "POST /approvals/{id}/approve",
        run=approve,
        admin=STAFF,
        invalidates_cache=True,
        lengthy=True,
        refusals=("ROLE_REQUIRED", "OWN_REQUEST", "ILLEGAL_TRANSITION", "STALE_REVISION", "INSUFFICIENT_BALANCE"),
        example={"reason": "asked for on the phone, ticket 4711"},
        command=Command(
            "approvals approve APPROVAL --reason",
            "Approve another person's request and execute it.",
            help={"approval": "The approval's id."},
            confirm="Approve and execute {approval}?",
            outcome="{approval} is {status}",
        ),
    ),
    Operation(
        "RejectApproval",
        "POST /approvals/{id}/reject",
        run=reject,
        admin=STAFF,
        refusals=("ROLE_REQUIRED", "OWN_REQUEST", "ILLEGAL_TRANSITION"),
        example={"reason": "the ticket says ten points, not a thousand"},
        command=Command(
            "approvals reject APPROVAL --reason!",
            "Reject another person's request.",
            help={"approval": "The approval's id."},
            outcome="{approval} is {status}",
        ),
    ),
    Operation(
        "WithdrawApproval",
        "POST /approvals/{id}/withdraw",
        run=withdraw,
        admin=STAFF,
        refusals=("ILLEGAL_TRANSITION",),
        example={"reason": "a typing error"},
        command=Command(
            "approvals withdraw APPROVAL --reason",
            "Withdraw your own request.",
            help={"approval": "The approval's id."},
            outcome="{approval} is {status}",
        ),
    ),
)
