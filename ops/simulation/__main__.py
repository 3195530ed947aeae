"""The command line of `ops/certify --simulate`: seeds, one after another, until one fails or all are done."""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ops.simulation import machine, story
from ops.simulation.judging.auditing import Auditor, copied, database
from ops.simulation.plan import Plan, read, write
from ops.simulation.run import Result, plan_of, run, settle_memory
from ops.simulation.shrink import Shrinker


class Told(NamedTuple):
    """What a run came to, for the summary. violation: its name, '' where all was well."""

    seed: int
    violation: str
    seconds: float
    took_seconds: float
    operations: int
    faults: dict[str, int]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="ops/certify --simulate",
        description="Runs Tombola in simulated worlds, each drawn from a seed: players, staff and faults on a virtual"
        " clock, every answer checked against what can be. A seed that fails is made smaller and told as a story.",
    )
    parser.add_argument("--simulate", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seeds", type=int, default=200, metavar="N", help="how many seeds (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, metavar="S", help="the first seed (default: %(default)s)")
    parser.add_argument("--seed", type=int, metavar="S", help="this seed alone")
    parser.add_argument("--plan", type=Path, metavar="FILE", help="the plan in FILE, as a failing seed left it")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="how many run at once")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where plans of failing seeds are left")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the summary to FILE")
    parser.add_argument(
        "--database", metavar="URL", help="a migrated database for the auditor's checks, instead of an embedded one"
    )
    parser.add_argument("--no-shrink", action="store_true", help="tell a failing seed as it is")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """0: every seed held. 1: one failed, and was told. 2: the command line makes no sense."""
    options = parse(arguments)
    with nullcontext(options.database) if options.database else database() as url:
        return _main(options, url)


def _main(options: argparse.Namespace, url: str) -> int:
    settle_memory()
    _audit_in(url)
    if options.plan is not None:
        return _one(read(options.plan.read_bytes()), options)
    if options.seed is not None:
        return _one(plan_of(options.seed), options)
    began = time.perf_counter()
    told: list[Told] = []
    failed: list[int] = []
    for one in _runs(range(options.first, options.first + options.seeds), options.processes, url):
        told.append(one)
        if one.violation:
            failed.append(one.seed)
            print(f"seed {one.seed}: {one.violation}", flush=True)
        if sys.stderr.isatty():
            print(f"\r{len(told)} of {options.seeds} seeds", end="", file=sys.stderr, flush=True)
    took = time.perf_counter() - began
    summary = _summary(told, took)
    print(_table(summary))
    if options.json is not None:
        options.json.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    for seed in failed[:3]:
        _one(plan_of(seed), options)
    return 1 if failed else 0


_auditor: Auditor | None = None
"""This process'."""


def _audit_in(url: str, *, own: bool = False) -> None:
    """own: in a copy of that database."""
    global _auditor
    _auditor = Auditor(asyncio.run(copied(url, f"simulated_{os.getpid()}")) if own else url)


def _one(plan: Plan, options: argparse.Namespace) -> int:
    result = run(plan, auditor=_auditor)
    if result.violation is None:
        print(f"seed {plan.seed}: all holds ({result.operations} requests, {result.seconds:.0f} simulated seconds)")
        return 0
    name = result.violation.name
    if not options.no_shrink:
        shrinker = Shrinker(violated, name)
        smaller = shrinker.shrink(plan)
        if smaller != plan:
            print(f"seed {plan.seed}: from {plan.size} steps and faults to {smaller.size}, in {shrinker.tried} runs")
            plan, result = smaller, run(smaller, auditor=_auditor)
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
        (options.keep / f"seed-{plan.seed}.json").write_bytes(write(plan))
    print(story.tell(result))
    return 1


def violated(plan: Plan) -> str | None:
    """What a plan violates."""
    violation = run(plan, auditor=_auditor).violation
    return None if violation is None else violation.name


def _runs(seeds: range, processes: int, url: str) -> Iterator[Told]:
    if processes <= 1:
        yield from map(_told, seeds)
        return
    with concurrent.futures.ProcessPoolExecutor(processes, initializer=partial(_audit_in, url, own=True)) as pool:
        yield from pool.map(_told, seeds, chunksize=8)


def _told(seed: int) -> Told:
    result: Result = run(plan_of(seed), auditor=_auditor)
    name = "" if result.violation is None else result.violation.name
    return Told(seed, name, result.seconds, result.took_seconds, result.operations, dict(result.faults))


def _summary(told: list[Told], took: float) -> dict[str, Any]:
    faults: Counter[str] = Counter()
    for one in told:
        faults.update(one.faults)
    simulated = sum(one.seconds for one in told)
    return {
        "seeds": len(told),
        "failed": [one.seed for one in told if one.violation],
        "simulated_seconds": round(simulated),
        "seconds": round(took, 1),
        "simulated_seconds_a_second": round(simulated / took) if took else 0,
        "requests": sum(one.operations for one in told),
        "faults": dict(sorted(faults.items())),
    }


def _table(summary: dict[str, Any]) -> str:
    faults = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in summary["faults"].items())
    return (
        f"{summary['seeds']} seeds, {len(summary['failed'])} failed; {summary['requests']} requests in"
        f" {summary['simulated_seconds']} simulated seconds, {summary['simulated_seconds_a_second']} a second"
        f" ({summary['seconds']} s)\nfaults that were met: {faults or 'none'}"
    )


if __name__ == "__main__":
    machine.with_fixed_order("ops.simulation")
    sys.exit(main())
