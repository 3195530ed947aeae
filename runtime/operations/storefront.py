"""Public reads: a game as its widget draws it, and a campaign with its games, quests and boards.

They never expose handler_config, chances, stock counts, or player data. Draft campaigns, their games, and
draft or archived games are not public; designers read them as staff.
"""

from __future__ import annotations

from typing import Any, Final

import sql
from runtime import messages as m
from runtime.actors.answers import claim_fields_of
from runtime.actors.engine import Engine
from runtime.actors.game.snapshot import scope_key_of
from runtime.errors import unknown
from runtime.operations.campaigns.campaign_admin import from_row as campaign_from_row
from runtime.operations.draws.draw_admin import public_draws
from runtime.operations.games.definitions import currencies_credited, game_from_row, prizes_drawn, prizes_shown
from runtime.operations.leaderboards.board_admin import board_from_row
from runtime.operations.quests.quest_admin import public_quest
from runtime.operations.row import Access, Consumer, Operation, RoutePolicy
from runtime.rules.campaign_state import REASONS, Dates, state_of
from runtime.rules.ui import shown
from runtime.wire.enums import enum
from runtime.wire.scope import tenant_of
from runtime.wire.shape import Shape

_CAMPAIGNS: Final = sql.load("campaigns")
_GAMES: Final = sql.load("games")
_BOARDS: Final = sql.load("leaderboards")
_PACKS: Final = sql.load("packs")

COVER: Final = ("theme", "background", "picture")
"""The parts of a game's ui that a page of several games shows."""

_OFFERS: Final = ("quests", "referrals", "leaderboards", "codes", "draws", "messages")

SHOWN_MAX: Final = 200
"""The most games, quests and boards, each, of one public campaign."""


async def render_game(engine: Engine, request: m.GetGameRequest) -> m.RenderReply:
    """The game for its widget: its ui, limits, rungs, and the prizes that it can award. NOT_FOUND UNKNOWN_GAME."""
    tenant_id = tenant_of(request)
    row = await engine.database.fetchrow(_GAMES["on_show"], tenant_id, request.id)
    if row is None:
        raise unknown("game", request.id)
    render = (await _render(engine, tenant_id, [row], row))[0]
    render.scope_key = scope_key_of(row["definition"], tenant_id, row["merchant_id"], row["campaign_id"])
    render.offers = [name for name in _OFFERS if row[f"has_{name}"]]
    return m.RenderReply(render=render)


async def get_public_campaign(engine: Engine, request: m.GetCampaignRequest) -> m.PublicCampaignReply:
    """The campaign with its active games, active quests, boards and draws. NOT_FOUND UNKNOWN_CAMPAIGN.

    A game's ui is reduced to its cover, for the hosted page; the edges omit that too.
    """
    tenant_id = tenant_of(request)
    campaign = await engine.database.fetchrow(_CAMPAIGNS["get"], tenant_id, request.id, "", False)
    if campaign is None or campaign["status"] == "draft":
        raise unknown("campaign", request.id)
    rows = await engine.database.fetch(_GAMES["active_of_campaign"], tenant_id, request.id, SHOWN_MAX)
    games = await _render(engine, tenant_id, rows, {**campaign, "campaign_status": campaign["status"]})
    quests = await engine.database.fetch(_CAMPAIGNS["active_quests"], tenant_id, request.id, SHOWN_MAX)
    boards = await engine.database.fetch(_BOARDS["of_campaign"], tenant_id, request.id, SHOWN_MAX)
    mails = any(not one["paused"] for one in (campaign["messages"] or {}).get("templates", ()))
    invites = any((quest["condition"] or {}).get("kind") == "referrals" for quest in quests)
    codes = await engine.database.fetchval(_PACKS["any_active"], tenant_id, request.id)
    draws = await public_draws(engine, tenant_id, request.id, SHOWN_MAX)
    for game, row in zip(games, rows, strict=True):
        game.ui = _cover(game.ui or {})
        game.scope_key = scope_key_of(row["definition"], tenant_id, campaign["merchant_id"], request.id)
        ranked = any(board["game_id"] in ("", game.id) for board in boards)
        offered = {"quests": quests, "referrals": invites, "leaderboards": ranked, "codes": codes, "draws": draws}
        offered["messages"] = mails
        game.offers = [name for name, there in offered.items() if there]
    dates = _dates(campaign)
    sold_out = _all_sold_out(games)
    state = state_of("active", campaign["status"], dates, engine.clock.now(), sold_out=sold_out)
    return m.PublicCampaignReply(
        state=enum(m.CampaignState, state.value),
        claims_until=dates.redeem_until,
        campaign=campaign_from_row(campaign),
        games=games,
        quests=[public_quest(row) for row in quests],
        leaderboards=[board_from_row(row) for row in boards],
        draws=draws,
    )


