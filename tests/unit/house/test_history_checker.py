"""The checker takes histories that some order explains, and refuses those that none does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from random import Random

import pytest

from ops.history.checker import FOREVER, Op, check

Step = Callable[[int], list[int]]


def take(told: int) -> Step:
    """Takes one of what is left, and is told what is left then."""
    return lambda left: [left - 1] if left and left - 1 == told else []


def refused(left: int) -> list[int]:
    return [] if left else [left]


def read(told: int) -> Step:
    return lambda left: [left] if left == told else []


def op(began: float, ended: float, step: Step, *, optional: bool = False) -> Op[int]:
    return Op(began, ended, step, f"{began}-{ended}", optional)


RIGHT = {
    "one after another": [op(0, 1, take(1)), op(2, 3, take(0)), op(4, 5, refused)],
    "at once, in the other order": [op(0, 5, take(0)), op(0, 5, take(1))],
    "a refusal while the last is taken": [op(0, 9, take(1)), op(1, 9, take(0)), op(2, 8, refused)],
    "unanswered, and done": [
        op(0, FOREVER, lambda left: [left - 1], optional=True),
        op(2, 3, take(0)),
        op(4, 5, refused),
    ],
    "unanswered, and never done": [
        op(0, FOREVER, lambda left: [left - 1], optional=True),
        op(2, 3, take(1)),
        op(4, 5, read(1)),
    ],
    "done long after": [
        op(0, FOREVER, lambda left: [left - 1], optional=True),
        op(2, 3, take(1)),
        op(4, 5, read(1)),
        op(6, 7, read(0)),
    ],
}
WRONG = {
    "one too many": [op(0, 1, take(1)), op(2, 3, take(0)), op(4, 5, take(0))],
    "a lost update": [op(0, 5, take(1)), op(0, 5, take(1)), op(6, 7, read(0))],
    "refused though one was left": [op(0, 1, take(1)), op(2, 3, refused), op(4, 5, take(0))],
    "a read of what is past": [op(0, 1, take(1)), op(2, 3, read(2))],
    "a read of what is yet to come": [op(0, 1, read(1)), op(2, 3, take(1))],
    "done after it was over": [
        op(0, 1, lambda left: [left - 1], optional=True),
        op(2, 3, read(2)),
        op(4, 5, read(1)),
    ],
    "done before it was asked": [
        op(0, 1, refused),
        op(2, FOREVER, lambda left: [left - 1], optional=True),
        op(3, 4, take(0)),
    ],
}


@pytest.mark.parametrize("name", RIGHT)
def test_checker_explains_right_histories(name: str) -> None:
    verdict = check(RIGHT[name], 2)
    assert verdict.explained and not verdict.gave_up, verdict


@pytest.mark.parametrize("name", WRONG)
def test_checker_refuses_wrong_histories(name: str) -> None:
    verdict = check(WRONG[name], 2)
    assert not verdict.explained
    assert verdict.blocked, "it says what does not fit"


def test_checker_agrees_with_trying_every_order() -> None:
    dice = Random(4711)
    outcomes = set()
    for _ in range(400):
        ops = list(_drawn(dice))
        found = check(ops, 2).explained
        assert found == _by_every_order(ops), ops
        outcomes.add(found)
    assert outcomes == {True, False}


def _drawn(dice: Random) -> Iterator[Op[int]]:
    for _ in range(dice.randint(2, 5)):
        began = dice.randint(0, 6)
        step = dice.choice((take(1), take(0), refused, read(1), read(0)))
        yield op(began, began + dice.randint(1, 5), step)


def _by_every_order(ops: list[Op[int]]) -> bool:
    for order in permutations(ops):
        if any(later.ended < earlier.began for n, earlier in enumerate(order) for later in order[n + 1 :]):
            continue
        states = [2]
        for one in order:
            states = [after for state in states for after in one.step(state)]
        if states:
            return True
    return False
