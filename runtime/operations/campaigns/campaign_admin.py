"""Campaigns: containers of games, prizes, quests and boards.

A campaign cannot be deleted. From its end_date on it is ENDED, for good. Defaults: draft, UTC, the caller's
merchant. Times are unix seconds. `redeem_until`, the last time to redeem rungs, can be changed even after the
end, so that players do not lose what they have earned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, forbidden
from runtime.operations import audit, catalog, reading
from runtime.operations.budget_alerts import usage
from runtime.operations.campaigns import analytics, archives, hosts, messages, tracking
from runtime.operations.checks import TIME_MAX, Checks, provided, search_pattern, set_fields
from runtime.operations.currencies import CURRENCIES
from runtime.operations.entries import form
from runtime.rules import ui
from runtime.rules.entry import needs_of
from runtime.wire.enums import enum, token
from runtime.wire.scope import Scoped, merchant_of, tenant_of

_SQL: Final = sql.load("campaigns")
_HAS_MERCHANT: Final = sql.load("tenancy")["has_merchant"]

SETTABLE: Final = frozenset(
    {"name", "merchant_id", "status", "start_date", "end_date", "redeem_until", "timezone", "settings", "origins"}
    | {"budget", "entry", "frozen", "messages", "hosts", "tracking"}
)
BUDGET_MAX: Final = 1e15


async def create_campaign(engine: Engine, request: m.CreateCampaignRequest) -> m.CampaignReply:
    """Creates a campaign. INVALID_ARGUMENT lists every invalid field."""

    async def work(connection: asyncpg.Connection) -> m.CampaignReply:
        return _reply(from_row(await make(connection, request)))

    return await catalog.create(engine, request, m.CampaignReply, work)


def _reply(written: m.Campaign) -> m.CampaignReply:
    """The written campaign, with a warning for each invalid part of its settings."""
    found = ui.problems_of_settings(written.settings)
    return m.CampaignReply(campaign=written, warnings=[m.SaveWarning(*one) for one in found])


async def make(connection: asyncpg.Connection, request: m.CreateCampaignRequest) -> asyncpg.Record:
    """`create_campaign` within a catalogue change. Returns its row."""
    scope = request.scope
    assert scope is not None
    campaign = m.Campaign(timezone="UTC", status=m.CampaignStatus.DRAFT)
    set_fields(campaign, provided(request.campaign, "campaign"), (), SETTABLE)
    campaign.merchant_id = campaign.merchant_id or scope.merchant_id
    checks = _checked(campaign)
    await check_merchant(connection, checks, request, campaign.merchant_id)
    tracking.check_container(checks, campaign, None, scope.merchant_id)
    await _check_timezone(connection, checks, campaign.timezone)
    campaign_id = ids.make("camp")
    await _claim(connection, checks, request, campaign_id, [], campaign)
    checks.raise_found()
    row = await connection.fetchrow(_SQL["insert"], scope.tenant_id, campaign_id, *_columns(campaign))
    assert row is not None
    await analytics.begin(connection, scope.tenant_id, campaign_id)
    if row["messages"] is not None:
        await messages.listen(connection, scope.tenant_id, campaign_id, row["messages"])
    await audit.record(connection, scope.tenant_id, "campaign.create", campaign_id, after=dict(row))
    return row


async def get_campaign(engine: Engine, request: m.GetCampaignRequest) -> m.CampaignReply:
    """One campaign. NOT_FOUND UNKNOWN_CAMPAIGN."""
    campaign = from_row(await reading.one(engine, _SQL["get"], request, "campaign"))
    await usage.fill_budgets(engine.database, tenant_of(request), [campaign])
    return m.CampaignReply(campaign=campaign)


async def list_campaigns(engine: Engine, request: m.ListCampaignsRequest) -> m.ListCampaignsReply:
    """The tenant's campaigns, newest first. Filters: status, and text in the name (`q`)."""
    filters = (token(request.status), search_pattern(request.q), merchant_of(request))
    rows, pagination = await reading.page(engine, _SQL["list"], request, tenant_of(request), *filters)
    items = [from_row(row) for row in rows]
    await usage.fill_budgets(engine.database, tenant_of(request), items)
    return m.ListCampaignsReply(items=items, pagination=pagination)


