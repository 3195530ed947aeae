"""Reduces a failing plan: leaves out faults and steps while it still fails in the same way.

Delta debugging (Zeller and Hildebrandt, Simplifying and isolating failure-inducing input, 2002) over the plan's parts,
not over the draws: the remaining parts keep their times. The schedule changes, however, so a smaller plan is tried with
several salts before it counts as passing.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from ops.simulation.plan import Plan

T = TypeVar("T")

SECONDS: Final = 60.0

SALTS: Final = 6
"""Schedules with which a smaller plan is tried."""

Fails = Callable[[Plan], str | None]
"""Runs a plan: the name of its violation, None if there is none."""


class Shrinker:
    """Searches the smallest plan that violates `name`. tried: the number of runs."""

    def __init__(self, fails: Fails, name: str) -> None:
        self.tried = 0
        self._fails = fails
        self._name = name
        self._ends = time.perf_counter() + SECONDS

    def shrink(self, plan: Plan) -> Plan:
        """The reduced plan, which fails in the same way."""
        before = None
        while before != plan.size:
            before = plan.size
            plan = self._least(plan, plan.steps, lambda base, remaining: base.of(tuple(remaining), base.faults))
            plan = self._least(plan, plan.faults, lambda base, remaining: base.of(base.steps, tuple(remaining)))
        return self._one_core(plan)

    def _one_core(self, plan: Plan) -> Plan:
        if plan.cores == 1:
            return plan
        from dataclasses import replace

        return self._still_fails(replace(plan, cores=1)) or plan

    def _least(self, plan: Plan, parts: Sequence[T], build: Callable[[Plan, Sequence[T]], Plan]) -> Plan:
        """ddmin: leaves out increasingly smaller chunks of `parts`."""
        if parts and (smaller := self._still_fails(build(plan, ()))) is not None:
            return smaller
        pieces = 2
        while len(parts) > 1:
            size = -(-len(parts) // pieces)
            for first in range(0, len(parts), size):
                remaining = [*parts[:first], *parts[first + size :]]
                if (smaller := self._still_fails(build(plan, remaining))) is not None:
                    plan, parts, pieces = smaller, remaining, max(2, pieces - 1)
                    break
            else:
                if size == 1:
                    break
                pieces = min(len(parts), pieces * 2)
        return plan

    def _still_fails(self, plan: Plan) -> Plan | None:
        """The plan with a salt with which it still fails; None if none was found in time."""
        for salt in (plan.salt, *(plan.salt + more for more in range(1, SALTS))):
            if time.perf_counter() > self._ends:
                return None
            self.tried += 1
            salted = plan.salted(salt)
            if self._fails(salted) == self._name:
                return salted
        return None
