"""A campaign in numbers: plays, players and wins by its local days, rewards by status, prizes.

The numbers are those of counting rows, at the moment of asking; three million plays cannot be counted
at every glance, though. So plays are counted once, up to a mark before which none can appear any more
(sql/analytics.sql, `horizon`), into days and into who was there on which; a reply adds what came since.
Nothing of it is written by a play. `count_all` moves the marks in the background; a call that finds
its campaign's mark far behind moves it first, so that the background work is never needed for the
numbers to be right, only for the first answer to be quick.

wins are plays that won something. Players are different ones, a guest and the player it became being one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.background import attempt
from runtime.errors import unknown
from runtime.wire.enums import enum
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("analytics")

EVERY_SECONDS: Final = 15.0
"""How often the background counts."""

JOB: Final = "counting"
"""The background job that it is, in logs and metrics."""

STALE_SECONDS: Final = 60.0
"""A call moves a mark that is older than this before it answers."""

COUNT_SECONDS: Final = 120.0
"""How long one counting may take: a campaign's first, after a restore, goes over all of its plays."""

READ_SECONDS: Final = 10.0


async def get_campaign_analytics(engine: Engine, request: m.GetCampaignRequest) -> m.CampaignAnalyticsReply:
    """The campaign in numbers. NOT_FOUND UNKNOWN_CAMPAIGN."""
    tenant_id = tenant_of(request)
    campaign = await engine.database.fetchrow(_SQL["campaign"], tenant_id, request.id, merchant_of(request))
    if campaign is None:
        raise unknown("campaign", request.id)
    if campaign["age"] is None or campaign["age"] > STALE_SECONDS:
        await count(engine, tenant_id, request.id)
    async with engine.database.connection() as connection:
        days = await connection.fetch(_SQL["days"], tenant_id, request.id, timeout=READ_SECONDS)
        rewards = await connection.fetch(_SQL["rewards"], tenant_id, request.id, timeout=READ_SECONDS)
        rewarded = sorted({row["prize_id"] for row in rewards})
        prizes = await connection.fetch(_SQL["prizes"], tenant_id, request.id, rewarded)
    return m.CampaignAnalyticsReply(
        analytics=m.CampaignAnalytics(
            plays=sum(row["plays"] for row in days),
            players=days[0]["players_in_all"] if days else 0,
            wins=sum(row["wins"] for row in days),
            rewards_by_status=_by_status(rewards),
            prizes=[_prize(row, rewards) for row in prizes],
            by_day=[
                m.DayAnalytics(day=row["day"].isoformat(), plays=row["plays"], players=row["players"], wins=row["wins"])
                for row in days
            ],
        )
    )


async def count(engine: Engine, tenant_id: str, campaign_id: str) -> bool:
    """Counts the campaign's plays up to the horizon. False where another process is doing so."""
    # Committed by itself, so that whoever merges players sees the mark and waits for its lock.
    await engine.database.execute(_SQL["make_mark"], tenant_id, campaign_id)

    async def work(connection: asyncpg.Connection) -> bool:
        if not await connection.fetchval(_SQL["lock_mark"], tenant_id, campaign_id):
            return False
        horizon: datetime = await connection.fetchval(_SQL["horizon"])
        # A statement of its own: its snapshot must be younger than the look at what is under way.
        await connection.execute(_SQL["count_plays"], tenant_id, campaign_id, horizon, timeout=COUNT_SECONDS)
        return True

    return await engine.database.transaction(work)


async def count_lately(engine: Engine, tenant_id: str, campaign_id: str) -> None:
    """Counts the campaign's plays where its mark is far behind."""
    age = await engine.database.fetchval(_SQL["campaign"], tenant_id, campaign_id, "")
    if age is None or age > STALE_SECONDS:
        await count(engine, tenant_id, campaign_id)


async def count_all(engine: Engine) -> None:
    """Counts every campaign that is being played: one that fails hinders no other. One process is plenty."""
    for tenant in await engine.database.fetch(_SQL["tenants"]):
        await attempt(JOB, _count_all_of(engine, tenant["tenant_id"]), tenant_id=tenant["tenant_id"])


async def _count_all_of(engine: Engine, tenant_id: str) -> None:
    for row in await engine.database.fetch(_SQL["campaigns_to_count"], tenant_id):
        campaign_id = row["campaign_id"]
        await attempt(JOB, count(engine, tenant_id, campaign_id), tenant_id=tenant_id, campaign_id=campaign_id)


async def begin(connection: asyncpg.Connection, tenant_id: str, campaign_id: str) -> None:
    """Makes the mark of a new campaign, uncounted."""
    await connection.execute(_SQL["make_mark"], tenant_id, campaign_id)


async def forget(connection: asyncpg.Connection, tenant_id: str, campaign_id: str) -> None:
    """Has the campaign counted anew: its time zone changes, and with it its days."""
    await connection.execute(_SQL["forget"], tenant_id, campaign_id)


async def merge_players(connection: asyncpg.Connection, tenant_id: str, guest_id: str, player_id: str) -> None:
    """Makes the guest and the player one in what is counted.

    Within the transaction that gives the guest's plays to the player, and before it does.
    """
    await connection.execute(_SQL["lock_marks_of_player"], tenant_id, guest_id)
    await connection.execute(_SQL["merge_players"], tenant_id, guest_id, player_id)


def _by_status(rewards: Iterable[Any]) -> dict[str, int]:
    """Rewards by their status' value name; a status that none has is left out."""
    counts: dict[str, int] = {}
    for row in rewards:
        name = enum(m.RewardStatus, row["status"]).proto_name or ""
        counts[name] = counts.get(name, 0) + row["rewards"]
    return counts


def _prize(prize: Any, rewards: Iterable[Any]) -> m.PrizeSummary:
    """Stock is the prize's own; claimed and fulfilled are units of this campaign's rewards, revoked ones left out."""
    mine = [row for row in rewards if row["prize_id"] == prize["prize_id"] and row["status"] != "revoked"]
    return m.PrizeSummary(
        **{**prize, "status": enum(m.PrizeStatus, prize["status"])},
        claimed=sum(row["claimed"] for row in mine),
        fulfilled=sum(row["units"] for row in mine if row["status"] == "fulfilled"),
    )