async def update_campaign(engine: Engine, request: m.UpdateCampaignRequest) -> m.CampaignReply:
    """Sets the fields of the request. A change of the time zone recounts the analytics by day.

    ABORTED STALE_REVISION if the body's `revision` is not the current one. FAILED_PRECONDITION ILLEGAL_TRANSITION if it
    would reopen an ended campaign; FROZEN if it would thaw one that was launched; HAS_HISTORY if games that were played
    would credit another merchant's wallets, or packs and open draws use the old one's; CAMPAIGN_ARCHIVED if the time
    zone of archived plays would change.
    """

    async def work(connection: asyncpg.Connection) -> tuple[asyncpg.Record, list[asyncpg.Record]]:
        return await alter(connection, request)

    row, withdrawn_boards = await catalog.change(engine, tenant_of(request), work)
    for board in withdrawn_boards:  # Not public any more. While its set exists, rankings never ask Postgres.
        await engine.rankings.forget(tenant_of(request), board["board_id"])
    written = from_row(row)
    await usage.fill_budgets(engine.database, tenant_of(request), [written])
    return _reply(written)


async def alter(
    connection: asyncpg.Connection, request: m.UpdateCampaignRequest
) -> tuple[asyncpg.Record, list[asyncpg.Record]]:
    """`update_campaign` within a catalogue change. Returns its row, and the boards that are no longer public."""
    tenant_id = tenant_of(request)
    update = provided(request.campaign, "campaign")
    before = await reading.for_update(connection, _SQL["get"], request, "campaign", request.id)
    campaign = from_row(before)
    if update.budget is not None and (update.budget.used or update.budget.used_at):
        await usage.fill_budgets(connection, tenant_id, [campaign])
    set_fields(campaign, update, request.update_mask, SETTABLE)
    _refuse_revival(before, campaign)
    _refuse_thaw(before, campaign)
    checks = _checked(campaign)
    if campaign.timezone != before["timezone"]:
        await _check_timezone(connection, checks, campaign.timezone)
    if campaign.merchant_id != before["merchant_id"]:
        await check_merchant(connection, checks, request, campaign.merchant_id)
        if not campaign.merchant_id and merchant_of(request):
            raise forbidden("campaign", request.id)
        await _check_merchants_wallet(connection, checks, tenant_id, campaign, before["merchant_id"])
    tracking.check_container(checks, campaign, before["tracking"], merchant_of(request))
    await _claim(connection, checks, request, request.id, before["hosts"], campaign)
    checks.raise_found()
    row = await connection.fetchrow(_SQL["update"], tenant_id, request.id, *_columns(campaign), update.revision)
    if row is None:
        raise catalog.stale("campaign", before["revision"])
    if before["entry"] is not None and not (row["entry"] or {}).get("max_entries"):
        await connection.execute(_SQL["stop_counting_entries"], tenant_id, request.id)
    if row["messages"] != before["messages"]:
        await messages.listen(connection, tenant_id, request.id, row["messages"])
    if campaign.timezone != before["timezone"]:
        await archives.refuse_archived(connection, tenant_id, request.id)  # Its days could not be counted again.
        await analytics.forget(connection, tenant_id, request.id)
    await audit.record(connection, tenant_id, "campaign.update", request.id, before=dict(before), after=dict(row))
    withdrawn = row["status"] == "draft" != before["status"]
    return row, await connection.fetch(_SQL["live_boards"], tenant_id, request.id) if withdrawn else []


