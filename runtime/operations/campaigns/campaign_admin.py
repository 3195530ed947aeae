"""Campaigns: what games, prizes, quests and boards belong to.

A campaign has no deletion; one that is over is ENDED, from its end_date on, and stays so. A new one is a
draft in UTC unless it says otherwise, and belongs to the caller's merchant where the body names none.
Times are unix seconds. Until when rungs are redeemed after the end (`redeem_until`) may be set and moved at any
time, also of one that has ended: what players have earned is not to be stranded by a date.
"""

from __future__ import annotations

import math
from typing import Any, Final

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, forbidden
from runtime.operations import audit, catalog, reading
from runtime.operations.budget_alerts import usage
from runtime.operations.campaigns import analytics
from runtime.operations.checks import TIME_MAX, Checks, given, search_pattern, set_fields
from runtime.operations.currencies import CURRENCIES
from runtime.rules import ui
from runtime.wire.enums import enum, token
from runtime.wire.scope import Scoped, merchant_of, tenant_of

_SQL: Final = sql.load("campaigns")
_HAS_MERCHANT: Final = sql.load("tenancy")["has_merchant"]

SETTABLE: Final = frozenset(
    {"name", "merchant_id", "status", "start_date", "end_date", "redeem_until", "timezone", "settings", "origins"}
    | {"budget"}
)
BUDGET_MAX: Final = 1e15


async def create_campaign(engine: Engine, request: m.CreateCampaignRequest) -> m.CampaignReply:
    """A new campaign. INVALID_ARGUMENT names every field that is wrong."""

    async def work(connection: asyncpg.Connection) -> m.CampaignReply:
        return _reply(from_row(await make(connection, request)))

    return await catalog.create(engine, request, m.CampaignReply, work)


def _reply(written: m.Campaign) -> m.CampaignReply:
    """What was written, with what of its settings is not used."""
    found = ui.problems_of_settings(written.settings)
    return m.CampaignReply(campaign=written, warnings=[m.SaveWarning(*one) for one in found])


async def make(connection: asyncpg.Connection, request: m.CreateCampaignRequest) -> asyncpg.Record:
    """`create_campaign` within a change of the catalogue; its row."""
    scope = request.scope
    assert scope is not None
    campaign = m.Campaign(timezone="UTC", status=m.CampaignStatus.DRAFT)
    set_fields(campaign, given(request.campaign, "campaign"), (), SETTABLE)
    campaign.merchant_id = campaign.merchant_id or scope.merchant_id
    checks = _checked(campaign)
    await check_merchant(connection, checks, request, campaign.merchant_id)
    checks.raise_found()
    campaign_id = ids.make("camp")
    row = await connection.fetchrow(_SQL["insert"], scope.tenant_id, campaign_id, *_columns(campaign))
    assert row is not None
    await analytics.begin(connection, scope.tenant_id, campaign_id)
    await audit.record(connection, scope.tenant_id, "campaign.create", campaign_id, after=dict(row))
    return row


async def get_campaign(engine: Engine, request: m.GetCampaignRequest) -> m.CampaignReply:
    """One campaign. NOT_FOUND UNKNOWN_CAMPAIGN."""
    campaign = from_row(await reading.one(engine, _SQL["get"], request, "campaign"))
    await usage.fill_budgets(engine.database, tenant_of(request), [campaign])
    return m.CampaignReply(campaign=campaign)


async def list_campaigns(engine: Engine, request: m.ListCampaignsRequest) -> m.ListCampaignsReply:
    """The tenant's campaigns, newest first; of one status, or whose names hold `q`, where given."""
    filters = (token(request.status), search_pattern(request.q), merchant_of(request))
    rows, pagination = await reading.page(engine, _SQL["list"], request, tenant_of(request), *filters)
    items = [from_row(row) for row in rows]
    await usage.fill_budgets(engine.database, tenant_of(request), items)
    return m.ListCampaignsReply(items=items, pagination=pagination)


async def update_campaign(engine: Engine, request: m.UpdateCampaignRequest) -> m.CampaignReply:
    """Sets the fields that are given. Another time zone has its days counted anew (analytics).

    ABORTED STALE_REVISION where the body's `revision` is not the current one, which the update itself decides;
    FAILED_PRECONDITION ILLEGAL_TRANSITION where it would open a campaign that has ended; HAS_HISTORY where another
    merchant's wallets would be credited by games that were played.
    """

    async def work(connection: asyncpg.Connection) -> tuple[asyncpg.Record, list[asyncpg.Record]]:
        return await alter(connection, request)

    row, withdrawn_boards = await catalog.change(engine, tenant_of(request), work)
    for board in withdrawn_boards:  # Nobody is shown them any more, nor asks Postgres where a set is found.
        await engine.rankings.forget(tenant_of(request), board["board_id"])
    written = from_row(row)
    await usage.fill_budgets(engine.database, tenant_of(request), [written])
    return _reply(written)


