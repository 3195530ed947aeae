"""sql/quests.sql: quests, their completions, and the turns that they grant."""

from __future__ import annotations

from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

from ops.simulation.postgres.listing import listed
from ops.simulation.postgres.statements.play import first_known_as
from ops.simulation.postgres.values import at_unix, datetime_of, dumps, epoch, loads, newest, of, unix
from ops.simulation.postgres.vocabulary import KEY_SHARE, SHARE, UPDATE, Result, Statement, statement

_DAY = 86_400 * 1_000_000


def shown(row: Any, **kept: bool) -> dict[str, Any]:
    """As everybody is shown it, with what is `kept` from the public beside."""
    return {
        "id": row.quest_id,
        **of(row, "campaign_id name description type turns status"),
        "start_date": unix(row.start_date),
        "end_date": unix(row.end_date),
        "condition": condition_of(row),
        **kept,
        "created_at": unix(row.created_at),
        "updated_at": unix(row.updated_at),
    }


def _kept(row: Any) -> dict[str, Any]:
    """As staff is shown it."""
    return shown(row, secret_set="secret" in loads(row.signing))


def _values(st: Statement, args: tuple[Any, ...]) -> dict[str, Any]:
    name, description, type_name, turns, status, start_date, end_date, condition = args
    return {
        "name": name,
        "description": description,
        "type": type_name,
        "turns": turns,
        "status": status,
        "start_date": at_unix(start_date),
        "end_date": at_unix(end_date),
        "condition": None if condition is None else dumps(condition),
    }


def condition_of(row: Any) -> Any:
    """A quest's condition, or None."""
    return None if row.condition is None else loads(row.condition)


def _has_game(st: Statement, tenant_id: str, campaign_id: str, condition: Any) -> bool:
    """has_condition_s_game()"""
    game_id = (condition or {}).get("game_id", "")
    game = st.get("games", tenant_id, game_id) if game_id else None
    return not game_id or (game is not None and game.campaign_id == campaign_id)


def _progress(
    st: Statement,
    tenant_id: str,
    player_id: str,
    quest_id: str,
    campaign_id: str,
    condition: dict[str, Any],
    since: int | None,
) -> int:
    """quest_progress()"""
    if condition["kind"] == "event":
        told = st.find("quest_events", tenant_id=tenant_id, quest_id=quest_id, player_id=player_id)
        return sum(since is None or row.told_at >= since for row in told)
    if condition["kind"] == "logins":
        campaign = st.get("campaigns", tenant_id, campaign_id)
        assert campaign is not None, "a quest is of one"
        quarters = [row.quarter for row in st.find("login_quarters", tenant_id=tenant_id, player_id=player_id)]
        return len({_local_day(at, campaign.timezone) for at in quarters if since is None or at >= since})
    named = condition.get("game_id", "")
    games = {row.game_id for row in st.find("games", tenant_id=tenant_id, campaign_id=campaign_id)}
    plays = [
        row
        for row in st.find("plays", tenant_id=tenant_id, player_id=player_id)
        if row.game_id in games and named in ("", row.game_id) and (since is None or row.played_at >= since)
    ]
    kind = condition["kind"]
    if kind == "plays":
        return len(plays)
    if kind == "wins":
        return sum(row.wins - (row.surplus_wins or 0) for row in plays)
    return sum(row.points - (row.surplus_points or 0) for row in plays)


def _local_day(at: int, zone: str) -> date:
    moment = datetime_of(at)
    assert moment is not None
    return moment.astimezone(ZoneInfo(zone)).date()


@statement("quests.insert")
async def insert(st: Statement, tenant_id: str, quest_id: str, campaign_id: str, *args: Any) -> Result:
    *fields, merchant_id, signing = args
    campaign = st.get("campaigns", tenant_id, campaign_id)
    if campaign is None or not st.theirs(tenant_id, merchant_id, True)(campaign_id):
        return []
    if not _has_game(st, tenant_id, campaign_id, fields[-1]):
        return []
    values = _values(st, tuple(fields)) | {"signing": dumps(signing or {})}
    return [_kept(await st.insert("quests", tenant_id=tenant_id, quest_id=quest_id, campaign_id=campaign_id, **values))]


@statement("quests.get")
def get(st: Statement, tenant_id: str, quest_id: str, merchant_id: str, writing: bool) -> Result:
    row = st.get("quests", tenant_id, quest_id)
    return [_kept(row)] if row and st.theirs(tenant_id, merchant_id, writing)(row.campaign_id) else []


@statement("quests.list")
def list_(
    st: Statement,
    tenant_id: str,
    campaign_id: str,
    type_name: str,
    status: str,
    pattern: str,
    merchant_id: str,
    after: str | None,
    limit: int,
) -> Result:
    rows = listed(
        st, "quests", tenant_id, merchant_id, standing=status, pattern=pattern, campaign_id=campaign_id, type=type_name
    )
    return [_kept(row) for row in newest(rows, "quest_id", after, limit)]


@statement("quests.update")
async def update(st: Statement, tenant_id: str, quest_id: str, campaign_id: str, *args: Any) -> Result:
    *fields, merchant_id, signing = args
    row = st.get("quests", tenant_id, quest_id)
    campaign = st.get("campaigns", tenant_id, campaign_id)
    if row is None or campaign is None or not st.theirs(tenant_id, merchant_id, True)(campaign_id):
        return []
    if not _has_game(st, tenant_id, campaign_id, fields[-1]):
        return []
    change = _values(st, tuple(fields)) | {"campaign_id": campaign_id, "updated_at": st.now}
    if (fields[-1] or {}).get("kind") != "event":
        change["signing"] = dumps({})
    elif signing is not None:
        change["signing"] = dumps(signing)
    return [_kept(row) for row in await st.update([row], change)]


