from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from random import Random
from typing import Any, Final

import pytest

from ops.history import judge
from ops.history.checker import FOREVER, Op, check
from ops.history.record import Attempt, History, Request
from ops.history.tables import Tables
from ops.history.terms import Terms
from ops.simulation import run as simulation

SEED: Final = 3


@dataclass
class Judged:
    """What the judge is shown of a run."""

    history: History
    tables: Tables
    terms: Terms

    def done(self, operation: str, of: str = "") -> Request:
        return [one for one in self.history.of(operation) if one.ok and of in ("", one.of)][-1]

    def ask(self, operation: str, who: str, http: int = 200, reason: str = "", **more: Any) -> None:
        data = more.pop("data", None)
        began = max(one.began for one in self.history.attempts) + 1
        request = self.history.new(operation, who, **more)
        request.attempts.append(Attempt("core-1", began, began + 0.5, http, reason=reason, data=data))

    def row(self, request: Request) -> dict[str, Any]:
        return next(row for row in self.tables["plays"] if row["play_id"] == request.data["play_id"])


@pytest.fixture(scope="module")
def run() -> Iterator[Judged]:
    found: list[Judged] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "problems", lambda *judged: found.append(Judged(*judged)) or [])
        simulation.run(simulation.plan_of(SEED))
    yield found[0]


Damage = Callable[[Judged], Any]


def again(**other: str) -> Damage:
    """Stores a second row of a play under a key that differs from it in these columns."""

    def store(run: Judged) -> None:
        keyed = next(row for row in run.tables["plays"] if row["idempotency_key"])
        run.tables["plays"].append({**keyed, **other})

    return store


def refuse(run: Judged, *, later: bool) -> None:
    play = run.done("Play")
    refusal = Attempt("core-1", play.ended + 1, play.ended + 2, 409, reason="SESSION_PLAYED")
    play.attempts = [*play.attempts, refusal] if later else [replace(refusal, reason="CAP_USER")]


def play_twice(run: Judged) -> None:
    play = run.done("Play")
    run.ask("Play", play.who, data=play.data, of=play.of, key="another", body=play.body)


def play_beyond_the_cap(run: Judged) -> None:
    """Stores, counts and answers one play more than a player may have of the game."""
    play = run.done("Play", "capped")
    for nth in range(run.terms.bounds["capped"].ever):
        named = {"play_id": f"play-{nth}", "session_id": f"session-{nth}", "idempotency_key": f"key-{nth}"}
        run.tables["plays"].append({**run.row(play), **named})
        body = {"session_id": named["session_id"]}
        run.ask("Play", play.who, data=play.data | named, of="capped", key=named["idempotency_key"], body=body)


def read_wrong_coins(run: Judged) -> None:
    wallet = next(row for row in run.tables["balances"] if row["currency"] == "coin")
    shown = {"currency": "coin", "scope_key": run.terms.campaign, "balance": wallet["balance"] + 1}
    run.ask("ListBalances", wallet["player_id"], data={"items": [shown]})


def list_rewards(run: Judged, *, code: str = "CODE-0", to_another: bool = False, **wrong: str) -> None:
    """Lists a voucher to its player, or to another one, as it is but for what is wrong."""
    reward = next(row for row in run.tables["rewards"] if run.terms.names[row["prize_id"]] == "coded")
    owner = reward["player_id"]
    item = {"id": reward["reward_id"], "prize_id": reward["prize_id"], "code": code, "claimed_at": 0}
    item["status"] = f"REWARD_STATUS_{reward['status'].upper()}"
    other = next(row["player_id"] for row in run.tables["players"] if row["player_id"] != owner)
    data = {"items": [item | wrong], "pagination": {"has_more": True}}
    run.ask("ListRewards", other if to_another else owner, data=data)