async def _claim(
    connection: asyncpg.Connection,
    checks: Checks,
    request: Scoped,
    campaign_id: str,
    before: Sequence[str],
    campaign: m.Campaign,
) -> None:
    """Claims the campaign's hosts, if they differ from those of `before` and all fields are valid."""
    if checks.found or campaign.hosts == before:
        return
    if merchant_of(request):
        checks.problem("hosts", "can only be changed by the tenant's own staff: hosts belong to no merchant")
        return
    await hosts.claim(connection, checks, tenant_of(request), campaign_id, campaign.hosts)


def _refuse_revival(before: asyncpg.Record, campaign: m.Campaign) -> None:
    """An ended campaign keeps its status and end date, since results were counted and finalized by them."""
    moved = campaign.status is not m.CampaignStatus.ENDED or campaign.end_date != before["end_date"]
    if before["status"] == "ended" and moved:
        message = f"campaign {before['id']} has ended. Duplicate it to run it again"
        raise Fault(Status.FAILED_PRECONDITION, "ILLEGAL_TRANSITION", message)


def is_frozen(campaign: Any) -> bool:
    """Whether the campaign, a row, is frozen and under way (runtime/operations/games/frozen.py)."""
    return bool(campaign["frozen"]) and campaign["status"] in ("active", "paused")


def frozen_refusal(campaign_id: str, field: str) -> Fault:
    message = f"{field} cannot change: campaign {campaign_id} is frozen and has been launched"
    return Fault(Status.FAILED_PRECONDITION, "FROZEN", message, campaign_id=campaign_id, field=field)


def _refuse_thaw(before: asyncpg.Record, campaign: m.Campaign) -> None:
    if is_frozen(before) and not campaign.frozen:
        raise frozen_refusal(before["id"], "frozen")
    if is_frozen(before) and campaign.status is m.CampaignStatus.DRAFT:
        raise frozen_refusal(before["id"], "status")


async def _check_merchants_wallet(
    connection: asyncpg.Connection, checks: Checks, tenant_id: str, campaign: m.Campaign, merchant_id: str
) -> None:
    """Adds a problem if games that credit the merchant's wallet would have none. HAS_HISTORY if they already did, or if
    a pack or an open draw still uses the wallet of the merchant until now.
    """
    games = await connection.fetchrow(_SQL["merchants_wallet"], tenant_id, campaign.id, merchant_id)
    assert games is not None, "an aggregate is one row"
    if games["moved"]:
        why = "games that credit the merchant's wallet were played"
        raise catalog.has_history("campaign", campaign.name, "merchant_id", why, instead=catalog.CHANGE_COPY)
    if games["named"]:
        why, instead = "a pack or an open draw uses the merchant's wallet", "set another scope_key in it first"
        raise catalog.has_history("campaign", campaign.name, "merchant_id", why, instead=instead)
    if games["used"] and not campaign.merchant_id:
        checks.problem("merchant_id", "is required by games whose wallet_scope is WALLET_SCOPE_MERCHANT")


async def _check_timezone(connection: asyncpg.Connection, checks: Checks, timezone: str) -> None:
    """Adds a problem if Postgres does not know a zone that Python knows: its statements would fail."""
    is_refused = any(field == "timezone" for field, _ in checks.found)
    if not is_refused and not await connection.fetchval(_SQL["knows_timezone"], timezone):
        checks.problem("timezone", "must be a time zone that the database knows, such as Europe/Berlin")


async def check_campaign(
    connection: asyncpg.Connection, checks: Checks, request: Scoped, campaign_id: str
) -> asyncpg.Record | None:
    """The parent campaign for a resource; None for ''. Adds a problem on `campaign_id` if it does not exist.

    FORBIDDEN if a merchant's staff would use the tenant's campaign.
    """
    merchant_id = merchant_of(request)
    if not campaign_id:
        if merchant_id:
            raise forbidden("campaign", campaign_id)
        return None
    try:
        return await reading.for_update(connection, _SQL["get"], request, "campaign", campaign_id)
    except Fault as fault:
        if fault.status is not Status.NOT_FOUND:
            raise
        checks.problem("campaign_id", f"unknown campaign {campaign_id!r}")
        return None


