"""What the tenant of a row offers: prizes of every way of delivery, games of every shape, quests, a board, a webhook.

Made over the admin edge, as staff would.
"""

from __future__ import annotations

import functools
import uuid
from dataclasses import dataclass, field
from typing import Any, Final

from ops.certification.client import Client
from ops.certification.node import Node
from ops.certification.stack import Stack
from ops.history.record import History
from ops.history.terms import Bounds, Terms
from runtime.http.auth.tokens import Tokens

STAFF: Final = "staff_certify"
TOKEN_SECONDS: Final = 86_400
SECRET: Final = "certify-" * 4
"""Signs what goes to the receiver, and its callbacks."""

CAP: Final = 4
DAILY: Final = 3
COINS: Final = 2
POINTS: Final = 10
THRESHOLDS: Final = {"first": 4, "second": 8}
TURNS: Final = 2
BOUNDED: Final = {"capped": Bounds(ever=CAP), "daily": Bounds(daily=DAILY), "paid": Bounds(paid=True)}
BORN: Final = {"mug": ("won",), "trophy": ("won",), "cup": ("won",), "voucher": ("fulfilled",)}
"""How a reward of these prizes begins, which no worker ever moves. Others may be delivered by one."""

PLANNED: Final = frozenset({"gift"})
"""Games whose start reserves the player's next play."""

GAMES: Final = ("wheel", "capped", "daily", "paid", "unlock", "exchange", "gift", "eggs")


class Refused(RuntimeError):
    """The catalogue could not be made; the message is what was answered."""


@dataclass
class World:
    """A tenant of its own. ids: of what was made, by name; names: the other way round. receiver_url: of webhooks."""

    stack: Stack
    tenant_id: str
    client: Client
    history: History
    ids: dict[str, str] = field(default_factory=dict)
    stock: dict[str, int] = field(default_factory=dict)
    receiver_url: str = ""

    @functools.cached_property
    def names(self) -> dict[str, str]:
        return {identifier: name for name, identifier in self.ids.items()}

    @property
    def campaign(self) -> str:
        return self.ids["campaign"]

    @property
    def terms(self) -> Terms:
        """What the checker must know of it."""
        campaign = self.ids.get("campaign", "")
        return Terms(
            campaign, self.names, bounds=BOUNDED, thresholds=THRESHOLDS, born=BORN, quest_turns=TURNS, planned=PLANNED
        )

    async def make(self, kind: str, name: str, **fields: Any) -> str:
        """The id of a new resource, by the admin edge."""
        body = {"name": name, **fields} if name else fields
        answer = await self.client.ask(f"Create{kind.title()}", STAFF, "POST", f"/admin/{kind}s", body, surface="admin")
        if not answer.ok:
            raise Refused(f"{kind} {name}: {answer.attempts[-1]}")
        self.ids[name or kind] = str(answer.data["id"])
        self.__dict__.pop("names", None)
        return self.ids[name or kind]

    async def prize(
        self, name: str, *, total: int = 0, channel: str = "none", mode: str = "ON_WIN", **fields: Any
    ) -> str:
        """A prize; total 0: no end of it."""
        config = fields.pop("config", {})
        self.stock[name] = total
        fulfillment = {"redemption_mode": f"REDEMPTION_MODE_{mode}", "channel": channel, "config": config}
        spec = {"type": "goods", "campaign_id": self.campaign, "stock": {"total": total}, "fulfillment": fulfillment}
        return await self.make("prize", name, **{**spec, **fields})

    async def game(self, name: str, **fields: Any) -> str:
        """An active game: a wheel, unless told otherwise."""
        spec = {
            "type": "spin_wheel",
            "campaign_id": self.campaign,
            "seed_generator": "none",
            "reward_handler": "probability",
            "validator": "basic",
            "status": "GAME_STATUS_ACTIVE",
        }
        return await self.make("game", name, **{**spec, **fields})

    def chances(self, **probabilities: float) -> list[dict[str, Any]]:
        """The prizes of a wheel."""
        return [{"prize_id": self.ids[name], "probability": value} for name, value in probabilities.items()]


