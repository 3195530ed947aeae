"""The demo: one campaign, "Autumn Fair", with a game of every type, created through the admin edge.

Each resource is looked up by name before it is created, so that seeding again, or continuing an
interrupted seeding, creates no duplicates.
"""

from typing import Any

from ops.api import Api

CAMPAIGN = "Autumn Fair"
THEME = {"primary": "#c2410c", "accent": "#facc15"}
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
    """{shape: body of POST /admin/games}; `prizes` maps the names in `prize_specs` to ids."""
    cider, mug, apple = prizes["Cider voucher"], prizes["Fair mug"], prizes["Toffee apple"]
    pumpkin, points = prizes["Golden pumpkin"], prizes["Ten points"]

    def game(name: str, kind: str, rules_of: tuple[str, str, str], ui: dict[str, Any], **more: Any) -> dict[str, Any]:
        seed_generator, reward_handler, validator = rules_of
        return {
            "name": name,
            "type": kind,
            "campaign_id": campaign_id,
            "seed_generator": seed_generator,
            "reward_handler": reward_handler,
            "validator": validator,
            "status": "GAME_STATUS_ACTIVE",
            "access": "GAME_ACCESS_PUBLIC",  # Anyone who opens its page can play.
            "ui": {"theme": THEME, "background": BACKGROUND, **ui},
            **more,
        }

    def chances(**probabilities: float) -> list[dict[str, Any]]:
        ids = {"cider": cider, "mug": mug, "apple": apple, "pumpkin": pumpkin, "points": points}
        return [{"prize_id": ids[name], "probability": value} for name, value in probabilities.items()]

    def segment(emoji: str, label: str, prize_id: str | None = None) -> dict[str, str]:
        return {"emoji": emoji, "label": label, **({"prize_id": prize_id} if prize_id else {})}

    return {
        "spin_wheel": game(
            "Harvest wheel",
            "spin_wheel",
            ("none", "probability", "basic"),
            {
                "wheel": {
                    "segments": [
                        segment("🍏", "Toffee apple", apple),
                        segment("🍃", "Next time"),
                        segment("⭐", "Ten points", points),
                        segment("🍃", "Next time"),
                        segment("🍺", "Cider voucher", cider),
                        segment("🍃", "Next time"),
                        segment("☕", "Fair mug", mug),
                        segment("🎃", "Golden pumpkin", pumpkin),
                    ]
                }
            },
            handler_config={"prizes": chances(apple=0.2, points=0.3, cider=0.1, mug=0.05, pumpkin=0.005)},
            rules={"max_plays_per_day": 10},
        ),
        "scratch": game(
            "Lucky scratch",
            "scratch_card",
            ("none", "probability", "basic"),
            {"items": [{"emoji": "☕", "prize_id": mug}, {"emoji": "⭐", "prize_id": points}, {"emoji": "🍂"}]},
            handler_config={"prizes": chances(mug=0.1, points=0.4)},
            on_unavailable="ON_UNAVAILABLE_REDRAW",
        ),
        "egg_catcher": game(
            "Egg catcher",
            "egg_catcher",
            ("none", "score_to_tier", "basic"),
            {"catcher": {"lives": 3, "most": 150}},
            handler_config={
                "tiers": [
                    {"min": 10, "max": 49, "prize_group": "good"},
                    {"min": 50, "max": 500, "prize_group": "great"},
                ],
                "prize_groups": {"good": chances(points=1.0), "great": chances(apple=0.5, cider=0.5)},
                "max_score": 500,
                "max_score_per_second": 10,
            },
            on_unavailable="ON_UNAVAILABLE_FALLBACK",
            fallback_prize_id=points,
        ),
        "gift_catcher": game(
            "Gift catcher",
            "gift_catcher",
            ("drop_sequence", "collect_items", "drop_plan"),
            {"items": {"star": {"emoji": "⭐"}, "apple": {"emoji": "🍏"}, "leaf": {"emoji": "🍂"}}},
            handler_config={
                "drops": [
                    {"type": "star", "prize_id": points, "frequency": 5, "max_catchable": 3},
                    {"type": "apple", "prize_id": apple, "frequency": 2, "max_catchable": 1},
                    {"type": "leaf", "frequency": 8, "max_catchable": 0},
                ],
                "total_items": 20,
                "interval_ms": 400,
            },
        ),
        "collection": game(
            "Leaf collection",
            "collection",
            ("none", "lucky_item", "basic"),
            {"items": [{"emoji": "🍁", "item": "maple"}, {"emoji": "🌰", "item": "chestnut"}]},
            handler_config={
                "items": [
                    {"item": "maple", "weight": 3, "quantity": 1, "slot_index": 0},
                    {"item": "chestnut", "weight": 1, "quantity": 1, "slot_index": 1},
                ]
            },
            milestones={
                "mode": "MILESTONE_MODE_CUMULATIVE_UNLOCK",
                "auto_grant": False,
                "rungs": [
                    {"name": "Five maple leaves", "currency": "maple", "threshold": 5, "prize_id": apple},
                    {"name": "Five chestnuts", "currency": "chestnut", "threshold": 5, "prize_id": mug},
                ],
            },
        ),
    }
