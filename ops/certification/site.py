"""The tenant of a scenario: prizes, games of every type, quests and, if their workers run, a board and a webhook.

Staff creates everything through the admin edge.
"""

import functools
import uuid
from dataclasses import dataclass, field
from typing import Any, Final

from ops.certification.client import Client
from ops.certification.deployment import Deployment
from ops.history.record import History, Note, Request
from ops.history.terms import Bounds, Terms
from runtime.http.auth.tokens import Tokens

STAFF: Final = "staff_certify"
TOKEN_SECONDS: Final = 86_400
SECRET: Final = "certify-" * 4
"""Signs the deliveries to the receiver."""

CAP: Final = 4
DAILY: Final = 3
COINS: Final = 2
POINTS: Final = 10
THRESHOLDS: Final = {"first": 4, "second": 8}
TURNS: Final = 2
BOUNDED: Final = {"capped": Bounds(ever=CAP), "daily": Bounds(daily=DAILY), "paid": Bounds(paid=True)}
BORN: Final = {"mug": ("won",), "trophy": ("won",), "voucher": ("fulfilled",)}
"""Initial status of a reward of these prizes, which no worker delivers."""

GAMES: Final = ("wheel", "capped", "daily", "paid", "unlock", "exchange", "gift", "eggs")


@dataclass
class Site:
    """A tenant and its recorded history. ids: of its resources, by name."""

    deployment: Deployment
    tenant_id: str
    client: Client
    history: History
    ids: dict[str, str] = field(default_factory=dict)
    stock: dict[str, int] = field(default_factory=dict)

    @property
    def campaign(self) -> str:
        return self.ids["campaign"]

    @property
    def terms(self) -> Terms:
        """What the checker must know of the tenant."""
        names = {identifier: name for name, identifier in self.ids.items()}
        return Terms(
            *(self.campaign, names),
            bounds=BOUNDED,
            thresholds=THRESHOLDS,
            born=BORN,
            rung="trophy",
            quest_turns=TURNS,
            planned=frozenset({"gift"}),
        )

    def note(self, at: float, text: str) -> None:
        """Records an event besides the requests: a kill, a restart."""
        self.history.notes.append(Note(at, text))

    async def make(self, kind: str, name: str, **fields: Any) -> str:
        """Creates a resource and returns its id."""
        body = {"name": name, **fields} if name else fields
        request = await self.client.ask(
            f"Create{kind.title()}", STAFF, "POST", f"/admin/{kind}s", body, surface="admin"
        )
        assert request.ok, f"{kind} {name}: {request.attempts[-1]}"
        self.ids[name or kind] = str(request.data["id"])
        return self.ids[name or kind]

    async def prize(
        self, name: str, *, total: int = 0, channel: str = "none", mode: str = "ON_WIN", **fields: Any
    ) -> str:
        """A prize; total 0: unlimited."""
        config = fields.pop("config", {})
        self.stock[name] = total
        fulfillment = {"redemption_mode": f"REDEMPTION_MODE_{mode}", "channel": channel, "config": config}
        spec = {"type": "goods", "campaign_id": self.campaign, "stock": {"total": total}, "fulfillment": fulfillment}
        return await self.make("prize", name, **{**spec, **fields})

    async def game(self, name: str, **fields: Any) -> str:
        """An active game: a wheel by default."""
        spec = {
            "type": "spin_wheel",
            "campaign_id": self.campaign,
            "seed_generator": "none",
            "reward_handler": "probability",
            "validator": "basic",
            "status": "GAME_STATUS_ACTIVE",
        }
        return await self.make("game", name, **{**spec, **fields})

    async def wheel(self, name: str = "wheel", prize: str = "mug", **fields: Any) -> str:
        """A wheel that always wins a prize, which is created if missing."""
        if prize not in self.ids:
            await self.prize(prize)
        return await self.game(name, handler_config={"prizes": self.chances(**{prize: 1.0})}, **fields)

    def chances(self, **probabilities: float) -> list[dict[str, Any]]:
        """The prizes of a wheel."""
        return [{"prize_id": self.ids[name], "probability": value} for name, value in probabilities.items()]

    async def session(self, game: str, who: str, key: str, surface: str = "core") -> str:
        """The id of a new session; empty if refused."""
        path = f"/games/{self.ids[game]}/start"
        request = await self.client.ask("Start", who, "POST", path, {}, surface=surface, of=game, key=f"start {key}")
        return str(request.data["session_id"]) if request.ok else ""

    async def round(self, game: str, who: str, key: str = "", surface: str = "core") -> Request:
        """Starts and plays; returns the play, or the refused start."""
        key = f"{game} {who} {key}"
        session = await self.session(game, who, key, surface)
        if not session:
            return next(request for request in reversed(self.history.of("Start")) if request.key == f"start {key}")
        body, path = {"session_id": session, "payload": {}}, f"/games/{self.ids[game]}/play"
        return await self.client.ask("Play", who, "POST", path, body, surface=surface, of=game, key=f"play {key}")

    def forget_starts(self) -> None:
        """Clears the keys of starts after Valkey, their only store, lost its data."""
        for request in self.history.of("Start"):
            request.key = ""


