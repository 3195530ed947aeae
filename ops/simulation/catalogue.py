"""The tenant of a run: prizes of every kind and games of every type, as database rows.

Everything is in one campaign. Quantities are drawn, so that stocks run out and caps are reached within a run.
"""

import hashlib
from collections.abc import Mapping
from random import Random
from typing import Any, Final

import msgspec

from ops.history.terms import Bounds, Terms
from ops.simulation.node import SETTINGS
from ops.simulation.postgres import Transaction
from runtime import messages as m
from runtime.operations.games.definitions import definition_of
from runtime.outgoing.vault import Vault, code_context
from runtime.wire import codec

TENANT: Final = "tenant_sim"
CAMPAIGN: Final = "campaign_sim"

ZONES: Final = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Pacific/Honolulu",
    "Pacific/Kiritimati",
    "Asia/Kathmandu",
)

GAMES: Final = ("wheel", "capped", "daily", "paid", "unlock", "exchange", "gift")
PUBLIC: Final = ("wheel", "unlock", "gift")
"""Games that guests can play."""

WHEEL: Final = ("scarce", "coded", "dear", "rare", "points", "turns")
STOCKED: Final = ("scarce", "rung", "fruit")
RUNGS: Final = ("first", "second")

COINS: Final = 2
POINTS: Final = 10
THRESHOLDS: Final = {"first": 4, "second": 8}
TURNS: Final = 2


def draw(dice: Random) -> dict[str, Any]:
    """Draws all quantities."""
    return {
        "zone": dice.choice(ZONES),
        "scarce": dice.choice((1, 2, 4, 8)),
        "codes": dice.choice((1, 2, 4)),
        "rung": dice.choice((1, 2, 5)),
        "fruit": dice.choice((2, 6, 0)),
        "dear": dice.choice((1, 2)),
        "rare": dice.choice((1, 2)),
        "capped": dice.choice((2, 3, 5)),
        "daily": dice.choice((1, 2, 3)),
        "wheel": dice.choice((0, 0, 4)),
        "on_unavailable": dice.choice(("lose", "redraw", "lose")),
        "coded": dice.choice(("on_win", "on_claim")),
    }


def terms(settings: Mapping[str, Any], *, slack_seconds: float) -> Terms:
    """What the checker must know of the tenant. slack_seconds: maximum difference of clocks."""
    bounds = {
        "wheel": Bounds(daily=settings["wheel"]),
        "capped": Bounds(ever=settings["capped"]),
        "daily": Bounds(daily=settings["daily"]),
        "paid": Bounds(paid=True),
    }
    coded = "fulfilled" if settings["coded"] == "on_win" else "won"
    born = dict.fromkeys(("scarce", "dear", "rung"), ("won",)) | dict.fromkeys(("rare", "fruit"), ("fulfilled",))
    return Terms(
        CAMPAIGN,
        {id_of(name): name for name in (*GAMES, *WHEEL, *STOCKED)},
        zone=settings["zone"],
        bounds=bounds,
        thresholds=THRESHOLDS,
        born=born | {"coded": (coded,), "turns": ("fulfilled",)},
        rung="rung",
        stock={name: settings[name] for name in STOCKED},
        session_seconds=SETTINGS.session_ttl_seconds,
        planned=frozenset({"gift"}),
        slack_seconds=slack_seconds,
    )


def id_of(name: str) -> str:
    """The id of a game or a prize."""
    return f"id_{name}"


def codes_of(settings: Mapping[str, Any]) -> list[str]:
    return [f"CODE-{nth}" for nth in range(settings["codes"])]


