"""Tenants, campaigns, prizes and games for measurements, created through Core's REST."""

from dataclasses import dataclass, field
from typing import Any, Final

from ops.api import Api

STOCK: Final = 1_000_000_000
"""High enough never to run out; it must be counted nevertheless."""
CHANCE: Final = 0.5


@dataclass(slots=True)
class Fixture:
    """A tenant with an active campaign and its resources."""

    api: Api
    database: str = ""
    tenant_id: str = ""
    campaign_id: str = ""
    scope: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tenant_id = self.api.post("/tenants", {"tenant": {"name": "bench", "database": self.database}})["tenant"][
            "id"
        ]
        self.scope = {"tenant_id": self.tenant_id}
        self.begin_campaign()

    def begin_campaign(self) -> None:
        """Creates a campaign. Games and prizes created after it belong to it."""
        campaign = {"name": "bench", "status": "CAMPAIGN_STATUS_ACTIVE", "timezone": "UTC"}
        self.campaign_id = self._make("campaign", campaign)

    def prize(self, *, mode: str = "ON_WIN", stock: int = STOCK, **more: Any) -> str:
        """Creates a voucher with stock, without delivery unless `fulfillment` is given; returns its id."""
        spec = {
            "name": "Coffee voucher",
            "type": "voucher",
            "value": 5,
            "campaign_id": self.campaign_id,
            "stock": {"total": stock},
            "fulfillment": {"redemption_mode": f"REDEMPTION_MODE_{mode}", "channel": "none"},
            **more,
        }
        return self._make("prize", spec)

    def spin(self, prize_id: str, chance: float = CHANCE, **more: Any) -> str:
        """Creates a spin wheel that wins the prize with `chance`; returns its id."""
        handler_config = {"prizes": [{"prize_id": prize_id, "probability": chance}]}
        return self.game("probability", handler_config, **more)

    def collection(self, prize_id: str, currency: str, thresholds: range) -> str:
        """Creates a collection that credits one `currency` per play and grants a milestone at each threshold."""
        rungs = [
            {"id": f"rung_{n}", "name": f"{n} of them", "currency": currency, "threshold": n, "prize_id": prize_id}
            for n in thresholds
        ]
        milestones = {"mode": "MILESTONE_MODE_CUMULATIVE_UNLOCK", "auto_grant": True, "rungs": rungs}
        items = [{"item": currency, "weight": 1, "quantity": 1, "slot_index": 0}]
        return self.game("lucky_item", {"items": items}, type="collection", milestones=milestones)

    def game(self, reward_handler: str, handler_config: dict[str, Any], **more: Any) -> str:
        """Creates an active game; returns its id."""
        spec = {
            "name": "bench",
            "type": "spin_wheel",
            "campaign_id": self.campaign_id,
            "seed_generator": "none",
            "reward_handler": reward_handler,
            "validator": "basic",
            "status": "GAME_STATUS_ACTIVE",
            "handler_config": handler_config,
            **more,
        }
        return self._make("game", spec)

    def pack(self) -> str:
        """Creates a pack whose codes give two turns; returns its id."""
        return self._make("pack", {"name": "bench", "campaign_id": self.campaign_id, "gives": {"turns": 2}})

    def leaderboard(self, game_id: str) -> str:
        """Creates a leaderboard of the plays of a game; returns its id."""
        spec = {
            "name": "bench",
            "campaign_id": self.campaign_id,
            "game_id": game_id,
            "metric": "LEADERBOARD_METRIC_PLAYS",
            "mode": "LEADERBOARD_MODE_SUM",
        }
        return self._make("leaderboard", spec)

    def integration(self, url: str, events: list[str]) -> str:
        """Creates a webhook for these events; returns its id."""
        spec = {"type": "INTEGRATION_TYPE_WEBHOOK", "events": events, "config": {"url": url, "secret": "bench" * 5}}
        return self._make("integration", spec)

    def _make(self, kind: str, spec: dict[str, Any]) -> str:
        made: str = self.api.post(f"/{kind}s", {"scope": self.scope, kind: spec})[kind]["id"]
        return made
