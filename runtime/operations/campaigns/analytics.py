"""Campaign analytics: plays, players and wins by local day, rewards by status, and prizes.

The numbers are exact at the time of the request, but millions of plays cannot be counted each time. So each
play is counted once, into days and players per day, up to a watermark before which no new play can appear
(sql/analytics.sql, `horizon`). A reply adds the plays since. Plays themselves write nothing extra. `count_all`
advances the watermarks in the background. A request whose watermark is far behind advances it first: the
background job makes replies fast, but correctness does not depend on it.

wins are plays that won something. players are distinct; a guest and the player it became count as one.
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
from runtime.stores.database import Database, at
from runtime.wire.enums import enum
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("analytics")

EVERY_SECONDS: Final = 15.0

JOB: Final = "counting"

STALE_SECONDS: Final = 60.0
"""A request advances a watermark that is older than this."""

COUNT_SECONDS: Final = 120.0
"""The statement timeout. After a restore, the first count of a campaign reads all of its plays."""

READ_SECONDS: Final = 10.0


async def get_campaign_analytics(engine: Engine, request: m.GetCampaignRequest) -> m.CampaignAnalyticsReply:
    """The campaign's analytics. NOT_FOUND UNKNOWN_CAMPAIGN."""
    tenant_id = tenant_of(request)
    campaign = await engine.database.fetchrow(_SQL["campaign"], tenant_id, request.id, merchant_of(request))
    if campaign is None:
        raise unknown("campaign", request.id)
    stale = campaign["age"] is None or campaign["age"] > STALE_SECONDS
    counted = stale and await count(engine, tenant_id, request.id)

    async def read(database: Database) -> tuple[list[Any], list[Any], list[Any]]:
        async with database.connection() as connection:
            days = await connection.fetch(_SQL["days"], tenant_id, request.id, timeout=READ_SECONDS)
            rewards = await connection.fetch(_SQL["rewards"], tenant_id, request.id, timeout=READ_SECONDS)
            rewarded = sorted({row["prize_id"] for row in rewards})
            return days, rewards, await connection.fetch(_SQL["prizes"], tenant_id, request.id, rewarded)

    days, rewards, prizes = await engine.database.read(read, written=counted)
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
    """Counts the campaign's plays up to the horizon. False if another process is counting."""
    # Committed separately, so that a concurrent merge of players sees the mark and waits for its lock.
    await engine.database.execute(_SQL["create_watermark"], tenant_id, campaign_id)

    async def work(connection: asyncpg.Connection) -> bool:
        is_ahead: bool | None = await connection.fetchval(_SQL["lock_watermark"], tenant_id, campaign_id)
        if is_ahead is None:
            return False
        if is_ahead:
            await connection.execute(_SQL["reset_counts"], tenant_id, campaign_id)
        horizon: datetime = await connection.fetchval(_SQL["horizon"])
        # A separate statement: its snapshot must be newer than the horizon, or plays committed in between are lost.
        await connection.execute(_SQL["count_plays"], tenant_id, campaign_id, horizon, timeout=COUNT_SECONDS)
        return True

    return await engine.database.transaction(work)


async def count_if_stale(engine: Engine, tenant_id: str, campaign_id: str) -> bool:
    """Counts the campaign's plays unless that was done within STALE_SECONDS. Returns whether it counted."""
    age = await engine.database.fetchval(_SQL["campaign"], tenant_id, campaign_id, "")
    return (age is None or age > STALE_SECONDS) and await count(engine, tenant_id, campaign_id)


async def count_all(engine: Engine) -> None:
    """Counts every campaign in play. One campaign's failure does not block the others. One process is enough."""
    for tenant_id in await engine.database.tenants(_SQL["tenants"]):
        await attempt(JOB, at(tenant_id, _count_campaigns_of(engine, tenant_id)), tenant_id=tenant_id)


async def _count_campaigns_of(engine: Engine, tenant_id: str) -> None:
    for row in await engine.database.fetch(_SQL["campaigns_to_count"], tenant_id):
        campaign_id = row["campaign_id"]
        await attempt(JOB, count(engine, tenant_id, campaign_id), tenant_id=tenant_id, campaign_id=campaign_id)


async def begin(connection: asyncpg.Connection, tenant_id: str, campaign_id: str) -> None:
    await connection.execute(_SQL["create_watermark"], tenant_id, campaign_id)


async def forget(connection: asyncpg.Connection, tenant_id: str, campaign_id: str) -> None:
    """Resets the counts of a campaign. Called when its time zone changes, and with it its days."""
    # A separate statement: the snapshot of the reset must be newer than the lock, or it misses the rows of a count.
    await connection.execute(_SQL["await_watermark"], tenant_id, campaign_id)
    await connection.execute(_SQL["reset_counts"], tenant_id, campaign_id)


async def merge_players(connection: asyncpg.Connection, tenant_id: str, guest_id: str, player_id: str) -> None:
    """Merges the guest's counts into the player's.

    Call it within the transaction that moves the guest's plays, and before they move.
    """
    await connection.execute(_SQL["lock_watermarks_of_player"], tenant_id, guest_id)
    await connection.execute(_SQL["merge_players"], tenant_id, guest_id, player_id)


def _by_status(rewards: Iterable[Any]) -> dict[str, int]:
    """Rewards by status (enum value name), without empty statuses."""
    counts: dict[str, int] = {}
    for row in rewards:
        name = enum(m.RewardStatus, row["status"]).proto_name or ""
        counts[name] = counts.get(name, 0) + row["rewards"]
    return counts


def _prize(prize: Any, rewards: Iterable[Any]) -> m.PrizeSummary:
    """Stock is the prize's total; claimed and fulfilled count units of this campaign's unrevoked rewards."""
    mine = [row for row in rewards if row["prize_id"] == prize["prize_id"] and row["status"] != "revoked"]
    return m.PrizeSummary(
        **{**prize, "status": enum(m.PrizeStatus, prize["status"])},
        claimed=sum(row["claimed"] for row in mine),
        fulfilled=sum(row["units"] for row in mine if row["status"] == "fulfilled"),
    )
