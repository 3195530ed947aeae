"""Random walks of two players through two processes, faults between, held against a plain model after each step.

The model predicts every play from its revealed seed, so it knows what must be won, refused, granted, spent
and left. Seeds come from dice that the walk itself throws, so a failing walk can be shrunk and replayed.
TOMBOLA_TEST_WALKS says how many walks (default 12), TOMBOLA_TEST_STEPS how long each is.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from ops.servers.valkey import Valkey
from runtime import ids
from runtime import messages as m
from runtime.actors.game import sessions
from runtime.errors import Fault
from runtime.rules import seed_of
from tests.support import invariants
from tests.support.draws import hand_pick, word
from tests.support.two_cores import Patient, Stage

WALKS = int(os.environ.get("TOMBOLA_TEST_WALKS", "12"))
STEPS = int(os.environ.get("TOMBOLA_TEST_STEPS", "30"))

PLAYERS = ("ann", "bob")
QUESTS = 3
TURNS_OF_QUEST = 2
FREE_A_DAY = 3
COINS_A_PLAY = 2
THRESHOLD = 4
POINTS = 10
TURNS_OF_PRIZE = 2
DRAWN = ("scarce", "points", "coded", "dear", "turns")
"""The wheel's prizes."""
CHANCE = 1 / len(DRAWN)


STAGE: list[tuple[asyncio.Runner, Stage]] = []
"""The one stage, and what runs it, while the test below does: hypothesis makes the machines itself."""


@dataclass
class Won:
    """A reward as the model has it. paid: coins, of a rung that was bought."""

    player: str
    prize: str
    status: str
    claimed: bool = False
    paid: int = 0


