"""The checker of histories finds what is broken in a history by hand, and nothing in one that is right."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from ops.history.judge import problems
from ops.history.record import Asked, Attempt, History
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


class Told:
    """A history in the making, one second a request, and the tables that go with it."""

    def __init__(self) -> None:
        self.history = History()
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in ("plays", "ledger_entries", "balances")}
        self.rows |= {"players": [{"player_id": "ann", "merged_into": None}], "turn_balances": [], "game_players": []}
        self.rows |= {"rewards": [], "milestone_grants": [], "quest_completions": []}
        self.rows |= {"codes": [], "turn_entries": []}
        self.rows["stock"] = [{"prize_id": "cup", "total": 2, "remaining": 2}]
        self._seconds = count(1.0)

    def ask(self, operation: str, data: Any = None, http: int = 200, reason: str = "", **more: Any) -> Asked:
        asked = self.history.new(operation, more.pop("who", "ann"), **more)
        self.answer(asked, data, http, reason)
        return asked

    def answer(self, asked: Asked, data: Any = None, http: int = 200, reason: str = "") -> None:
        began = next(self._seconds)
        asked.attempts.append(Attempt("consumer-1", began, began + 0.5, http, reason=reason, data=data))

    def plays(self, game: str, session: str, coins: int, after: int) -> Asked:
        """A play that gives coins, with its rows."""
        outcome = {
            "rewards": [{"type": "item", "name": "coin", "quantity": coins, "reward_id": ""}] if coins else [],
            "balances": [{"currency": "coin", "balance": after}] if coins else [],
            "milestones_granted": [],
            "decided": {"path": []},
        }
        play = {"play_id": f"play-{session}", "rewards": outcome["rewards"], "balances": outcome["balances"]}
        asked = self.ask("Play", play, of=game, key=f"key-{session}", body={"session_id": session})
        row = {"play_id": play["play_id"], "game_id": game, "player_id": "ann", "session_id": session}
        self.rows["plays"].append({**row, "idempotency_key": asked.key, "outcome": outcome, "played_at": AT})
        return asked

    def wins(self, prize: str, reward: str, status: str, *, claimed: bool = False) -> None:
        """A play of the wheel that wins a prize, and what the tables say of it in the end."""
        self.plays("wheel", f"for {reward}", 0, 0)
        won = [{"type": "goods", "name": prize, "quantity": 1, "reward_id": reward}]
        self.history.asked[-1].data["rewards"] = won
        self.rows["plays"][-1]["outcome"]["rewards"] = won
        row = {"reward_id": reward, "prize_id": prize, "player_id": "ann", "status": status, "milestone_id": ""}
        at = {"claimed_at": AT if claimed else None, "fulfilled_at": AT if status == "fulfilled" else None}
        self.rows["rewards"].append({**row, **at})

    def moves(self, operation: str, reward: str, status: str) -> Asked:
        shown = {"id": reward, "status": f"REWARD_STATUS_{status.upper()}", "code": ""}
        return self.ask(operation, shown, of=reward, key=f"{operation} {reward}", who=self._who(operation))

    def refused(self, operation: str, reward: str, reason: str, status: str = "") -> Asked:
        data = {"reason": reason, "reward_status": f"REWARD_STATUS_{status.upper()}"} if status else {"reason": reason}
        more = {"of": reward, "key": f"again {operation} {reward}", "who": self._who(operation)}
        return self.ask(operation, data, http=409, reason=reason, **more)

    def lists(self, *rewards: tuple[str, str, str, str], claimed: str = "", who: str = "ann") -> Asked:
        """Looks at its rewards: (id, prize, status, code) of each."""
        items = [
            {"id": reward, "prize_id": prize, "status": f"REWARD_STATUS_{status.upper()}", "code": code}
            | {"claimed_at": int(reward == claimed)}
            for reward, prize, status, code in rewards
        ]
        return self.ask("ListRewards", {"items": items, "pagination": {"has_more": False}}, who=who)

    def _who(self, operation: str) -> str:
        return "ann" if operation == "ClaimReward" else STAFF

    def adjusts(self, amount: int, after: int) -> Asked:
        reference = f"ref-{len(self.history.asked)}"
        body = {"player_id": "ann", "currency": "coin", "amount": amount, "reference_id": reference}
        entry = {"id": f"entry-{reference}", "balance_after": after}
        row = {"entry_id": entry["id"], "player_id": "ann", "currency": "coin", "reason": "adjustment"}
        self.rows["ledger_entries"].append({**row, "balance_after": after, "reference_id": reference, "reward_id": ""})
        return self.ask("AdjustBalance", entry, who=STAFF, of="ann", key=f"key-{reference}", body=body)

    def sees(self, coins: int) -> Asked:
        items = [{"currency": "coin", "scope_key": CAMPAIGN, "balance": coins}]
        return self.ask("ListBalances", {"items": items})

    def counted(self, coins: int, **plays: int) -> None:
        """What the tables say in the end."""
        self.rows["balances"] = [{"player_id": "ann", "currency": "coin", "balance": coins}]
        self.rows["game_players"] = [
            {"player_id": "ann", "game_id": game, "plays": number} for game, number in plays.items()
        ]

    def found(self) -> str:
        return "\n".join(problems(self.history, Tables(self.rows), TERMS))


@pytest.fixture
def right() -> Told:
    """Two plays of a collection, an adjustment, a look, and four plays of a game with a cap of four."""
    told = Told()
    told.plays("unlock", "one", 2, 2)
    told.plays("unlock", "two", 2, 4)
    told.adjusts(5, 9)
    told.sees(9)
    for nth in range(4):
        told.plays("capped", f"capped-{nth}", 0, 0)
    told.ask("Start", http=400, reason="CAP_USER", of="capped", key="late")
    told.counted(9, unlock=2, capped=4)
    return told


def test_right_history_is_explained(right: Told) -> None:
    assert right.found() == ""


Damage = Callable[[Told], Any]


def _tell_of_two_plays(told: Told) -> None:
    asked = told.history.of("Play")[0]
    told.answer(asked, {**asked.data, "play_id": "play-other"})


def _play_both_twins(told: Told) -> None:
    first = told.history.of("Play")[0]
    told.ask("Play", first.data, of="unlock", key="twin", body=first.body)


def _let_a_fifth_play_by(told: Told) -> None:
    told.plays("capped", "capped-five", 0, 0)
    told.counted(9, unlock=2, capped=5)


def _refuse_too_early(told: Told) -> None:
    told.rows["plays"] = [row for row in told.rows["plays"] if row["session_id"] != "capped-3"]
    told.history.asked = [one for one in told.history.asked if one.key != "key-capped-3"]
    told.counted(9, unlock=2, capped=3)


def _keep_a_refused_play(told: Told) -> None:
    told.history.of("Play")[0].attempts = [Attempt("consumer-1", 1.0, 1.5, 400, reason="CAP_USER")]


def _end_a_session_early(told: Told) -> None:
    told.ask("Start", {"session_id": "early"}, of="wheel", key="early")
    told.ask("Play", http=400, reason="SESSION_EXPIRED", of="wheel", key="late", body={"session_id": "early"})


def _grant_a_rung_twice(told: Told) -> None:
    grant = {"player_id": "ann", "game_id": "exchange", "milestone_id": "first", "reward_id": "reward"}
    told.rows["milestone_grants"] = [grant]
    for key in ("one", "two"):
        reward = {"reward": {"id": "reward"}, "balances": []}
        told.ask("Redeem", reward, of="exchange", key=key, body={"milestone_id": "first"})


def first_play_again(**other: str) -> Damage:
    """A second row of the first play that differs in these columns."""
    return lambda told: told.rows["plays"].append({**told.rows["plays"][0], **other})


DAMAGES: dict[str, tuple[Damage, str]] = {
    "a lost play": (lambda told: told.rows["plays"].pop(0), "a play that was answered is not there"),
    "a key twice": (first_play_again(play_id="play-again", session_id="two again"), "2 effects of one key"),
    "a session twice": (first_play_again(play_id="play-again", idempotency_key="other"), "a session with 2 plays"),
    "a play of nobody": (first_play_again(session_id="x", idempotency_key="x"), "a play that nobody asked for"),
    "two answers": (_tell_of_two_plays, "two answers under one key"),
    "a refusal after it was done": (
        lambda told: told.answer(told.history.of("Play")[0], http=409, reason="SESSION_PLAYED"),
        "done, and then refused",
    ),
    "both twins": (_play_both_twins, "done twice"),
    "an old balance": (
        lambda told: told.history.of("ListBalances")[0].data["items"][0].update(balance=4),
        "no order explains the coins of ann",
    ),
    "a lost adjustment": (
        lambda told: told.rows["ledger_entries"].clear(),
        "an adjustment that was answered is not there",
    ),
    "a play beyond the cap": (_let_a_fifth_play_by, "no order explains plays and turns of ann"),
    "a refusal below the cap": (_refuse_too_early, "no order explains plays and turns of ann"),
    "a refused play that is kept": (_keep_a_refused_play, "a play that was refused"),
    "an error": (lambda told: told.ask("Start", http=500, of="wheel", key="x"), "an error of the service (500"),
    "a refusal without cause": (
        lambda told: told.ask("Start", http=403, reason="SESSION_INVALID", of="wheel", key="x"),
        "refused without cause",
    ),
    "a rung twice": (_grant_a_rung_twice, "done twice"),
    "a play that is told of and not there": (
        lambda told: told.ask("Play", http=409, reason="SESSION_PLAYED", of="wheel", key="x", body={"session_id": "x"}),
        "told of a play that is not there",
    ),
    "an early end of a session": (_end_a_session_early, "a session ended too early"),
    "another balance than is kept": (
        lambda told: told.history.of("Play")[0].data.update(balances=[{"currency": "coin", "balance": 3}]),
        "a play's balances are other ones",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_history_is_found(right: Told, name: str) -> None:
    damage, says = DAMAGES[name]
    damage(right)
    assert says in right.found()


def test_redeem_of_an_unlocked_rung_takes_no_coins(right: Told) -> None:
    reward = {"id": "unlocked", "status": "REWARD_STATUS_WON", "code": ""}
    balances = [{"currency": "coin", "balance": 9}]
    body = {"milestone_id": "second"}
    right.ask("Redeem", {"reward": reward, "balances": balances}, of="unlock", key="free", body=body)
    grant = {"player_id": "ann", "game_id": "unlock", "milestone_id": "second", "reward_id": "unlocked"}
    right.rows["milestone_grants"].append(grant)
    assert right.found() == ""
    balances[0]["balance"] = 1
    assert "no order explains the coins of ann" in right.found()


# -- rewards and codes


@pytest.fixture
def won() -> Told:
    """A mug that is claimed, one that is revoked, a parcel that a worker delivers, two vouchers with their codes."""
    told = Told()
    told.ask("ImportCodes", {"added": 3}, who=STAFF, body={"codes": ["CODE-1", "CODE-2", "CODE-3"]})
    told.lists()
    told.wins("mug", "claimed mug", "fulfilled", claimed=True)
    told.lists(("claimed mug", "mug", "won", ""))
    told.moves("ClaimReward", "claimed mug", "fulfilled")
    told.refused("ClaimReward", "claimed mug", "ALREADY_CLAIMED")
    told.lists(("claimed mug", "mug", "fulfilled", ""), claimed="claimed mug")
    told.wins("mug", "revoked mug", "revoked")
    told.moves("RevokeReward", "revoked mug", "revoked")
    told.refused("FulfillReward", "revoked mug", "ILLEGAL_TRANSITION", "revoked")
    told.wins("parcel", "parcel", "fulfilled")
    told.refused("FulfillReward", "parcel", "ILLEGAL_TRANSITION", "fulfilling")
    for nth in (1, 2):
        told.wins("voucher", f"voucher-{nth}", "fulfilled")
        told.rows["codes"].append({"prize_id": "voucher", "code_id": f"code-{nth}", "reward_id": f"voucher-{nth}"})
    told.rows["codes"].append({"prize_id": "voucher", "code_id": "code-3", "reward_id": None})
    told.lists(
        ("voucher-2", "voucher", "fulfilled", "CODE-2"),
        ("voucher-1", "voucher", "fulfilled", "CODE-1"),
        ("parcel", "parcel", "fulfilled", ""),
        ("revoked mug", "mug", "revoked", ""),
        ("claimed mug", "mug", "fulfilled", ""),
        claimed="claimed mug",
    )
    told.counted(0)
    return told


def shown(told: Told, reward: str) -> dict[str, Any]:
    """The reward in the last list."""
    items: list[dict[str, Any]] = told.history.of("ListRewards")[-1].data["items"]
    return next(one for one in items if one["id"] == reward)


def row_of(told: Told, reward: str) -> dict[str, Any]:
    return next(row for row in told.rows["rewards"] if row["reward_id"] == reward)


def test_right_rewards_and_codes_are_explained(won: Told) -> None:
    assert won.found() == ""


def _refuse_a_claim_too_early(told: Told) -> None:
    attempt = told.history.of("ClaimReward")[1].attempts[0]
    attempt.began, attempt.ended = 0.1, 0.2


def _tell_a_stranger(told: Told) -> None:
    told.rows["players"].append({"player_id": "bob", "merged_into": None})
    told.lists(("voucher-1", "voucher", "fulfilled", "CODE-1"), who="bob")


REWARD_DAMAGES: dict[str, tuple[Damage, str]] = {
    "a revoked reward that is shown as delivered": (
        lambda told: shown(told, "revoked mug").update(status="REWARD_STATUS_FULFILLED"),
        "no order explains the reward revoked mug",
    ),
    "a revoked reward that is delivered in the table": (
        lambda told: row_of(told, "revoked mug").update(status="fulfilled", fulfilled_at=AT),
        "no order explains the reward revoked mug",
    ),
    "a reward that is left out": (
        lambda told: told.history.of("ListRewards")[-1].data["items"].remove(shown(told, "claimed mug")),
        "no order explains the reward claimed mug",
    ),
    "a claim refused too early": (_refuse_a_claim_too_early, "no order explains the reward claimed mug"),
    "a delivered parcel that is shown as open": (
        lambda told: told.lists(("parcel", "parcel", "fulfilling", "")),
        "no order explains the reward parcel",
    ),
    "one code twice": (lambda told: shown(told, "voucher-2").update(code="CODE-1"), "one code of two rewards"),
    "another code": (
        lambda told: told.lists(("voucher-1", "voucher", "fulfilled", "CODE-3")),
        "two codes of one reward",
    ),
    "a code of nobody": (
        lambda told: shown(told, "voucher-1").update(code="CODE-9"),
        "a code that nobody imported",
    ),
    "no code": (lambda told: shown(told, "voucher-1").update(code=""), "a code that was delivered is not told"),
    "a code told to a stranger": (_tell_a_stranger, "a code of another's"),
    "two codes for one reward": (
        lambda told: told.rows["codes"][2].update(reward_id="voucher-1"),
        "2 codes for one reward",
    ),
    "a told code that is free": (
        lambda told: told.rows["codes"][0].update(reward_id=None),
        "0 codes are kept for a reward whose code was told",
    ),
}


@pytest.mark.parametrize("name", REWARD_DAMAGES)
def test_damaged_reward_or_code_is_found(won: Told, name: str) -> None:
    damage, says = REWARD_DAMAGES[name]
    damage(won)
    assert says in won.found()


def test_unanswered_claim_may_have_been_done_or_not(won: Told) -> None:
    won.wins("mug", "third mug", "won")
    asked = won.history.new("ClaimReward", "ann", of="third mug", key="cut")
    asked.attempts.append(Attempt("consumer-1", 100.0))
    assert won.found() == ""
    row_of(won, "third mug").update(status="fulfilled", claimed_at=AT, fulfilled_at=AT)
    assert won.found() == ""
    row_of(won, "third mug").update(status="revoked")
    assert "no order explains the reward third mug" in won.found()


def test_unanswered_redeem_may_have_been_done_or_not(right: Told) -> None:
    asked = right.history.new("Redeem", "ann", of="exchange", key="cut", body={"milestone_id": "first"})
    asked.attempts.append(Attempt("consumer-1", 100.0))
    assert right.found() == ""
    grant = {"player_id": "ann", "game_id": "exchange", "milestone_id": "first", "reward_id": "reward"}
    right.rows["milestone_grants"].append(grant)
    assert "no order explains the coins of ann" in right.found()
    right.rows["balances"][0]["balance"] = 5
    assert right.found() == ""


# -- stock


@pytest.fixture
def stocked() -> Told:
    """Two cups: one is won, staff add one, a play takes two."""
    told = Told()
    for reward, quantity in (("first", 1), ("second", 2)):
        told.wins("cup", reward, "fulfilled")
        told.rows["rewards"][-1] |= {"quantity": quantity, "play_id": told.rows["plays"][-1]["play_id"]}
        if reward == "first":
            told.ask("UpdatePrize", {}, who=STAFF, of="cup", body={"stock": {"total": 3}})
    told.rows["stock"] = [{"prize_id": "cup", "total": 3, "remaining": 0}]
    return told


def test_stock_that_is_right_is_explained(stocked: Told) -> None:
    assert stocked.found() == ""
    stocked.ask("Redeem", http=400, reason="OUT_OF_STOCK", of="unlock", key="late", body={"milestone_id": "first"})
    assert stocked.found() == ""


STOCK_DAMAGES: dict[str, Damage] = {
    "a unit that was won and is left": lambda told: told.rows["stock"][0].update(remaining=1),
    "another total": lambda told: told.history.of("UpdatePrize")[0].body.update(stock={"total": 2}),
    "an early end": lambda told: told.rows["plays"][0]["outcome"]["decided"].update(
        path=[["available", "cup", 1, False]]
    ),
}


@pytest.mark.parametrize("name", STOCK_DAMAGES)
def test_damaged_stock_is_found(stocked: Told, name: str) -> None:
    STOCK_DAMAGES[name](stocked)
    assert "no order explains the stock of cup" in stocked.found()
