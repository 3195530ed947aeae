"""Tokens that end before their time. A revocation is a row here.

Each edge reads the new rows every second into its memory (runtime/http/auth/revocations.py), so that no request
asks for them.
"""

from __future__ import annotations

import math
import re
from typing import Final, Literal

import asyncpg
import msgspec

import sql
from runtime import ids, trace
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import invalid
from runtime.operations import audit
from runtime.operations.approvals.pending import withdraw_of
from runtime.operations.checks import TIME_MAX, Checks
from runtime.operations.row import ADMINS, Operation, TokenUse
from runtime.wire.enums import enum
from runtime.wire.scope import tenant_of
from runtime.wire.subjects import subject_of

_SQL: Final = sql.load("logins")
_TOKENS_OF: Final = sql.load("tokens")["live_of"]
REVOKE: Final = _SQL["revoke"]

PAGE: Final = 5_000
"""Revocations of one reply: about half a megabyte."""

SLACK_SECONDS: Final = 60.0
"""A revocation outlives its tokens by this, since clocks other than the database's date and check them."""

LOOK_BACK_US: Final = 60_000_000
"""An edge reads this much again, in microseconds. After a failover the new primary's clock may be behind, so it may
date a revocation before the watermark of what the edge has read."""

API_TOKEN: Final = re.compile(r"(?:^|\()(token_[0-9a-z]{26})\)?$")
"""An API token's id, alone or in an actor of the audit log. It is not revoked here: the row would be purged before the
token ends."""

LEEWAY_SECONDS: Final = 5
"""How far an issuer's clock may be ahead of the database's, or behind it."""


async def revoke_player(
    connection: asyncpg.Connection,
    engine: Engine,
    tenant_id: str,
    player_id: str,
    *,
    for_ever: bool = True,
    issued_at: int = 0,
) -> None:
    """Ends the player's tokens that belong to no login: a guest's, and those of another issuer.

    Durable with the transaction of `connection`; every edge process refuses them about a second after its commit. With
    `for_ever` later tokens end too (a guest that became a player). Otherwise those issued until now end, or until
    `issued_at` (unix seconds) where that is later.
    """
    settings = engine.settings
    life_seconds = settings.refresh_token_seconds if ids.is_guest(player_id) else settings.token_seconds_max
    seconds = life_seconds + SLACK_SECONDS
    await connection.execute(REVOKE, tenant_id, "player", player_id, not for_ever, seconds, issued_at)


async def revoke_staff(engine: Engine, request: m.RevokeStaffRequest) -> m.RevokeStaffReply:
    """Ends staff's tokens before their time: those of a sign-in, those that a subject was given until now, or both.

    Every admin edge refuses them within about a second. What is made later counts: whoever makes tokens, here or at
    another issuer, must be told too. But what somebody else ends is ended for who made it by a clock that is ahead,
    and so for the next LEEWAY_SECONDS; who logs out may well be back within these. What a subject asked for that waits
    for a second person, by an API token that they made too, is withdrawn, where somebody else ends them; these tokens
    go on, and are counted.
    """
    tenant_id = tenant_of(request)
    request.subject = subject_of(request.subject)
    checks = Checks()
    if not (request.subject or request.sign_in_id):
        checks.problem("subject", "is required, or sign_in_id")
    for name in ("subject", "sign_in_id"):
        if API_TOKEN.search(getattr(request, name)):
            checks.problem(name, "is an API token, which ends otherwise: DELETE /admin/tokens/{id}")
    checks.between("issued_at", request.issued_at, 0, TIME_MAX)
    checks.raise_found()
    seconds = engine.settings.token_seconds_max + SLACK_SECONDS
    until = request.issued_at or math.ceil(engine.clock.now()) + LEEWAY_SECONDS
    named = {"subject": request.subject, "sign_in_id": request.sign_in_id}

    async def work(connection: asyncpg.Connection) -> m.RevokeStaffReply:
        reply = m.RevokeStaffReply()
        if request.sign_in_id:
            await connection.execute(REVOKE, tenant_id, "sign_in", request.sign_in_id, False, seconds, 0)
        if request.subject:
            await connection.execute(REVOKE, tenant_id, "staff", request.subject, True, seconds, until)
            reply.tokens = await connection.fetchval(_TOKENS_OF, tenant_id, request.subject)
            if request.subject != trace.actor.get():
                reply.withdrawn = await withdraw_of(connection, tenant_id, request.subject, "signed out by an admin")
        await audit.record(connection, tenant_id, "staff.revoke", request.subject or request.sign_in_id, after=named)
        return reply

    return await engine.database.transaction(work)