DAMAGES: Final[dict[str, tuple[Damage, str]]] = {
    "a lost play": (lambda run: run.tables["plays"].pop(0), "a confirmed play is missing"),
    "a key twice": (again(play_id="again", session_id="two again"), "2 effects of one key"),
    "a session twice": (again(play_id="again", idempotency_key="other"), "a session with 2 plays"),
    "a play nobody asked for": (again(session_id="x", idempotency_key="x"), "a play without a request"),
    "a refusal after it was done": (lambda run: refuse(run, later=True), "done, then refused"),
    "a refused play that is kept": (lambda run: refuse(run, later=False), "a refused play is stored"),
    "one session under two keys": (play_twice, "done twice"),
    "a play beyond the cap": (play_beyond_the_cap, "no order explains plays and turns of"),
    "a balance that never was": (read_wrong_coins, "no order explains the coins of"),
    "a lost adjustment": (lambda run: run.tables["ledger_entries"].clear(), "a confirmed adjustment is missing"),
    "a service error": (lambda run: run.ask("Start", "ann", 500, of="wheel", key="x"), "a service error (500"),
    "a refusal without cause": (
        *(lambda run: run.ask("Start", "ann", 403, "SESSION_INVALID", of="wheel", key="x"), "refused without cause"),
    ),
    "a status that never was": (
        *(lambda run: list_rewards(run, status="REWARD_STATUS_REVOKED"), "no order explains the reward"),
    ),
    "another player's code": (
        *(lambda run: [list_rewards(run), list_rewards(run, to_another=True)], "another player's code"),
    ),
    "one code twice": (lambda run: [list_rewards(run), list_rewards(run, id="reward_2")], "one code of two rewards"),
    "a unit that was won and is left": (
        lambda run: [row.update(remaining=row["remaining"] + 1) for row in run.tables["stock"]],
        "no order explains the stock of",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_to_a_history_or_its_rows_is_found(run: Judged, name: str) -> None:
    damage, says = DAMAGES[name]
    damaged = deepcopy(run)
    damage(damaged)
    assert says in "\n".join(judge.problems(damaged.history, damaged.tables, damaged.terms))


def test_history_of_a_run_is_explained(run: Judged) -> None:
    sound = deepcopy(run)
    list_rewards(sound)
    assert judge.problems(sound.history, sound.tables, sound.terms) == []


Step = Callable[[int], list[int]]


def take(remaining: int) -> Step:
    return lambda left: [left - 1] if left and left - 1 == remaining else []


def refused(left: int) -> list[int]:
    return [] if left else [left]


def read(remaining: int) -> Step:
    return lambda left: [left] if left == remaining else []


def op(began: float, ended: float, step: Step, *, optional: bool = False) -> Op[int]:
    return Op(began, ended, step, f"{began}-{ended}", optional)


def test_checker_agrees_with_trying_every_order() -> None:
    dice = Random(4711)
    outcomes = set()
    for _ in range(400):
        ops = list(_drawn(dice))
        verdict = check(ops, 2)
        assert verdict.explained == _by_every_order(ops) and not verdict.gave_up, ops
        assert verdict.explained or verdict.blocked, ops
        outcomes.add((verdict.explained, any(one.optional for one in ops)))
    assert outcomes == {(explained, optional) for explained in (True, False) for optional in (True, False)}


def _drawn(dice: Random) -> Iterator[Op[int]]:
    for _ in range(dice.randint(2, 5)):
        began = dice.randint(0, 6)
        ended = began + dice.randint(1, 5)
        if dice.random() < 0.2:  # A request without an answer.
            yield op(began, dice.choice((ended, FOREVER)), lambda left: [left - 1] if left else [], optional=True)
        else:
            yield op(began, ended, dice.choice((take(1), take(0), refused, read(1), read(0))))


def _by_every_order(ops: list[Op[int]]) -> bool:
    optional = [one for one in ops if one.optional]
    for count in range(len(optional) + 1):
        for skipped in combinations(optional, count):
            if _explained([one for one in ops if all(one is not other for other in skipped)]):
                return True
    return False


def _explained(ops: list[Op[int]]) -> bool:
    for order in permutations(ops):
        if any(later.ended < earlier.began for n, earlier in enumerate(order) for later in order[n + 1 :]):
            continue
        states = [2]
        for one in order:
            states = [after for state in states for after in one.step(state)]
        if states:
            return True
    return False