async def found(stack: Stack, history: History) -> World:
    """A new tenant with an active campaign and nothing in it."""
    core = stack.cores[0]
    name = f"certify {uuid.uuid4().hex[:8]}"
    async with stack.http.post(f"{core.core_url}/api/v1/tenants", json={"tenant": {"name": name}}) as answer:
        tenant_id = str((await answer.json())["data"]["tenant"]["id"])
    tokens = Tokens.of(stack.settings)

    @functools.cache
    def token(surface: str, who: str) -> str:
        roles = ("admin",) if surface == "admin" else ()
        return tokens.mint(who, tenant_id=tenant_id, seconds=TOKEN_SECONDS, roles=roles)

    def processes(surface: str) -> list[Node]:
        return {"consumer": stack.consumers, "admin": stack.admins, "core": stack.cores}[surface]

    client = Client(stack.http, history, tenant_id, processes, token)
    world = World(stack, tenant_id, client, history)
    await world.make("campaign", "campaign", status="CAMPAIGN_STATUS_ACTIVE", timezone="UTC")
    return world


async def furnish(world: World, receiver_url: str) -> None:
    """All that the load plays (`ops/certification/load.py`)."""
    world.receiver_url = receiver_url
    receiver = {"url": receiver_url, "secret": SECRET}
    await world.prize("points", type="points", value=POINTS)
    await world.prize("mug", total=40, mode="ON_CLAIM")
    await world.prize("trophy", total=400, mode="MANUAL")
    await world.prize("voucher", channel="voucher_code", type="voucher")
    await world.prize("parcel", total=200, channel="webhook", config=receiver)
    await world.prize("errand", total=200, channel="workflow", config=receiver)
    codes = [f"CODE-{nth:05d}" for nth in range(300)]
    path = f"/admin/prizes/{world.ids['voucher']}/codes"
    await world.client.ask("ImportCodes", STAFF, "POST", path, {"codes": codes}, surface="admin", key="codes")
    await _games(world)
    for name, often in (("once", "ONE_TIME"), ("daily quest", "DAILY")):
        quest = {"campaign_id": world.campaign, "type": f"QUEST_TYPE_{often}", "turns": TURNS}
        await world.make("quest", name, **quest, status="QUEST_STATUS_ACTIVE")
    board = {"metric": "LEADERBOARD_METRIC_PLAYS", "mode": "LEADERBOARD_MODE_SUM"}
    prizes = [{"from_rank": 1, "to_rank": 3, "prize_id": world.ids["trophy"]}]
    await world.make("leaderboard", "board", campaign_id=world.campaign, prizes=prizes, **board)
    hook = {"type": "INTEGRATION_TYPE_WEBHOOK", "events": ["play_completed"], "config": receiver}
    await world.make("integration", "", **hook)


async def _games(world: World) -> None:
    chances = world.chances(points=0.3, mug=0.1, trophy=0.1, voucher=0.1, parcel=0.1, errand=0.1)
    plain = {"prizes": world.chances(points=0.5)}
    coins = {"items": [{"item": "coin", "weight": 1, "quantity": COINS, "slot_index": 0}]}
    collection = {"type": "collection", "reward_handler": "lucky_item", "handler_config": coins}
    rungs = [
        {"id": name, "name": name, "currency": "coin", "threshold": threshold, "prize_id": world.ids["trophy"]}
        for name, threshold in THRESHOLDS.items()
    ]
    await world.game("wheel", handler_config={"prizes": chances})
    await world.game("capped", handler_config=plain, rules={"max_plays_per_user": CAP})
    await world.game("daily", handler_config=plain, rules={"max_plays_per_day": DAILY})
    await world.game("paid", handler_config=plain, rules={"requires_turn": True})
    cumulative = {"mode": "MILESTONE_MODE_CUMULATIVE_UNLOCK", "auto_grant": True, "rungs": rungs}
    await world.game("unlock", **collection, milestones=cumulative)
    exchange = {"mode": "MILESTONE_MODE_SPEND_EXCHANGE", "auto_grant": False, "rungs": rungs}
    await world.game("exchange", **collection, milestones=exchange)
    drops = [
        {"type": "apple", "frequency": 2, "max_catchable": 1, "prize_id": world.ids["points"]},
        {"type": "stone", "frequency": 1, "max_catchable": 0},
    ]
    await world.game(
        "gift",
        type="gift_catcher",
        seed_generator="drop_sequence",
        reward_handler="collect_items",
        validator="drop_plan",
        handler_config={"drops": drops, "total_items": 3, "interval_ms": 1},
    )
    tiers = [{"min": 10, "max": 99, "prize_group": "good"}]
    eggs = {"tiers": tiers, "prize_groups": {"good": world.chances(points=1.0)}, "max_score": 99}
    await world.game("eggs", type="egg_catcher", reward_handler="score_to_tier", handler_config=eggs)
