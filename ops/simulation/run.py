"""One run: a plan is carried out in a world of its own, and what came of it is judged."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from random import Random
from typing import Any

from ops.simulation import catalogue, faults, scenes, workload
from ops.simulation.deliveries import Receivers
from ops.simulation.history import History
from ops.simulation.judging import judge
from ops.simulation.judging.auditing import Auditor
from ops.simulation.loop import SimulatedLoop, Stuck
from ops.simulation.machine import pretended, quiet, unraised
from ops.simulation.node import SETTINGS
from ops.simulation.plan import Plan
from ops.simulation.postgres.schema import SHAPES
from ops.simulation.stores import Stores
from ops.simulation.subscribers import Subscribers
from ops.simulation.world import Violation, World
from runtime.streams import backfill


@dataclass(slots=True)
class Result:
    """What came of a run. violation: None where all was well. seconds: virtual; took_seconds: of this machine's."""

    plan: Plan
    history: History
    violation: Violation | None
    seconds: float
    took_seconds: float
    faults: Counter[str] = field(default_factory=Counter)
    names: dict[str, str] = field(default_factory=dict)

    @property
    def operations(self) -> int:
        return len(self.history.attempts)


def plan_of(seed: int) -> Plan:
    """The plan that a seed draws."""
    dice = Random(f"{seed}/plan")
    world = catalogue.draw(dice)
    cores = dice.choice((1, 2, 2))
    steps = scenes.draw(dice, world, cores)
    found = faults.draw(dice, sorted({step.at for step in steps}), cores, len(steps))
    return Plan(seed, 0, dice.random() < 0.8, cores, world, steps, found)


def run(
    plan: Plan,
    broken: Callable[[], AbstractContextManager[Any]] = nullcontext,
    *,
    auditor: Auditor | None = None,
    judging: Callable[[World], None] = judge.judge,
) -> Result:
    """Carries a plan out.

    broken: what is to be wrong with Tombola meanwhile. judging: of the history; both for tests of the simulation
    itself. auditor: has a look at the rows, too.
    """
    began = time.perf_counter()
    loop = SimulatedLoop(plan.name, shuffled=plan.shuffled)
    logged: list[dict[str, Any]] = []
    violation: Violation | None = None
    with _machine(loop, plan.name, logged), broken():
        stores = Stores(loop, plan.name, SETTINGS)
        world = World(loop, plan, stores)
        world.logged = logged
        receivers = Receivers(world, plan.name)
        subscribers = Subscribers(world, plan.name)
        stores.jobs += [receivers.jobs, subscribers.jobs]
        world.waits += [receivers.next_due, subscribers.next_due]
        try:
            loop.run_until_complete(world.run(workload.perform, catalogue.furnish, scenes.probes))
            judging(world)
            receivers.judge()
            subscribers.judge()
        except Violation as found:
            violation = found
            violation.__traceback__ = violation.__context__ = None  # or its frames would keep the world
        except Stuck as error:
            violation = Violation("the world goes on", "a next step", str(error), at=loop.now)
        history, seconds, met = world.history, loop.now, Counter(world.weather.met)
        result = Result(plan, history, violation, seconds, 0.0, met, dict(world.names))
        rows = {name: list(stores.rows(name)) for name in SHAPES if auditor is not None}
        del world, stores, receivers, subscribers
        loop.abandon()
        loop.close()
    if auditor is not None and violation is None:
        result.violation = auditor.look(rows)
    result.took_seconds = time.perf_counter() - began
    return result


@contextmanager
def _machine(loop: SimulatedLoop, seed: str, logged: list[dict[str, Any]]) -> Iterator[None]:
    with quiet(logged), pretended(loop, seed), unraised(), _long_passes():
        yield


@contextmanager
def _long_passes() -> Iterator[None]:
    """Gaps are looked for an hour at a time: else hours in which nothing happens are a thousand passes."""
    before = backfill.PASS_SECONDS
    backfill.PASS_SECONDS = 3600.0  # type: ignore[misc]
    try:
        yield
    finally:
        backfill.PASS_SECONDS = before  # type: ignore[misc]


def settle_memory() -> None:
    """What is there before the first run is never looked at again by the collector."""
    gc.collect()
    gc.freeze()
