"""The tenant that a crowd is of: what it offers, and how everybody asks for it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from runtime import ids
from runtime.errors import Fault, Status
from runtime.http.docs.refusals import REFUSALS, reasons_of
from runtime.operations import BY_NAME
from tests.model.crowd import PLAYERS, PUBLIC, QUESTS, RUNGS, STOCKED, Act, Attempt, History
from tests.support.two_cores import Stage
from tests.support.waiting import HANG_SECONDS

COINS: Final = 2
POINTS: Final = 10
THRESHOLD: Final = 4
TURNS: Final = 2

WHEEL: Final = ("scarce", "coded", "dear", "rare", "points", "turns", "parcel", "errand")
REPLAYED: Final = ("Play", "Redeem", "AdjustBalance", "CompleteQuest", "GrantTurns", "MoveStock")
"""Whose answer is the same, to the byte, however often it is asked for under its key."""

WORKER: Final = 2
"""The Core of the stage that nobody asks: it has the workers."""

ONCE: Final = ("Play", "Redeem", "CompleteQuest", "ClaimReward", "FulfillReward", "RevokeReward", "BulkRewards")
"""What can be done once, whatever the key."""

NEVER: Final = frozenset({"VALIDATION", "INTERNAL", "FORBIDDEN", "APPROVAL_NEEDED"})
"""Reasons for which nothing here is refused: no act is drawn that is not well formed, or a merchant's, or large."""

SETUP: Final = Act(-1, "setup", "make", 0, "", 0, 0)


