"""What the tenant of a run offers: prizes, games, quests and a board, made through Core's own operations.

How much of each there is, is the plan's (`draw`), so that a smaller plan has the same world.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Final

from ops.simulation.history import Attempt
from ops.simulation.plan import Step
from ops.simulation.subscribers import SUBSCRIPTIONS
from ops.simulation.world import TENANT, World

ZONES: Final = (
    "UTC",
    "Asia/Tokyo",
    "Europe/Berlin",
    "America/New_York",
    "Pacific/Honolulu",
    "Pacific/Kiritimati",
    "Asia/Kathmandu",
)

GAMES: Final = ("wheel", "capped", "daily", "paid", "unlock", "exchange", "gift")
PUBLIC: Final = ("wheel", "unlock", "gift")
"""Guests play these."""

WHEEL: Final = ("scarce", "coded", "dear", "rare", "points", "parcel", "errand")
STOCKED: Final = ("scarce", "rung", "fruit", "parcel", "errand")
RUNGS: Final = {"unlock": ("first",), "exchange": ("one", "two")}
QUESTS: Final = ("once", "daily")

COINS: Final = 2
POINTS: Final = 10
THRESHOLD: Final = 4
TURNS: Final = 2
AWAITED_SECONDS: Final = 1800
"""How long an errand's callback is awaited."""


def draw(dice: Random) -> dict[str, Any]:
    """How much there is of everything."""
    return {
        "zone": dice.choice(ZONES),
        "scarce": dice.choice((1, 2, 4, 8)),
        "codes": dice.choice((1, 2, 4)),
        "rungs": dice.choice((1, 2, 5)),
        "fruits": dice.choice((2, 6, 0)),
        "parcels": dice.choice((2, 5, 0)),
        "errands": dice.choice((2, 5)),
        "dear": dice.choice((1, 2)),
        "rare": dice.choice((1, 2)),
        "capped": dice.choice((2, 3, 5)),
        "daily": dice.choice((1, 2, 3)),
        "wheel": dice.choice((0, 0, 4)),
        "on_unavailable": dice.choice(("lose", "redraw", "lose")),
        "coded": dice.choice(("on_win", "on_claim")),
        "errand": dice.choice(("on_win", "on_claim")),
        "expires": dice.choice((0, 1, 1)),
    }


async def furnish(world: World) -> None:
    """Makes it all, in the world's first seconds. AssertionError where Core refuses."""
    given = world.plan.world
    world.stores.make_tenant(TENANT)

    async def make(name: str, kind: str, fields: Mapping[str, Any]) -> str:
        reply = await _ask(world, f"Create{kind.title()}", {kind: {"name": name, **fields}})
        identifier = str(getattr(reply, kind).id)
        world.ids[name], world.names[identifier] = identifier, name
        return identifier

    campaign = await make("campaign", "campaign", {"status": "active", "timezone": given["zone"]})
    on_claim = {"redemption_mode": "on_claim"}
    stock = stock_of(given)
    goods: dict[str, dict[str, Any]] = {
        "scarce": {"type": "goods", "fulfillment": on_claim, "expires_after_days": given["expires"]},
        "coded": {"type": "voucher", "fulfillment": {"channel": "voucher_code", "redemption_mode": given["coded"]}},
        "dear": {"type": "goods", "constraints": {"max_per_user": given["dear"]}, "fulfillment": on_claim},
        "rare": {"type": "goods", "constraints": {"max_per_day": given["rare"]}},
        "points": {"type": "points", "value": POINTS},
        "rung": {"type": "goods", "fulfillment": {"redemption_mode": "manual"}},
        "fruit": {"type": "goods"},
        "parcel": {
            "type": "goods",
            "fulfillment": {"channel": "webhook", "config": {"url": "https://parcel.example/"}},
        },
        "errand": {
            "type": "goods",
            "fulfillment": {
                "channel": "workflow",
                "redemption_mode": given["errand"],
                "config": {"url": "https://errand.example/", "callback_seconds": AWAITED_SECONDS},
            },
        },
    }
    for name, fields in goods.items():
        await make(name, "prize", {**fields, "stock": {"total": stock.get(name, 0)}})
    codes = [f"CODE-{nth}" for nth in range(given["codes"])]
    await _ask(world, "ImportCodes", {"id": world.ids["coded"], "codes": codes})
    for name, fields in _games(world, given).items():
        access = "public" if name in PUBLIC else "player"
        await make(name, "game", {"campaign_id": campaign, "status": "active", "access": access, **fields})
    for name, often in (("once", "one_time"), ("daily", "daily")):
        quest = {"campaign_id": campaign, "type": often, "turns": TURNS, "status": "active"}
        await make(f"quest {name}", "quest", quest)
    prizes = [{"from_rank": 1, "to_rank": 2, "prize_id": world.ids["scarce"]}]
    board = {"campaign_id": campaign, "metric": "plays", "mode": "sum", "prizes": prizes}
    await make("board", "leaderboard", board)
    for name, events in SUBSCRIPTIONS.items():
        own = {"type": "webhook", "events": events, "config": {"url": f"https://{name}.example/"}}
        about = {"campaign_id": campaign} if name == "mail" else {}
        reply = await _ask(world, "CreateIntegration", {"integration": {**own, **about}})
        world.ids[name] = reply.integration.id