class Walk(RuleBasedStateMachine):
    """A tenant of its own; `self.prizes` names prizes by their role: those of DRAWN, and rung."""

    @initialize(scarce=st.integers(1, 4), coded=st.integers(1, 3), dice=st.integers(0, 2**32))
    def open(self, scarce: int, coded: int, dice: int) -> None:
        ((self.runner, self.stage),) = STAGE
        self.stage.dice.seed(dice)
        self.tenant = ids.make("tenant")
        self.stock = {"scarce": scarce, "rung": 2, "turns": 4}
        self.codes = coded
        self.wallet: Counter[tuple[str, str]] = Counter()
        self.turns: Counter[str] = Counter()
        self.plays: Counter[tuple[str, str]] = Counter()
        self.held: Counter[tuple[str, str]] = Counter()
        self.granted: set[tuple[str, str, str]] = set()
        self.rewards: dict[str, Won] = {}
        self.completed: set[tuple[str, int]] = set()
        self.answered: list[tuple[dict[str, Any], m.PlayReply]] = []
        self.run(self._make(coded))

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    def ask(self, nth: int, name: str, **fields: Any) -> Any:
        return self.run(self.stage.ask(nth, name, self.tenant, **fields))

    def refusal(self, nth: int, name: str, **fields: Any) -> str:
        """The reason of the refusal. Fails where it is none."""
        try:
            reply = self.ask(nth, name, **fields)
        except Fault as fault:
            return fault.reason
        raise AssertionError(f"{name} was not refused: {reply}")

    async def _make(self, coded: int) -> None:
        stage, tenant = self.stage, self.tenant
        await stage.cores[0].engine.database.execute(
            "INSERT INTO tenants (tenant_id, name) VALUES ($1, 'Walk')", tenant
        )

        async def make(kind: str, **fields: Any) -> str:
            reply = await stage.ask(0, f"Create{kind.title()}", tenant, **{kind: fields})
            return str(getattr(reply, kind).id)

        self.campaign = await make("campaign", name="C", status="active")
        on_claim = {"redemption_mode": "on_claim"}
        self.prizes = {
            "scarce": await make(
                "prize", name="P", type="goods", stock={"total": self.stock["scarce"]}, fulfillment=on_claim
            ),
            "points": await make("prize", name="P", type="points", value=POINTS),
            "turns": await make(
                "prize", name="P", type="turns", value=TURNS_OF_PRIZE, stock={"total": self.stock["turns"]}
            ),
            "coded": await make("prize", name="P", type="voucher", fulfillment={"channel": "voucher_code"}),
            "dear": await make("prize", name="P", type="goods", constraints={"max_per_user": 2}, fulfillment=on_claim),
            "rung": await make("prize", name="P", type="goods", stock={"total": self.stock["rung"]}),
        }
        self.roles = {prize_id: role for role, prize_id in self.prizes.items()}
        codes = [f"CODE-{tenant}-{nth}" for nth in range(coded)]
        await stage.ask(0, "ImportCodes", tenant, id=self.prizes["coded"], codes=codes)
        shared = {"name": "G", "campaign_id": self.campaign, "status": "active"}
        self.wheel = await make(
            "game",
            **shared,
            type="spin_wheel",
            reward_handler="probability",
            rules={"max_plays_per_day": FREE_A_DAY},
            handler_config={"prizes": [{"prize_id": self.prizes[role], "probability": CHANCE} for role in DRAWN]},
        )
        coins = {"items": [{"item": "coin", "weight": 1, "quantity": COINS_A_PLAY, "slot_index": 0}]}
        rung = {"currency": "coin", "threshold": THRESHOLD, "prize_id": self.prizes["rung"]}
        unlock = {"auto_grant": True, "rungs": [{"id": "unlock", **rung}]}
        exchange = {"mode": "spend_exchange", "rungs": [{"id": "first", **rung}, {"id": "second", **rung}]}
        collection = {**shared, "type": "collection", "reward_handler": "lucky_item", "handler_config": coins}
        self.unlock = await make("game", **collection, milestones=unlock)
        self.exchange = await make("game", **collection, milestones=exchange)
        quest = {"campaign_id": self.campaign, "type": "one_time", "turns": TURNS_OF_QUEST, "status": "active"}
        self.quests = [await make("quest", name=f"Q{nth}", **quest) for nth in range(QUESTS)]

    # ---------------------------------------------------------------- what players do

    @rule(player=st.sampled_from(PLAYERS), nth=st.integers(0, 1), luck=st.text("ab", max_size=3), twins=st.booleans())
    def spin(self, player: str, nth: int, luck: str, twins: bool) -> None:
        spends = self.plays[self.wheel, player] >= FREE_A_DAY
        if spends and not self.turns[player]:
            assert self.ask(nth, "GetEligibility", id=self.wheel, player_id=player).reason == "CAP_DAY"
            session = self.ask(1 - nth, "Start", id=self.exchange, player_id=player).session_id
            wrong = {"id": self.wheel, "player_id": player, "session_id": session}
            assert self.refusal(nth, "Play", **wrong) == "SESSION_INVALID"
            return
        reply = self._play(self.wheel, player, nth, luck, twins)
        self.turns[player] -= spends
        index = hand_pick([CHANCE] * len(DRAWN), word(reply.seed, luck, 0))
        assert index is not None
        role = DRAWN[index]
        won = self._available(role, player)
        assert [reward.prize_id for reward in reply.rewards] == ([self.prizes[role]] if won else [])
        if not won:
            return
        if role == "points":
            self.wallet[player, "points"] += POINTS
            return
        self._won(player, role, reply.rewards[0].reward_id, "fulfilled" if role in ("coded", "turns") else "won")
        if role == "turns":
            self.turns[player] += TURNS_OF_PRIZE

    @rule(player=st.sampled_from(PLAYERS), nth=st.integers(0, 1), exchange=st.booleans(), twins=st.booleans())
    def collect(self, player: str, nth: int, exchange: bool, twins: bool) -> None:
        game = self.exchange if exchange else self.unlock
        reply = self._play(game, player, nth, "", twins)
        self.wallet[player, "coin"] += COINS_A_PLAY
        assert [(row.currency, row.balance) for row in reply.balances] == [("coin", self.wallet[player, "coin"])]
        due = (
            not exchange
            and (player, game, "unlock") not in self.granted
            and self.wallet[player, "coin"] >= THRESHOLD
            and self._available("rung", player)
        )
        assert [row.id for row in reply.milestones_granted] == (["unlock"] if due else [])
        if due:
            self.granted.add((player, game, "unlock"))
            self._won(player, "rung", reply.milestones_granted[0].reward_id, "fulfilled")

    @rule(player=st.sampled_from(PLAYERS), nth=st.integers(0, 1), rung=st.sampled_from(("first", "second", "unlock")))
    def redeem(self, player: str, nth: int, rung: str) -> None:
        game = self.unlock if rung == "unlock" else self.exchange
        asked = {"id": game, "player_id": player, "milestone_id": rung, "idempotency_key": ids.make("key")}
        if (player, game, rung) in self.granted:
            assert self.refusal(nth, "Redeem", **asked) == "ALREADY_GRANTED"
        elif self.wallet[player, "coin"] < THRESHOLD:
            assert self.refusal(nth, "Redeem", **asked) == "THRESHOLD_NOT_REACHED"
        elif not self._available("rung", player):
            assert self.refusal(nth, "Redeem", **asked) == "OUT_OF_STOCK"
        else:
            reply = self.ask(nth, "Redeem", **asked)
            assert self.ask(1 - nth, "Redeem", **asked) == reply
            self.granted.add((player, game, rung))
            paid = THRESHOLD if rung != "unlock" else 0
            self.wallet[player, "coin"] -= paid
            assert [row.balance for row in reply.balances] == [self.wallet[player, "coin"]]
            self._won(player, "rung", reply.reward.id, "fulfilled")
            self.rewards[reply.reward.id].paid = paid

    @rule(which=st.integers(0, 99), nth=st.integers(0, 1))
    def claim(self, which: int, nth: int) -> None:
        if not self.rewards:
            return
        reward_id = list(self.rewards)[which % len(self.rewards)]
        won = self.rewards[reward_id]
        asked = {"id": reward_id, "player_id": won.player, "idempotency_key": ids.make("key")}
        if won.claimed:
            assert self.refusal(nth, "ClaimReward", **asked) == "ALREADY_CLAIMED"
        elif won.status != "won":
            assert self.refusal(nth, "ClaimReward", **asked) == "ILLEGAL_TRANSITION"
        else:
            assert self.ask(nth, "ClaimReward", **asked).reward.status == m.RewardStatus.FULFILLED
            won.status, won.claimed = "fulfilled", True

    @rule(player=st.sampled_from(PLAYERS), nth=st.integers(0, 1), quest=st.integers(0, QUESTS - 1))
    def complete(self, player: str, nth: int, quest: int) -> None:
        asked = {"id": self.quests[quest], "player_id": player, "idempotency_key": ids.make("key")}
        if (player, quest) in self.completed:
            assert self.refusal(nth, "CompleteQuest", **asked) == "ALREADY_COMPLETED"
            return
        reply = self.ask(nth, "CompleteQuest", **asked)
        self.completed.add((player, quest))
        self.turns[player] += TURNS_OF_QUEST
        assert (reply.turns_granted, reply.balance) == (TURNS_OF_QUEST, self.turns[player])

    @rule(which=st.integers(0, 99), nth=st.integers(0, 1))
    def repeat(self, which: int, nth: int) -> None:
        """Long after it was answered a key has the same answer, its session no second play."""
        if not self.answered:
            return
        asked, told = self.answered[which % len(self.answered)]
        assert self.ask(nth, "Play", **asked) == told
        assert self.refusal(nth, "Play", **{**asked, "idempotency_key": ""}) == "SESSION_PLAYED"
        assert self.refusal(nth, "Play", **{**asked, "client_seed": "other"}) == "IDEMPOTENCY_MISMATCH"

    # ---------------------------------------------------------------- what admins do

    @rule(which=st.integers(0, 99), nth=st.integers(0, 1))
    def revoke(self, which: int, nth: int) -> None:
        if not self.rewards:
            return
        reward_id = list(self.rewards)[which % len(self.rewards)]
        won = self.rewards[reward_id]
        if won.status == "revoked":
            assert self.refusal(nth, "RevokeReward", id=reward_id) == "ILLEGAL_TRANSITION"
            return
        gave = TURNS_OF_PRIZE if won.prize == "turns" else 0
        if self.turns[won.player] < gave:
            assert self.refusal(nth, "RevokeReward", id=reward_id) == "INSUFFICIENT_BALANCE"
            return
        self.turns[won.player] -= gave
        self.ask(nth, "RevokeReward", id=reward_id, reason="a cheat")
        if won.status != "fulfilled" and won.prize in self.stock:
            self.stock[won.prize] += 1
        self.wallet[won.player, "coin"] += won.paid
        won.status = "revoked"

    @rule(which=st.integers(0, 99), nth=st.integers(0, 1))
    def fulfill(self, which: int, nth: int) -> None:
        if not self.rewards:
            return
        reward_id = list(self.rewards)[which % len(self.rewards)]
        won = self.rewards[reward_id]
        if won.status != "won":
            assert self.refusal(nth, "FulfillReward", id=reward_id) == "ILLEGAL_TRANSITION"
            return
        self.ask(nth, "FulfillReward", id=reward_id)
        won.status = "fulfilled"

    @rule(player=st.sampled_from(PLAYERS), nth=st.integers(0, 1), amount=st.sampled_from((-7, -2, 1, 5)))
    def adjust(self, player: str, nth: int, amount: int) -> None:
        asked = {
            "player_id": player,
            "scope_key": self.campaign,
            "currency": "coin",
            "amount": amount,
            "idempotency_key": ids.make("key"),
        }
        self.ask(nth, "Start", id=self.exchange, player_id=player)  # who has started is a player
        after = self.wallet[player, "coin"] + amount
        if after < 0:
            assert self.refusal(nth, "AdjustBalance", **asked) == "INSUFFICIENT_BALANCE"
            return
        assert self.ask(nth, "AdjustBalance", **asked).entry.balance_after == after
        self.wallet[player, "coin"] = after

    @rule(nth=st.integers(0, 1), role=st.sampled_from(("scarce", "rung")), more=st.integers(0, 2))
    def restock(self, nth: int, role: str, more: int) -> None:
        prize_id = self.prizes[role]
        stock = self.ask(nth, "GetPrize", id=prize_id).prize.stock
        self.ask(nth, "UpdatePrize", id=prize_id, prize={"stock": {"total": stock.total + more}})
        self.stock[role] += more
        awarded = stock.awarded
        if awarded > 1:
            lower = {"stock": {"total": awarded - 1}}
            assert self.refusal(nth, "UpdatePrize", id=prize_id, prize=lower) == "STOCK_BELOW_AWARDED"

    @rule(nth=st.integers(0, 1))
    def pause_and_resume(self, nth: int) -> None:
        self.ask(nth, "UpdateGame", id=self.exchange, game={"status": "paused"})
        asked = {"id": self.exchange, "player_id": "ann", "milestone_id": "first"}
        held = ("ann", self.exchange, "first") in self.granted
        assert self.refusal(1 - nth, "Redeem", **asked) == ("ALREADY_GRANTED" if held else "GAME_INACTIVE")
        self.ask(1 - nth, "UpdateGame", id=self.exchange, game={"status": "active"})

    # ---------------------------------------------------------------- faults

    @rule(fault=st.sampled_from(("flush", "cut", "valkey", "core")), nth=st.integers(0, 1))
    def break_something(self, fault: str, nth: int) -> None:
        match fault:
            case "flush":
                self.stage.valkey.command("FLUSHALL")
            case "cut":
                self.run(self.stage.cut_connections())
            case "valkey":
                self.stage.valkey.kill()
                self.stage.valkey.start()
            case "core":
                self.run(self.stage.open_core(nth))

    # ---------------------------------------------------------------- the model

    def _play(self, game: str, player: str, nth: int, luck: str, twins: bool) -> m.PlayReply:
        """Starts at one Core and plays at the other, twice at once where there are twins."""
        session = self.ask(1 - nth, "Start", id=game, player_id=player).session_id
        asked = {
            "id": game,
            "player_id": player,
            "session_id": session,
            "payload": {},
            "client_seed": luck,
            "idempotency_key": ids.make("key"),
        }

        async def both() -> list[m.PlayReply]:
            cores = (nth, 1 - nth, nth) if twins else (nth,)
            return list(await asyncio.gather(*(self.stage.ask(core, "Play", self.tenant, **asked) for core in cores)))

        first, *others = self.run(both())
        assert all(other == first for other in others)
        self.plays[game, player] += 1
        self.answered.append((asked, first))
        reply: m.PlayReply = first
        return reply

    def _available(self, role: str, player: str) -> bool:
        if role == "coded":
            return self.codes > 0
        if role == "dear":
            return self.held[player, role] < 2
        return role not in self.stock or self.stock[role] > 0

    def _won(self, player: str, role: str, reward_id: str, status: str) -> None:
        self.rewards[reward_id] = Won(player, role, status)
        self.held[player, role] += 1
        if role in self.stock:
            self.stock[role] -= 1
        self.codes -= role == "coded"

    @invariant()
    def the_database_agrees(self) -> None:
        if not hasattr(self, "tenant"):
            return
        self.run(self._compare())

    async def _compare(self) -> None:
        database = self.stage.cores[0].engine.database
        assert await invariants.broken(Patient(database), self.tenant) == {}
        read = Patient(database).fetch
        stock = await read("SELECT prize_id, remaining FROM stock WHERE tenant_id = $1 AND total > 0", self.tenant)
        assert {self.roles[row["prize_id"]]: row["remaining"] for row in stock} == self.stock
        balances = await read("SELECT player_id, currency, balance FROM balances WHERE tenant_id = $1", self.tenant)
        assert {(row["player_id"], row["currency"]): row["balance"] for row in balances if row["balance"]} == {
            key: balance for key, balance in self.wallet.items() if balance
        }
        turns = await read("SELECT player_id, balance FROM turn_balances WHERE tenant_id = $1", self.tenant)
        assert {row["player_id"]: row["balance"] for row in turns if row["balance"]} == {
            player: left for player, left in self.turns.items() if left
        }
        plays = await read("SELECT game_id, player_id FROM plays WHERE tenant_id = $1", self.tenant)
        assert Counter((row["game_id"], row["player_id"]) for row in plays) == +self.plays
        rewards = await read("SELECT reward_id, player_id, status FROM rewards WHERE tenant_id = $1", self.tenant)
        assert {row["reward_id"]: (row["player_id"], row["status"]) for row in rewards} == {
            reward_id: (won.player, won.status) for reward_id, won in self.rewards.items()
        }


@pytest.fixture
def stage(module_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    valkey = Valkey(tmp_path / "valkey")
    valkey.start()
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        stage = Stage(module_database_url, valkey)
        monkeypatch.setattr(ids, "ulid_at", stage.nonce)
        # Without the time in it, the same dice throw the same seeds.
        monkeypatch.setattr(sessions, "seed_of", lambda key, nonce: seed_of(key, nonce[10:]))
        for nth in range(2):
            runner.run(stage.open_core(nth))
        STAGE[:] = [(runner, stage)]
        yield
        for stack in stage.stacks:
            runner.run(stack.aclose())
    valkey.stop()


@pytest.mark.timeout(600)
@pytest.mark.fault(
    "Random walks",
    size="12 walks of 30 steps, one after another, 2 Cores, faults between",
    figure="the model and the invariants agree",
)
# asserts: `Walk` does, after each of its steps
def test_walks_agree_with_the_model(stage: None) -> None:
    run_state_machine_as_test(
        Walk,
        settings=settings(
            max_examples=WALKS,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink] if "CI" not in os.environ else [Phase.generate],
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
