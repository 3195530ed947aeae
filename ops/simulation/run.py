"""One run: executes a plan in its own world and judges the result."""

import gc
import re
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from ops.history.judge import problems
from ops.history.record import UNKNOWN, History
from ops.simulation import catalogue, faults, workload
from ops.simulation.auditing import Auditor
from ops.simulation.loop import SimulatedLoop, Stuck
from ops.simulation.machine import captured_logs, ignored_warnings, simulated_time
from ops.simulation.plan import Plan
from ops.simulation.postgres import Ran
from ops.simulation.world import Violation, World

AFTER_SECONDS: Final = 15.0
"""How long after a fault requests may still fail: the time that a delayed request takes."""

SLACK_SECONDS: Final = 2.0
"""Maximum error of a process about the database's time."""


@dataclass(slots=True)
class Result:
    """The result of a run. violation: None if there is none. seconds: virtual; took_seconds: real.

    ran: the executed statements.
    """

    plan: Plan
    history: History
    violation: Violation | None
    seconds: float
    took_seconds: float
    faults: Counter[str] = field(default_factory=Counter)
    names: dict[str, str] = field(default_factory=dict)
    ran: list[Ran] = field(default_factory=list)


def plan_of(seed: int) -> Plan:
    """Draws the plan of a seed."""
    dice = Random(f"{seed}/plan")
    world = catalogue.draw(dice)
    cores = dice.choice((1, 2, 2))
    steps = workload.draw(dice, world, cores)
    found = faults.draw(dice, sorted({step.at for step in steps}), cores, len(steps))
    return Plan(seed, 0, dice.random() < 0.8, cores, world, steps, found)


def run(
    plan: Plan, broken: Callable[[], AbstractContextManager[Any]] = nullcontext, *, auditor: Auditor | None = None
) -> Result:
    """Executes a plan. broken: a bug to patch in. auditor: also checks the rows."""
    began = time.perf_counter()
    loop = SimulatedLoop(plan.name, shuffled=plan.shuffled)
    log_events: list[dict[str, Any]] = []
    violation: Violation | None = None
    with captured_logs(log_events), simulated_time(loop, plan.name), ignored_warnings(), broken():
        world = World(loop, plan, log_events)
        try:
            workload.furnish(world)
            loop.run_until_complete(world.run(workload.perform, workload.probes))
            judge(world)
        except Violation as found:
            violation = found
            violation.__traceback__ = violation.__context__ = None  # its frames would keep the world alive
        except Stuck as error:
            violation = Violation("the simulation is stuck", str(error))
        met = Counter(fault.kind for _, fault in world.weather.met)
        result = Result(plan, world.history, violation, loop.now, 0.0, met, dict(world.names))
        result.ran = world.server.ran
        rows = world.rows()
        del world
        loop.abandon()
        loop.close()
    if auditor is not None and violation is None and (broke := auditor.check(catalogue.TENANT, rows)) is not None:
        result.violation = Violation(*broke)
    result.took_seconds = time.perf_counter() - began
    return result


def judge(world: World) -> None:
    """Raises Violation if a response cannot be explained, or is missing without a fault."""
    stepped = sum(abs(fault.seconds) for fault in world.plan.faults if fault.kind == "clock")
    terms = catalogue.terms(world.plan.world, slack_seconds=SLACK_SECONDS + 2 * stepped)
    found = problems(world.history, world.tables(), terms)
    if found:
        about = tuple(int(number) for number in re.findall(r"#(\d+)", found[0]))
        raise Violation(re.sub(r"\w*_\w{9,}\S*", "...", found[0].partition(":")[0]), found[0], about=about)
    times = [(at, at + max(0.0, fault.seconds)) for at, fault in world.weather.met]
    for request in world.history.requests:
        for attempt in request.attempts:
            near = any(began - AFTER_SECONDS <= attempt.began <= ended + AFTER_SECONDS for began, ended in times)
            if attempt.outcome == UNKNOWN and not near:
                raise Violation(
                    "a request is not answered without a fault", request.describe(), about=(request.number,)
                )


def settle_memory() -> None:
    """Excludes all existing objects from later garbage collections."""
    gc.collect()
    gc.freeze()
