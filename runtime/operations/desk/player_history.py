"""Staff's queries on one player: profile, balances, plays and other history."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import unknown
from runtime.operations import reading
from runtime.operations.checks import search_pattern
from runtime.operations.fulfillment import task_message
from runtime.operations.plays import play_record
from runtime.operations.wallet import ledger_entry
from runtime.wire.contacts import masked, spellings
from runtime.wire.enums import enum, token
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("desk")


async def search_players(engine: Engine, request: m.SearchPlayersRequest) -> m.SearchPlayersReply:
    """Lists players, newest first, by `q`: an id, a part of a name, or a whole e-mail address or phone number."""
    q = request.q.strip()
    filters = (tenant_of(request), q, search_pattern(q), spellings(q), token(request.status))
    rows, pagination = await reading.page(engine, _SQL["search"], request, *filters, key="player_id")
    return m.SearchPlayersReply(items=[record_from_row(row) for row in rows], pagination=pagination)


async def inspect_player(engine: Engine, request: m.AboutPlayerRequest) -> m.InspectPlayerReply:
    """Returns one player and its counts. Contacts are masked. For a merged guest, `merged_into` has its player."""
    tenant_id = tenant_of(request)
    player = await find(engine.database, tenant_id, request.id)
    counts = await engine.database.fetchrow(_SQL["counts"], tenant_id, request.id)
    assert counts is not None
    return m.InspectPlayerReply(player=player, counts=m.PlayerCounts(**counts))


async def list_plays(engine: Engine, request: m.ListOfPlayerRequest) -> m.ListHistoryReply:
    """Lists the player's plays, by the start of their session, newest first. POST /plays/{id}/replay returns a play's
    decision path.
    """
    rows, pagination = await _page(engine, "plays", request, key="play_id", replica=True)
    return m.ListHistoryReply(items=[play_record(row) for row in rows], pagination=pagination)


async def list_balances(engine: Engine, request: m.ListOfPlayerRequest) -> m.ListBalancesReply:
    """Lists the player's balances by scope and currency. `campaign_id` selects that campaign's scope."""
    rows, pagination = await _page(engine, "balances", request, key=("scope_key", "currency"))
    return m.ListBalancesReply(items=[m.WalletBalance(**row) for row in rows], pagination=pagination)


async def list_ledger(engine: Engine, request: m.ListOfPlayerRequest) -> m.ListLedgerReply:
    """Lists the player's ledger entries, newest first. `campaign_id` selects that campaign's scope."""
    rows, pagination = await _page(engine, "ledger", request, key=("seq", "entry_id"), replica=True)
    return m.ListLedgerReply(items=[ledger_entry(row) for row in rows], pagination=pagination)


async def list_turns(engine: Engine, request: m.ListOfPlayerRequest) -> m.ListTurnsReply:
    """Lists the player's turns by campaign."""
    rows, pagination = await _page(engine, "turns", request, key="campaign_id")
    return m.ListTurnsReply(items=[m.TurnBalance(**row) for row in rows], pagination=pagination)


async def list_turn_entries(engine: Engine, request: m.ListOfPlayerRequest) -> m.ListTurnEntriesReply:
    """Lists the movements of the player's turns, newest first."""
    rows, pagination = await _page(engine, "turn_entries", request, key="id", replica=True)
    return m.ListTurnEntriesReply(items=[turn_entry(row) for row in rows], pagination=pagination)


async def list_completions(engine: Engine, request: m.ListOfPlayerRequest) -> m.ListCompletionsReply:
    """Lists the quests that the player completed, newest first."""
    rows, pagination = await _page(engine, "completions", request, key="id", replica=True)
    return m.ListCompletionsReply(items=[m.QuestCompletion(**row) for row in rows], pagination=pagination)


async def list_tasks(engine: Engine, request: m.ListOfPlayerRequest) -> m.ListTasksReply:
    """Lists the deliveries of the player's rewards, newest first, each with its last error."""
    rows, pagination = await _page(engine, "tasks", request, key="task_id")
    return m.ListTasksReply(items=[task_message(row) for row in rows], pagination=pagination)


async def list_sessions(engine: Engine, request: m.ListOfPlayerRequest) -> m.ListSessionsReply:
    """Lists the player's active logins, newest first."""
    tenant_id = tenant_of(request)
    await _require_known(engine, tenant_id, request.id)
    key = ("begun_us", "id")
    rows, pagination = await reading.page(engine, _SQL["sessions"], request, tenant_id, request.id, key=key)
    items = [m.PlayerSession(**{name: row[name] for name in _SESSION_FIELDS}) for row in rows]
    return m.ListSessionsReply(items=items, pagination=pagination)


async def find(source: reading.Source, tenant_id: str, player_id: str) -> m.PlayerRecord:
    """Loads a player's record for staff. NOT_FOUND UNKNOWN_PLAYER."""
    row = await source.fetchrow(_SQL["record"], tenant_id, player_id)
    if row is None:
        raise unknown("player", player_id)
    return record_from_row(row)


def record_from_row(row: Any) -> m.PlayerRecord:
    return m.PlayerRecord(
        id=row["player_id"],
        display_name=row["display_name"],
        avatar_url=row["avatar_url"],
        locale=row["locale"],
        auth_method=enum(m.AuthMethod, row["auth_method"]),
        status=enum(m.PlayerStatus, row["status"]),
        contacts=[_masked_contact(contact) for contact in row["contacts"]],
        merged_into=row["merged_into"] or "",
        erased_at=row["erased_at"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def turn_entry(row: Any) -> m.TurnEntry:
    return m.TurnEntry(**{**row, "reason": enum(m.TurnReason, row["reason"])})


def _masked_contact(contact: Any) -> m.Contact:
    shown = {"type": enum(m.ContactType, contact["type"]), "value": masked(contact["value"])}
    return m.Contact(**{**contact, **shown})


async def _require_known(engine: Engine, tenant_id: str, player_id: str) -> None:
    if not await engine.database.fetchval(_SQL["is_known"], tenant_id, player_id):
        raise unknown("player", player_id)


async def _page(
    engine: Engine, name: str, request: m.ListOfPlayerRequest, *, key: str | tuple[str, ...], replica: bool = False
) -> tuple[list[asyncpg.Record], m.Pagination]:
    """A page of the player's rows. NOT_FOUND UNKNOWN_PLAYER."""
    tenant_id = tenant_of(request)
    await _require_known(engine, tenant_id, request.id)
    filters = (tenant_id, request.id, request.campaign_id, merchant_of(request))
    return await reading.page(engine, _SQL[name], request, *filters, key=key, replica=replica)


_SESSION_FIELDS: Final = ("id", "merchant_id", "created_at", "expires_at")
