"""sql/analytics.sql, what counts: campaigns' marks and days, and how a guest's become the player's."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from ops.simulation.postgres.schema import INFINITE_PAST
from ops.simulation.postgres.values import datetime_of, micros_of, of
from ops.simulation.postgres.vocabulary import UPDATE, Result, Statement, statement

_SECOND = 1_000_000


@statement("analytics.make_mark")
async def make_mark(st: Statement, tenant_id: str, campaign_id: str) -> Result:
    row = await st.insert_unless("campaign_marks", tenant_id=tenant_id, campaign_id=campaign_id)
    return int(row is not None)


@statement("analytics.lock_mark")
async def lock_mark(st: Statement, tenant_id: str, campaign_id: str) -> Result:
    row = st.get("campaign_marks", tenant_id, campaign_id)
    return [{"?column?": True} for _ in await st.lock([row] if row else [], UPDATE, skip=True)]


@statement("analytics.horizon")
def horizon(st: Statement) -> Result:
    now = st.clock()
    recent = now - 300 * _SECOND
    began = [tx.began for tx in st.store.running if tx is not st.tx and (tx.xid or tx.began > recent)]
    return [{"?column?": datetime_of(min([now, *began]) - _SECOND)}]


@statement("analytics.count_plays")
async def count_plays(st: Statement, tenant_id: str, campaign_id: str, until: datetime) -> Result:
    end = micros_of(until) or 0
    mark = st.get("campaign_marks", tenant_id, campaign_id)
    campaign = st.get("campaigns", tenant_id, campaign_id)
    since = mark.counted_until if mark else end
    fresh: dict[tuple[str, date], list[int]] = {}
    zone = ZoneInfo(campaign.timezone if campaign else "UTC")
    for game in st.find("games", tenant_id=tenant_id, campaign_id=campaign_id) if campaign else ():
        for play in st.find("plays", tenant_id=tenant_id, game_id=game.game_id):
            if since <= play.played_at < end:
                moment = datetime_of(play.played_at)
                assert moment is not None
                day = moment.astimezone(zone).date()
                count = fresh.setdefault((play.player_id, day), [0, 0])
                count[0] += 1
                count[1] += play.wins > 0
    own: dict[str, Any] = {"tenant_id": tenant_id, "campaign_id": campaign_id}
    newcomers = returned = 0
    for player_id in {player_id for player_id, _ in fresh}:
        before = {row.day for row in st.find("campaign_player_days", **own, player_id=player_id)}
        now = before | {day for who, day in fresh if who == player_id}
        newcomers += not before
        returned += len(before) < 2 <= len(now)
    moved = await st.update(
        [mark] if mark is not None and since < end else [],
        lambda row: {"counted_until": end, "players": row.players + newcomers, "returned": row.returned + returned},
        lambda row: row.counted_until < end,
    )
    days: dict[date, list[int]] = {}
    for (player_id, day), (plays, wins) in sorted(fresh.items()):
        met = await st.insert_unless("campaign_player_days", **own, player_id=player_id, day=day)
        total = days.setdefault(day, [0, 0, 0])
        for place, more in enumerate((plays, met is not None, wins)):
            total[place] += more
    for day, (plays, met_players, wins) in sorted(days.items()):
        await st.upsert(
            "campaign_days",
            lambda c, excluded: {
                "plays": c.plays + excluded.plays,
                "players": c.players + excluded.players,
                "wins": c.wins + excluded.wins,
            },
            **own,
            day=day,
            plays=plays,
            players=met_players,
            wins=wins,
        )
    return len(moved)


@statement("analytics.forget")
async def forget(st: Statement, tenant_id: str, campaign_id: str) -> Result:
    own: dict[str, Any] = {"tenant_id": tenant_id, "campaign_id": campaign_id}
    mark = st.get("campaign_marks", tenant_id, campaign_id)
    moved = await st.update([mark] if mark else [], {"counted_until": INFINITE_PAST, "players": 0, "returned": 0})
    await st.delete(st.find("campaign_player_days", **own))
    await st.delete(st.find("campaign_days", **own))
    return len(moved)


@statement("analytics.lock_marks_of_player")
async def lock_marks_of_player(st: Statement, tenant_id: str, player_id: str) -> Result:
    plays = st.find("plays", tenant_id=tenant_id, player_id=player_id)
    games = [st.get("games", tenant_id, game_id) for game_id in {play.game_id: None for play in plays}]
    campaigns = sorted({game.campaign_id for game in games if game})
    marks = [st.get("campaign_marks", tenant_id, campaign_id) for campaign_id in campaigns]
    return [of(row, "campaign_id") for row in await st.lock([row for row in marks if row], UPDATE)]


@statement("analytics.merge_players")
async def merge_players(st: Statement, tenant_id: str, guest_id: str, player_id: str) -> Result:
    before = st.find("campaign_player_days", tenant_id=tenant_id, player_id=guest_id)
    guest = await st.delete(before)
    campaigns = sorted({row.campaign_id for row in guest})
    marks = [st.get("campaign_marks", tenant_id, campaign_id) for campaign_id in campaigns]
    both = [
        row
        for row in marks
        if row and st.exists("campaign_player_days", **of(row, "tenant_id campaign_id"), player_id=player_id)
    ]

    def fewer(row: Any) -> dict[str, int]:
        own = of(row, "tenant_id campaign_id")
        theirs = {day.day for day in guest if day.campaign_id == row.campaign_id}
        days = {day.day for day in st.find("campaign_player_days", **own, player_id=player_id)}
        came_back = (len(theirs | days) > 1) - (len(theirs) > 1) - (len(days) > 1)
        return {"players": row.players - 1, "returned": row.returned + came_back}

    counted = await st.update(st.unordered(both), fewer)
    for row in guest:
        own: dict[str, Any] = of(row, "tenant_id campaign_id day")
        if await st.insert_unless("campaign_player_days", **own, player_id=player_id) is None:
            day = st.get("campaign_days", *own.values())
            await st.update([day] if day else [], lambda row: {"players": row.players - 1})
    return len(counted)


@statement("analytics.tenants")
def tenants(st: Statement) -> Result:
    return [{"tenant_id": tenant_id} for tenant_id in sorted(row.tenant_id for row in st.find("tenants"))]


@statement("analytics.campaigns_to_count")
def campaigns_to_count(st: Statement, tenant_id: str) -> Result:
    found = []
    for campaign in st.find("campaigns", tenant_id=tenant_id):
        own: dict[str, Any] = {"tenant_id": tenant_id, "campaign_id": campaign.campaign_id}
        mark = st.get("campaign_marks", *own.values())
        late = mark is not None and mark.counted_until > st.now - 86_400 * _SECOND
        games = st.find("games", **own)
        played = any(st.exists("game_players", tenant_id=tenant_id, game_id=game.game_id) for game in games)
        if played and (campaign.status == "active" or late):
            found.append(campaign.campaign_id)
    return [{"campaign_id": campaign_id} for campaign_id in sorted(found)]
