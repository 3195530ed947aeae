"""Erasure: deletes a player's personal data, and retains plays, winnings and payments under the id.

Deleted: name, picture, language, attributes, contacts and their login codes, logins, free input of plays (client
seeds, payloads, idempotency keys, the salts of its hashes in the log), entries, claim answers, receivers' responses,
and the name on finalized leaderboards.
Retained: plays, rewards, balances and ledgers. They are the tenant's books, and the id no longer leads to a person. A
play cannot be replayed any more if its rule reads the erased payload.

The audit log records the erasure and its reason; it never contains names or contacts. Data in Valkey and in the event
streams expires within a day (STREAM_HOURS). A dead letter stays until staff removes it.
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
from runtime.operations.players import challenges, logins
from runtime.operations.reporting import views
from runtime.stores.database import Database, at
from runtime.stores.rankings import COUNT_SECONDS
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("erasure")

PLAYS: Final = 1_000
"""Plays in one transaction, which locks their rows while it runs."""

JOB: Final = "retention"
EVERY_SECONDS: Final = 3_600.0
BATCH: Final = 500
"""Players that one statement checks."""

_OF_LOGINS: Final = ("lock_logins", "login_quarters", "code_guesses", "referral_codes")
_OF_PLAYS: Final = ("grants", "completions", "quest_events", "redemptions", "entries", "entry_contacts", "entry_keys")
_OF_REWARDS: Final = ("rewards", "answers", "tasks")
"""In the lock order of sql/locks.py."""


class IdleDays(NamedTuple):
    """Days without activity (sql/erasure.sql, `idle`) after which a player is erased. 0: never."""

    guest: int
    player: int


async def erase_player(engine: Engine, request: m.ErasePlayerRequest) -> m.PlayerRecordReply:
    """Erases a player's personal data, and signs the player out everywhere. Repeat it to erase data that came since.

    For a merged guest, it erases the player that the guest was merged into. Statistics, rewards, wallet and ledger stay
    under the id. It cannot be undone.
    """
    checks = Checks()
    checks.required("reason", request.reason)
    checks.raise_found()
    tenant_id = tenant_of(request)
    await erase(engine, tenant_id, request.id, request.reason)
    return m.PlayerRecordReply(player=await find(engine.database, tenant_id, request.id))


async def erase(engine: Engine, tenant_id: str, player_id: str, reason: str, *, idle: IdleDays | None = None) -> bool:
    """Erases the personal data of a player and of the guests merged into it, in several transactions.

    For a merged guest, of its player. Returns whether it did. idle: only if the player has been idle for that long, and
    is no merged guest. Order: names in profiles; names on
    leaderboards; the client data of plays, in batches; the rest, with the audit entry. An interrupted erasure is not
    recorded as done. A leaderboard that is being finalized may have read the names before, so the erasure waits for
    it; later ones read none.
    """
    erased = 0
    while True:
        player_ids = await with_merged(engine.database, tenant_id, player_id)
        if not player_ids:
            raise unknown("player", player_id)
        if idle is not None and player_ids[0] != player_id:
            return False
        is_idle = await engine.database.transaction(partial(_forget_names, tenant_id, player_ids, idle))
        if not is_idle:
            return False
        await engine.database.transaction(partial(_forget_on_boards, tenant_id, player_ids))
        count = PLAYS
        while count == PLAYS:
            count = await engine.database.transaction(partial(_forget_sent, tenant_id, player_ids, PLAYS))
            erased += count
        audit_facts = {"reason": reason, "plays": erased, "guests": len(player_ids) - 1}
        if await engine.database.transaction(
            partial(_erase_rest, engine, tenant_id, player_id, player_ids, audit_facts)
        ):
            return True


async def with_merged(reader: asyncpg.Connection | Database, tenant_id: str, player_id: str) -> list[str]:
    """The ids of the player, or of the one that this guest was merged into, and of the guests merged into it. Empty:
    unknown.
    """
    return [row["player_id"] for row in await reader.fetch(_SQL["with_guests"], tenant_id, player_id)]


async def _forget_names(
    tenant_id: str, player_ids: list[str], idle: IdleDays | None, connection: asyncpg.Connection
) -> bool:
    """Erases names in profiles. False if the player is not idle any more."""
    await connection.execute(_SQL["lock_players"], tenant_id, player_ids)
    if idle is not None and not await _is_idle(connection, tenant_id, player_ids[0], idle):
        return False
    await connection.execute(_SQL["names"], tenant_id, player_ids)
    return True


async def _forget_on_boards(tenant_id: str, player_ids: list[str], connection: asyncpg.Connection) -> None:
    """Erases names on leaderboards, after any finalization that may have read them has committed."""
    await connection.execute(_SQL["boards"], tenant_id, timeout=COUNT_SECONDS)
    await connection.execute(_SQL["standings"], tenant_id, player_ids)


async def _forget_sent(tenant_id: str, player_ids: list[str], most: int, connection: asyncpg.Connection) -> int:
    """Erases what the players sent with up to `most` plays, and up to `most` salts. Returns the number of plays."""
    status = await connection.execute(_SQL["plays"], tenant_id, player_ids, most)
    await connection.execute(_SQL["salts"], tenant_id, player_ids, most)
    return int(status.rpartition(" ")[2])


async def _erase_rest(
    engine: Engine,
    tenant_id: str,
    player_id: str,
    player_ids: list[str],
    audit_facts: dict[str, Any],
    connection: asyncpg.Connection,
) -> bool:
    """Erases all but the plays. False if a merge of the player committed before the lock: erase again."""
    await connection.execute(_SQL["lock_players"], tenant_id, player_ids)
    # No merge of the player or into it from here on: a merge locks both.
    if await with_merged(connection, tenant_id, player_id) != player_ids:
        return False
    await connection.execute(_SQL["profiles"], tenant_id, player_ids)
    contacts = [row["contact"] for row in await connection.fetch(_SQL["contacts"], tenant_id, player_ids)]
    await connection.execute(_SQL["challenges"], tenant_id, contacts)
    prints = [each for contact in contacts for each in challenges.fingerprints(engine, tenant_id, contact)]
    await connection.execute(_SQL["guesses"], tenant_id, prints)
    for name in _OF_LOGINS:
        await connection.execute(_SQL[name], tenant_id, player_ids)
    ended = 0
    for one in player_ids:
        ended += await logins.end_all(connection, engine, tenant_id, one)
    await connection.execute(_SQL["logins"], tenant_id, player_ids)
    await connection.execute(_SQL["plays"], tenant_id, player_ids, 10 * PLAYS)
    for name in (*_OF_PLAYS, *_OF_REWARDS):
        await connection.execute(_SQL[name], tenant_id, player_ids)
    await _forget_in_events(connection, tenant_id, player_ids)
    await connection.execute(_SQL["log"], tenant_id)
    await connection.execute(_SQL["salts"], tenant_id, player_ids, 10 * PLAYS)
    await audit.record(connection, tenant_id, "player.erase", player_ids[0], after={**audit_facts, "sessions": ended})
    return True


async def retain(engine: Engine) -> None:
    """Erases players idle for longer than the retention settings allow, and page views as old, tenant by tenant."""
    days = IdleDays(engine.settings.retention_guest_days, engine.settings.retention_player_idle_days)
    if not any(days):
        return
    trace.actor.set(JOB)
    for tenant_id in await engine.database.tenants(_SQL["tenants"]):
        await attempt(JOB, at(tenant_id, _erase_idle_players(engine, tenant_id, days)), tenant_id=tenant_id)
        await attempt(JOB, at(tenant_id, views.retain(engine, tenant_id)), tenant_id=tenant_id)


async def _erase_idle_players(engine: Engine, tenant_id: str, days: IdleDays) -> None:
    after = ""
    while rows := await engine.database.fetch(_SQL["idle"], tenant_id, after, *days, BATCH, ""):
        for row in rows:
            after = row["player_id"]
            if row["idle"] and not await attempt(
                JOB,
                erase(engine, tenant_id, after, "idle for longer than the retention period", idle=days),
                tenant_id=tenant_id,
                player_id=after,
            ):
                break  # If the database is down, the next query ends the sweep.


async def _is_idle(reader: asyncpg.Connection | Database, tenant_id: str, player_id: str, days: IdleDays) -> bool:
    row = await reader.fetchrow(_SQL["idle"], tenant_id, "", *days, 1, player_id)
    return row is not None and bool(row["idle"])


async def _forget_in_events(connection: asyncpg.Connection, tenant_id: str, player_ids: list[str]) -> None:
    """Erases names in sent and pending events, and receivers' responses."""
    rows = await connection.fetch(_SQL["events"], tenant_id, player_ids, timeout=COUNT_SECONDS)
    for row in rows + await connection.fetch(_SQL["messages"], tenant_id, player_ids):
        for part in events.personal_data_in(row["event"]):
            if part["player_id"] in player_ids:
                events.erase_personal_data(part)
        await connection.execute(_SQL["set_event"], tenant_id, row["integration_id"], row["delivery_id"], row["event"])
