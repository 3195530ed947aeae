"""Entries as players and staff read them, and the withdrawal of consents by staff."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

import sql
from runtime import ids, trace
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import forbidden, unknown
from runtime.operations import audit, reading
from runtime.operations.checks import Checks
from runtime.operations.entries import form
from runtime.operations.entries.submit import SQL, enter, withdraw_consents_of
from runtime.operations.idempotent_writes import once
from runtime.rules.entry import is_country, missing_of
from runtime.wire.scope import merchant_of, player_id_of, tenant_of

_IS_KNOWN: Final = sql.load("desk")["is_known"]
_CAMPAIGN: Final = sql.load("campaigns")["get"]


async def get_entry(engine: Engine, request: m.GetEntryRequest) -> m.EntryReply:
    """What the campaign asks, and what the player has given. NOT_FOUND UNKNOWN_CAMPAIGN."""
    tenant_id, player_id = tenant_of(request), player_id_of(request)
    campaign = await engine.database.fetchrow(SQL["form"], tenant_id, request.id)
    if campaign is None:
        raise unknown("campaign", request.id)
    row = await engine.database.fetchrow(SQL["find"], tenant_id, player_id, request.id)
    given = None if row is None else row["given"]
    return m.EntryReply(
        asked=form.from_stored(campaign["entry"]),
        given=None if row is None else entry_from_row(row),
        missing=missing_of(campaign["entry_needs"], given) if campaign["entry_needs"] is not None else [],
    )


async def list_player_entries(engine: Engine, request: m.ListPlayerEntriesRequest) -> m.ListEntriesReply:
    """Lists the player's entries by campaign, each with its consents.

    The fields are hidden from staff who may not move rewards. A merchant's staff sees neither the fields, the source
    nor the language of entries to the tenant's own campaigns.
    """
    if not await engine.database.fetchval(_IS_KNOWN, tenant_of(request), request.id):
        raise unknown("player", request.id)
    filters = (tenant_of(request), request.id, request.campaign_id, merchant_of(request))
    rows, pagination = await reading.page(engine, SQL["list"], request, *filters, key="campaign_id")
    entries = [_shown(row, reveal=request.reveal) for row in rows]
    return m.ListEntriesReply(items=entries, pagination=pagination)


def _shown(row: asyncpg.Record, *, reveal: bool) -> m.Entry:
    entry = entry_from_row(row)
    if not (reveal and row["theirs"]):
        entry.fields = dict.fromkeys(entry.fields or {}, reading.HIDDEN)
    if not row["theirs"]:
        entry.source, entry.locale = None, ""
    return entry


async def withdraw_consents(engine: Engine, request: m.WithdrawConsentsRequest) -> m.PlayerEntryReply:
    """Withdraws consents of the player's entry to a campaign, at once. Consents that were not given are left out.

    NOT_FOUND UNKNOWN_ENTRY if the player has not entered the campaign.
    """
    checks = Checks()
    checks.required("campaign_id", request.campaign_id)
    if not request.consents:
        checks.problem("consents", "is required")
    checks.raise_found()
    tenant_id, key = tenant_of(request), (tenant_of(request), request.id, request.campaign_id)

    async def work(connection: asyncpg.Connection) -> m.Entry:
        await connection.fetchrow(SQL["lock_player"], tenant_id, request.id)
        before = await connection.fetchrow(SQL["lock"], *key)
        if before is None or not await _may_read(connection, request):
            raise unknown("entry", request.campaign_id)
        if not await connection.fetchval(SQL["may_write"], tenant_id, request.campaign_id, merchant_of(request)):
            raise forbidden("campaign", request.campaign_id)
        after = await withdraw_consents_of(connection, key, before, request.consents, trace.actor.get())
        facts = {
            "campaign_id": request.campaign_id,
            "consents": [one.consent_id for one in after.receipts],
            "reason": request.reason,
        }
        await audit.record(connection, tenant_id, "player.withdraw_consents", request.id, after=facts)
        return entry_from_row(await connection.fetchrow(SQL["find"], *key))

    return m.PlayerEntryReply(entry=await engine.database.transaction(work))


async def add_entry(engine: Engine, request: m.AddEntryRequest) -> m.PlayerEntryReply:
    """Enters a player, such as a free entry by post, and creates the player if there is none.

    The form's rules apply as to the player itself: NOT_ELIGIBLE with `why`, and SUSPENDED. FAILED_PRECONDITION
    CAMPAIGN_CLOSED, or ILLEGAL_TRANSITION for a guest that was merged. A retry with the same Idempotency-Key gets the
    current entry.
    """
    checks = Checks()
    checks.required("campaign_id", request.campaign_id)
    checks.required("reason", request.reason)
    if (country := request.country.upper()) and not is_country(country):
        checks.problem("country", "must be a country code such as DE")
    checks.raise_found()
    tenant_id, player_id = tenant_of(request), player_id_of(m.SubmitEntryRequest(player_id=request.id))
    submitted = m.SubmitEntryRequest(
        scope=request.scope,
        id=request.campaign_id,
        player_id=player_id,
        fields=request.fields,
        consents=request.consents,
        locale=request.locale,
        country=country,
        source=request.source,
    )

    async def work(connection: asyncpg.Connection) -> m.PlayerEntryReply:
        if not await connection.fetchval(SQL["may_write"], tenant_id, request.campaign_id, merchant_of(request)):
            raise await reading.write_refusal(connection, _CAMPAIGN, request, "campaign", request.campaign_id)
        if ids.is_guest(player_id) and not await connection.fetchval(_IS_KNOWN, tenant_id, player_id):
            raise unknown("player", player_id)
        entered = await enter(connection, engine, tenant_id, trace.actor.get(), submitted)
        facts = {"campaign_id": request.campaign_id, "reason": request.reason}
        await audit.record(connection, tenant_id, "player.enter", player_id, after=facts)
        # Stored without what was entered: erasure clears the entry, but not stored replies.
        return m.PlayerEntryReply(entry=m.Entry(id=entered.entry_id, campaign_id=request.campaign_id))

    reply: m.PlayerEntryReply = (await once(engine, request, m.PlayerEntryReply, work)).reply
    row = await engine.database.fetchrow(SQL["find"], tenant_id, player_id, request.campaign_id)
    # No row: a guest's entry that a merge has moved since.
    return m.PlayerEntryReply(entry=entry_from_row(row)) if row is not None else reply


async def _may_read(connection: asyncpg.Connection, request: m.WithdrawConsentsRequest) -> bool:
    filters = (request.id, request.campaign_id, merchant_of(request))
    return bool(await connection.fetch(SQL["list"], tenant_of(request), *filters, None, 1))


def entry_from_row(row: Any) -> m.Entry:
    needs = row["entry_needs"]
    return m.Entry(
        id=row["entry_id"],
        campaign_id=row["campaign_id"],
        fields=row["fields"],
        consents=[m.GivenConsent(**one) for one in row["consents"]],
        old_enough=row["age"],
        old_enough_on=row["age_on"].isoformat() if row["age_on"] is not None else "",
        country=row["country"],
        locale=row["locale"],
        missing=missing_of(needs, row["given"]) if needs is not None else [],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        source=m.EntrySource(**row["source"]) if row["source"] else None,
    )
