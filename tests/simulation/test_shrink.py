"""A shrunk plan fails as before, and has nothing that it could do without."""

from __future__ import annotations

from random import Random

from ops.simulation.plan import Fault, Plan, Step, read, write
from ops.simulation.run import plan_of
from ops.simulation.shrink import Shrinker


def _plan(steps: int, faults: int) -> Plan:
    return Plan(
        1,
        0,
        True,
        2,
        {},
        tuple(Step(number, float(number), "ann", 0, "play") for number in range(steps)),
        tuple(Fault(number, float(number), "crash", "core-0") for number in range(faults)),
    )


def test_shrunk_plan_has_only_what_fails() -> None:
    for seed in range(20):
        dice = Random(seed)
        needed = set(dice.sample(range(60), 3))
        fault = dice.randrange(8)

        def fails(plan: Plan, needed: set[int] = needed, fault: int = fault) -> str | None:
            steps = {step.number for step in plan.steps}
            return "too many plays" if needed <= steps and fault in {one.number for one in plan.faults} else None

        smaller = Shrinker(fails, "too many plays").shrink(_plan(60, 8))
        assert {step.number for step in smaller.steps} == needed
        assert [one.number for one in smaller.faults] == [fault]
        assert fails(smaller) == "too many plays"


def test_shrinker_keeps_the_failure_that_it_shrinks() -> None:
    def fails(plan: Plan) -> str | None:
        return "this" if len(plan.steps) == 10 else "that"

    assert len(Shrinker(fails, "this").shrink(_plan(10, 0)).steps) == 10


def test_shrinker_tries_other_orders() -> None:
    def fails(plan: Plan) -> str | None:
        return "late" if (len(plan.steps) + plan.salt) % 3 == 0 else None

    smaller = Shrinker(fails, "late").shrink(_plan(12, 0))
    assert fails(smaller) == "late" and len(smaller.steps) <= 1


def test_plan_is_written_and_read_back() -> None:
    plan = plan_of(3)
    assert read(write(plan)) == plan
