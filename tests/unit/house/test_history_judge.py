"""The checker of histories finds what is broken in a history by hand, and nothing in one that is right."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from ops.history.judge import problems
from ops.history.record import Attempt, History, Request
from ops.history.tables import Tables
from ops.history.terms import Bounds, Terms

CAMPAIGN = "camp"
STAFF = "staff"
NAMES = {name: name for name in ("wheel", "capped", "paid", "unlock", "exchange", "mug", "voucher", "parcel", "cup")}
TERMS = Terms(
    CAMPAIGN,
    NAMES,
    bounds={"capped": Bounds(ever=4), "paid": Bounds(paid=True)},
    thresholds={"first": 4, "second": 8},
    born={"mug": ("won",), "voucher": ("fulfilled",)},
    quest_turns=2,
    session_seconds=900,
    rung="cup",
    stock={"cup": 2},
)
AT = datetime(2026, 11, 22, 12, tzinfo=UTC)


class Recording:
    """A history in the making, one second a request, and the tables that go with it."""

    def __init__(self) -> None:
        self.history = History()
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in ("plays", "ledger_entries", "balances")}
        self.rows |= {"players": [{"player_id": "ann", "merged_into": None}], "turn_balances": [], "game_players": []}
        self.rows |= {"rewards": [], "milestone_grants": [], "quest_completions": []}
        self.rows |= {"codes": [], "turn_entries": []}
        self.rows["stock"] = [{"prize_id": "cup", "total": 2, "remaining": 2}]
        self._seconds = count(1.0)

    def ask(self, operation: str, data: Any = None, http: int = 200, reason: str = "", **more: Any) -> Request:
        request = self.history.new(operation, more.pop("who", "ann"), **more)
        self.answer(request, data, http, reason)
        return request

    def answer(self, request: Request, data: Any = None, http: int = 200, reason: str = "") -> None:
        began = next(self._seconds)
        request.attempts.append(Attempt("consumer-1", began, began + 0.5, http, reason=reason, data=data))

    def plays(self, game: str, session: str, coins: int, after: int) -> Request:
        outcome = {
            "rewards": [{"type": "item", "name": "coin", "quantity": coins, "reward_id": ""}] if coins else [],
            "balances": [{"currency": "coin", "balance": after}] if coins else [],
            "milestones_granted": [],
            "decided": {"path": []},
        }
        play = {"play_id": f"play-{session}", "rewards": outcome["rewards"], "balances": outcome["balances"]}
        request = self.ask("Play", play, of=game, key=f"key-{session}", body={"session_id": session})
        row = {"play_id": play["play_id"], "game_id": game, "player_id": "ann", "session_id": session}
        self.rows["plays"].append({**row, "idempotency_key": request.key, "outcome": outcome, "played_at": AT})
        return request

    def wins(self, prize: str, reward: str, status: str, *, claimed: bool = False) -> None:
        """A play of the wheel that wins a prize, and what the tables say of it in the end."""
        self.plays("wheel", f"for {reward}", 0, 0)
        won = [{"type": "goods", "name": prize, "quantity": 1, "reward_id": reward}]
        self.history.requests[-1].data["rewards"] = won
        self.rows["plays"][-1]["outcome"]["rewards"] = won
        row = {"reward_id": reward, "prize_id": prize, "player_id": "ann", "status": status, "milestone_id": ""}
        at = {"claimed_at": AT if claimed else None, "fulfilled_at": AT if status == "fulfilled" else None}
        self.rows["rewards"].append({**row, **at})

    def moves(self, operation: str, reward: str, status: str) -> Request:
        shown = {"id": reward, "status": f"REWARD_STATUS_{status.upper()}", "code": ""}
        return self.ask(operation, shown, of=reward, key=f"{operation} {reward}", who=self._who(operation))

    def refused(self, operation: str, reward: str, reason: str, status: str = "") -> Request:
        data = {"reason": reason, "reward_status": f"REWARD_STATUS_{status.upper()}"} if status else {"reason": reason}
        more = {"of": reward, "key": f"again {operation} {reward}", "who": self._who(operation)}
        return self.ask(operation, data, http=409, reason=reason, **more)

    def lists(self, *rewards: tuple[str, str, str, str], claimed: str = "", who: str = "ann") -> Request:
        """Looks at its rewards: (id, prize, status, code) of each."""
        items = [
            {"id": reward, "prize_id": prize, "status": f"REWARD_STATUS_{status.upper()}", "code": code}
            | {"claimed_at": int(reward == claimed)}
            for reward, prize, status, code in rewards
        ]
        return self.ask("ListRewards", {"items": items, "pagination": {"has_more": False}}, who=who)

    def _who(self, operation: str) -> str:
        return "ann" if operation == "ClaimReward" else STAFF

    def adjusts(self, amount: int, after: int) -> Request:
        reference = f"ref-{len(self.history.requests)}"
        body = {"player_id": "ann", "currency": "coin", "amount": amount, "reference_id": reference}
        entry = {"id": f"entry-{reference}", "balance_after": after}
        row = {"entry_id": entry["id"], "player_id": "ann", "currency": "coin", "reason": "adjustment"}
        self.rows["ledger_entries"].append({**row, "balance_after": after, "reference_id": reference, "reward_id": ""})
        return self.ask("AdjustBalance", entry, who=STAFF, of="ann", key=f"key-{reference}", body=body)

    def sees(self, coins: int) -> Request:
        items = [{"currency": "coin", "scope_key": CAMPAIGN, "balance": coins}]
        return self.ask("ListBalances", {"items": items})

    def counted(self, coins: int, **plays: int) -> None:
        self.rows["balances"] = [{"player_id": "ann", "currency": "coin", "balance": coins}]
        self.rows["game_players"] = [
            {"player_id": "ann", "game_id": game, "plays": number} for game, number in plays.items()
        ]

    def found(self) -> str:
        return "\n".join(problems(self.history, Tables(self.rows), TERMS))


@pytest.fixture
def right() -> Recording:
    """Two plays of a collection, an adjustment, a look, and four plays of a game with a cap of four."""
    recording = Recording()
    recording.plays("unlock", "one", 2, 2)
    recording.plays("unlock", "two", 2, 4)
    recording.adjusts(5, 9)
    recording.sees(9)
    for nth in range(4):
        recording.plays("capped", f"capped-{nth}", 0, 0)
    recording.ask("Start", http=400, reason="CAP_USER", of="capped", key="late")
    recording.counted(9, unlock=2, capped=4)
    return recording


def test_right_history_is_explained(right: Recording) -> None:
    assert right.found() == ""


Damage = Callable[[Recording], Any]


def _play_both_duplicates(recording: Recording) -> None:
    first = recording.history.of("Play")[0]
    recording.ask("Play", first.data, of="unlock", key="twin", body=first.body)


def _let_a_fifth_play_by(recording: Recording) -> None:
    recording.plays("capped", "capped-five", 0, 0)
    recording.counted(9, unlock=2, capped=5)


def _keep_a_refused_play(recording: Recording) -> None:
    recording.history.of("Play")[0].attempts = [Attempt("consumer-1", 1.0, 1.5, 400, reason="CAP_USER")]


def first_play_again(**other: str) -> Damage:
    return lambda recording: recording.rows["plays"].append({**recording.rows["plays"][0], **other})


DAMAGES: dict[str, tuple[Damage, str]] = {
    "a lost play": (lambda recording: recording.rows["plays"].pop(0), "a confirmed play is missing"),
    "a key twice": (first_play_again(play_id="play-again", session_id="two again"), "2 effects of one key"),
    "a session twice": (first_play_again(play_id="play-again", idempotency_key="other"), "a session with 2 plays"),
    "an unrequested play": (first_play_again(session_id="x", idempotency_key="x"), "a play without a request"),
    "a refusal after it was done": (
        lambda recording: recording.answer(recording.history.of("Play")[0], http=409, reason="SESSION_PLAYED"),
        "done, then refused",
    ),
    "both duplicates": (_play_both_duplicates, "done twice"),
    "an old balance": (
        lambda recording: recording.history.of("ListBalances")[0].data["items"][0].update(balance=4),
        "no order explains the coins of ann",
    ),
    "a lost adjustment": (
        lambda recording: recording.rows["ledger_entries"].clear(),
        "a confirmed adjustment is missing",
    ),
    "a play beyond the cap": (_let_a_fifth_play_by, "no order explains plays and turns of ann"),
    "a refused play that is kept": (_keep_a_refused_play, "a refused play is stored"),
    "an error": (lambda recording: recording.ask("Start", http=500, of="wheel", key="x"), "a service error (500"),
    "a refusal without cause": (
        lambda recording: recording.ask("Start", http=403, reason="SESSION_INVALID", of="wheel", key="x"),
        "refused without cause",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_history_is_found(right: Recording, name: str) -> None:
    damage, says = DAMAGES[name]
    damage(right)
    assert says in right.found()


def test_redeem_of_an_unlocked_rung_takes_no_coins(right: Recording) -> None:
    reward = {"id": "unlocked", "status": "REWARD_STATUS_WON", "code": ""}
    balances = [{"currency": "coin", "balance": 9}]
    body = {"milestone_id": "second"}
    right.ask("Redeem", {"reward": reward, "balances": balances}, of="unlock", key="free", body=body)
    grant = {"player_id": "ann", "game_id": "unlock", "milestone_id": "second", "reward_id": "unlocked"}
    right.rows["milestone_grants"].append(grant)
    assert right.found() == ""
    balances[0]["balance"] = 1
    assert "no order explains the coins of ann" in right.found()


@pytest.fixture
def won() -> Recording:
    """A mug that is claimed, one that is revoked, a parcel that a worker delivers, two vouchers with their codes."""
    recording = Recording()
    recording.ask("ImportCodes", {"added": 3}, who=STAFF, body={"codes": ["CODE-1", "CODE-2", "CODE-3"]})
    recording.lists()
    recording.wins("mug", "claimed mug", "fulfilled", claimed=True)
    recording.lists(("claimed mug", "mug", "won", ""))
    recording.moves("ClaimReward", "claimed mug", "fulfilled")
    recording.refused("ClaimReward", "claimed mug", "ALREADY_CLAIMED")
    recording.lists(("claimed mug", "mug", "fulfilled", ""), claimed="claimed mug")
    recording.wins("mug", "revoked mug", "revoked")
    recording.moves("RevokeReward", "revoked mug", "revoked")
    recording.refused("FulfillReward", "revoked mug", "ILLEGAL_TRANSITION", "revoked")
    recording.wins("parcel", "parcel", "fulfilled")
    recording.refused("FulfillReward", "parcel", "ILLEGAL_TRANSITION", "fulfilling")
    for nth in (1, 2):
        recording.wins("voucher", f"voucher-{nth}", "fulfilled")
        recording.rows["codes"].append({"prize_id": "voucher", "code_id": f"code-{nth}", "reward_id": f"voucher-{nth}"})
    recording.rows["codes"].append({"prize_id": "voucher", "code_id": "code-3", "reward_id": None})
    recording.lists(
        ("voucher-2", "voucher", "fulfilled", "CODE-2"),
        ("voucher-1", "voucher", "fulfilled", "CODE-1"),
        ("parcel", "parcel", "fulfilled", ""),
        ("revoked mug", "mug", "revoked", ""),
        ("claimed mug", "mug", "fulfilled", ""),
        claimed="claimed mug",
    )
    recording.counted(0)
    return recording


def shown(recording: Recording, reward: str) -> dict[str, Any]:
    items: list[dict[str, Any]] = recording.history.of("ListRewards")[-1].data["items"]
    return next(one for one in items if one["id"] == reward)


def test_right_rewards_and_codes_are_explained(won: Recording) -> None:
    assert won.found() == ""


def _show_to_another_player(recording: Recording) -> None:
    recording.rows["players"].append({"player_id": "bob", "merged_into": None})
    recording.lists(("voucher-1", "voucher", "fulfilled", "CODE-1"), who="bob")


REWARD_DAMAGES: dict[str, tuple[Damage, str]] = {
    "a revoked reward that is shown as delivered": (
        lambda recording: shown(recording, "revoked mug").update(status="REWARD_STATUS_FULFILLED"),
        "no order explains the reward revoked mug",
    ),
    "one code twice": (
        lambda recording: shown(recording, "voucher-2").update(code="CODE-1"),
        "one code of two rewards",
    ),
    "a code shown to another player": (_show_to_another_player, "another player's code"),
}


@pytest.mark.parametrize("name", REWARD_DAMAGES)
def test_damaged_reward_or_code_is_found(won: Recording, name: str) -> None:
    damage, says = REWARD_DAMAGES[name]
    damage(won)
    assert says in won.found()


@pytest.fixture
def stocked() -> Recording:
    """Two cups: one is won, staff add one, a play takes two."""
    recording = Recording()
    for reward, quantity in (("first", 1), ("second", 2)):
        recording.wins("cup", reward, "fulfilled")
        recording.rows["rewards"][-1] |= {"quantity": quantity, "play_id": recording.rows["plays"][-1]["play_id"]}
        if reward == "first":
            recording.ask("UpdatePrize", {}, who=STAFF, of="cup", body={"stock": {"total": 3}})
    recording.rows["stock"] = [{"prize_id": "cup", "total": 3, "remaining": 0}]
    return recording


def test_stock_that_is_right_is_explained(stocked: Recording) -> None:
    assert stocked.found() == ""
    stocked.ask("Redeem", http=400, reason="OUT_OF_STOCK", of="unlock", key="late", body={"milestone_id": "first"})
    assert stocked.found() == ""


STOCK_DAMAGES: dict[str, Damage] = {
    "a unit that was won and is left": lambda recording: recording.rows["stock"][0].update(remaining=1),
}


@pytest.mark.parametrize("name", STOCK_DAMAGES)
def test_damaged_stock_is_found(stocked: Recording, name: str) -> None:
    STOCK_DAMAGES[name](stocked)
    assert "no order explains the stock of cup" in stocked.found()
