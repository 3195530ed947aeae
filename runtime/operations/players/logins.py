"""Logins of players, kept durably.

The edges own challenges and tokens (runtime/http/login/, runtime/http/auth/). Core keeps what must outlive them, as
hashes or as names that open nothing.
"""

from __future__ import annotations

import math
from typing import Final

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, invalid, suspended, unknown
from runtime.operations.checks import TIME_MAX, Checks
from runtime.operations.players import challenges
from runtime.operations.players.lookup import FIND, player_from_row
from runtime.operations.players.revocations import LEEWAY_SECONDS, revoke_login, revoke_player
from runtime.operations.row import Operation
from runtime.wire.scope import merchant_of, player_id_of, tenant_of

_SQL: Final = sql.load("logins")

REPEAT_SECONDS: Final = 10.0
"""Within this time the same requester may repeat a refresh and gets the same next token: the first answer may have been
lost, or two pages of one browser may have asked at once."""

REPEATS_MAX: Final = 3
"""How many generations in a row may be repeated. It bounds a thief who refreshes from the same address each time."""

GUESTS_ENDED: Final = challenges.Rate("guest-end-ip", 60, 300)
"""How many guests one address may log out: every edge remembers each for a month, and anyone can create guests."""

NETWORK_GUESTS_ENDED: Final = GUESTS_ENDED.of_network("guest-end-net")


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
            await revoke_login(connection, engine, tenant_id, login_id)
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
                await revoke_login(connection, engine, tenant_id, row["login_id"])
        if of_no_login:
            # A guest has one token, and no way to another.
            until = request.issued_at
            await revoke_player(connection, engine, tenant_id, player_id, for_ever=is_guest, issued_at=until)

    await engine.database.transaction(work)
    return m.Empty()


async def end_all(connection: asyncpg.Connection, engine: Engine, tenant_id: str, player_id: str) -> int:
    """Ends every login of a player, and its other tokens, where others decide it. Returns how many logins.

    A guest's token ends for ever: a guest has one, and cannot get another.
    """
    ended = await connection.fetch(_SQL["end"], tenant_id, player_id, "")
    for row in ended:
        await revoke_login(connection, engine, tenant_id, row["login_id"])
    until = math.ceil(engine.clock.now()) + LEEWAY_SECONDS
    for_ever = ids.is_guest(player_id)
    await revoke_player(connection, engine, tenant_id, player_id, for_ever=for_ever, issued_at=until)
    return len(ended)


def _reply(login: asyncpg.Record, player: asyncpg.Record | None) -> m.LoginReply:
    if player is None:
        raise unknown("player", login["player_id"])
    if player["status"] == "suspended":
        raise suspended("player")  # What the token was used up for is undone with it.
    return m.LoginReply(player=player_from_row(player), merchant_id=login["merchant_id"], ends_at=login["ends_at"])


def _login_id(login_id: str) -> str:
    if not login_id:
        raise invalid("login_id", "is required")
    return login_id


def invalid_refresh_token() -> Fault:
    """UNAUTHENTICATED TOKEN_INVALID: the token is forged or used, or its login has ended."""
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


ROWS: Final = (BEGIN_LOGIN, TURN_LOGIN, END_LOGINS)