async def founded(deployment: Deployment) -> Site:
    """A new tenant with an active, empty campaign."""
    name = f"certify {uuid.uuid4().hex[:8]}"
    url = f"{deployment.cores[0].url('core')}/api/v1/tenants"
    async with deployment.http.post(url, json={"tenant": {"name": name}}) as answer:
        tenant_id = str((await answer.json())["data"]["tenant"]["id"])
    tokens = Tokens.of(deployment.settings)

    @functools.cache
    def token(surface: str, who: str) -> str:
        roles = ("admin",) if surface == "admin" else ()
        return tokens.mint(who, tenant_id=tenant_id, seconds=TOKEN_SECONDS, roles=roles)

    history = History()
    site = Site(deployment, tenant_id, Client(deployment.http, history, tenant_id, deployment.of, token), history)
    await site.make("campaign", "campaign", status="CAMPAIGN_STATUS_ACTIVE", timezone="UTC")
    return site


async def furnish(site: Site, receiver_url: str = "") -> None:
    """Creates everything that the load uses. receiver_url: for webhooks and a board; empty if no worker runs."""
    receiver = {"url": receiver_url, "secret": SECRET}
    await site.prize("points", type="points", value=POINTS)
    await site.prize("mug", total=40, mode="ON_CLAIM")
    await site.prize("trophy", total=400, mode="MANUAL")
    await site.prize("voucher", channel="voucher_code", type="voucher")
    sent: dict[str, Any] = {"channel": "webhook", "config": receiver} if receiver_url else {}
    await site.prize("parcel", total=200, **sent)
    codes = [f"CODE-{nth:05d}" for nth in range(300)]
    path = f"/admin/prizes/{site.ids['voucher']}/codes"
    await site.client.ask("ImportCodes", STAFF, "POST", path, {"codes": codes}, surface="admin", key="codes")
    await _games(site)
    for name, often in (("once", "ONE_TIME"), ("daily quest", "DAILY")):
        quest = {"campaign_id": site.campaign, "type": f"QUEST_TYPE_{often}", "turns": TURNS}
        await site.make("quest", name, **quest, status="QUEST_STATUS_ACTIVE")
    board = {"metric": "LEADERBOARD_METRIC_PLAYS", "mode": "LEADERBOARD_MODE_SUM"}
    await site.make("leaderboard", "board", campaign_id=site.campaign, **board)
    if receiver_url:
        hook = {"type": "INTEGRATION_TYPE_WEBHOOK", "events": ["play_completed"], "config": receiver}
        await site.make("integration", "", **hook)


async def _games(site: Site) -> None:
    chances = site.chances(points=0.3, mug=0.1, trophy=0.1, voucher=0.1, parcel=0.1)
    plain = {"prizes": site.chances(points=0.5)}
    coins = {"items": [{"item": "coin", "weight": 1, "quantity": COINS, "slot_index": 0}]}
    collection = {"type": "collection", "reward_handler": "lucky_item", "handler_config": coins}
    rungs = [
        {"id": name, "name": name, "currency": "coin", "threshold": threshold, "prize_id": site.ids["trophy"]}
        for name, threshold in THRESHOLDS.items()
    ]
    await site.game("wheel", handler_config={"prizes": chances})
    await site.game("capped", handler_config=plain, rules={"max_plays_per_user": CAP})
    await site.game("daily", handler_config=plain, rules={"max_plays_per_day": DAILY})
    await site.game("paid", handler_config=plain, rules={"requires_turn": True})
    cumulative = {"mode": "MILESTONE_MODE_CUMULATIVE_UNLOCK", "auto_grant": True, "rungs": rungs}
    await site.game("unlock", **collection, milestones=cumulative)
    exchange = {"mode": "MILESTONE_MODE_SPEND_EXCHANGE", "auto_grant": False, "rungs": rungs}
    await site.game("exchange", **collection, milestones=exchange)
    drops = [
        {"type": "apple", "frequency": 2, "max_catchable": 1, "prize_id": site.ids["points"]},
        {"type": "stone", "frequency": 1, "max_catchable": 0},
    ]
    await site.game(
        "gift",
        type="gift_catcher",
        seed_generator="drop_sequence",
        reward_handler="collect_items",
        validator="drop_plan",
        handler_config={"drops": drops, "total_items": 3, "interval_ms": 1},
    )
    tiers = [{"min": 10, "max": 99, "prize_group": "good"}]
    eggs = {"tiers": tiers, "prize_groups": {"good": site.chances(points=1.0)}, "max_score": 99}
    await site.game("eggs", type="egg_catcher", reward_handler="score_to_tier", handler_config=eggs)
