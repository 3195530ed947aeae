"""What staff does to a player: gives turns, makes a guest the player, takes a contact away, signs out everywhere.

Each is noted in the audit log by the transaction that does it, and never with a contact in it.
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, unknown
from runtime.operations import audit, reading
from runtime.operations.approvals import policy
from runtime.operations.approvals.pending import Held, may_wait, settle
from runtime.operations.checks import Checks
from runtime.operations.desk.player_history import find, turn_entry
from runtime.operations.idempotent_writes import once
from runtime.operations.players import logins, merging
from runtime.operations.quests.quest_admin import TURNS_MAX
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("desk")
_CAMPAIGN: Final = sql.load("campaigns")["get"]


@may_wait
async def grant_turns(engine: Engine, request: m.GrantTurnsRequest) -> m.TurnEntryReply:
    """Gives the player turns in a campaign, for a reason that the audit log keeps.

    With an Idempotency-Key a retry answers the entry of the first time. A guest that has logged in is the player
    that it became. Above DUAL_TURNS_ABOVE it waits for a second person: 202 APPROVAL_NEEDED.
    """
    tenant_id = tenant_of(request)
    checks = Checks()
    checks.required("campaign_id", request.campaign_id)
    checks.required("reason", request.reason)
    checks.between("amount", request.amount, 1, TURNS_MAX)
    checks.raise_found()

    async def work(connection: asyncpg.Connection) -> m.TurnEntryReply:
        if await connection.fetchrow(_SQL["record"], tenant_id, request.id) is None:
            raise unknown("player", request.id)
        await reading.to_write(connection, _CAMPAIGN, request, "campaign", request.campaign_id)
        owner_id = await merging.hold_player(connection, tenant_id, request.id)
        entry = (request.amount, ids.make("entry"), "")
        row = await connection.fetchrow(_SQL["grant_turns"], tenant_id, owner_id, request.campaign_id, *entry)
        assert row is not None, "it adds, or makes the row"
        after = {**dict(row), "player_id": owner_id, "why": request.reason}
        await audit.record(connection, tenant_id, "player.grant_turns", owner_id, after=after)
        had = {"campaign_id": request.campaign_id, "balance": row["balance_after"] - request.amount}
        given = {**had, "balance": row["balance_after"], "amount": request.amount, "reason": request.reason}
        held = Held(owner_id, before=had, after=given)
        await settle(connection, policy.turns(engine.settings, request.amount), lambda: held)
        return m.TurnEntryReply(entry=turn_entry(row))

    reply: m.TurnEntryReply = (await once(engine, request, m.TurnEntryReply, work)).reply
    return reply


async def merge_player(engine: Engine, request: m.MergePlayerRequest) -> m.MergePlayerReply:
    """Makes a guest the player, just as a login would have: what it has moves, within the caps of one player.

    With `preview` it only says what the guest has. FAILED_PRECONDITION ILLEGAL_TRANSITION for what no login would
    merge: who is no guest, is somebody already, has contacts of its own, or is suspended; nor into a guest.
    """
    tenant_id, guest_id = tenant_of(request), request.guest_id
    checks = Checks()
    checks.required("guest_id", guest_id)
    checks.raise_found()
    player = await find(engine.database, tenant_id, request.id)
    guest = await engine.database.fetchrow(_SQL["has"], tenant_id, guest_id)
    if guest is None:
        raise unknown("player", guest_id)
    if why := _why_not(guest, guest_id, player):
        raise Fault(Status.FAILED_PRECONDITION, "ILLEGAL_TRANSITION", why)
    had = {name: guest[name] for name in ("plays", "rewards", "balances", "turns")}
    if not request.preview and not await merging.merge(engine, tenant_id, guest_id, request.id, noted=had):
        raise Fault(Status.FAILED_PRECONDITION, "ILLEGAL_TRANSITION", f"{guest_id} is no guest any more")
    return m.MergePlayerReply(player_id=request.id, guest_id=guest_id, merged=not request.preview, **had)


def _why_not(guest: Any, guest_id: str, player: m.PlayerRecord) -> str:
    """Why the one cannot become the other; empty where it can."""
    if player.merged_into:
        return f"{player.id} is {player.merged_into} now"
    if player.auth_method is m.AuthMethod.GUEST:
        return f"{player.id} is a guest itself: whoever logs in as a player takes it along"
    if guest_id == player.id:
        return "a player is itself already"
    if guest["merged_into"] is not None:
        return f"{guest_id} is {guest['merged_into']} already"
    if guest["auth_method"] != "guest" or guest["has_contacts"]:
        return f"{guest_id} is no guest"
    return f"{guest_id} is suspended" if guest["status"] == "suspended" else ""


async def unlink_contact(engine: Engine, request: m.UnlinkContactRequest) -> m.PlayerRecordReply:
    """Takes a contact from the player, and signs the player out everywhere: whoever has the contact may have signed in.

    Who proves the contact later is another player. NOT_FOUND UNKNOWN_CONTACT.
    """
    tenant_id = tenant_of(request)
    checks = Checks()
    checks.required("contact_id", request.contact_id)
    checks.raise_found()

    async def work(connection: asyncpg.Connection) -> m.PlayerRecord:
        await hold(connection, tenant_id, request.id)
        type = await connection.fetchval(_SQL["unlink"], tenant_id, request.id, request.contact_id)
        if type is None:
            raise unknown("contact", request.contact_id)
        await logins.end_all(connection, engine, tenant_id, request.id)
        before = {"contact_id": request.contact_id, "type": type}
        await audit.record(connection, tenant_id, "player.unlink_contact", request.id, before=before)
        return await find(connection, tenant_id, request.id)

    return m.PlayerRecordReply(player=await engine.database.transaction(work))


async def sign_out_player(engine: Engine, request: m.SignOutPlayerRequest) -> m.SignOutPlayerReply:
    """Signs the player out everywhere: every token that it has now ends within about a second.

    A guest has no other way in: it is over for good.
    """
    tenant_id = tenant_of(request)

    async def work(connection: asyncpg.Connection) -> int:
        await hold(connection, tenant_id, request.id)
        ended = await logins.end_all(connection, engine, tenant_id, request.id)
        after = {"ended": ended, "reason": request.reason}
        await audit.record(connection, tenant_id, "player.sign_out", request.id, after=after)
        return ended

    return m.SignOutPlayerReply(ended=await engine.database.transaction(work))


async def hold(connection: asyncpg.Connection, tenant_id: str, player_id: str) -> None:
    """Locks the player's row. NOT_FOUND UNKNOWN_PLAYER."""
    if await connection.fetchval(_SQL["hold"], tenant_id, player_id) is None:
        raise unknown("player", player_id)