def furnish(tx: Transaction, settings: Mapping[str, Any]) -> None:
    """Writes all rows."""
    own = {"tenant_id": TENANT}
    tx.insert("tenants", **own, name=TENANT, catalog_version=1)
    campaign = {"campaign_id": CAMPAIGN, "name": "campaign", "status": "active", "timezone": settings["zone"]}
    tx.insert("campaigns", **own, **campaign)
    for name, fields in _prizes(settings).items():
        terms = {"type": "goods", "value": 0, "channel": "none", "redemption_mode": "on_win", "status": "active"}
        terms |= {"max_per_user": 0, "max_per_day": 0, "expires_after_days": 0}
        tx.insert("prizes", **own, prize_id=id_of(name), name=name, **terms | fields)
        total = settings[name] if name in STOCKED else 0
        tx.insert("stock", **own, prize_id=id_of(name), total=total, remaining=total, awarded=0)
    vault = Vault(SETTINGS.code_keys)
    for code in codes_of(settings):
        sealed = vault.seal(code, code_context(TENANT, id_of("coded")))
        columns = {"key_id": sealed.key_id, "ciphertext": sealed.ciphertext, "reward_id": None, "assigned_at": None}
        code_hash = hashlib.sha256(code.encode()).digest()
        tx.insert("codes", **own, prize_id=id_of("coded"), code_id=code, code_hash=code_hash, **columns)
    for name, fields in _games(settings).items():
        access = "GAME_ACCESS_PUBLIC" if name in PUBLIC else "GAME_ACCESS_PLAYER"
        whole = {"name": name, "validator": "basic", "seed_generator": "none", "access": access, **fields}
        whole = {"wallet_scope": "WALLET_SCOPE_CAMPAIGN", "on_unavailable": "ON_UNAVAILABLE_LOSE", **whole}
        definition = definition_of(codec.decode(m.Game, msgspec.json.encode(whole)))
        game = {"game_id": id_of(name), "campaign_id": CAMPAIGN, "name": name, "type": definition["type"]}
        tx.insert("games", **own, **game, status="active", revision=1)
        tx.insert("game_revisions", **own, game_id=id_of(name), revision=1, definition=definition)


def _prizes(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    on_claim = {"redemption_mode": "on_claim"}
    return {
        "scarce": on_claim,
        "coded": {"type": "voucher", "channel": "voucher_code", "redemption_mode": settings["coded"]},
        "dear": on_claim | {"max_per_user": settings["dear"]},
        "rare": {"max_per_day": settings["rare"]},
        "points": {"type": "points", "value": POINTS},
        "turns": {"type": "turns", "value": TURNS},
        "rung": {"redemption_mode": "manual"},
        "fruit": {},
    }


def _games(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    wheel = [{"prize_id": id_of(name), "probability": 0.15} for name in WHEEL]
    plain = {"prizes": [{"prize_id": id_of("points"), "probability": 0.5}]}
    coins = {"items": [{"item": "coin", "weight": 1, "quantity": COINS, "slot_index": 0}]}
    drops = [
        {"type": "apple", "frequency": 2, "max_catchable": 1, "prize_id": id_of("fruit")},
        {"type": "stone", "frequency": 1, "max_catchable": 1},
    ]
    rungs = [
        {"id": name, "name": name, "currency": "coin", "threshold": THRESHOLDS[name], "prize_id": id_of("rung")}
        for name in RUNGS
    ]
    spin = {"type": "spin_wheel", "reward_handler": "probability"}
    collect = {"type": "collection", "reward_handler": "lucky_item", "handler_config": coins}
    unlock = {"mode": "MILESTONE_MODE_CUMULATIVE_UNLOCK", "auto_grant": True, "rungs": rungs}
    exchange = {"mode": "MILESTONE_MODE_SPEND_EXCHANGE", "rungs": rungs}
    return {
        "wheel": {
            **spin,
            "handler_config": {"prizes": wheel},
            "rules": {"max_plays_per_day": settings["wheel"]},
            "on_unavailable": f"ON_UNAVAILABLE_{settings['on_unavailable'].upper()}",
        },
        "capped": {**spin, "handler_config": plain, "rules": {"max_plays_per_user": settings["capped"]}},
        "daily": {**collect, "rules": {"max_plays_per_day": settings["daily"]}},
        "paid": {**spin, "handler_config": plain, "rules": {"requires_turn": True}},
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
