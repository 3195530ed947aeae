"""What waits for a second person, and how it is decided.

Whoever approves is another than who asked, and has the role and the scope that what was asked needs. It is done as it
was asked, in the name of who asked, and judged anew: the commit that does it moves the approval too, so rivals and
retries do it once. What is done in several transactions (rewards in bulk) is approved first; each part is done once
under the request's key, and who approves it again goes on with what a crash has left.

A game, prize or quest that was changed since it was asked fails (STALE_REVISION), and so do a game's odds where its
prizes are worth something else: who approved saw another. What else is refused now may be possible later: the approval
waits on. What was approved and broke off is gone on with for 7 days, or rejected: what was done of it stays.
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
from runtime.operations import desk, games, prizes, quests, reading, suspension, wallet
from runtime.operations.approvals.pending import Approved, approval, decided, doing, move, note
from runtime.operations.players.revocations import API_TOKEN
from runtime.operations.row import STAFF, Command, Operation
from runtime.operations.staff.tokens import person_behind
from runtime.wire.codec import view
from runtime.wire.enums import token
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("approvals")


class _Kind(NamedTuple):
    """An operation that may wait. in_parts: it is done in several transactions."""

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
    for row in (*desk.ROWS, *games.ROWS, *prizes.ROWS, *quests.ROWS, *wallet.ROWS)
    if "APPROVAL_NEEDED" in row.refusals
}
"""Which operations may wait. When each does: runtime.operations.approvals.policy."""

_RESULTS: Final = view(m.BulkRewardsReply, "number")


async def list_approvals(engine: Engine, request: m.ListApprovalsRequest) -> m.ListApprovalsReply:
    """What waits for a second person, or did, newest first. A merchant's staff sees what was asked in its name."""
    filters = (tenant_of(request), token(request.status), merchant_of(request))
    rows, pagination = await reading.page(engine, _SQL["list"], request, *filters)
    return m.ListApprovalsReply(items=[approval(row) for row in rows], pagination=pagination)


async def get_approval(engine: Engine, request: m.GetApprovalRequest) -> m.ApprovalReply:
    """One of them, with what it is about before and after. NOT_FOUND UNKNOWN_APPROVAL."""
    return m.ApprovalReply(approval=approval(await _find(engine, request)))


async def approve(engine: Engine, request: m.DecideApprovalRequest) -> m.ApprovalReply:
    """Does what was asked, as it was asked; the answer says how it stands then.

    PERMISSION_DENIED OWN_REQUEST to who asked, ROLE_REQUIRED to who could not have asked it; what is refused now as it
    would be to who asked is told, and the approval waits on, but for STALE_REVISION, by which it is FAILED. Again by
    who approved it, it answers what it came to.
    """
    row = await _decidable(engine, request)
    kind, by = KINDS[row["operation"]], _by(request, row)
    if row["status"] == "done" and row["decided_by"] == by.approver:
        return m.ApprovalReply(approval=approval(row))
    asked, rests_on = await _asked(engine, kind, by)
    by = by._replace(rests_on=rests_on)
    await suspension.refuse(engine, asked, "")
    try:
        if kind.in_parts:
            await _do_in_parts(engine, kind, asked, by, row["status"])
        else:
            await _do(engine, kind, asked, by)
    except Fault as fault:
        if fault.reason != "ILLEGAL_TRANSITION":
            raise
        # Another request was faster: this one is as if it had come after it.
        if (await _find(engine, request))["status"] == row["status"]:
            raise
        return await approve(engine, request)
    row = await _find(engine, request)
    if not kind.in_parts and row["decided_by"] != by.approver:
        raise decided(by.approval_id)  # A rival's: its key answered this one.
    return m.ApprovalReply(approval=approval(row))


async def reject(engine: Engine, request: m.DecideApprovalRequest) -> m.ApprovalReply:
    """Ends what waits, undone; for who might approve it. ILLEGAL_TRANSITION where it waits no more.

    Rewards in bulk can be rejected while they are APPROVED and not all done, too: what is done stays.
    """
    return await _end(engine, request, await _decidable(engine, request), "rejected")


async def withdraw(engine: Engine, request: m.WithdrawApprovalRequest) -> m.ApprovalReply:
    """Takes one's own request back. PERMISSION_DENIED FORBIDDEN to who did not ask it."""
    row = await _find(engine, request)
    if row["asked_by"] != trace.actor.get():
        raise Fault(Status.PERMISSION_DENIED, "FORBIDDEN", "who asked for it alone withdraws it")
    return await _end(engine, request, row, "withdrawn")


async def _end(
    engine: Engine, request: m.DecideApprovalRequest | m.WithdrawApprovalRequest, row: Any, status: str
) -> m.ApprovalReply:
    await engine.database.transaction(lambda connection: move(connection, _by(request, row), status))
    return m.ApprovalReply(approval=approval(await _find(engine, request)))


