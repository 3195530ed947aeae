"""sql/gaps.sql: what happened, as rows, for integrations that the streams did not reach."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from ops.simulation.postgres.statements.fulfillment import told_dead
from ops.simulation.postgres.values import datetime_of, loads, micros_of, of
from ops.simulation.postgres.vocabulary import Result, Statement, statement


@statement("gaps.tenants")
def tenants(st: Statement) -> Result:
    found = sorted({row.tenant_id for row in st.find("integrations", status="active")})
    return st.unordered([{"tenant_id": tenant_id} for tenant_id in found])


@statement("gaps.lease")
async def lease(st: Statement, tenant_id: str, grace: float, most: float, seconds: float) -> Result:
    told = [row.heard_from for row in st.find("integrations", tenant_id=tenant_id, status="active")]
    if not told:
        return []
    row = await st.upsert(
        "event_marks",
        lambda e, excluded: {
            "told_until": max(e.told_until, excluded.told_until),
            "leased_until": excluded.leased_until,
        },
        where=lambda e: e.leased_until <= st.now,
        tenant_id=tenant_id,
        told_until=min(told),
        leased_until=st.after(seconds),
    )
    if row is None:
        return []
    until = min(st.settled_at(), st.after(-grace), row.told_until + round(most * 1_000_000))
    return [
        {
            "told_until": datetime_of(row.told_until),
            "leased_until": datetime_of(row.leased_until),
            "until": datetime_of(until),
        }
    ]


@statement("gaps.keep")
async def keep(st: Statement, tenant_id: str, told_until: datetime, seconds: float, leased_until: datetime) -> Result:
    lease = micros_of(leased_until)
    told = micros_of(told_until) or 0
    row = st.get("event_marks", tenant_id)
    rows = await st.update(
        [row] if row is not None and row.leased_until == lease else [],
        lambda e: {"told_until": max(e.told_until, told), "leased_until": st.after(seconds)},
        lambda e: e.leased_until == lease,
    )
    return [{"leased_until": datetime_of(row.leased_until)} for row in rows]


Told = Callable[[Statement, Any], dict[str, Any] | None]
Asked = tuple[datetime, datetime, datetime, str, int]
"""From when, until when, after which row's time and id, how many at most."""


def _page(st: Statement, rows: list[Any], time: str, key: str, asked: Asked, told: Told) -> Result:
    """What rows tell of, by their times and ids: those that tell of something."""
    since, until, after, last_id, limit = asked
    first, last, last_at = micros_of(since) or 0, micros_of(until) or 0, micros_of(after) or 0
    found = [
        (at, getattr(row, key), row)
        for row in rows
        if (at := getattr(row, time)) is not None
        and first <= at <= last
        and (at, getattr(row, key)) > (last_at, last_id)
    ]
    given = []
    for at, identifier, row in sorted(found, key=lambda one: one[:2]):
        data = told(st, row)
        if data is not None:
            given.append({"at": datetime_of(at), "id": identifier} | data)
    return given[:limit]


def _merchant(st: Statement, tenant_id: str, campaign_id: str) -> dict[str, Any]:
    campaign = st.get("campaigns", tenant_id, campaign_id)
    return {"campaign_id": campaign_id, "merchant_id": campaign.merchant_id if campaign else ""}


@statement("gaps.plays")
def plays(st: Statement, tenant_id: str, *asked: Any) -> Result:
    def told(st: Statement, row: Any) -> dict[str, Any] | None:
        game = st.get("games", tenant_id, row.game_id)
        if game is None or st.get("campaigns", tenant_id, game.campaign_id) is None:
            return None
        outcome = loads(row.outcome)
        won = {"rewards": outcome.get("rewards"), "granted": outcome.get("milestones_granted")}
        return of(row, "game_id player_id score wins points") | won | _merchant(st, tenant_id, game.campaign_id)

    return _page(st, st.find("plays", tenant_id=tenant_id), "played_at", "play_id", asked, told)


@statement("gaps.prizes")
def prizes(st: Statement, tenant_id: str, prize_ids: list[str]) -> Result:
    rows = [st.get("prizes", tenant_id, prize_id) for prize_id in dict.fromkeys(prize_ids)]
    return st.unordered([of(row, "prize_id name type value") for row in rows if row])


@statement("gaps.rewards")
def rewards(st: Statement, tenant_id: str, *asked: Any) -> Result:
    def told(st: Statement, row: Any) -> dict[str, Any]:
        places = []
        for place in st.find("leaderboard_standings", tenant_id=tenant_id, reward_id=row.reward_id):
            board, holder = (
                st.get("leaderboards", tenant_id, place.board_id),
                st.get("players", tenant_id, place.player_id),
            )
            its = place.player_id == row.player_id or (holder is not None and holder.merged_into == row.player_id)
            if its and board is not None and board.campaign_id == row.campaign_id:
                places.append((place.board_id, place.rank))
        board_id, rank = places[0] if places else ("", 0)
        return (
            of(row, "player_id prize_id name type quantity value game_id milestone_id")
            | {"leaderboard_id": board_id, "rank": rank}
            | _merchant(st, tenant_id, row.campaign_id)
        )

    return _page(st, st.find("rewards", tenant_id=tenant_id, play_id=""), "won_at", "reward_id", asked, told)


@statement("gaps.claims")
def claims(st: Statement, tenant_id: str, *asked: Any) -> Result:
    def told(st: Statement, row: Any) -> dict[str, Any]:
        fulfilled = None if row.fulfilled_at is None else row.fulfilled_at == row.claimed_at
        names = "player_id prize_id name type value quantity game_id play_id milestone_id"
        return of(row, names, fulfilled=fulfilled) | _merchant(st, tenant_id, row.campaign_id)

    return _page(st, st.find("rewards", tenant_id=tenant_id), "claimed_at", "reward_id", asked, told)


@statement("gaps.quests")
def quests(st: Statement, tenant_id: str, *asked: Any) -> Result:
    def told(st: Statement, row: Any) -> dict[str, Any] | None:
        quest = st.get("quests", tenant_id, row.quest_id)
        if quest is None:
            return None
        return of(row, "quest_id player_id period turns balance_after") | _merchant(st, tenant_id, quest.campaign_id)

    return _page(st, st.find("quest_completions", tenant_id=tenant_id), "completed_at", "event_id", asked, told)


@statement("gaps.boards")
def boards(st: Statement, tenant_id: str, *asked: Any) -> Result:
    rows = st.find("leaderboards", tenant_id=tenant_id)
    return _page(st, rows, "finalized_at", "board_id", asked, lambda st, row: {})


@statement("gaps.notices")
def notices(st: Statement, tenant_id: str, *asked: Any) -> Result:
    def told(st: Statement, row: Any) -> dict[str, Any]:
        return {"type": row.type, "data": loads(row.data)} | _merchant(st, tenant_id, row.campaign_id)

    return _page(st, st.find("notices", tenant_id=tenant_id), "noticed_at", "event_id", asked, told)


@statement("gaps.failures")
def failures(st: Statement, tenant_id: str, *asked: Any) -> Result:
    rows = st.find("tasks", tenant_id=tenant_id, status="dead")
    return _page(st, rows, "updated_at", "task_id", asked, told_dead)
