"""The judge of ops/certify finds what is broken in a history by hand, and nothing in one that is right."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from ops.certification.catalogue import STAFF
from ops.certification.history import Asked, Attempt, History
from ops.certification.judging.judge import problems
from ops.certification.judging.tables import Tables
from runtime import ids

CAMPAIGN = "camp"
NAMES = {name: name for name in ("wheel", "capped", "paid", "unlock", "exchange")}
AT = datetime(2026, 11, 22, 12, tzinfo=UTC)


class Told:
    """A history in the making, one second a request, and the tables that go with it."""

    def __init__(self) -> None:
        self.history = History()
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in ("plays", "ledger_entries", "balances")}
        self.rows |= {"players": [{"player_id": "ann", "merged_into": None}], "turn_balances": [], "game_players": []}
        self.rows |= {"rewards": [], "milestone_grants": [], "quest_completions": []}
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
        }
        play = {"play_id": f"play-{session}", "rewards": outcome["rewards"], "balances": outcome["balances"]}
        asked = self.ask("Play", play, of=game, key=f"key-{session}", body={"session_id": session})
        row = {"play_id": play["play_id"], "game_id": game, "player_id": "ann", "session_id": session}
        self.rows["plays"].append({**row, "idempotency_key": asked.key, "outcome": outcome, "played_at": AT})
        return asked

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
        return "\n".join(problems(self.history, Tables(self.rows), NAMES, CAMPAIGN))


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


def test_a_history_that_is_right_is_explained(right: Told) -> None:
    assert right.found() == ""


def _lose_a_play(told: Told) -> None:
    told.rows["plays"].pop(0)


def _double_a_key(told: Told) -> None:
    first = told.rows["plays"][0]
    told.rows["plays"].append({**first, "play_id": "play-again", "session_id": "two again"})


def _play_a_session_twice(told: Told) -> None:
    told.rows["plays"].append({**told.rows["plays"][0], "play_id": "play-again", "idempotency_key": "other"})


def _answer_twice(told: Told) -> None:
    asked = told.history.of("Play")[0]
    told.answer(asked, {**asked.data, "play_id": "play-other"})


def _refuse_what_was_done(told: Told) -> None:
    told.answer(told.history.of("Play")[0], http=409, reason="SESSION_PLAYED")


def _play_both_twins(told: Told) -> None:
    first = told.history.of("Play")[0]
    told.ask("Play", first.data, of="unlock", key="twin", body=first.body)


def _see_an_old_balance(told: Told) -> None:
    told.history.of("ListBalances")[0].attempts[0].data["items"][0]["balance"] = 4


def _end_with_another_balance(told: Told) -> None:
    told.rows["balances"][0]["balance"] = 7


def _credit_twice(told: Told) -> None:
    told.rows["plays"][1]["outcome"]["balances"][0]["balance"] = 6


def _lose_an_adjustment(told: Told) -> None:
    told.rows["ledger_entries"].clear()


def _let_a_fifth_play_by(told: Told) -> None:
    told.plays("capped", "capped-five", 0, 0)
    told.counted(9, unlock=2, capped=5)


def _refuse_too_early(told: Told) -> None:
    told.rows["plays"] = [row for row in told.rows["plays"] if row["session_id"] != "capped-3"]
    told.history.asked = [one for one in told.history.asked if one.key != "key-capped-3"]
    told.counted(9, unlock=2, capped=3)


def _lose_a_count(told: Told) -> None:
    told.counted(9, unlock=2, capped=3)


def _invent_a_play(told: Told) -> None:
    told.rows["plays"].append({**told.rows["plays"][0], "session_id": "nobody's", "idempotency_key": "nobody's"})


def _keep_a_refused_play(told: Told) -> None:
    asked = told.history.of("Play")[0]
    asked.attempts = [Attempt("consumer-1", 1.0, 1.5, 400, reason="CAP_USER")]


def _fail(told: Told) -> None:
    told.ask("Start", http=500, of="wheel", key="failing")


def _be_away_for_no_time(told: Told) -> None:
    told.ask("Start", http=503, reason="STORE_UNAVAILABLE", of="wheel", key="failing")


def _refuse_without_cause(told: Told) -> None:
    told.ask("Start", http=403, reason="SESSION_INVALID", of="wheel", key="refused")


def _grant_a_rung_twice(told: Told) -> None:
    reward = {"reward": {"id": "reward"}, "balances": []}
    told.rows["milestone_grants"] = [
        {"player_id": "ann", "game_id": "exchange", "milestone_id": "first", "reward_id": "reward"}
    ]
    for key in ("one", "two"):
        told.ask("Redeem", reward, of="exchange", key=key, body={"milestone_id": "first"})


GUEST = f"{ids.GUEST}{'0' * 26}"


def _finalize_twice(told: Told, **otherwise: Any) -> None:
    """The board, and the same board asked for again under its key; `otherwise` is what its one standing says then."""
    standing = {"rank": 1, "player_id": GUEST, "score": 5, "prize_id": "cup", "reward_id": "reward", "reason": ""}
    asked = told.ask("FinalizeLeaderboard", {"id": "board", "standings": [standing]}, who=STAFF, of="board", key="f")
    told.answer(asked, {"id": "board", "standings": [{**standing, **otherwise}]})


def _give_a_rank_another_prize(told: Told) -> None:
    _finalize_twice(told, player_id="player", reward_id="another")


def _give_a_players_rank_away(told: Told) -> None:
    _finalize_twice(told, player_id="player")
    for attempt in told.history.of("FinalizeLeaderboard")[0].attempts[:1]:
        attempt.data["standings"][0]["player_id"] = "ann"


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (_lose_a_play, "a play that was answered is not there"),
        (_double_a_key, "2 effects of one key"),
        (_play_a_session_twice, "a session with 2 plays"),
        (_answer_twice, "two answers under one key"),
        (_give_a_rank_another_prize, "two answers under one key"),
        (_give_a_players_rank_away, "two answers under one key"),
        (_refuse_what_was_done, "done, and then refused"),
        (_play_both_twins, "done twice"),
        (_see_an_old_balance, "no order explains the coins of ann"),
        (_end_with_another_balance, "no order explains the coins of ann"),
        (_credit_twice, "no order explains the coins of ann"),
        (_lose_an_adjustment, "an adjustment that was answered is not there"),
        (_let_a_fifth_play_by, "no order explains plays and turns of ann"),
        (_refuse_too_early, "no order explains plays and turns of ann"),
        (_lose_a_count, "no order explains plays and turns of ann"),
        (_invent_a_play, "a play that nobody asked for"),
        (_keep_a_refused_play, "a play that was refused"),
        (_fail, "an error of the service (500"),
        (_be_away_for_no_time, "an error of the service (503"),
        (_refuse_without_cause, "refused without cause"),
        (_grant_a_rung_twice, "done twice"),
    ],
)
def test_what_is_broken_by_hand_is_found(right: Told, damage: Callable[[Told], None], says: str) -> None:
    told = copy.deepcopy(right)
    damage(told)
    assert says in told.found()


def test_a_guest_on_a_finalized_board_may_be_the_player_it_became_when_it_is_asked_again(right: Told) -> None:
    _finalize_twice(right, player_id="player")
    assert right.found() == ""


def test_what_nobody_answered_may_have_been_done_or_not(right: Told) -> None:
    """A redeem of four coins, cut off: with its row it has been done, without it has not."""
    asked = right.history.new("Redeem", "ann", of="exchange", key="cut", body={"milestone_id": "first"})
    asked.attempts.append(Attempt("consumer-1", 100.0))
    assert right.found() == ""
    grant = {"player_id": "ann", "game_id": "exchange", "milestone_id": "first", "reward_id": "reward"}
    right.rows["milestone_grants"].append(grant)
    assert "no order explains the coins of ann" in right.found()
    right.rows["balances"][0]["balance"] = 5
    assert right.found() == ""