async def alter(
    connection: asyncpg.Connection, request: m.UpdateCampaignRequest
) -> tuple[asyncpg.Record, list[asyncpg.Record]]:
    """`update_campaign` within a change of the catalogue: its row, and the boards that nobody is shown any more."""
    tenant_id = tenant_of(request)
    update = given(request.campaign, "campaign")
    before = await reading.to_write(connection, _SQL["get"], request, "campaign", request.id)
    campaign = from_row(before)
    set_fields(campaign, update, request.update_mask, SETTABLE)
    _refuse_revival(before, campaign)
    checks = _checked(campaign)
    if campaign.merchant_id != before["merchant_id"]:
        await check_merchant(connection, checks, request, campaign.merchant_id)
        if not campaign.merchant_id and merchant_of(request):
            raise forbidden("campaign", request.id)
        await _check_merchants_wallet(connection, checks, tenant_id, request.id, campaign.merchant_id)
    checks.raise_found()
    row = await connection.fetchrow(_SQL["update"], tenant_id, request.id, *_columns(campaign), update.revision)
    if row is None:
        raise catalog.stale("campaign", before["revision"])
    if campaign.timezone != before["timezone"]:
        await analytics.forget(connection, tenant_id, request.id)
    await audit.record(connection, tenant_id, "campaign.update", request.id, before=dict(before), after=dict(row))
    withdrawn = row["status"] == "draft" != before["status"]
    return row, await connection.fetch(_SQL["live_boards"], tenant_id, request.id) if withdrawn else []


def _refuse_revival(before: asyncpg.Record, campaign: m.Campaign) -> None:
    """ENDED goes to no other status, nor is its end moved: what was counted and finalized by then stands."""
    moved = campaign.status is not m.CampaignStatus.ENDED or campaign.end_date != before["end_date"]
    if before["status"] == "ended" and moved:
        what = f"campaign {before['id']} has ended; duplicate it to run it again"
        raise Fault(Status.FAILED_PRECONDITION, "ILLEGAL_TRANSITION", what)


async def _check_merchants_wallet(
    connection: asyncpg.Connection, checks: Checks, tenant_id: str, campaign_id: str, merchant_id: str
) -> None:
    """Notes that games which credit the merchant's wallet would have none. HAS_HISTORY where they have credited it."""
    games = await connection.fetchrow(_SQL["merchants_wallet"], tenant_id, campaign_id)
    assert games is not None, "an aggregate is one row"
    if games["moved"]:
        raise catalog.has_history("campaign", campaign_id, "the merchant")
    if games["used"] and not merchant_id:
        checks.problem("merchant_id", "is required by games whose wallet_scope is WALLET_SCOPE_MERCHANT")


async def check_campaign(
    connection: asyncpg.Connection, checks: Checks, request: Scoped, campaign_id: str
) -> asyncpg.Record | None:
    """The campaign to put something under. Notes a problem on `campaign_id` where there is no such; '' is none.

    FORBIDDEN where a merchant's staff would put it under the tenant's.
    """
    merchant_id = merchant_of(request)
    if not campaign_id:
        if merchant_id:
            raise forbidden("campaign", campaign_id)
        return None
    try:
        return await reading.to_write(connection, _SQL["get"], request, "campaign", campaign_id)
    except Fault as fault:
        if fault.status is not Status.NOT_FOUND:
            raise
        checks.problem("campaign_id", f"unknown campaign {campaign_id!r}")
        return None


async def not_to_write(source: reading.Source, request: Scoped, campaign_id: str) -> Fault:
    """Why nothing may be put under the campaign: FORBIDDEN, or NOT_FOUND UNKNOWN_CAMPAIGN."""
    return await reading.not_to_write(source, _SQL["get"], request, "campaign", campaign_id)


def from_row(row: Any) -> m.Campaign:
    """The message of a row of `get` and its kin."""
    fields = {**row, "status": enum(m.CampaignStatus, row["status"])}
    amount, currency = fields.pop("budget"), fields.pop("budget_currency")
    return m.Campaign(**fields, budget=m.Budget(amount=amount, currency=currency) if amount else None)


def problems(campaign: m.Campaign) -> list[tuple[str, str]]:
    """(field, what is wrong) of a campaign in itself, its defaults filled in. For tools that check before they ask."""
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
    _check_budget(checks, campaign.budget or m.Budget())
    return checks


def _check_budget(checks: Checks, budget: m.Budget) -> None:
    if not math.isfinite(budget.amount) or not 0 <= budget.amount <= BUDGET_MAX:
        checks.problem("budget.amount", f"must be from 0 to {BUDGET_MAX:.0f}")
    if (budget.amount or budget.currency) and budget.currency not in CURRENCIES:
        checks.problem("budget.currency", "must be a currency of ISO 4217, such as EUR")


async def check_merchant(connection: asyncpg.Connection, checks: Checks, request: Scoped, merchant_id: str) -> None:
    """Notes a merchant that the tenant does not have, or that is another than whose staff asks."""
    about = (tenant_of(request), merchant_id, merchant_of(request))
    if merchant_id and not await connection.fetchval(_HAS_MERCHANT, *about):
        checks.problem("merchant_id", f"unknown merchant {merchant_id[:200]!r}")


def _columns(campaign: m.Campaign) -> tuple[Any, ...]:
    """$3.. of `insert` and `update`."""
    budget = campaign.budget or m.Budget()
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
    )
