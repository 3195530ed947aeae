"""Revocations: tokens that end before they expire.

Each edge polls new rows every second into a cache (runtime/http/auth/revocations.py), so no request queries them.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final, Literal, NamedTuple

import asyncpg
import msgspec

import sql
from runtime import ids, trace
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import invalid
from runtime.operations import audit
from runtime.operations.approvals.pending import withdraw_pending
from runtime.operations.checks import TIME_MAX, Checks
from runtime.operations.row import ADMINS, Operation, TokenUse
from runtime.stores.database import HOME, Database, StoreUnavailable
from runtime.stores.databases import EACH_SECONDS, everywhere
from runtime.wire.enums import enum
from runtime.wire.scope import tenant_of
from runtime.wire.subjects import subject_of

_SQL: Final = sql.load("logins")
_TOKENS_OF: Final = sql.load("tokens")["count_live"]
REVOKE: Final = _SQL["revoke"]

PAGE: Final = 5_000
"""Revocations in one reply: about half a megabyte."""

SLACK_SECONDS: Final = 60.0
"""A revocation outlives its tokens by this, since other clocks than the database's issue and check them."""

LOOK_BACK_US: Final = 60_000_000
"""An edge re-reads this much, in microseconds. After a failover the new primary's clock may be behind, so it may date a
revocation before the edge's watermark."""

API_TOKEN: Final = re.compile(r"(?:^|\()(token_[0-9a-z]{26})\)?$")
"""An API token's id, on its own or within an actor of the audit log. It cannot be revoked as a subject: the row would
be purged before the token ends."""

LEEWAY_SECONDS: Final = 5
"""The tolerated clock skew between an issuer and the database."""

_DOWN: Final = (OSError, asyncpg.CannotConnectNowError, asyncpg.TargetServerAttributeNotMatched)
"""Connecting failed: the server is off, is starting or stopping, or is a standby."""


async def revoke_player(
    connection: asyncpg.Connection,
    engine: Engine,
    tenant_id: str,
    player_id: str,
    *,
    for_ever: bool = True,
    issued_at: int = 0,
) -> None:
    """Revokes the player's tokens that belong to no login: a guest's, and those of another issuer.

    Commits with the transaction of `connection`; every edge refuses the tokens about a second later. With `for_ever`
    it also revokes tokens issued later (a merged guest's). Otherwise it revokes those issued until now, or until
    `issued_at` (unix seconds) if that is later.
    """
    settings = engine.settings
    life_seconds = settings.refresh_token_seconds if ids.is_guest(player_id) else settings.token_seconds_max
    seconds = life_seconds + SLACK_SECONDS
    await connection.execute(REVOKE, tenant_id, "player", player_id, not for_ever, seconds, issued_at)


async def revoke_staff(engine: Engine, request: m.RevokeStaffRequest) -> m.RevokeStaffReply:
    """Revokes staff's tokens: those of a sign-in, those issued to a subject until now, or both.

    Every admin edge refuses them within about a second. Tokens issued later are valid, so disable the subject at its
    issuer, too. An issuer's clock may be ahead. So a subject's tokens of the next LEEWAY_SECONDS are also refused,
    unless the request states when its token was issued, as a logout does: that person may sign in again at once. If
    another person revokes the subject, its requests that await approval are withdrawn, also those made by its API
    tokens. Its API tokens stay valid, and are counted in the reply.
    """
    tenant_id = tenant_of(request)
    request.subject = subject_of(request.subject)
    checks = Checks()
    if not (request.subject or request.sign_in_id):
        checks.problem("subject", "is required, or sign_in_id")
    for name in ("subject", "sign_in_id"):
        if API_TOKEN.search(getattr(request, name)):
            checks.problem(name, "must not be an API token; revoke it with DELETE /admin/tokens/{id}")
    checks.between("issued_at", request.issued_at, 0, TIME_MAX)
    checks.raise_found()
    seconds = engine.settings.token_seconds_max + SLACK_SECONDS
    until = request.issued_at or math.ceil(engine.clock.now()) + LEEWAY_SECONDS
    facts = {"subject": request.subject, "sign_in_id": request.sign_in_id}

    async def work(connection: asyncpg.Connection) -> m.RevokeStaffReply:
        reply = m.RevokeStaffReply()
        if request.sign_in_id:
            await connection.execute(REVOKE, tenant_id, "sign_in", request.sign_in_id, False, seconds, 0)
        if request.subject:
            await connection.execute(REVOKE, tenant_id, "staff", request.subject, True, seconds, until)
            reply.tokens = await connection.fetchval(_TOKENS_OF, tenant_id, request.subject)
            if request.subject != trace.actor.get():
                reply.withdrawn = await withdraw_pending(
                    connection, tenant_id, request.subject, "signed out by an admin"
                )
        await audit.record(connection, tenant_id, "staff.revoke", request.subject or request.sign_in_id, after=facts)
        return reply

    return await engine.database.transaction(work)


