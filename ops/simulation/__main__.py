"""The command line of `ops/certify --simulate`: runs seeds one after another."""

import argparse
import concurrent.futures
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from ops.simulation import machine, story
from ops.simulation.auditing import Auditor, database
from ops.simulation.plan import Plan, read, write
from ops.simulation.run import plan_of, run, settle_memory
from ops.simulation.shrink import Shrinker


class Outcome(NamedTuple):
    """The result of a run, for the summary. violation: its name, '' if there is none."""

    seed: int
    violation: str
    seconds: float
    requests: int
    faults: dict[str, int]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="ops/certify --simulate",
        description="Runs Tombola's play path in simulated worlds, each drawn from a seed: players, staff and faults on"
        " a virtual clock. Checks every response. A failing seed is reduced and printed as a story.",
    )
    parser.add_argument("--simulate", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seeds", type=int, default=200, metavar="N", help="how many seeds (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, metavar="S", help="the first seed (default: %(default)s)")
    parser.add_argument("--seed", type=int, metavar="S", help="only this seed")
    parser.add_argument("--plan", type=Path, metavar="FILE", help="run the plan in FILE, from a failing seed")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="number of parallel processes")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="directory for the plans of failing seeds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the summary to FILE")
    parser.add_argument(
        "--database", metavar="URL", help="a migrated database for the auditor's checks, instead of an embedded one"
    )
    parser.add_argument("--no-shrink", action="store_true", help="do not reduce a failing seed")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """0: every seed held. 1: one failed and was printed. 2: invalid command line."""
    options = parse(arguments)
    with nullcontext(options.database) if options.database else database() as url:
        _audit_in(url)
        if options.plan is not None:
            return _one(read(options.plan.read_bytes()), options)
        if options.seed is not None:
            return _one(plan_of(options.seed), options)
        return _many(options, url)


def _many(options: argparse.Namespace, url: str) -> int:
    began = time.perf_counter()
    outcomes = []
    for outcome in _runs(range(options.first, options.first + options.seeds), options.processes, url):
        outcomes.append(outcome)
        if outcome.violation:
            print(f"seed {outcome.seed}: {outcome.violation}", flush=True)
        if sys.stderr.isatty():
            print(f"\r{len(outcomes)} of {options.seeds} seeds", end="", file=sys.stderr, flush=True)
    summary = _summary(outcomes, time.perf_counter() - began)
    print(_table(summary))
    if options.json is not None:
        options.json.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    for seed in summary["failed"][:3]:
        _one(plan_of(seed), options)
    return 1 if summary["failed"] else 0


_auditor: Auditor | None = None
"""The auditor of this process."""


def _audit_in(url: str) -> None:
    global _auditor
    settle_memory()
    _auditor = Auditor(url)


def _one(plan: Plan, options: argparse.Namespace) -> int:
    result = run(plan, auditor=_auditor)
    if result.violation is None:
        requests = len(result.history.requests)
        print(f"seed {plan.seed}: all holds ({requests} requests, {result.seconds:.0f} simulated seconds)")
        return 0
    if not options.no_shrink:
        shrinker = Shrinker(violated, result.violation.name)
        smaller = shrinker.shrink(plan)
        if smaller != plan:
            print(f"seed {plan.seed}: reduced from {plan.size} to {smaller.size} parts in {shrinker.tried} runs")
            plan, result = smaller, run(smaller, auditor=_auditor)
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
        (options.keep / f"seed-{plan.seed}.json").write_bytes(write(plan))
    print(story.describe(result))
    return 1


def violated(plan: Plan) -> str | None:
    """The violation of a plan, if any."""
    violation = run(plan, auditor=_auditor).violation
    return None if violation is None else violation.name


def _runs(seeds: range, processes: int, url: str) -> Iterator[Outcome]:
    if processes <= 1:
        yield from map(_outcome, seeds)
        return
    with concurrent.futures.ProcessPoolExecutor(processes, initializer=_audit_in, initargs=(url,)) as pool:
        yield from pool.map(_outcome, seeds, chunksize=8)


def _outcome(seed: int) -> Outcome:
    result = run(plan_of(seed), auditor=_auditor)
    name = "" if result.violation is None else result.violation.name
    return Outcome(seed, name, result.seconds, len(result.history.requests), dict(result.faults))


def _summary(outcomes: list[Outcome], took: float) -> dict[str, Any]:
    faults: Counter[str] = Counter()
    for one in outcomes:
        faults.update(one.faults)
    simulated = sum(one.seconds for one in outcomes)
    return {
        "seeds": len(outcomes),
        "failed": [one.seed for one in outcomes if one.violation],
        "simulated_seconds": round(simulated),
        "seconds": round(took, 1),
        "simulated_seconds_a_second": round(simulated / took) if took else 0,
        "requests": sum(one.requests for one in outcomes),
        "faults": dict(sorted(faults.items())),
    }


def _table(summary: dict[str, Any]) -> str:
    faults = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in summary["faults"].items())
    return (
        f"{summary['seeds']} seeds, {len(summary['failed'])} failed; {summary['requests']} requests in"
        f" {summary['simulated_seconds']} simulated seconds, {summary['simulated_seconds_a_second']} a second"
        f" ({summary['seconds']} s)\nfaults that occurred: {faults or 'none'}"
    )


if __name__ == "__main__":
    machine.with_fixed_order("ops.simulation")
    sys.exit(main())
