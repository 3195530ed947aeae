"""Logins, and tokens that end before their time: what the edges' credentials rest on, kept durably.

The edges own challenges and tokens (runtime/http/login/, runtime/http/auth.py); Core keeps what must outlive
them, as hashes or as names that open nothing. A revocation is a row here; each edge reads the new ones every
second into its memory (runtime/http/revocations.py), so that no request asks for them.
"""

from __future__ import annotations

import math
import re
from typing import Final, Literal

import asyncpg
import msgspec
import structlog

import sql
from runtime import ids, trace
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, invalid, suspended, unknown
from runtime.operations import audit, challenges
from runtime.operations.approvals.pending import withdraw_of
from runtime.operations.budget_alerts import thresholds
from runtime.operations.checks import TIME_MAX, Checks
from runtime.operations.games import trials
from runtime.operations.players import FIND, player_from_row
from runtime.operations.row import ADMINS, Operation
from runtime.stores.database import StoreUnavailable
from runtime.wire.enums import enum
from runtime.wire.scope import merchant_of, player_id_of, tenant_of

_SQL: Final = sql.load("logins")
_TOKENS_OF: Final = sql.load("tokens")["live_of"]
REVOKE: Final = _SQL["revoke"]

PAGE: Final = 5_000
"""Revocations of one reply: about half a megabyte."""

SLACK_SECONDS: Final = 60.0
"""A revocation outlives its tokens by this: they are made, and judged, by other clocks than the database's."""

LOOK_BACK_US: Final = 60_000_000
"""From so long before what an edge has read it reads again, microseconds: a database that takes over after a failure
may be behind the one before, and dates what is revoked then to what was read already."""

REPEAT_SECONDS: Final = 10.0
"""For how long who used a refresh token may use it once more, and gets the very same next one: the answer may have
been lost, or two pages of one browser asked at once."""

REPEATS_MAX: Final = 3
"""Of how many generations in a row: a thief at the same address who is as quick each time has not longer than that."""

GUESTS_ENDED: Final = challenges.Rate("guest-end-ip", 60, 300)
"""Guests that one address may log out: every edge remembers each for a month, and guests are anybody's to make."""

NETWORK_GUESTS_ENDED: Final = GUESTS_ENDED.of_network("guest-end-net")

PURGE_SECONDS: Final = 600.0
"""How often what is over is forgotten."""

PURGE_BATCH: Final = 1_000
"""Rows that one statement forgets: a few milliseconds of them."""

API_TOKEN: Final = re.compile(r"(?:^|\()(token_[0-9a-z]{26})\)?$")
"""The id of one, or who it is in the audit log. What is remembered here would be forgotten before the token ends."""

LEEWAY_SECONDS: Final = 5
"""By how much the clock of who makes tokens may be ahead of the database's, or behind it."""

log = structlog.get_logger(__name__)


async def begin_login(engine: Engine, request: m.BeginLoginRequest) -> m.LoginReply:
    """The player's new login, whose first refresh token is of generation 0, and the end of the challenge that it is by.

    Both or neither: no code is lost to a failure. Asked again, because its answer was lost, it answers the same.
    NOT_FOUND UNKNOWN_PLAYER, UNKNOWN_CHALLENGE; ALREADY_EXISTS LOGIN_EXISTS.
    """
    tenant_id, player_id, settings = tenant_of(request), player_id_of(request), engine.settings
    lives = (settings.refresh_token_seconds, settings.login_seconds)
    who = (tenant_id, _login_id(request.login_id), player_id)

    async def work(connection: asyncpg.Connection) -> m.LoginReply:
        if request.challenge_id and not await challenges.use_up(connection, tenant_id, request.challenge_id):
            row = await connection.fetchrow(_SQL["begun"], *who)
            if row is None:
                raise challenges.unknown_challenge()
        else:
            row = await connection.fetchrow(_SQL["begin"], *who, merchant_of(request), *lives)
        player = await connection.fetchrow(FIND, tenant_id, player_id)
        if player is None:
            raise unknown("player", player_id)
        if row is None:
            raise Fault(Status.ALREADY_EXISTS, "LOGIN_EXISTS", "there is a login of this id already")
        return _reply(row, player)

    return await engine.database.transaction(work)