async def list_revocations(engine: Engine, request: m.ListRevocationsRequest) -> m.ListRevocationsReply:
    """Returns revocations of all tenants since an earlier reply, for the edges' caches.

    One of several databases that does not answer is read again next time, from the same mark. The reply is partial if
    one that may serve has not been read from its beginning: an edge that knows no revocations of it accepts no token.
    """
    database = engine.database
    marks = _marks(request.since, [part.name for part in database.parts])

    async def page_of(part: Database) -> _Page:
        return await _page(part, marks[part.name])

    read: list[_Page] = []
    partial = False
    for part, page in await everywhere(database, page_of, seconds=EACH_SECONDS):
        if isinstance(page, _Page):
            marks[part.name] = page.mark
            read.append(page)
        partial |= not (marks[part.name].is_whole or _is_down(page))
    since = msgspec.json.encode(marks if len(marks) > 1 else marks[HOME]).decode()
    now_us = read[0].now_us
    return m.ListRevocationsReply(
        revocations=[
            m.Revocation(
                tenant_id=row["tenant_id"],
                kind=enum(m.RevocationKind, row["kind"]),
                subject=row["subject"],
                issued_until=row["issued_until"],
                expires_at=row["expires_at"],
            )
            for page in read
            for row in page.rows
        ],
        since=since,
        more=any(page.more for page in read),
        partial=partial,
        login_token_seconds=engine.settings.player_token_seconds,
        guest_token_seconds=engine.settings.refresh_token_seconds,
        token_seconds=engine.settings.token_seconds_max,
        now_us=now_us,
    )


class _Mark(msgspec.Struct, array_like=True):
    """A reader's cursor: the time it reads from, and the last row within the current pass.

    settled_us: where the next pass begins. is_whole: a pass from the beginning of the rows has ended.
    """

    settled_us: int = 0
    from_us: int = 0
    tenant_id: str = ""
    kind: Literal["", "login", "player", "sign_in", "staff", "token"] = ""
    subject: str = ""
    is_whole: bool = False


class _Page(NamedTuple):
    """Revocations of one database. now_us: its time, if the pass began here; else 0."""

    rows: list[Any]
    mark: _Mark
    more: bool
    now_us: int


def _is_down(found: _Page | StoreUnavailable) -> bool:
    """Whether the database refuses connections or cannot be reached. One that is only slow serves its tenants."""
    error = found.__cause__ if isinstance(found, StoreUnavailable) and not found.sent else None
    return isinstance(error, _DOWN) and not isinstance(error, TimeoutError)  # TimeoutError is an OSError.


async def _page(database: Database, mark: _Mark) -> _Page:
    now_us = 0
    if not mark.tenant_id:
        # Read before the rows, so that the next call finds what commits in between.
        row = await database.fetchrow(_SQL["settled"])
        assert row is not None
        mark.settled_us, now_us = row["settled_us"], row["now_us"]
    after = (mark.from_us, mark.tenant_id, mark.kind, mark.subject)
    rows = await database.fetch(_SQL["revocations"], *after, PAGE)
    if len(rows) < PAGE:
        return _Page(rows, _Mark(from_us=max(0, mark.settled_us - LOOK_BACK_US), is_whole=True), False, now_us)
    last = rows[-1]
    place = (last["revoked_us"], last["tenant_id"], last["kind"], last["subject"])
    return _Page(rows, _Mark(mark.settled_us, *place, mark.is_whole), True, now_us)


def _marks(text: str, names: list[str]) -> dict[str, _Mark]:
    """The mark of each database by its name. INVALID_ARGUMENT if the text is not of an earlier reply.

    With one database the text is its mark. A database that was added since is read from its beginning.
    """
    try:
        read = msgspec.json.decode(text, type=_Mark | dict[str, _Mark]) if text else {}
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise invalid("since", "must be the `since` of an earlier reply") from None
    known = {HOME: read} if isinstance(read, _Mark) else read
    if not all(0 <= mark.from_us < 2**53 for mark in known.values()):
        raise invalid("since", "must be the `since` of an earlier reply")
    return {name: known.get(name) or _Mark() for name in names}


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
    while_suspended=True,
    example={"subject": "ann"},
)


ROWS: Final = (LIST_REVOCATIONS, REVOKE_STAFF)