async def list_revocations(engine: Engine, request: m.ListRevocationsRequest) -> m.ListRevocationsReply:
    """What was revoked since an earlier reply, of every tenant: for the edges, which remember it."""
    mark, now_us = _Mark.read(request.since), 0
    if not mark.tenant_id:
        # Asked before the rows are: what commits between the two is found by the next call.
        row = await engine.database.fetchrow(_SQL["settled"])
        assert row is not None
        mark.settled_us, now_us = row["settled_us"], row["now_us"]
    after = (mark.from_us, mark.tenant_id, mark.kind, mark.subject)
    rows = await engine.database.fetch(_SQL["revocations"], *after, PAGE)
    more = len(rows) == PAGE
    if more:
        last = rows[-1]
        mark = _Mark(mark.settled_us, last["revoked_us"], last["tenant_id"], last["kind"], last["subject"])
    else:
        mark = _Mark(from_us=max(0, mark.settled_us - LOOK_BACK_US))
    return m.ListRevocationsReply(
        revocations=[
            m.Revocation(
                tenant_id=row["tenant_id"],
                kind=enum(m.RevocationKind, row["kind"]),
                subject=row["subject"],
                issued_until=row["issued_until"],
                kept_until=row["kept_until"],
            )
            for row in rows
        ],
        since=msgspec.json.encode(mark).decode(),
        more=more,
        login_token_seconds=engine.settings.player_token_seconds,
        guest_token_seconds=engine.settings.refresh_token_seconds,
        token_seconds=engine.settings.token_seconds_max,
        now_us=now_us,
    )


class _Mark(msgspec.Struct, array_like=True):
    """How far a reader of revocations is: from when on it reads, and within one reading after which row.

    settled_us: from when on the next reading reads.
    """

    settled_us: int = 0
    from_us: int = 0
    tenant_id: str = ""
    kind: Literal["", "login", "player", "sign_in", "staff", "token"] = ""
    subject: str = ""

    @classmethod
    def read(cls, text: str) -> _Mark:
        """INVALID_ARGUMENT where it is not one that was given."""
        try:
            mark = msgspec.json.decode(text, type=cls) if text else cls()
        except (msgspec.DecodeError, UnicodeEncodeError):
            raise invalid("since", "is not a mark that was given") from None
        if not 0 <= mark.from_us < 2**53:
            raise invalid("since", "is not a mark that was given")
        return mark


async def revoke_login(connection: asyncpg.Connection, engine: Engine, tenant_id: str, login_id: str) -> None:
    seconds = engine.settings.player_token_seconds + SLACK_SECONDS
    await connection.execute(REVOKE, tenant_id, "login", login_id, False, seconds, 0)


# -- rows ------------------------------------------------------------------------------------

LIST_REVOCATIONS: Final = Operation("ListRevocations", "GET /logins/revocations", run=list_revocations)
REVOKE_STAFF: Final = Operation(
    "RevokeStaff",
    "POST /staff/revoke",
    run=revoke_staff,
    tokens=TokenUse.ENDS,
    admin=ADMINS,
    tenant_wide=True,
    unsuspended=True,
    example={"subject": "ann"},
)


ROWS: Final = (LIST_REVOCATIONS, REVOKE_STAFF)