async def turn_login(engine: Engine, request: m.TurnLoginRequest) -> m.LoginReply:
    """Uses the refresh token of this generation up; the next one counts. Of rivals with one token the first wins.

    UNAUTHENTICATED TOKEN_EXPIRED; TOKEN_INVALID where it comes a second time, which ends the login: it was
    stolen, or its thief has used it (RFC 9700, 4.14.2). But once more, within REPEAT_SECONDS and from where it was
    used, it is answered alike, and REPEATS_MAX times in a row.
    """
    tenant_id, login_id = tenant_of(request), _login_id(request.login_id)
    if request.generation < 0:
        raise invalid("generation", "must be at least 0")
    place = (tenant_id, login_id, request.generation)

    async def work(connection: asyncpg.Connection) -> m.LoginReply | Fault:
        row = await connection.fetchrow(_SQL["turn"], *place, request.requester, engine.settings.refresh_token_seconds)
        if row is None:
            again = (request.requester, REPEAT_SECONDS, REPEATS_MAX)
            row = await connection.fetchrow(_SQL["turn_again"], *place, *again)
        if row is not None:
            # Here, not after the commit: a player who cannot be read then would have lost both tokens.
            return _reply(row, await connection.fetchrow(FIND, tenant_id, row["player_id"]))
        # A Fault is returned, not raised: what ends the login is to stay.
        if await connection.fetchval(_SQL["end_reused"], *place) is not None:
            await _revoke_login(connection, engine, tenant_id, login_id)
            return invalid_refresh_token()
        if await connection.fetchval(_SQL["is_ended"], tenant_id, login_id):
            return invalid_refresh_token()
        return Fault(Status.UNAUTHENTICATED, "TOKEN_EXPIRED", "the refresh token has expired; log in again")

    reply = await engine.database.transaction(work)
    if isinstance(reply, Fault):
        raise reply
    return reply


async def end_logins(engine: Engine, request: m.EndLoginsRequest) -> m.Empty:
    """Ends the player's login, or all of them with every token of the player; again it does nothing more.

    RESOURCE_EXHAUSTED RATE_LIMITED where an address, or a network, ends too many guests.
    """
    tenant_id, player_id = tenant_of(request), player_id_of(request)
    of_no_login, is_guest = request.everywhere or not request.login_id, ids.is_guest(player_id)
    checks = Checks()
    checks.between("issued_at", request.issued_at, 0, TIME_MAX)
    checks.raise_found()

    async def work(connection: asyncpg.Connection) -> None:
        if of_no_login and is_guest:
            if not await connection.fetchval(_SQL["is_player"], tenant_id, player_id):
                return  # It has done nothing yet: its token opens nothing that is anybody's.
            rates = [(GUESTS_ENDED, request.address), (NETWORK_GUESTS_ENDED, request.network)]
            await challenges.charge_all(connection, [(rate, name) for rate, name in rates if name])
        if request.everywhere or request.login_id:
            only = "" if request.everywhere else request.login_id
            for row in await connection.fetch(_SQL["end"], tenant_id, player_id, only):
                await _revoke_login(connection, engine, tenant_id, row["login_id"])
        if of_no_login:
            # A guest has one token, and no way to another.
            until = request.issued_at
            await revoke_player(connection, engine, tenant_id, player_id, for_ever=is_guest, issued_at=until)

    await engine.database.transaction(work)
    return m.Empty()


async def end_all(connection: asyncpg.Connection, engine: Engine, tenant_id: str, player_id: str) -> int:
    """Ends every login of the player and every other token that it has now, for somebody else: how many logins.

    A guest's for good: it has one token, and no way to another.
    """
    ended = await connection.fetch(_SQL["end"], tenant_id, player_id, "")
    for row in ended:
        await _revoke_login(connection, engine, tenant_id, row["login_id"])
    until = math.ceil(engine.clock.now()) + LEEWAY_SECONDS
    for_ever = ids.is_guest(player_id)
    await revoke_player(connection, engine, tenant_id, player_id, for_ever=for_ever, issued_at=until)
    return len(ended)


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

    Durable with the transaction of `connection`; every edge process refuses them at most a second or so after its
    commit. With `for_ever` those that are issued later too (a guest that became a player), else those until now, or
    until `issued_at` (unix seconds) where that is later.
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


