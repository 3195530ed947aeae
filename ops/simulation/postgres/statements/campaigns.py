"""sql/campaigns.sql: campaigns, and how they are duplicated."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from ops.simulation.postgres.statements.games import definition_of, moved
from ops.simulation.postgres.statements.quests import condition_of
from ops.simulation.postgres.statements.quests import shown as quest_shown
from ops.simulation.postgres.values import at_unix, datetime_of, dumps, like, loads, micros_of, newest, of, unix
from ops.simulation.postgres.vocabulary import Result, Statement, statement

_GIVEN = (
    *("name", "merchant_id", "status", "start_date", "end_date", "redeem_until", "timezone", "settings", "origins"),
    *("budget", "budget_currency"),
)
_DATES = ("start_date", "end_date", "redeem_until")


def _values(args: tuple[Any, ...]) -> dict[str, Any]:
    values = dict(zip(_GIVEN, args, strict=True))
    values |= {name: at_unix(values[name]) for name in _DATES}
    return values | {"settings": dumps(values["settings"]), "origins": tuple(values["origins"])}


def _status(st: Statement, row: Any) -> str:
    """campaign_status(): what a campaign is now."""
    over = row.status in ("active", "paused") and row.end_date is not None and row.end_date <= st.now
    return "ended" if over else str(row.status)


def _shown(st: Statement, row: Any) -> dict[str, Any]:
    return (
        {"id": row.campaign_id}
        | of(row, "name merchant_id", status=_status(st, row))
        | {name: unix(getattr(row, name)) for name in _DATES}
        | {
            "timezone": row.timezone,
            "settings": loads(row.settings),
            "origins": list(row.origins),
            "budget": row.budget,
            "budget_currency": row.budget_currency,
            "revision": row.revision,
        }
        | {"created_at": unix(row.created_at), "updated_at": unix(row.updated_at)}
    )


@statement("campaigns.insert")
async def insert(st: Statement, tenant_id: str, campaign_id: str, *args: Any) -> Result:
    return [_shown(st, await st.insert("campaigns", tenant_id=tenant_id, campaign_id=campaign_id, **_values(args)))]


@statement("campaigns.get")
def get(st: Statement, tenant_id: str, campaign_id: str, merchant_id: str, writing: bool) -> Result:
    row = st.get("campaigns", tenant_id, campaign_id)
    return [_shown(st, row)] if row and st.theirs(tenant_id, merchant_id, writing)(campaign_id) else []


@statement("campaigns.list")
def list_(
    st: Statement, tenant_id: str, status: str, pattern: str, merchant_id: str, after: str | None, limit: int
) -> Result:
    may = st.theirs(tenant_id, merchant_id, False)
    rows = [
        row
        for row in st.find("campaigns", tenant_id=tenant_id)
        if status in ("", _status(st, row)) and like(row.name, pattern) and may(row.campaign_id)
    ]
    return [_shown(st, row) for row in newest(rows, "campaign_id", after, limit)]


@statement("campaigns.update")
async def update(st: Statement, tenant_id: str, campaign_id: str, *args: Any) -> Result:
    row = st.get("campaigns", tenant_id, campaign_id)
    *given, over = args
    if row is None or over not in (0, row.revision):
        return []
    change = _values(tuple(given)) | {"revision": row.revision + 1, "updated_at": st.now}
    return [_shown(st, row) for row in await st.update([row], change)]


def _games(st: Statement, tenant_id: str, campaign_id: str) -> list[tuple[Any, Any]]:
    """A campaign's games with their definitions."""
    rows = st.find("games", tenant_id=tenant_id, campaign_id=campaign_id)
    found = [(game, definition_of(st, game)) for game in rows]
    return [(game, loads(revision.definition)) for game, revision in found if revision is not None]


@statement("campaigns.merchants_wallet")
def merchants_wallet(st: Statement, tenant_id: str, campaign_id: str) -> Result:
    games = [
        game for game, definition in _games(st, tenant_id, campaign_id) if definition.get("wallet_scope") == "merchant"
    ]
    return [{"used": bool(games), "moved": any(moved(st, tenant_id, game.game_id) for game in games)}]


@statement("campaigns.live_boards")
def live_boards(st: Statement, tenant_id: str, campaign_id: str) -> Result:
    rows = st.find("leaderboards", tenant_id=tenant_id, campaign_id=campaign_id, status="active")
    return [{"board_id": board_id} for board_id in sorted(row.board_id for row in rows)]


@statement("campaigns.active_quests")
def active_quests(st: Statement, tenant_id: str, campaign_id: str, limit: int) -> Result:
    rows = st.find("quests", tenant_id=tenant_id, campaign_id=campaign_id, status="active")
    return [quest_shown(row) for row in newest(rows, "quest_id", None, limit)]


# -- duplicates ------------------------------------------------------------------------------------


@statement("campaigns.games_to_copy")
def games_to_copy(st: Statement, tenant_id: str, campaign_id: str) -> Result:
    games = [one for one in _games(st, tenant_id, campaign_id) if one[0].status != "archived"]
    games.sort(key=lambda one: str(one[0].game_id))
    return [{"game_id": game.game_id, "definition": definition} for game, definition in games]