@statement("quests.lock")
async def lock(st: Statement, tenant_id: str, quest_id: str) -> Result:
    row = st.get("quests", tenant_id, quest_id)
    return [{"quest_id": row.quest_id} for row in await st.lock([row] if row else [], UPDATE)]


@statement("quests.remove")
async def remove(st: Statement, tenant_id: str, quest_id: str) -> Result:
    row = st.get("quests", tenant_id, quest_id)
    if row is None or st.exists("quest_completions", tenant_id=tenant_id, quest_id=quest_id):
        return []
    gone = await st.delete([row])
    await st.delete(st.find("quest_events", tenant_id=tenant_id, quest_id=quest_id))
    return [{"quest_id": row.quest_id} for row in gone]


@statement("quests.archive")
async def archive(st: Statement, tenant_id: str, quest_id: str) -> Result:
    row = st.get("quests", tenant_id, quest_id)
    change = {"status": "archived", "updated_at": st.now}
    return [{"quest_id": row.quest_id} for row in await st.update([row] if row else [], change)]


@statement("quests.for_completion")
def for_completion(st: Statement, tenant_id: str, quest_id: str, player_id: str, key: str | None) -> Result:
    quest = st.get("quests", tenant_id, quest_id)
    campaign = st.get("campaigns", tenant_id, quest.campaign_id) if quest else None
    if quest is None or campaign is None:
        return []
    own = {"tenant_id": tenant_id, "quest_id": quest_id, "player_id": player_id}
    since = st.now - _DAY * (36_525 if quest.type == "one_time" else 9)
    done = st.find("quest_completions", **own)
    used = [row for row in done if key is not None and row.idempotency_key == key]
    merchant = st.get("merchants", tenant_id, campaign.merchant_id)
    player = st.get("players", tenant_id, player_id)
    return [
        of(
            quest,
            "campaign_id type status turns",
            start_date=unix(quest.start_date),
            end_date=unix(quest.end_date),
            condition=condition_of(quest),
            campaign_status=campaign.status,
            merchant_id=campaign.merchant_id,
            timezone=campaign.timezone,
            merchant_suspended=merchant is not None and merchant.status == "suspended",
            campaign_start=unix(campaign.start_date),
            campaign_end=unix(campaign.end_date),
            periods=[row.period for row in done if row.completed_at > since] or None,
            request_hash=row.request_hash if row else None,
            replay_turns=row.turns if row else None,
            replay_balance=row.balance_after if row else None,
            merged_into=player.merged_into if player else None,
        )
        for row in used or [None]
    ]


@statement("quests.complete")
async def complete(
    st: Statement,
    tenant_id: str,
    quest_id: str,
    player_id: str,
    period: str,
    type_name: str,
    turns: int,
    campaign_id: str,
    entry_id: str,
    key: str | None,
    request_hash: bytes | None,
    event_id: str,
    condition: dict[str, Any] | None,
    since: int,
) -> Result:
    player = st.get("players", tenant_id, player_id)
    guests = [player] if player is not None and player.auth_method == "guest" else []
    guests = await st.lock(guests, SHARE, lambda row: row.auth_method == "guest")
    quest = st.get("quests", tenant_id, quest_id)
    campaign = st.get("campaigns", tenant_id, campaign_id)

    def open_(row: Any) -> bool:
        looked = ("active", type_name, turns, campaign_id, condition)
        if (row.status, row.type, row.turns, row.campaign_id, condition_of(row)) != looked:
            return False
        if condition is None:
            return True
        have = _progress(st, tenant_id, player_id, quest_id, campaign_id, condition, at_unix(since))
        return have >= int(condition["count"])

    if quest is None or not open_(quest) or campaign is None or campaign.status != "active":
        return []
    if any(guest.merged_into is not None for guest in guests):
        return []
    if not await st.lock([quest], KEY_SHARE, open_):
        return []
    balance = await st.upsert(
        "turn_balances",
        lambda t, excluded: {"balance": t.balance + excluded.balance, "updated_at": st.now},
        tenant_id=tenant_id,
        campaign_id=campaign_id,
        player_id=player_id,
        balance=turns,
    )
    completion = await st.insert(
        "quest_completions",
        tenant_id=tenant_id,
        quest_id=quest_id,
        player_id=player_id,
        period=period,
        turns=turns,
        balance_after=balance.balance,
        event_id=event_id,
        idempotency_key=key,
        request_hash=request_hash,
    )
    await st.insert_unless("players", tenant_id=tenant_id, player_id=player_id, auth_method=first_known_as(player_id))
    if turns > 0:
        await st.insert(
            "turn_entries",
            tenant_id=tenant_id,
            entry_id=entry_id,
            campaign_id=campaign_id,
            player_id=player_id,
            amount=turns,
            balance_after=balance.balance,
            reason="quest",
            reference_id=quest_id,
        )
    return [of(completion, "turns balance_after event_id", completed_at=epoch(completion.completed_at))]


@statement("quests.turns")
def turns(st: Statement, tenant_id: str, player_id: str, campaign_id: str, after: str | None, limit: int) -> Result:
    rows = [
        row
        for row in st.find("turn_balances", tenant_id=tenant_id, player_id=player_id)
        if campaign_id in ("", row.campaign_id) and (after is None or row.campaign_id > after)
    ]
    rows.sort(key=lambda row: row.campaign_id)
    return [of(row, "campaign_id balance", updated_at=unix(row.updated_at)) for row in rows[:limit]]