def stock_of(given: Mapping[str, Any]) -> dict[str, int]:
    """How many units there are of each prize that has a stock; 0: no end of them."""
    return {name: given[name if name == "scarce" else f"{name}s"] for name in STOCKED}


def _games(world: World, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    ids = world.ids
    wheel = [{"prize_id": ids[name], "probability": 0.13} for name in WHEEL]
    plain = [{"prize_id": ids["points"], "probability": 0.5}]
    coins = {"items": [{"item": "coin", "weight": 1, "quantity": COINS, "slot_index": 0}]}
    drops = [
        {"type": "apple", "frequency": 2, "max_catchable": 1, "prize_id": ids["fruit"]},
        {"type": "stone", "frequency": 1, "max_catchable": 1},
    ]

    def rung(name: str) -> dict[str, Any]:
        return {"id": name, "name": name, "currency": "coin", "threshold": THRESHOLD, "prize_id": ids["rung"]}

    spin = {"type": "spin_wheel", "reward_handler": "probability"}
    collect = {"type": "collection", "reward_handler": "lucky_item", "handler_config": coins}
    unlock = {"mode": "cumulative_unlock", "auto_grant": True, "rungs": [rung(name) for name in RUNGS["unlock"]]}
    exchange = {"mode": "spend_exchange", "rungs": [rung(name) for name in RUNGS["exchange"]]}
    return {
        "wheel": {
            **spin,
            "handler_config": {"prizes": wheel},
            "rules": {"max_plays_per_day": given["wheel"]},
            "on_unavailable": given["on_unavailable"],
        },
        "capped": {**spin, "handler_config": {"prizes": plain}, "rules": {"max_plays_per_user": given["capped"]}},
        "daily": {**collect, "rules": {"max_plays_per_day": given["daily"]}},
        "paid": {**spin, "handler_config": {"prizes": plain}, "rules": {"requires_turn": True}},
        "unlock": {**collect, "milestones": unlock},
        "exchange": {**collect, "milestones": exchange},
        "gift": {
            "type": "gift_catcher",
            "seed_generator": "drop_sequence",
            "reward_handler": "collect_items",
            "validator": "drop_plan",
            "handler_config": {"drops": drops, "total_items": 3, "interval_ms": 1},
        },
    }


async def _ask(world: World, operation: str, request: Mapping[str, Any]) -> Any:
    attempt: Attempt = await world.send(Step(-1, 0.0, "staff", 0, "furnish"), 0, operation, request)
    assert attempt.ok, f"{operation}: {attempt} {world.logged[-1:]}"
    return world.answers[attempt.number]
