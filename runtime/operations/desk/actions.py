"""Staff's actions on a player: grant turns, merge a guest, unlink a contact, sign out everywhere.

Each is recorded in the audit log by its own transaction, never with a contact's value.
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
from runtime.operations.approvals.pending import NeedsApproval, may_need_approval, settle
from runtime.operations.checks import Checks
from runtime.operations.desk.player_history import find, turn_entry
from runtime.operations.idempotent_writes import once
from runtime.operations.players import logins, merging
from runtime.operations.quests.quest_admin import TURNS_MAX
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("desk")
_CAMPAIGN: Final = sql.load("campaigns")["get"]


@may_need_approval
async def grant_turns(engine: Engine, request: m.GrantTurnsRequest) -> m.TurnEntryReply:
    """Gives the player turns in a campaign, with a reason for the audit log.

    With an Idempotency-Key a retry returns the first entry. For a merged guest it acts on the player that the guest
    became. More than DUAL_TURNS_ABOVE turns need a second person's approval: 202 APPROVAL_NEEDED.
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
        await reading.for_update(connection, _CAMPAIGN, request, "campaign", request.campaign_id)
        owner_id = await merging.lock_owner(connection, tenant_id, request.id)
        entry = (request.amount, ids.make("entry"), "", "adjustment")
        row = await connection.fetchrow(_SQL["grant_turns"], tenant_id, owner_id, request.campaign_id, *entry)
        assert row is not None, "the statement updates or inserts the row"
        after = {**dict(row), "player_id": owner_id, "why": request.reason}
        await audit.record(connection, tenant_id, "player.grant_turns", owner_id, after=after)
        before = {"campaign_id": request.campaign_id, "balance": row["balance_after"] - request.amount}
        change = {**before, "balance": row["balance_after"], "amount": request.amount, "reason": request.reason}
        needs_approval = NeedsApproval(owner_id, before=before, after=change)
        await settle(connection, policy.turns(engine.settings, request.amount), lambda: needs_approval)
        return m.TurnEntryReply(entry=turn_entry(row))

    reply: m.TurnEntryReply = (await once(engine, request, m.TurnEntryReply, work)).reply
    return reply


async def merge_player(engine: Engine, request: m.MergePlayerRequest) -> m.MergePlayerReply:
    """Merges a guest into the player, as a login would: what it has moves, within one player's caps.

    With `preview` it only returns what the guest has. FAILED_PRECONDITION ILLEGAL_TRANSITION if guest_id is not a
    guest, is merged already, has contacts or is suspended, or if the player is a guest itself.
    """
    tenant_id, guest_id = tenant_of(request), request.guest_id
    checks = Checks()
    checks.required("guest_id", guest_id)
    checks.raise_found()
    player = await find(engine.database, tenant_id, request.id)
    guest = await engine.database.fetchrow(_SQL["has"], tenant_id, guest_id)
    if guest is None:
        raise unknown("player", guest_id)
    if problem := _merge_problem(guest, guest_id, player):
        raise Fault(Status.FAILED_PRECONDITION, "ILLEGAL_TRANSITION", problem)
    counts = {name: guest[name] for name in ("plays", "rewards", "balances", "turns")}
    if not request.preview and not await merging.merge(engine, tenant_id, guest_id, request.id, audit_facts=counts):
        raise Fault(Status.FAILED_PRECONDITION, "ILLEGAL_TRANSITION", f"{guest_id} is no longer a guest")
    return m.MergePlayerReply(player_id=request.id, guest_id=guest_id, merged=not request.preview, **counts)


def _merge_problem(guest: Any, guest_id: str, player: m.PlayerRecord) -> str:
    """Why the guest cannot be merged into the player; "" if it can."""
    if player.merged_into:
        return f"{player.id} is merged into {player.merged_into}"
    if player.auth_method is m.AuthMethod.GUEST:
        return f"{player.id} is a guest itself; use a registered player"
    if guest_id == player.id:
        return "a player cannot be merged into itself"
    if guest["merged_into"] is not None:
        return f"{guest_id} is already merged into {guest['merged_into']}"
    if guest["auth_method"] != "guest" or guest["has_contacts"]:
        return f"{guest_id} is not a guest"
    return f"{guest_id} is suspended" if guest["status"] == "suspended" else ""


async def unlink_contact(engine: Engine, request: m.UnlinkContactRequest) -> m.PlayerRecordReply:
    """Unlinks a contact from the player, and signs the player out everywhere, since its holder may have signed in.

    If the contact is verified again, a new player is created. NOT_FOUND UNKNOWN_CONTACT.
    """
    tenant_id = tenant_of(request)
    checks = Checks()
    checks.required("contact_id", request.contact_id)
    checks.raise_found()

    async def work(connection: asyncpg.Connection) -> m.PlayerRecord:
        await lock_player(connection, tenant_id, request.id)
        type = await connection.fetchval(_SQL["unlink"], tenant_id, request.id, request.contact_id)
        if type is None:
            raise unknown("contact", request.contact_id)
        await logins.end_all(connection, engine, tenant_id, request.id)
        before = {"contact_id": request.contact_id, "type": type}
        await audit.record(connection, tenant_id, "player.unlink_contact", request.id, before=before)
        return await find(connection, tenant_id, request.id)

    return m.PlayerRecordReply(player=await engine.database.transaction(work))


async def sign_out_player(engine: Engine, request: m.SignOutPlayerRequest) -> m.SignOutPlayerReply:
    """Signs the player out everywhere: all its current tokens end within about a second.

    A guest cannot sign in again, so it loses access for good.
    """
    tenant_id = tenant_of(request)

    async def work(connection: asyncpg.Connection) -> int:
        await lock_player(connection, tenant_id, request.id)
        ended = await logins.end_all(connection, engine, tenant_id, request.id)
        after = {"ended": ended, "reason": request.reason}
        await audit.record(connection, tenant_id, "player.sign_out", request.id, after=after)
        return ended

    return m.SignOutPlayerReply(ended=await engine.database.transaction(work))


async def lock_player(connection: asyncpg.Connection, tenant_id: str, player_id: str) -> None:
    """Locks the player's row. NOT_FOUND UNKNOWN_PLAYER."""
    if await connection.fetchval(_SQL["lock_player"], tenant_id, player_id) is None:
        raise unknown("player", player_id)