@dataclass
class Tenant:
    """people: the player that each person is by now. ids: what there is, by its name. The lists are what is known."""

    stage: Stage
    world: Mapping[str, int]
    tenant_id: str = field(default_factory=lambda: ids.make("tenant"))
    history: History = field(default_factory=History)
    ids: dict[str, str] = field(default_factory=dict)
    people: dict[str, str] = field(default_factory=lambda: {name: name for name in PLAYERS})
    sessions: dict[tuple[str, str], list[tuple[str, list[str]]]] = field(default_factory=lambda: defaultdict(list))
    played: list[dict[str, Any]] = field(default_factory=list)
    rewards: list[tuple[str, str]] = field(default_factory=list)
    boards: list[str] = field(default_factory=list)
    spares: list[tuple[str, str]] = field(default_factory=list)
    answers: dict[tuple[str, str], Any] = field(default_factory=dict)

    # ---------------------------------------------------------------- asking

    async def ask(self, act: Act, name: str, /, **fields: Any) -> Any:
        """The reply, or None where it is refused."""
        requests = [self._until_answered(act, act.core, name, fields)]
        key = fields.get("idempotency_key", "")
        if key and act.beside == "twin":
            requests.append(self._until_answered(act, 1 - act.core, name, fields))
        elif act.beside == "rival" and name in ONCE:
            rival = {**fields, "idempotency_key": f"{key}_rival"}
            requests.append(self._until_answered(act, 1 - act.core, name, rival))
        done = await asyncio.gather(*requests)
        return next((attempt.reply for attempt in done if attempt.ok), None)

    async def _until_answered(self, act: Act, core: int, name: str, fields: Mapping[str, Any]) -> Attempt:
        """Asks one Core, and where nothing could be done just now again, by turns with the other."""
        operation = BY_NAME[name]
        body = msgspec.json.encode({"scope": {"tenant_id": self.tenant_id}, **fields})
        async with asyncio.timeout(HANG_SECONDS):
            while True:
                attempt = self.history.begin(act, name, fields, core)
                try:
                    attempt.reply = await self.stage.call(core, operation, body)
                except Fault as fault:
                    attempt.ended, attempt.outcome = self.history.tick(), fault.reason
                    known = {*reasons_of(operation)} - NEVER
                    assert fault.reason in known and REFUSALS[fault.reason].status is fault.status, (
                        f"{attempt}: {fault}"
                    )
                    assert fault.http < 500 or fault.http == 503, f"{attempt}: {fault}"
                    if fault.status is not Status.UNAVAILABLE:
                        return attempt
                else:
                    attempt.ended, attempt.outcome = self.history.tick(), "ok"
                    if attempt.key and name in REPLAYED:
                        before = self.answers.setdefault((name, attempt.key), attempt.reply)
                        assert attempt.reply == before, f"{attempt}: {attempt.reply}, and before {before}"
                    return attempt
                await asyncio.sleep(0.01)
                core = 1 - core

    # ---------------------------------------------------------------- what there is

    async def make(self, act: Act, kind: str, **fields: Any) -> str:
        """The id of a new thing; empty where it is refused."""
        reply = await self.ask(act, f"Create{kind.title()}", **{kind: fields})
        return str(getattr(reply, kind).id) if reply is not None else ""

    async def furnish(self, url: str) -> None:
        """Makes all of it. url: of who gets what is delivered."""
        database = self.stage.cores[0].engine.database
        await database.execute("INSERT INTO tenants (tenant_id, name) VALUES ($1, 'Crowd')", self.tenant_id)
        self.ids["campaign"] = await self.make(SETUP, "campaign", name="C", status="active")
        on_claim = {"redemption_mode": "on_claim"}
        to_receiver = {"url": url, "secret": "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"}
        goods: dict[str, dict[str, Any]] = {
            "scarce": {"fulfillment": on_claim, "expires_after_days": 1},
            "coded": {"fulfillment": {"channel": "voucher_code"}},
            "dear": {"constraints": {"max_per_user": self.world["dear"]}, "fulfillment": on_claim},
            "rare": {"constraints": {"max_per_day": self.world["rare"]}},
            "points": {"type": "points", "value": POINTS},
            "turns": {"type": "turns", "value": TURNS},
            "rung": {"fulfillment": {"redemption_mode": "manual"}},
            "fruit": {},
            "parcel": {"fulfillment": {"channel": "webhook", "config": to_receiver}},
            "errand": {"fulfillment": {"channel": "workflow", **on_claim, "config": to_receiver}},
        }
        for name, fields in goods.items():
            stock = {"total": self.world[name] if name in STOCKED else 0}
            self.ids[name] = await self.make(SETUP, "prize", name=name, **{"type": "goods", "stock": stock, **fields})
        codes = [f"CODE-{nth}" for nth in range(self.world["codes"])]
        assert await self.ask(SETUP, "ImportCodes", id=self.ids["coded"], codes=codes, idempotency_key="codes")
        for name, fields in self._games().items():
            access = "public" if name in PUBLIC else "player"
            shared = {"campaign_id": self.ids["campaign"], "status": "active", "access": access}
            self.ids[name] = await self.make(SETUP, "game", name=name, **shared, **fields)
        for name, often in zip(QUESTS, ("one_time", "daily"), strict=True):
            quest = {"campaign_id": self.ids["campaign"], "type": often, "turns": TURNS, "status": "active"}
            self.ids[f"quest {name}"] = await self.make(SETUP, "quest", name=name, **quest)
        told_of = ["play_completed", "prize_won", "leaderboard_finalized"]
        hook = {"type": "webhook", "events": told_of, "config": to_receiver}
        self.ids["hook"] = await self.make(SETUP, "integration", **hook)
        assert all(self.ids.values()), self.history.told()
        await self.make_board(SETUP)

    async def make_board(self, act: Act) -> None:
        prizes = [{"from_rank": 1, "to_rank": 2, "prize_id": self.ids["scarce"]}]
        prizes += [{"from_rank": 3, "to_rank": 3, "prize_id": self.ids["points"]}]
        prizes += [{"from_rank": 4, "to_rank": 4, "prize_id": self.ids["turns"]}]
        board = {"campaign_id": self.ids["campaign"], "metric": "plays", "mode": "sum", "prizes": prizes}
        if board_id := await self.make(act, "leaderboard", name=f"board {act.number}", **board):
            self.boards.append(board_id)

    def _games(self) -> dict[str, dict[str, Any]]:
        wheel = [{"prize_id": self.ids[name], "probability": 0.12} for name in WHEEL]
        plain = {"prizes": [{"prize_id": self.ids["points"], "probability": 0.5}]}
        rungs = {
            game: [
                {"id": name, "name": name, "currency": "coin", "threshold": THRESHOLD, "prize_id": self.ids["rung"]}
                for name in names
            ]
            for game, names in RUNGS.items()
        }
        spin = {"type": "spin_wheel", "reward_handler": "probability"}
        drops = [
            {"type": "apple", "frequency": 2, "max_catchable": 1, "prize_id": self.ids["fruit"]},
            {"type": "stone", "frequency": 1, "max_catchable": 1},
        ]
        return {
            "wheel": {
                **spin,
                "handler_config": {"prizes": wheel},
                "rules": {"max_plays_per_day": self.world["wheel"]},
                "on_unavailable": "redraw",
            },
            "capped": {**spin, "handler_config": plain, "rules": {"max_plays_per_user": self.world["capped"]}},
            "daily": {**COLLECT, "rules": {"max_plays_per_day": self.world["daily"]}},
            "paid": {**spin, "handler_config": plain, "rules": {"requires_turn": True}},
            "unlock": {**COLLECT, "milestones": {"auto_grant": True, "rungs": rungs["unlock"]}},
            "exchange": {**COLLECT, "milestones": {"mode": "spend_exchange", "rungs": rungs["exchange"]}},
            "gift": {
                "type": "gift_catcher",
                "seed_generator": "drop_sequence",
                "reward_handler": "collect_items",
                "validator": "drop_plan",
                "handler_config": {"drops": drops, "total_items": 3, "interval_ms": 1},
            },
        }

    def note_rewards(self, who: str, *rewards: Any) -> None:
        self.rewards += [(who, reward.reward_id) for reward in rewards if reward.reward_id]


COLLECT: Final = {
    "type": "collection",
    "reward_handler": "lucky_item",
    "handler_config": {"items": [{"item": "coin", "weight": 1, "quantity": COINS, "slot_index": 0}]},
}
