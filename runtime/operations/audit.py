"""The audit log: records every change in the transaction that makes it, so neither exists without the other.

An entry has the resource before and after as the operator sees it, without secrets. The log also records staff
sign-ins, and requests that an edge refused for a missing role. Anyone can cause those, so token buckets in the
database limit them across all edges (`_Bucket`).
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, NamedTuple

import asyncpg

import sql
from runtime import ids, trace
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.operations import reading, samples
from runtime.operations.checks import TIME_MAX, Checks, search_pattern
from runtime.operations.row import STAFF, Command, Operation
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("audit")
_CHARGE: Final = sql.load("challenges")["take_token"]


class _Bucket(NamedTuple):
    """A token bucket: a burst of `at_once` entries, then one per `every_seconds`."""

    at_once: int
    every_seconds: float


REFUSALS: Final = _Bucket(100, 36.0)
"""Per tenant, one bucket for staff and one for players, so that many players cannot crowd out staff's refusals. Each
allows 2,400 a day plus 100, about half a megabyte. The edge that refuses counts the rest."""

SIGN_INS: Final = _Bucket(60, 60.0)
"""Per subject, with different tokens."""


class _Full(Exception):
    """The token bucket is empty."""

    def __init__(self, bucket: _Bucket) -> None:
        super().__init__()
        self.bucket = bucket


async def record(
    connection: asyncpg.Connection,
    tenant_id: str,
    action: str,
    subject_id: str,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> str:
    """Records that the current actor (trace.actor) did `action`, such as "game.update", to the subject. Returns the
    entry's id.

    The subject's type is the first part of the action. `before` and `after` must not contain secrets.
    """
    entry_id = ids.make("audit")
    await connection.execute(
        _SQL["append"],
        tenant_id,
        entry_id,
        trace.actor.get(),
        action,
        action.partition(".")[0],
        subject_id,
        before,
        after,
        trace.current.get(),
        trace.merchant.get(),
    )
    return entry_id


async def list_audit_entries(engine: Engine, request: m.ListAuditEntriesRequest) -> m.ListAuditEntriesReply:
    """The tenant's entries, newest first. Filters: subject type, subject, actor, action prefix, time range, and text
    (`q`). `player_id` finds changes of the player and of the player's rewards, deliveries, scores and wallet.

    A merchant's staff sees only what was done in the merchant's name.
    """
    checks = Checks()
    checks.between("since", request.since, 0, TIME_MAX)
    checks.between("until", request.until, 0, TIME_MAX)
    if 0 < request.until <= request.since:
        checks.problem("until", "must be after since")
    checks.raise_found()
    subject = (request.subject_type, request.subject_id, request.actor, merchant_of(request))
    action = (request.action, request.since, request.until, search_pattern(request.q))
    key_range = ids.between("audit", request.since, request.until)
    filters: tuple[Any, ...] = (tenant_of(request), *subject, *action, *key_range)
    # Selective filters have an index each; any other filter may scan the whole log.
    by = (
        ("player", request.player_id),
        ("subject", request.subject_id),
        ("actor", request.actor),
        ("type", request.subject_type),
    )
    statement = next((f"list_of_{name}" for name, value in by if value), "list")
    if request.player_id:
        filters = (*filters, request.player_id)
    rows, pagination = await reading.page(engine, _SQL[statement], request, *filters, replica=True)
    return m.ListAuditEntriesReply(items=[m.AuditEntry(**dict(row)) for row in rows], pagination=pagination)


async def record_sign_in(engine: Engine, request: m.RecordSignInRequest) -> m.RecordedReply:
    """Records the first use of a staff token: one entry per token, however many edges report it.

    Over the limit of its subject, the reply has `retry_after_seconds`, and a later report is recorded.
    """
    seen = _Bucket(1, engine.settings.token_seconds_max)
    # In key order (sql/locks.py). The sign-in's bucket comes first, so that repeating a used link does not use up the
    # subject's bucket.
    buckets = {f"sign-in:{_brief(request.sign_in_id)}": seen, f"signer:{_brief(request.subject)}": SIGN_INS}
    after = {"roles": list(request.roles), "expires_at": request.expires_at, "address": request.address}
    full = await _record_limited(engine, request, buckets, "staff.sign_in", request.sign_in_id, after)
    wait_seconds = int(SIGN_INS.every_seconds) if full is SIGN_INS else 0
    return m.RecordedReply(recorded=full is None, retry_after_seconds=wait_seconds)


async def record_refusal(engine: Engine, request: m.RecordRefusalRequest) -> m.RecordedReply:
    """Records a request that was refused for a missing role. A flood is limited by a token bucket.

    The address is recorded only for staff: a caller without a role may be a player, and erasure skips this log.
    """
    after = {
        "route": request.route,
        "reason": request.reason,
        "needed": list(request.needed),
        "roles": list(request.roles),
        "address": request.address if request.roles else "",
    }
    bucket = {f"refusals:{'staff' if request.roles else 'players'}": REFUSALS}
    full = await _record_limited(engine, request, bucket, "staff.refuse", request.subject, after)
    return m.RecordedReply(recorded=full is None)


async def _record_limited(
    engine: Engine,
    request: m.RecordSignInRequest | m.RecordRefusalRequest,
    buckets: dict[str, _Bucket],
    action: str,
    subject_id: str,
    after: dict[str, Any],
) -> _Bucket | None:
    """Charges the buckets and writes the entry. Returns the empty bucket, if there is one, and writes nothing then."""
    tenant_id = tenant_of(request)
    checks = Checks()
    for name in ("subject", "sign_in_id", "route", "reason"):
        if (value := getattr(request, name, None)) is not None:
            checks.required(name, value)
    checks.between("expires_at", getattr(request, "expires_at", 0), 0, TIME_MAX)
    checks.raise_found()
    trace.actor.set(request.subject)
    trace.merchant.set(merchant_of(request))

    async def work(connection: asyncpg.Connection) -> None:
        for key, bucket in buckets.items():
            if await connection.fetchval(_CHARGE, tenant_id, key, bucket.every_seconds, bucket.at_once) is None:
                raise _Full(bucket)  # Rolls back the earlier charges too, so that a refused entry costs nothing.
        await record(connection, tenant_id, action, subject_id, after=after)

    try:
        await engine.database.transaction(work)
    except _Full as full:
        return full.bucket
    return None


def _brief(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


# -- rows ------------------------------------------------------------------------------------


_STAFF: Final = {"subject": "ann", "address": "203.0.113.7"}
_SIGN_IN: Final = {**_STAFF, "sign_in_id": "signin_0f1e2d3c4b5a69788796a5b4c3d2e1f0"}

RECORD_SIGN_IN: Final = Operation(
    "RecordSignIn",
    "POST /audit/sign-ins",
    run=record_sign_in,
    while_suspended=True,
    example={**_SIGN_IN, "roles": ["designer"], "expires_at": samples.LATER},
)
RECORD_REFUSAL: Final = Operation(
    "RecordRefusal",
    "POST /audit/refusals",
    run=record_refusal,
    while_suspended=True,
    example={**_STAFF, "route": "PUT /admin/tenants/{id}", "reason": "ROLE_REQUIRED", "needed": ["platform"]},
)

ROWS: Final = (
    Operation(
        "ListAuditEntries",
        "GET /audit",
        run=list_audit_entries,
        admin=STAFF,
        command=Command(
            "audit-log --subject-type --subject-id --player --actor --action --since --until --q --limit=50",
            "List audit log entries, newest first. To get all, oldest first, use `tombola export audit`.",
            help={
                "subject_type": "Only actions on this kind of resource: campaign, game, prize, reward, staff ...",
                "subject_id": "Only actions on the resource with this id.",
                "player": "Only actions on this player or the player's rewards, deliveries and wallet.",
                "actor": "Only actions by this actor.",
                "action": "Only actions with this prefix: prize, prize.import ...",
                "since": "Only from this time on, such as 2026-03-01 or 2026-03-01T09:00:00+01:00 (UTC "
                "without an offset).",
                "until": "Only before this time.",
                "q": "Only entries with this text in the actor, action, subject, subject name or reason.",
            },
            columns="id, when={created_at:minute}, who=actor, did=action, to=subject_id, changed={:changed}",
        ),
    ),
    RECORD_SIGN_IN,
    RECORD_REFUSAL,
)
