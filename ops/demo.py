"""The demo: one campaign, "Autumn Fair", with a game of every type, created through the admin edge.

Each resource is looked up by name before it is created, so that seeding again, or continuing an
interrupted seeding, creates no duplicates.
"""

from pathlib import Path
from typing import Any

import yaml

from ops.api import Api

CAMPAIGN = "Autumn Fair"
THEME = {"primary": "#c2410c", "accent": "#facc15"}
GAMES = Path(__file__).with_name("demo.yaml")
BACKGROUND = {"color": "#fff7ed", "emoji": "🍂"}


def seed(admin_url: str, admin_token: str) -> dict[str, Any]:
    """Creates the demo in the token's tenant and merchant, and returns its ids in the ready file's form.

    `{campaign_id, quest_id, leaderboard_id, games: {shape: id}, prizes: {name: id}}`. Raises ops.api.ApiError.
    """
    api = Api(admin_url, admin_token)
    campaign = _find_or_make(
        api, "/admin/campaigns", {"name": CAMPAIGN, "timezone": "UTC", "settings": {"theme": THEME}}
    )
    campaign_id = campaign["id"]
    prizes = {spec["name"]: _prize(api, campaign_id, spec) for spec in prize_specs()}
    games = {
        shape: _find_or_make(api, "/admin/games", spec)["id"] for shape, spec in game_specs(campaign_id, prizes).items()
    }
    quest = _find_or_make(
        api,
        "/admin/quests",
        {
            "campaign_id": campaign_id,
            "name": "Visit the stall",
            "description": "Drop in once a day: three more turns.",
            "type": "QUEST_TYPE_DAILY",
            "turns": 3,
            "status": "QUEST_STATUS_ACTIVE",
        },
    )
    board = _find_or_make(
        api,
        "/admin/leaderboards",
        {
            "campaign_id": campaign_id,
            "game_id": games["egg_catcher"],
            "name": "Best egg catchers",
            "metric": "LEADERBOARD_METRIC_SCORE",
            "mode": "LEADERBOARD_MODE_BEST",
            "prizes": [{"from_rank": 1, "to_rank": 3, "prize_id": prizes["Fair mug"]}],
        },
    )
    if campaign["status"] == "CAMPAIGN_STATUS_DRAFT":
        # Last: with DUAL_ODDS, adding a game to an active campaign needs a second person's approval.
        api.put(f"/admin/campaigns/{campaign_id}", {"status": "CAMPAIGN_STATUS_ACTIVE"})
    return {
        "campaign_id": campaign_id,
        "quest_id": quest["id"],
        "leaderboard_id": board["id"],
        "games": games,
        "prizes": prizes,
    }


def _find_or_make(api: Api, path: str, spec: dict[str, Any]) -> dict[str, Any]:
    """The resource at `path` with the name and campaign of `spec`; creates it if missing."""
    query = {"q": spec["name"], "limit": "100"}
    if "campaign_id" in spec:
        query["campaign_id"] = spec["campaign_id"]
    for item in api.get(path, **query)["items"]:
        if item["name"] == spec["name"]:
            return dict(item)
    return api.post(path, spec)


def _prize(api: Api, campaign_id: str, spec: dict[str, Any]) -> str:
    codes = spec.pop("codes", None)
    prize_id: str = _find_or_make(api, "/admin/prizes", {**spec, "campaign_id": campaign_id})["prize_id"]
    if codes:
        api.post(f"/admin/prizes/{prize_id}/codes", {"codes": codes})  # known ones are counted, not added again
    return prize_id


def prize_specs() -> list[dict[str, Any]]:
    """Bodies of POST /admin/prizes, without the campaign; `codes` is the pool to import."""

    def prize(name: str, kind: str, value: float, channel: str, mode: str = "ON_WIN", **more: Any) -> dict[str, Any]:
        fulfillment = {"redemption_mode": f"REDEMPTION_MODE_{mode}", "channel": channel}
        return {"name": name, "type": kind, "value": value, "fulfillment": fulfillment, **more}

    return [
        prize("Cider voucher", "voucher", 5, "voucher_code", codes=[f"CIDER-{n:04d}" for n in range(1, 51)]),
        prize("Fair mug", "goods", 12, "none", "ON_CLAIM", stock={"total": 40}, constraints={"max_per_user": 1}),
        prize("Toffee apple", "goods", 2, "none", stock={"total": 500}, constraints={"max_per_day": 100}),
        prize("Golden pumpkin", "goods", 80, "none", "MANUAL", stock={"total": 3}, constraints={"max_per_user": 1}),
        prize("Ten points", "points", 10, "none"),
    ]


def game_specs(campaign_id: str, prizes: dict[str, str]) -> dict[str, dict[str, Any]]:
    """{shape: body of POST /admin/games}, as in demo.yaml; `prizes` maps the names in `prize_specs` to ids."""

    def identified(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: prizes[it] if key.endswith("prize_id") else identified(it) for key, it in value.items()}
        return [identified(one) for one in value] if isinstance(value, list) else value

    # Anyone who opens a game's page can play.
    own = {"campaign_id": campaign_id, "status": "GAME_STATUS_ACTIVE", "access": "GAME_ACCESS_PUBLIC"}
    look = {"theme": THEME, "background": BACKGROUND}
    games = identified(yaml.safe_load(GAMES.read_text()))
    return {shape: {**game, **own, "ui": {**look, **game["ui"]}} for shape, game in games.items()}