async def _find(engine: Engine, request: reading.Asked) -> asyncpg.Record:
    row = await engine.database.fetchrow(_SQL["get"], tenant_of(request), request.id, merchant_of(request))
    if row is None:
        raise unknown("approval", request.id)
    return row


async def _decidable(engine: Engine, request: m.DecideApprovalRequest) -> asyncpg.Record:
    """The approval, where who asks may decide it."""
    row = await _find(engine, request)
    if row["operation"] not in request.may_decide:
        roles = sorted(KINDS[row["operation"]].roles)
        raise Fault(Status.PERMISSION_DENIED, "ROLE_REQUIRED", f"needs a role of {', '.join(roles)}", roles=roles)
    if API_TOKEN.search(trace.actor.get()):
        raise Fault(Status.PERMISSION_DENIED, "FORBIDDEN", "a token is no second person")
    asked_by = await person_behind(engine, tenant_of(request), row["asked_by"])
    if trace.actor.get() in ("", row["asked_by"], asked_by):
        # Nobody by name is nobody else, either.
        raise Fault(Status.PERMISSION_DENIED, "OWN_REQUEST", "another person than who asked for it decides it")
    return row


def _by(request: m.DecideApprovalRequest | m.WithdrawApprovalRequest, row: Any) -> Approved:
    named = (tenant_of(request), request.id, row["asked_by"], row["merchant_id"])
    return Approved(*named, trace.actor.get(), request.reason)


async def _asked(engine: Engine, kind: _Kind, by: Approved) -> tuple[Any, bytes]:
    """The request, under a key in any case (its own, or else the approval's id); the digest of what it rests on."""
    row = await engine.database.fetchrow(_SQL["request"], by.tenant_id, by.approval_id)
    assert row is not None, "it is never removed"
    asked = kind.request.parse(row["request"])
    if hasattr(asked, "idempotency_key"):
        asked.idempotency_key = row["idempotency_key"] or by.approval_id
    return asked, row["rests_on"]


async def _do(engine: Engine, kind: _Kind, asked: Any, by: Approved) -> None:
    """Does it in one transaction, which moves the approval."""
    try:
        with doing(by):
            await kind.run(engine, asked)
    except asyncpg.UniqueViolationError:
        raise decided(by.approval_id) from None  # A rival approved it, and made what this would have made.
    except Fault as fault:
        if fault.reason == "STALE_REVISION":
            why = {"reason": fault.reason, "message": fault.message}
            await engine.database.transaction(lambda connection: move(connection, by, "failed", why))
        raise
    row = await engine.database.fetchrow(_SQL["get"], by.tenant_id, by.approval_id, "")
    if row is not None and row["status"] == "waiting":
        # It was done before under its key, while it needed nobody else.
        await engine.database.transaction(lambda connection: move(connection, by, "done"))


async def _do_in_parts(engine: Engine, kind: _Kind, asked: Any, by: Approved, status: str) -> None:
    """Approves it, does each part once, and says what each came to."""
    if status != "approved":
        await engine.database.transaction(lambda connection: move(connection, by, "approved"))
    with doing(by):
        outcome = _RESULTS(await kind.run(engine, asked))

    async def finish(connection: asyncpg.Connection) -> None:
        row = await connection.fetchrow(_SQL["finish"], by.tenant_id, by.approval_id, outcome)
        if row is not None:
            await note(connection, by, "finish", row)

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
            "List what waits, or did, the newest first.",
            columns="id, operation, about=subject_id, asked by=asked_by, status",
        ),
    ),
    Operation(
        "GetApproval",
        "GET /approvals/{id}",
        run=get_approval,
        admin=STAFF,
        command=Command(
            "approvals show APPROVAL",
            "Show one, with what it is about before and after.",
            help={"approval": "The approval's id."},
            as_json=True,
        ),
    ),
    Operation(
        "ApproveApproval",
        "POST /approvals/{id}/approve",
        run=approve,
        admin=STAFF,
        stales=True,
        lengthy=True,
        refusals=("ROLE_REQUIRED", "OWN_REQUEST", "ILLEGAL_TRANSITION", "STALE_REVISION", "INSUFFICIENT_BALANCE"),
        example={"reason": "asked for on the phone, ticket 4711"},
        command=Command(
            "approvals approve APPROVAL --reason",
            "Approve what another person asked for: it is done now.",
            help={"approval": "The approval's id."},
            confirm="Approve {approval}, so that it is done?",
            says="{approval} is {status}",
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
            "Reject what another person asked for: it is not done.",
            help={"approval": "The approval's id."},
            says="{approval} is {status}",
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
            "Take back what you asked for yourself.",
            help={"approval": "The approval's id."},
            says="{approval} is {status}",
        ),
    ),
)