@statement("campaigns.prizes_to_copy")
def prizes_to_copy(st: Statement, tenant_id: str, campaign_id: str, named: list[str], merchant_id: str) -> Result:
    rows = st.find("prizes", tenant_id=tenant_id, status="active")
    found = [
        row.prize_id
        for row in rows
        if row.campaign_id == campaign_id or (merchant_id == "" and row.campaign_id == "" and row.prize_id in named)
    ]
    return [{"prize_id": prize_id} for prize_id in sorted(found)]


@statement("campaigns.boards_to_copy")
def boards_to_copy(st: Statement, tenant_id: str, campaign_id: str, game_ids: list[str]) -> Result:
    rows = [
        row
        for row in st.find("leaderboards", tenant_id=tenant_id)
        if row.status != "archived"
        and ((row.campaign_id == campaign_id and row.game_id == "") or row.game_id in game_ids)
    ]
    rows.sort(key=lambda row: row.board_id)
    return [of(row, "board_id game_id", prizes=loads(row.prizes)) for row in rows]


@statement("campaigns.quests_to_copy")
def quests_to_copy(st: Statement, tenant_id: str, campaign_id: str) -> Result:
    rows = st.find("quests", tenant_id=tenant_id, campaign_id=campaign_id)
    rows = sorted((row for row in rows if row.status != "archived"), key=lambda row: str(row.quest_id))
    return [{"quest_id": row.quest_id, "condition": condition_of(row)} for row in rows]


@statement("campaigns.integrations_to_copy")
def integrations_to_copy(st: Statement, tenant_id: str, campaign_id: str) -> Result:
    rows = st.find("integrations", tenant_id=tenant_id, campaign_id=campaign_id)
    rows.sort(key=lambda row: row.integration_id)
    return [of(row, "integration_id", config=loads(row.config)) for row in rows]


def days_later(at: int | None, days: int, zone: str) -> int | None:
    """days_later(): the same local time of the zone, so many days on."""
    if at is None:
        return None
    moment = datetime_of(at)
    assert moment is not None
    local = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None) + timedelta(days=days)
    return micros_of(local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC))


async def _copy(st: Statement, table: str, row: Any, fields: dict[str, Any], **later: Any) -> Result:
    """A copy of a row with other fields, of which the JSON ones are stored as JSON, and later ones."""
    if row is None:
        return 0
    values = row._asdict()
    values.pop("slot")
    kinds = {column.name: column.type for column in st.store.tables[table].shape.columns}
    for name, value in fields.items():
        values[name] = dumps(value) if kinds[name] == "jsonb" else value
    values |= later | {name: st.now for name in ("created_at", "updated_at") if name in values}
    config = {"prizes": "channel_config", "integrations": "config"}.get(table)
    if config is not None:
        await st.hold_keys_of_config(values[config])
    await st.insert(table, **values)
    return 1


def _dates(row: Any, days: int, zone: str, *names: str) -> dict[str, Any]:
    return {name: days_later(getattr(row, name), days, zone) for name in names} if row is not None else {}


@statement("campaigns.copy_campaign")
async def copy_campaign(
    st: Statement, tenant_id: str, campaign_id: str, fields: dict[str, Any], days: int, zone: str
) -> Result:
    row = st.get("campaigns", tenant_id, campaign_id)
    return await _copy(st, "campaigns", row, fields, revision=1, **_dates(row, days, zone, *_DATES))


@statement("campaigns.copy_prize")
async def copy_prize(st: Statement, tenant_id: str, prize_id: str, fields: dict[str, Any]) -> Result:
    return await _copy(st, "prizes", st.get("prizes", tenant_id, prize_id), fields)


@statement("campaigns.copy_stock")
async def copy_stock(st: Statement, tenant_id: str, prize_id: str, new_id: str) -> Result:
    row = st.get("stock", tenant_id, prize_id)
    return await _copy(st, "stock", row, {"prize_id": new_id, "awarded": 0}, remaining=row.total if row else 0)


@statement("campaigns.copy_game")
async def copy_game(st: Statement, tenant_id: str, game_id: str, fields: dict[str, Any]) -> Result:
    return await _copy(st, "games", st.get("games", tenant_id, game_id), fields, revision=1)


@statement("campaigns.copy_quest")
async def copy_quest(
    st: Statement, tenant_id: str, quest_id: str, fields: dict[str, Any], days: int, zone: str
) -> Result:
    row = st.get("quests", tenant_id, quest_id)
    return await _copy(st, "quests", row, fields, **_dates(row, days, zone, "start_date", "end_date"))


@statement("campaigns.copy_board")
async def copy_board(
    st: Statement, tenant_id: str, board_id: str, fields: dict[str, Any], days: int, zone: str
) -> Result:
    row = st.get("leaderboards", tenant_id, board_id)
    dates = _dates(row, days, zone, "start_date", "end_date")
    return await _copy(st, "leaderboards", row, fields, status="active", finalized_at=None, **dates)


@statement("campaigns.copy_integration")
async def copy_integration(st: Statement, tenant_id: str, integration_id: str, fields: dict[str, Any]) -> Result:
    return await _copy(st, "integrations", st.get("integrations", tenant_id, integration_id), fields, status="paused")