def _dates(campaign: Any) -> Dates:
    return Dates(campaign["start_date"], campaign["end_date"], campaign["redeem_until"])


def _all_sold_out(games: list[m.Render]) -> bool:
    """Whether each game that has not ended is sold out."""
    left = {game.state for game in games} - {m.CampaignState.ENDED, m.CampaignState.CLAIMS_OPEN}
    return left == {m.CampaignState.SOLD_OUT}


def _cover(ui: dict[str, Any]) -> dict[str, Any]:
    """The parts in COVER, without data: images, which would add up to megabytes for hundreds of games."""
    return {name: _by_address(ui[name]) for name in COVER if name in ui}


def _by_address(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: _by_address(value) for name, value in part.items()}
    return "" if isinstance(part, str) and part.startswith("data:") else part


async def _render(engine: Engine, tenant_id: str, rows: list[Any], campaign: Any) -> list[m.Render]:
    """The rows' games as players see them. campaign: its status, dates, time zone and settings."""
    shown_of = [prizes_shown(row["definition"]) for row in rows]
    wanted = sorted({prize_id for prize_ids in shown_of for prize_id in prize_ids})
    found = await engine.database.fetch(_GAMES["prizes_on_show"], tenant_id, wanted) if wanted else []
    prizes = {row["prize_id"]: _prize(row) for row in found}
    games, around = [], _dates(campaign)
    for row, prize_ids in zip(rows, shown_of, strict=True):
        game = _rendered(game_from_row(row), [prizes[prize_id] for prize_id in prize_ids if prize_id in prizes])
        definition = row["definition"]
        dates = around.within(definition.get("start_date", 0), definition.get("end_date", 0))
        game.starts_at, game.ends_at, game.claims_until = dates
        game.timezone = campaign["timezone"]
        sold_out, now = _sold_out(definition, prizes), engine.clock.now()
        state = state_of(row["status"], campaign["campaign_status"], dates, now, sold_out=sold_out)
        game.state, game.reason = enum(m.CampaignState, state.value), REASONS[state]
        game.ui = shown(game.ui, campaign["settings"])
        games.append(game)
    return games


def _sold_out(definition: dict[str, Any], prizes: dict[str, m.RenderPrize]) -> bool:
    """Whether no play can win anything but the consolation. The same rule as in actors/game/eligibility.py."""
    drawn = prizes_drawn(definition)
    if not drawn or currencies_credited(definition):
        return False
    return not any(prize_id in prizes and prizes[prize_id].available for prize_id in drawn)


def _prize(row: Any) -> m.RenderPrize:
    return m.RenderPrize(**{**row, "claim_fields": claim_fields_of(row["claim_fields"])})


def _rendered(game: m.Game, prizes: list[m.RenderPrize]) -> m.Render:
    """An explicit field list: a new field of a game stays private until it is added here."""
    return m.Render(
        id=game.id,
        name=game.name,
        type=game.type,
        campaign_id=game.campaign_id,
        status=game.status,
        ui=game.ui,
        rules=game.rules,
        access=game.access,
        on_unavailable=game.on_unavailable,
        prizes=prizes,
        reward_handler=game.reward_handler,
        milestones=game.milestones,
    )


# -- rows ------------------------------------------------------------------------------------


ROWS: Final = (
    Operation(
        "GetPublicCampaign",
        "GET /public/campaigns/{id}",
        run=get_public_campaign,
        consumer=Consumer(Access.EITHER, RoutePolicy.CACHED),
        shape=Shape(
            opened="campaign",
            inner={
                "campaign": Shape(without=frozenset({"archive", "budget", "hosts", "messages", "origins", "revision"})),
                "games": Shape(without=frozenset({"ui"}), name="PublicGame"),
            },
            name="PublicCampaign",
        ),
    ),
    Operation(
        "RenderGame", "GET /games/{id}/render", run=render_game, consumer=Consumer(Access.EITHER, RoutePolicy.CACHED)
    ),
)
