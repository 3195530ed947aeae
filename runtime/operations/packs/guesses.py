"""Limits wrong codes, so that codes cannot be guessed.

Wrong codes are counted in Postgres, over all processes: of each player, of each address and network, and in each
campaign. Each count is a leaky bucket. Above its limit, every further wrong code doubles the wait until the next one,
up to an hour. A request during a wait is refused by a read, before the code is looked up. Requests of one player, or
of one address without a player, are looked up and counted one at a time.

A campaign above its limit refuses only players and addresses with a wrong code of their own. So an attacker needs a new
player and a new address for each guess, and cannot lock the others out. A right code is never counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status
from runtime.operations.players.challenges import NETWORK_TIMES
from runtime.outgoing.vault import vault_of
from runtime.stores.database import Database
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("redemptions")

WAIT_SECONDS: Final = 15.0
WAIT_SECONDS_MAX: Final = 3_600.0

TURN_SECONDS: Final = 1.0
"""How long a lookup waits for others of the same guesser."""

T = TypeVar("T")


class Limit(NamedTuple):
    """Wrong codes without a wait: `most` at once, and one more every `seconds`. kind: the first part of its key."""

    kind: str
    most: int
    seconds: float


PLAYER: Final = Limit("player", 5, 600)
ADDRESS: Final = Limit("address", 50, 60)
"""An address may be a whole office or a mobile network's."""

NETWORK: Final = Limit("network", ADDRESS.most * NETWORK_TIMES, ADDRESS.seconds / NETWORK_TIMES)
CAMPAIGN: Final = Limit("campaign", 3_000, 0.5)

Guessers = list[tuple[Limit, str]]
"""The counts of one request: limits, and their keys."""

PURGES: Final = {"purge_code_guesses": _SQL["purge_code_guesses"]}


def guessers_of(engine: Engine, request: m.RedeemCodeRequest) -> Guessers:
    """The counts of the request's wrong code, the player's first. Addresses are hashed: the rows do not reveal them."""
    vault = vault_of(engine.keyring.code)
    named = [(ADDRESS, request.client_address), (NETWORK, request.client_network)]
    clients = [(limit, vault.fingerprints(name, "guesser")[0].hex()) for limit, name in named if name]
    players = [(PLAYER, request.player_id)] if request.player_id else []
    return [*players, *clients, (CAMPAIGN, request.campaign_id)]


def _key(limit: Limit, name: str) -> str:
    return f"{limit.kind} {name}"


class _Rival(Exception):
    """Another lookup of the same guesser runs."""


async def in_turn(engine: Engine, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
    """Runs a transaction that calls `begin`, and returns its result. Repeats it while the guesser has another lookup.

    Waiting for the lock instead would hold a connection. RESOURCE_EXHAUSTED RATE_LIMITED after a second.
    """
    ends = time.monotonic() + TURN_SECONDS
    while True:
        try:
            return await engine.database.transaction(work)
        except _Rival:
            if time.monotonic() >= ends:
                message = "another code is being checked; try again"
                raise Fault(Status.RESOURCE_EXHAUSTED, "RATE_LIMITED", message, retry_after_seconds=1) from None
            await asyncio.sleep(TURN_SECONDS / 50)


async def begin(connection: asyncpg.Connection, request: m.RedeemCodeRequest, guessers: Guessers) -> None:
    """Begins a lookup, alone among those of the same player or address; refuses as `refuse_waiting`."""
    limit, name = guessers[0]
    if limit is not CAMPAIGN and not await connection.fetchval(
        _SQL["lock_guesser"], tenant_of(request), _key(limit, name)
    ):
        raise _Rival
    await refuse_waiting(connection, request, guessers)


async def refuse_waiting(
    source: Database | asyncpg.Connection, request: m.RedeemCodeRequest, guessers: Guessers
) -> None:
    """RESOURCE_EXHAUSTED RATE_LIMITED if the player, its address or its network has to wait."""
    keys, leaks = [_key(*one) for one in guessers], [1 / limit.seconds for limit, _ in guessers]
    rows = {row["guesser"]: row for row in await source.fetch(_SQL["waits"], tenant_of(request), keys, leaks)}
    has_guessed = any(rows[key]["level"] > 0 for key in keys[:-1] if key in rows)
    for (limit, _), key in zip(guessers, keys, strict=True):
        if key in rows and (wait_seconds := rows[key]["wait_seconds"]) > 0 and (limit is not CAMPAIGN or has_guessed):
            raise Fault(
                Status.RESOURCE_EXHAUSTED,
                "RATE_LIMITED",
                "too many wrong codes; try again later",
                retry_after_seconds=wait_seconds,
                policy=f"codes-{limit.kind}",
            )


async def count_wrong(connection: asyncpg.Connection, request: m.RedeemCodeRequest, guessers: Guessers) -> None:
    """Counts a wrong code, before it is answered."""
    for limit, name in guessers:
        await connection.execute(
            _SQL["count_wrong"],
            tenant_of(request),
            _key(limit, name),
            1 / limit.seconds,
            float(limit.most),
            WAIT_SECONDS,
            WAIT_SECONDS_MAX,
        )
