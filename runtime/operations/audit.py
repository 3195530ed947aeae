"""The audit log: who changed what, written in the change's own transaction, so neither exists without the other.

An entry has the resource before and after as the operator sees it (secrets are never in it). Beside the changes it
has who came: each sign-in of staff, and whom an edge refused a route for want of a role. These are anybody's to
bring about, so buckets in the database bound them, whatever the number of edges (`_Bucket`).
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
_CHARGE: Final = sql.load("challenges")["charge"]


class _Bucket(NamedTuple):
    """What is noted at most: so many at once, and then one in so many seconds."""

    at_once: int
    every_seconds: float


REFUSALS: Final = _Bucket(100, 36.0)
"""Of a tenant: staff's refusals, and players' beside them, who are many and shall not hide staff's. 2,400 a day each,
and 100: about half a megabyte. What is beyond is counted by the edge that refuses."""

SIGN_INS: Final = _Bucket(60, 60.0)
"""Of a subject, by different tokens."""


class _Full(Exception):
    """A bucket is."""


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
    """The tenant's entries, newest first: of one subject type, subject or actor, of actions that begin so, from a time
    until another, and that hold `q`, where given. `player_id`: of what was done to the player, and to the player's
    rewards, deliveries, scores and wallet.

    A merchant's staff sees what was done in the merchant's name.
    """
    checks = Checks()
    checks.between("since", request.since, 0, TIME_MAX)
    checks.between("until", request.until, 0, TIME_MAX)
    if 0 < request.until <= request.since:
        checks.problem("until", "must be after since")
    checks.raise_found()
    of = (request.subject_type, request.subject_id, request.actor, merchant_of(request))
    said = (request.action, request.since, request.until, search_pattern(request.q))
    filters: tuple[Any, ...] = (tenant_of(request), *of, *said, *ids.between("audit", request.since, request.until))
    # The entries of what may be rare are found by an index of theirs: the whole log may be walked for anything else.
    by = (
        ("player", request.player_id),
        ("subject", request.subject_id),
        ("actor", request.actor),
        ("type", request.subject_type),
    )
    statement = next((f"list_of_{name}" for name, asked in by if asked), "list")
    if request.player_id:
        filters = (*filters, request.player_id)
    rows, pagination = await reading.page(engine, _SQL[statement], request, *filters)
    return m.ListAuditEntriesReply(items=[m.AuditEntry(**dict(row)) for row in rows], pagination=pagination)


async def note_sign_in(engine: Engine, request: m.NoteSignInRequest) -> m.NotedReply:
    """Notes that staff came with a token that was not seen before: once, whichever edges see it, and how often."""
    seen = _Bucket(1, engine.settings.token_seconds_max)
    # In the order of keys (sql/locks.py): the sign-in's own first, so that who shows a used link again and again takes
    # nothing of what its subject may sign in.
    buckets = {f"sign-in:{_brief(request.sign_in_id)}": seen, f"signer:{_brief(request.subject)}": SIGN_INS}
    after = {"roles": list(request.roles), "expires_at": request.expires_at, "address": request.address}
    return await _note(engine, request, buckets, "staff.sign_in", request.sign_in_id, after)


async def note_refusal(engine: Engine, request: m.NoteRefusalRequest) -> m.NotedReply:
    """Notes who was refused which route for want of which roles; within a bound that a flood cannot pass.

    From which address is noted of staff alone: who has no role may be a player, and no erasure reaches this log.
    """
    after = {
        "route": request.route,
        "reason": request.reason,
        "needed": list(request.needed),
        "roles": list(request.roles),
        "address": request.address if request.roles else "",
    }
    bucket = {f"refusals:{'staff' if request.roles else 'players'}": REFUSALS}
    return await _note(engine, request, bucket, "staff.refuse", request.subject, after)


async def _note(
    engine: Engine,
    request: m.NoteSignInRequest | m.NoteRefusalRequest,
    buckets: dict[str, _Bucket],
    action: str,
    subject_id: str,
    after: dict[str, Any],
) -> m.NotedReply:
    tenant_id = tenant_of(request)
    checks = Checks()
    for name in ("subject", "sign_in_id", "route", "reason"):
        if (value := getattr(request, name, None)) is not None:
            checks.required(name, value)
    checks.between("expires_at", getattr(request, "expires_at", 0), 0, TIME_MAX)
    checks.raise_found()
    trace.actor.set(request.subject)
    trace.merchant.set(merchant_of(request))

    async def work(connection: asyncpg.Connection) -> bool:
        for key, bucket in buckets.items():
            if await connection.fetchval(_CHARGE, tenant_id, key, bucket.every_seconds, bucket.at_once) is None:
                raise _Full  # What was charged before it is not: what is too much leaves no rows, and may come again.
        await record(connection, tenant_id, action, subject_id, after=after)
        return True

    try:
        return m.NotedReply(noted=await engine.database.transaction(work))
    except _Full:
        return m.NotedReply(noted=False)


def _brief(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


# -- rows ------------------------------------------------------------------------------------


_STAFF: Final = {"subject": "ann", "address": "203.0.113.7"}
_SIGN_IN: Final = {**_STAFF, "sign_in_id": "signin_0f1e2d3c4b5a69788796a5b4c3d2e1f0"}

NOTE_SIGN_IN: Final = Operation(
    "NoteSignIn",
    "POST /audit/sign-ins",
    run=note_sign_in,
    unsuspended=True,
    example={**_SIGN_IN, "roles": ["designer"], "expires_at": samples.LATER},
)
NOTE_REFUSAL: Final = Operation(
    "NoteRefusal",
    "POST /audit/refusals",
    run=note_refusal,
    unsuspended=True,
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
            "Show entries of the audit log, the newest first. All of them, oldest first: `tombola export audit`.",
            help={
                "subject_type": "Only what was done to this kind of thing: campaign, game, prize, reward, staff ...",
                "subject_id": "Only what was done to this one.",
                "player": "Only what was done to this player, or to the player's rewards, deliveries and wallet.",
                "actor": "Only what this one did.",
                "action": "Only actions that begin so: prize, prize.import ...",
                "since": "Only from this time on, such as 2026-03-01 or 2026-03-01T09:00:00+01:00 (UTC where it "
                "says no offset).",
                "until": "Only before this time.",
                "q": "Only what holds this: who did what to what, the name of that, or the reason.",
            },
            columns="id, when={created_at:minute}, who=actor, did=action, to=subject_id, changed={:changed}",
        ),
    ),
    NOTE_SIGN_IN,
    NOTE_REFUSAL,
)