async def write_refusal(source: reading.Source, request: Scoped, campaign_id: str) -> Fault:
    """The refusal of a write under the campaign: FORBIDDEN, or NOT_FOUND UNKNOWN_CAMPAIGN."""
    return await reading.write_refusal(source, _SQL["get"], request, "campaign", campaign_id)


def from_row(row: Any) -> m.Campaign:
    fields = {**row, "status": enum(m.CampaignStatus, row["status"])}
    amount, currency = fields.pop("budget"), fields.pop("budget_currency")
    budget = m.Budget(amount=amount, currency=currency) if amount else None
    parts: dict[str, Any] = {"entry": form.from_stored(row["entry"]), "messages": messages.from_stored(row["messages"])}
    parts["tracking"] = tracking.from_stored(row["tracking"])
    parts["archive"] = archives.message_of(row["archive"])
    return m.Campaign(**{**fields, "budget": budget, **parts})


def problems(campaign: m.Campaign) -> list[tuple[str, str]]:
    """(field, description) of each problem of a campaign with defaults filled in. For tools that validate files."""
    campaign.timezone = campaign.timezone or "UTC"
    return _checked(campaign).found


def _checked(campaign: m.Campaign) -> Checks:
    checks = Checks()
    checks.required("name", campaign.name)
    checks.times(campaign.start_date, campaign.end_date)
    checks.between("redeem_until", campaign.redeem_until, 0, TIME_MAX)
    if 0 < campaign.redeem_until < max(campaign.start_date, campaign.end_date):
        checks.problem("redeem_until", "must not be before end_date, nor before start_date")
    checks.timezone("timezone", campaign.timezone)
    checks.small_object("settings", campaign.settings)
    checks.origins("origins", campaign.origins)
    hosts.check(checks, campaign.hosts)
    tracking.check(checks, campaign)
    _check_budget(checks, campaign.budget or m.Budget())
    if campaign.entry is not None:
        form.fill_defaults(campaign.entry)
        form.check(checks, campaign.entry)
    if campaign.messages is not None:
        messages.fill_defaults(campaign.messages)
        messages.check(checks, campaign.messages)
    return checks


def _check_budget(checks: Checks, budget: m.Budget) -> None:
    if not math.isfinite(budget.amount) or not 0 <= budget.amount <= BUDGET_MAX:
        checks.problem("budget.amount", f"must be from 0 to {BUDGET_MAX:.0f}")
    if (budget.amount or budget.currency) and budget.currency not in CURRENCIES:
        checks.problem("budget.currency", "must be an ISO 4217 currency, such as EUR")


async def check_merchant(connection: asyncpg.Connection, checks: Checks, request: Scoped, merchant_id: str) -> None:
    """Adds a problem if the tenant lacks the merchant, or if it is not the caller's own."""
    about = (tenant_of(request), merchant_id, merchant_of(request))
    if merchant_id and not await connection.fetchval(_HAS_MERCHANT, *about):
        checks.problem("merchant_id", f"unknown merchant {merchant_id[:200]!r}")


def _columns(campaign: m.Campaign) -> tuple[Any, ...]:
    """$3.. of `insert` and `update`."""
    budget = campaign.budget or m.Budget()
    entry = form.stored(campaign.entry)
    return (
        campaign.name,
        campaign.merchant_id,
        token(campaign.status),
        campaign.start_date,
        campaign.end_date,
        campaign.redeem_until,
        campaign.timezone,
        campaign.settings or {},
        campaign.origins,
        budget.amount,
        budget.currency if budget.amount else "",
        entry,
        needs_of(entry),
        campaign.frozen,
        messages.stored(campaign.messages),
        tracking.stored(campaign.tracking),
    )
