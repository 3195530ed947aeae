"""Players' logins, stored durably.

The edges own challenges and tokens (runtime/http/login/, runtime/http/auth/). Core stores what must outlive an edge, as
hashes or as ids that grant no access.
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
"""Within this time the same requester may repeat a refresh and get the same next token. Answers may be lost, one
after another, or pages of one browser may refresh at once."""

REPEATS_MAX: Final = 3
"""How many generations in a row may be repeated. Limits a thief who refreshes from the owner's address."""

GUESTS_ENDED: Final = challenges.Rate("guest-end-ip", 60, 300)
"""Guests that one address may log out. Every edge caches each revocation for a month, and anyone can create guests."""

NETWORK_GUESTS_ENDED: Final = GUESTS_ENDED.of_network("guest-end-net")


async def begin_login(engine: Engine, request: m.BeginLoginRequest) -> m.LoginReply:
    """Begins a login, with a refresh token of generation 0, and consumes its challenge in the same transaction.

    So a failure costs no code, and a retry gets the same answer.
    NOT_FOUND UNKNOWN_PLAYER, UNKNOWN_CHALLENGE; ALREADY_EXISTS LOGIN_EXISTS.
    """
    tenant_id, player_id, settings = tenant_of(request), player_id_of(request), engine.settings
    lifetimes = (settings.refresh_token_seconds, settings.login_seconds)
    login = (tenant_id, _login_id(request.login_id), player_id)

    async def work(connection: asyncpg.Connection) -> m.LoginReply:
        if request.challenge_id and not await challenges.consume(connection, tenant_id, request.challenge_id):
            row = await connection.fetchrow(_SQL["begun"], *login)
            if row is None:
                raise challenges.unknown_challenge()
        else:
            row = await connection.fetchrow(_SQL["begin"], *login, merchant_of(request), *lifetimes)
        player = await connection.fetchrow(FIND, tenant_id, player_id)
        if player is None:
            raise unknown("player", player_id)
        if row is None:
            raise Fault(Status.ALREADY_EXISTS, "LOGIN_EXISTS", "a login with this id already exists")
        return _reply(row, player)

    return await engine.database.transaction(work)


async def turn_login(engine: Engine, request: m.TurnLoginRequest) -> m.LoginReply:
    """Rotates the refresh token: ends this generation and makes the next one valid. The first of concurrent uses wins.

    UNAUTHENTICATED TOKEN_EXPIRED; TOKEN_INVALID for a second use, which ends the login: either the owner or a thief
    used the token before (RFC 9700, 4.14.2). The same requester may repeat a refresh within REPEAT_SECONDS, for up to
    REPEATS_MAX generations in a row; each repeat gives the same next token.
    """
    tenant_id, login_id = tenant_of(request), _login_id(request.login_id)
    if request.generation < 0:
        raise invalid("generation", "must be at least 0")
    key = (tenant_id, login_id, request.generation)

    async def work(connection: asyncpg.Connection) -> m.LoginReply | Fault:
        row = await connection.fetchrow(_SQL["rotate"], *key, request.requester, engine.settings.refresh_token_seconds)
        if row is None:
            limits = (request.requester, REPEAT_SECONDS, REPEATS_MAX)
            row = await connection.fetchrow(_SQL["rotate_again"], *key, *limits)
        if row is not None:
            # Read before the commit: a failure afterwards would cost the player both tokens.
            return _reply(row, await connection.fetchrow(FIND, tenant_id, row["player_id"]))
        # A Fault is returned, not raised, so that the end of the login commits.
        if await connection.fetchval(_SQL["end_reused"], *key) is not None:
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
    """Ends one login of the player, or all of them with all of the player's tokens. Idempotent.

    Without a login, it ends a guest's token. Another token without a login is its issuer's, and stays valid.
    RESOURCE_EXHAUSTED RATE_LIMITED if an address or network ends too many guests.
    """
    tenant_id, player_id = tenant_of(request), player_id_of(request)
    is_guest = ids.is_guest(player_id)
    all_tokens = request.everywhere or (is_guest and not request.login_id)
    checks = Checks()
    checks.between("issued_at", request.issued_at, 0, TIME_MAX)
    checks.raise_found()

    async def work(connection: asyncpg.Connection) -> None:
        if all_tokens and is_guest:
            rates = [(GUESTS_ENDED, request.address), (NETWORK_GUESTS_ENDED, request.network)]
            await challenges.charge_all(connection, [(rate, name) for rate, name in rates if name])
        if request.everywhere or request.login_id:
            only = "" if request.everywhere else request.login_id
            for row in await connection.fetch(_SQL["end"], tenant_id, player_id, only):
                await revoke_login(connection, engine, tenant_id, row["login_id"])
        if all_tokens:
            until = request.issued_at
            await revoke_player(connection, engine, tenant_id, player_id, for_ever=is_guest, issued_at=until)

    await engine.database.transaction(work)
    return m.Empty()


async def end_all(connection: asyncpg.Connection, engine: Engine, tenant_id: str, player_id: str) -> int:
    """Ends a player's logins and other tokens, on staff's or the service's behalf. Returns the number of logins ended.

    A guest's token ends for ever: a guest has one and cannot get another.
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
        raise suspended("player")  # Rolls back the token's rotation, too.
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
    while_suspended=True,
    bounded=True,
    refusals=("RATE_LIMITED",),
    example={"everywhere": True},
)


ROWS: Final = (BEGIN_LOGIN, TURN_LOGIN, END_LOGINS)