_PURGES: Final = {
    **challenges.PURGES,
    **{name: _SQL[name] for name in ("purge_logins", "purge_revocations")},
    "purge_tokens": sql.load("tokens")["purge_tokens"],
    **trials.PURGES,
    **thresholds.PURGES,
}


async def purge(engine: Engine) -> None:
    """Forgets, tenant by tenant, what is over: challenges, rates, guesses, logins, revocations, API tokens, test
    plays, notices.

    What cannot be forgotten now is logged and keeps nothing else from it; the last such failure is raised at the end.
    """
    failed: Exception | None = None
    for tenant in await engine.database.fetch(_SQL["tenants"]):
        for name, statement in _PURGES.items():
            try:
                # Some at a time: with a backlog one statement for all would end at the store's limit, every time.
                while await engine.database.execute(statement, tenant["tenant_id"], PURGE_BATCH) == PURGE_BATCH:
                    pass
            except StoreUnavailable as error:
                if not error.sent:
                    raise  # No connection is to be had: each of the others would wait for one in vain.
                failed = _not_purged(tenant["tenant_id"], name, error)
            except asyncpg.PostgresError as error:
                failed = _not_purged(tenant["tenant_id"], name, error)
    if failed is not None:
        raise failed


def _not_purged(tenant_id: str, name: str, error: Exception) -> Exception:
    log.warning("login_purge_failed", tenant=tenant_id, statement=name, error=str(error))
    return error


def _reply(login: asyncpg.Record, player: asyncpg.Record | None) -> m.LoginReply:
    if player is None:
        raise unknown("player", login["player_id"])
    if player["status"] == "suspended":
        raise suspended("player")  # What the token was used up for is undone with it.
    return m.LoginReply(player=player_from_row(player), merchant_id=login["merchant_id"], ends_at=login["ends_at"])


async def _revoke_login(connection: asyncpg.Connection, engine: Engine, tenant_id: str, login_id: str) -> None:
    seconds = engine.settings.player_token_seconds + SLACK_SECONDS
    await connection.execute(REVOKE, tenant_id, "login", login_id, False, seconds, 0)


def _login_id(login_id: str) -> str:
    if not login_id:
        raise invalid("login_id", "is required")
    return login_id


def invalid_refresh_token() -> Fault:
    """UNAUTHENTICATED TOKEN_INVALID: of one that is forged, used, or of a login that was ended."""
    return Fault(Status.UNAUTHENTICATED, "TOKEN_INVALID", "the refresh token is not valid; log in again")


# -- rows ------------------------------------------------------------------------------------

_LOGIN_ID: Final = "login_0f1e2d3c4b5a69788796a5b4c3d2e1f0"

BEGIN_LOGIN: Final = Operation(
    "BeginLogin",
    "POST /logins",
    run=begin_login,
    bounded=True,
    refusals=("LOGIN_EXISTS", "UNKNOWN_PLAYER", "UNKNOWN_CHALLENGE"),
    example={"login_id": _LOGIN_ID},
)
TURN_LOGIN: Final = Operation(
    "TurnLogin",
    "POST /logins/turn",
    run=turn_login,
    bounded=True,
    refusals=("TOKEN_INVALID", "TOKEN_EXPIRED", "UNKNOWN_PLAYER"),
    example={"login_id": _LOGIN_ID, "generation": 3},
)
END_LOGINS: Final = Operation(
    "EndLogins",
    "POST /logins/end",
    run=end_logins,
    unsuspended=True,
    bounded=True,
    refusals=("RATE_LIMITED",),
    example={"everywhere": True},
)
LIST_REVOCATIONS: Final = Operation("ListRevocations", "GET /logins/revocations", run=list_revocations)

REVOKE_STAFF: Final = Operation(
    "RevokeStaff",
    "POST /staff/revoke",
    run=revoke_staff,
    admin=ADMINS,
    tenant_wide=True,
    unsuspended=True,
    example={"subject": "ann"},
)

ROWS: Final = (BEGIN_LOGIN, TURN_LOGIN, END_LOGINS, LIST_REVOCATIONS, REVOKE_STAFF)
