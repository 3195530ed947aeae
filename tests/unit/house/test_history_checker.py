"""The checker accepts exactly the histories that some order explains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, permutations
from random import Random

from ops.history.checker import FOREVER, Op, check

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
