"""Histories that are wrong in one place, for tests that the simulation's judge finds it.

Each damage is done to a history that holds: an answer is made another, or a row is taken away. The judge is asked
again, by itself: no invariant, no logged error helps it. `python -m tests.simulation.damaged FIRST BEYOND` tells what
it found.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final
from unittest.mock import patch

from ops.history import checker
from ops.simulation.history import Attempt
from ops.simulation.judging import judge
from ops.simulation.machine import with_fixed_order
from ops.simulation.run import plan_of, run, settle_memory
from ops.simulation.world import Violation, World

SEEDS: Final = 150
"""Within so many there is a history that each damage can be done to."""

Damage = Callable[[World], AbstractContextManager[Any] | None]
"""Does it for the length of the block; None where there is nothing to do it to."""


@contextmanager
def answered(world: World, attempt: Attempt, **fields: Any) -> Iterator[None]:
    """An attempt with another answer. fields: of the reply, by their names."""
    reply = world.answers[attempt.number]
    told = {**attempt.answer, **{name: value for name, value in fields.items() if name in attempt.answer}}
    with patch.object(attempt, "answer", told), patch.multiple(reply, **fields):
        yield


@contextmanager
def ended(attempt: Attempt, outcome: str, answer: Any = None) -> Iterator[None]:
    """An attempt that ended otherwise."""
    with patch.object(attempt, "outcome", outcome), patch.object(attempt, "answer", answer):
        yield


@contextmanager
def without(world: World, table: str, row: Any) -> Iterator[None]:
    """A table without one of its rows."""
    whole = world.stores.rows

    def rows(name: str) -> Iterable[Any]:
        return [one for one in whole(name) if name != table or one != row]

    with patch.object(world.stores, "rows", rows):
        yield


def first(world: World, operation: str, fits: Callable[[Attempt], Any] = lambda attempt: True) -> Attempt | None:
    """The first answered attempt of an operation that fits."""
    found = (one for one in world.history.of(operation) if one.ok and one.step >= 0)
    return next((one for one in found if fits(one)), None)


def _more(world: World, operation: str, name: str, least: int = 0) -> AbstractContextManager[None] | None:
    """One more than was told."""
    attempt = first(world, operation, lambda one: one.answer[name] >= least)
    return None if attempt is None else answered(world, attempt, **{name: attempt.answer[name] + 1})


def a_play_is_told_without_its_reward(world: World) -> AbstractContextManager[None] | None:
    attempt = first(world, "Play", lambda one: one.answer["rewards"])
    return None if attempt is None else answered(world, attempt, rewards=[])


def a_wallet_is_told_too_full(world: World) -> AbstractContextManager[None] | None:
    attempt = first(world, "ListBalances", lambda one: one.answer["items"])
    if attempt is None:
        return None
    item = world.answers[attempt.number].items[0]
    return patch.object(item, "balance", item.balance + 1)


def an_adjustment_is_told_too_high(world: World) -> AbstractContextManager[None] | None:
    attempt = first(world, "AdjustBalance")
    if attempt is None:
        return None
    entry = world.answers[attempt.number].entry
    return patch.object(entry, "balance_after", entry.balance_after + 1)


def turns_are_told_that_are_not_there(world: World) -> AbstractContextManager[None] | None:
    return _more(world, "GetEligibility", "remaining_turns")


def a_free_play_is_told_that_is_not_there(world: World) -> AbstractContextManager[None] | None:
    return _more(world, "GetEligibility", "free_plays_remaining")


def a_quest_tells_one_turn_too_many(world: World) -> AbstractContextManager[None] | None:
    return _more(world, "CompleteQuest", "balance")


def a_cap_is_told_before_it_is_reached(world: World) -> AbstractContextManager[None] | None:
    attempt = first(world, "Start", lambda one: world.name_of(one.request["id"]) == "capped")
    return None if attempt is None else ended(attempt, "CAP_USER", {"facts": {}})


def a_game_is_told_closed_that_nobody_closed(world: World) -> AbstractContextManager[None] | None:
    paused = any("status" in one.request["game"] for one in world.history.of("UpdateGame"))
    attempt = None if paused else first(world, "Play")
    return None if attempt is None else ended(attempt, "GAME_INACTIVE", {"facts": {}})


def a_reason_that_there_is_none_for(world: World) -> AbstractContextManager[None] | None:
    attempt = first(world, "ListBalances")
    return None if attempt is None else ended(attempt, "CAMPAIGN_CLOSED", {"facts": {}})


def nobody_is_answered_though_nothing_is_wrong(world: World) -> AbstractContextManager[None] | None:
    attempt = None if world.plan.faults else first(world, "ListBalances")
    return None if attempt is None else ended(attempt, "unknown")


def a_repeat_is_answered_otherwise(world: World) -> AbstractContextManager[None] | None:
    seen: dict[tuple[Any, ...], Attempt] = {}
    for one in world.history.of("Play"):
        if one.ok and one.request.get("idempotency_key"):
            key = (one.request["session_id"], one.request["idempotency_key"])
            if seen.setdefault(key, one) is not one:
                return answered(world, one, seed="another")
    return None


def a_session_is_played_twice(world: World) -> AbstractContextManager[None] | None:
    for one in world.history.of("Play"):
        if one.outcome == "SESSION_PLAYED" and one.request.get("idempotency_key"):
            session = one.request["session_id"]
            key = one.request["idempotency_key"]
            other = first(
                world,
                "Play",
                lambda own, session=session, key=key: (  # type: ignore[misc]
                    own.request["session_id"] == session and own.request.get("idempotency_key", "") != key
                ),
            )
            if other is not None:
                world.answers[one.number] = world.answers[other.number]
                return ended(one, "ok", other.answer)
    return None


def a_claim_is_told_done_that_could_not_be(world: World) -> AbstractContextManager[None] | None:
    for one in world.history.of("ClaimReward"):
        if one.outcome == "ILLEGAL_TRANSITION":
            world.answers[one.number] = object()
            return ended(one, "ok", {})
    return None


def two_rewards_have_one_code(world: World) -> AbstractContextManager[None] | None:
    one = first(world, "ClaimReward", lambda own: own.answer["reward"]["code"])
    if one is None:
        return None
    mine = one.answer["reward"]
    other = first(world, "ClaimReward", lambda own: own.answer["reward"]["id"] != mine["id"])
    return None if other is None else answered(world, other, reward={**other.answer["reward"], "code": mine["code"]})


def a_code_that_nobody_imported(world: World) -> AbstractContextManager[None] | None:
    one = first(world, "ClaimReward", lambda own: own.answer["reward"]["code"])
    return None if one is None else answered(world, one, reward={**one.answer["reward"], "code": "CODE-99"})


def a_total_is_another_than_staff_set(world: World) -> AbstractContextManager[None] | None:
    attempt = first(world, "UpdatePrize")
    if attempt is None:
        return None
    total = attempt.request["prize"]["stock"]["total"] + 3
    return patch.object(attempt, "request", {**attempt.request, "prize": {"stock": {"total": total}}})


def a_rung_is_told_granted_that_is_not(world: World) -> AbstractContextManager[None] | None:
    attempt = first(world, "ListMilestones", lambda one: any(not item["granted_at"] for item in one.answer["items"]))
    if attempt is None:
        return None
    item = next(one for one in world.answers[attempt.number].items if not one.granted_at)
    return patch.object(item, "granted_at", 1)


def a_standing_is_lost(world: World) -> AbstractContextManager[None] | None:
    if any(one.merged_into for one in world.tables().players) or any(one.kind == "clock" for one in world.plan.faults):
        return None
    standings = world.tables().leaderboard_standings
    return without(world, "leaderboard_standings", standings[0]) if standings else None


def a_board_is_out_of_order(world: World) -> AbstractContextManager[None] | None:
    attempt = first(world, "ListRankings", lambda one: len({item["score"] for item in one.answer["items"]}) > 1)
    return None if attempt is None else answered(world, attempt, items=attempt.answer["items"][::-1])


def a_search_is_given_up(world: World) -> AbstractContextManager[None] | None:
    return patch.object(checker, "CONFIGURATIONS_MAX", 1)


OF_TURNS: Final = "the history of plays and turns of "
DAMAGES: Final[dict[str, tuple[Damage, str]]] = {
    made.__name__: (made, found)
    for made, found in (
        (a_play_is_told_without_its_reward, "nothing is answered that is not kept"),
        (a_wallet_is_told_too_full, "the history of the "),
        (an_adjustment_is_told_too_high, "the history of the "),
        (turns_are_told_that_are_not_there, OF_TURNS),
        (a_free_play_is_told_that_is_not_there, OF_TURNS),
        (a_quest_tells_one_turn_too_many, OF_TURNS),
        (a_cap_is_told_before_it_is_reached, OF_TURNS),
        (a_game_is_told_closed_that_nobody_closed, "nobody is refused without cause"),
        (a_reason_that_there_is_none_for, "nobody is refused without cause"),
        (nobody_is_answered_though_nothing_is_wrong, "whoever asks while nothing is wrong is answered"),
        (a_repeat_is_answered_otherwise, "a repeat under one key has the first answer"),
        (a_session_is_played_twice, "a session is played once"),
        (a_claim_is_told_done_that_could_not_be, "the history of reward "),
        (two_rewards_have_one_code, "a code is one reward's, and a reward has one code"),
        (a_code_that_nobody_imported, "a code is one that was imported"),
        (a_total_is_another_than_staff_set, "the history of the stock of "),
        (a_rung_is_told_granted_that_is_not, "the history of rung "),
        (a_standing_is_lost, "a final score is what was played and corrected"),
        (a_board_is_out_of_order, "a board shows what was done, in order"),
        (a_search_is_given_up, "the history of "),
    )
}
"""What is damaged, and how what the judge finds begins."""


def found_by_seed(seeds: range) -> dict[str, dict[str, Any]]:
    """Of each damage the first seed that it could be done to, and what the judge found then."""
    found: dict[str, dict[str, Any]] = {}
    for seed in seeds:

        def judging(world: World, seed: int = seed) -> None:
            judge.judge(world)
            if world.restored_at:
                return
            for name in DAMAGES.keys() - found.keys():
                damaged = DAMAGES[name][0](world)
                if damaged is not None:
                    with damaged:
                        found[name] = {"seed": seed, "violation": _violation(world)}

        whole = run(plan_of(seed), nullcontext, judging=judging).violation
        assert whole is None, whole
        if found.keys() == DAMAGES.keys():
            break
    return found


def _violation(world: World) -> str:
    try:
        judge.judge(world)
    except Violation as violation:
        return violation.name
    return ""


if __name__ == "__main__":
    with_fixed_order("tests.simulation.damaged")
    settle_memory()
    print(json.dumps(found_by_seed(range(int(sys.argv[1]), int(sys.argv[2])))))
