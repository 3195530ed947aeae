"""Erasure: what says who a player is goes, what was played, won and paid stays, under the id.

Gone are name, picture, language, attributes, contacts and the codes that were sent to them, logins, what came with
plays in the player's own words (client seeds, payloads, keys), what was answered at claims, what receivers said, and
the name on finalized boards.
Plays, rewards, balances and their ledgers stay: they are the tenant's books, and say of an id that nothing leads back
from. A play whose payload is gone is not decided again any more, where its rule reads it.

The audit log keeps that it was done and why; it was never told a name or a contact. What the ephemeral store and the
streams of events hold goes by itself, within a day (STREAM_HOURS); a dead letter stays until somebody takes it away.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

import asyncpg

import sql
from runtime import events, trace
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.background import attempt
from runtime.errors import unknown
from runtime.operations import audit
from runtime.operations.checks import Checks
from runtime.operations.desk.player_history import find
from runtime.operations.players import logins
from runtime.stores.database import Database
from runtime.stores.rankings import COUNT_SECONDS
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("erasure")

PLAYS: Final = 1_000
"""Plays of one transaction: their rows are locked while it runs."""

JOB: Final = "retention"
EVERY_SECONDS: Final = 3_600.0
BATCH: Final = 500
"""Players that one statement looks at."""

_STEPS: Final = ("profiles", "guesses", "challenges", "contacts", "hold_logins", "login_quarters")
_OF_PLAYS: Final = ("grants", "completions", "quest_events", "rewards", "answers", "tasks")
"""In the order of sql/locks.py."""


class IdleDays(NamedTuple):
    """For how many days without a play, a reward or an open login a player is kept. 0: for ever."""

    guest: int
    player: int


async def erase_player(engine: Engine, request: m.ErasePlayerRequest) -> m.PlayerRecordReply:
    """Erases a player's personal data, and signs the player out everywhere; again it does the same of what came since.

    Statistics, rewards, wallet and ledger stay under the id. It cannot be undone.
    """
    checks = Checks()
    checks.required("reason", request.reason)
    checks.raise_found()
    tenant_id = tenant_of(request)
    await erase(engine, tenant_id, request.id, request.reason)
    return m.PlayerRecordReply(player=await find(engine.database, tenant_id, request.id))


async def erase(engine: Engine, tenant_id: str, player_id: str, reason: str, *, idle: IdleDays | None = None) -> bool:
    """Erases; whether it did. idle: only a player who has been idle for so long.

    Plays a batch at a time, then the names, then those on boards, then the rest: who breaks off has erased less, and
    nothing says that it was done. A board that was being finalized when the names went may have read them, so it is
    waited for; every later one reads none.
    """
    erased = 0
    while True:
        who = await all_of(engine.database, tenant_id, player_id)
        if player_id not in who:
            raise unknown("player", player_id)
        if idle is not None and not await _is_idle(engine.database, tenant_id, player_id, idle):
            return False
        while (some := await engine.database.execute(_SQL["plays"], tenant_id, who, PLAYS)) == PLAYS:
            erased += some
        erased += some
        still = await engine.database.transaction(partial(_forget_names, tenant_id, player_id, who, idle))
        if not still:
            return False
        await engine.database.transaction(partial(_forget_on_boards, tenant_id, who))
        noted = {"reason": reason, "plays": erased, "guests": len(who) - 1}
        if await engine.database.transaction(partial(_erase_rest, engine, tenant_id, player_id, who, noted)):
            return True


async def all_of(reader: asyncpg.Connection | Database, tenant_id: str, player_id: str) -> list[str]:
    """The player and the guests that became it, by their ids; nobody where there is no such player."""
    return [row["player_id"] for row in await reader.fetch(_SQL["all_of"], tenant_id, player_id)]


async def _forget_names(
    tenant_id: str, player_id: str, who: list[str], idle: IdleDays | None, connection: asyncpg.Connection
) -> bool:
    """Their names; False where the player is not idle any more."""
    await connection.execute(_SQL["hold"], tenant_id, who)
    if idle is not None and not await _is_idle(connection, tenant_id, player_id, idle):
        return False
    await connection.execute(_SQL["names"], tenant_id, who)
    return True


async def _forget_on_boards(tenant_id: str, who: list[str], connection: asyncpg.Connection) -> None:
    """Their names on boards, once nobody keeps there any more what was read before."""
    await connection.execute(_SQL["boards"], tenant_id, timeout=COUNT_SECONDS)
    await connection.execute(_SQL["standings"], tenant_id, who)


async def _erase_rest(
    engine: Engine,
    tenant_id: str,
    player_id: str,
    who: list[str],
    noted: dict[str, Any],
    connection: asyncpg.Connection,
) -> bool:
    """All but the plays; False where a guest became the player before it was held: there is one more to erase."""
    await connection.execute(_SQL["hold"], tenant_id, who)
    # From here on nobody becomes the player: a merge holds it too.
    if await all_of(connection, tenant_id, player_id) != who:
        return False
    for name in _STEPS:
        await connection.execute(_SQL[name], tenant_id, who)
    ended = 0
    for one in who:
        ended += await logins.end_all(connection, engine, tenant_id, one)
    await connection.execute(_SQL["logins"], tenant_id, who)
    await connection.execute(_SQL["plays"], tenant_id, who, 10 * PLAYS)
    for name in _OF_PLAYS:
        await connection.execute(_SQL[name], tenant_id, who)
    await _forget_in_events(connection, tenant_id, who)
    await audit.record(connection, tenant_id, "player.erase", player_id, after={**noted, "sessions": ended})
    return True


async def retain(engine: Engine) -> None:
    """Erases who has been idle for longer than the settings keep anybody, tenant by tenant."""
    days = IdleDays(engine.settings.retention_guest_days, engine.settings.retention_player_idle_days)
    if not any(days):
        return
    trace.actor.set(JOB)
    for tenant in await engine.database.fetch(_SQL["tenants"]):
        await attempt(JOB, _retain_of(engine, tenant["tenant_id"], days), tenant_id=tenant["tenant_id"])


async def _retain_of(engine: Engine, tenant_id: str, days: IdleDays) -> None:
    after = ""
    while rows := await engine.database.fetch(_SQL["idle"], tenant_id, after, *days, BATCH, ""):
        for row in rows:
            after = row["player_id"]
            if row["idle"] and not await attempt(
                JOB,
                erase(engine, tenant_id, after, "idle for longer than is kept", idle=days),
                tenant_id=tenant_id,
                player_id=after,
            ):
                break  # The next look ends the sweep where it is the store that is away.


async def _is_idle(reader: asyncpg.Connection | Database, tenant_id: str, player_id: str, days: IdleDays) -> bool:
    row = await reader.fetchrow(_SQL["idle"], tenant_id, "", *days, 1, player_id)
    return row is not None and bool(row["idle"])


async def _forget_in_events(connection: asyncpg.Connection, tenant_id: str, who: list[str]) -> None:
    """Takes their names out of events that were told or are to be, and what receivers said and answered."""
    for row in await connection.fetch(_SQL["events"], tenant_id, who):
        for part in events.said_of_players(row["event"]):
            if part["player_id"] in who:
                events.forget(part)
        await connection.execute(_SQL["set_event"], tenant_id, row["integration_id"], row["delivery_id"], row["event"])
