"""`./ops/mutate [NAME ...]`: breaks statements and functions one place at a time, and runs their tests.

A NAME is the beginning of a mutant's name: `commit`, `claims.claim`, `runtime.rules`. Without one, all of them.
Ends with 1 where a mutant survives that survivors.toml does not explain.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Final, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ops.proof.mutants import code, record, statements, survivors, worker
from ops.proof.mutants.worker import Job, Verdict

QUICK: Final = ("commit.commit ", "claims.claim ", "quests.complete ", "wallet.move ")
"""What `--quick` tries all of: what moves money and stock."""

SAMPLED: Final = ("merging.", "fulfillment.", "rewards.")
SAMPLE: Final = 40
"""What it tries some of."""

REST: Final = 5
"""How many times the tests' time is spent on a mutant that the first of them do not see."""

Mutant = statements.Mutant | code.Mutant


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ops/mutate", description=__doc__)
    parser.add_argument("names", nargs="*", help="beginnings of mutants' names; all where none is given")
    parser.add_argument("--quick", action="store_true", help="a fixed choice of the most important, for 5 minutes")
    parser.add_argument("--tenants", action="store_true", help="also the conditions on tenant_id")
    parser.add_argument("--seconds", type=float, default=20.0, help="of tests a mutant at most (default: %(default)g)")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no mutant after so many (0: no end)")
    parser.add_argument("--sample", type=int, default=0, help="only so many of them, chosen by --seed")
    parser.add_argument("--seed", default="tombola", help="of the choice (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=min(os.cpu_count() or 1, 4))
    parser.add_argument("--json", type=Path, help="writes all verdicts there")
    parser.add_argument("--list", action="store_true", help="prints the mutants' names, and runs nothing")
    return parser.parse_args(arguments)


def chosen(options: argparse.Namespace) -> list[Mutant]:
    """The mutants to try, as the options say."""
    names = tuple(options.names) or ((*QUICK, *SAMPLED) if options.quick else ("",))
    every: list[Mutant] = [m for name in statements.statements() for m in statements.mutants(name)] + code.mutants()
    found = [mutant for mutant in every if mutant.name.startswith(names) and (options.tenants or not mutant.of_tenant)]
    if options.sample:
        return _some(found, options.sample, options.seed)
    if options.quick and not options.names:
        rest = [mutant for mutant in found if not mutant.name.startswith(QUICK)]
        return [*(one for one in found if one.name.startswith(QUICK)), *_some(rest, SAMPLE, options.seed)]
    return found


def _some(mutants: list[Mutant], count: int, seed: str) -> list[Mutant]:
    # By the mutant's own name, so that one more condition does not change the choice of the others.
    return sorted(mutants, key=lambda one: random.Random(f"{seed} {one.name}").random())[:count]


class Tests:
    """Which tests to try a mutant with: those that killed its neighbours, then the narrowest."""

    def __init__(self, noted: dict[str, record.Noted], budget_seconds: float) -> None:
        self._noted = noted
        self._budget = budget_seconds
        self._kills: dict[str, Counter[str]] = {}
        self._unfit: set[str] = set()

    def of(self, mutant: Mutant) -> Job:
        """The job of trying it first. Without tests where no test executes it."""
        return self._job(mutant, self._ordered(mutant), self._budget)

    def rest_of(self, job: Job) -> Job:
        """What is left to try where those tests passed. Some of it only, where there is a great deal."""
        assert job.mutant is not None
        tried = set(job.tests)
        return self._job(
            job.mutant, [name for name in self._ordered(job.mutant) if name not in tried], REST * self._budget
        )

    def _ordered(self, mutant: Any) -> list[str]:
        kills = self._kills.get(mutant.statement, Counter())
        fitting = [name for name in self._executing(mutant) if name not in self._unfit]
        fitting.sort(key=lambda name: (-kills[name], len(self._noted[name].statements), self._noted[name].seconds))
        return fitting

    def _job(self, mutant: Any, names: list[str], budget: float) -> Job:
        taken, seconds = [], 0.0
        for name in names:
            taken.append(name)
            seconds += self._noted[name].seconds
            if seconds > budget:
                break
        return Job(mutant, tuple(taken), seconds)

    def _executing(self, mutant: Any) -> list[str]:
        return [name for name, noted in self._noted.items() if mutant.is_executed_by(name, noted.statements)]

    def learn(self, mutant: Mutant, killer: str) -> None:
        self._kills.setdefault(mutant.statement, Counter())[killer] += 1

    def leave_out(self, test: str) -> None:
        """A test that fails without any mutant."""
        self._unfit.add(test)


Tried = tuple[Mutant, Job, Verdict | None, bool]
"""A mutant, its job, the verdict that is being checked, and whether the job is the rest of its tests."""

Busy = dict[Any, Tried]
"""What each worker is at, by its pipe."""


class Run:
    """Hands the mutants to the workers, and gathers the verdicts."""

    def __init__(self, mutants: Sequence[Mutant], tests: Tests, minutes: float) -> None:
        self._waiting = list(reversed(mutants))
        self._tests = tests
        self._end = time.monotonic() + minutes * 60 if minutes else float("inf")
        self._trusted: set[str] = set()
        self.verdicts: dict[str, Verdict] = {}

    def go(self, pipes: Sequence[Any], told: Progress) -> None:
        bar = told.add_task("mutants", total=len(self._waiting))
        busy: Busy = {}
        for pipe in pipes:
            self._next(pipe, busy)
        while busy:
            for pipe in cast(list[Any], wait(list(busy))):
                self._hear(pipe, busy, busy.pop(pipe), pipe.recv())
                told.update(bar, completed=len(self.verdicts))
                if pipe not in busy:
                    self._next(pipe, busy)

    def _next(self, pipe: Any, busy: Busy) -> None:
        while self._waiting and time.monotonic() < self._end:
            mutant = self._waiting.pop()
            job = self._tests.of(mutant)
            if job.tests:
                busy[pipe] = (mutant, job, None, False)
                pipe.send(job)
                return
            self.verdicts[mutant.name] = Verdict("untested", "no test that was noted executes it", 0.0)

    def _hear(self, pipe: Any, busy: Busy, of: Tried, said: Verdict) -> None:
        mutant, job, claimed, tried_rest = of
        if claimed is not None:
            # What was heard is of the original: whether its test may be believed.
            if said.kind == "survived":
                self._trusted.add(claimed.by)
                self._settle(mutant, claimed)
            else:
                self._tests.leave_out(claimed.by)
                self._waiting.append(mutant)
        elif said.kind == "gone":
            self._tests.leave_out(said.by)
            self._waiting.append(mutant)
        elif said.kind == "survived" and not tried_rest and (rest := self._tests.rest_of(job)).tests:
            busy[pipe] = (mutant, rest, None, True)
            pipe.send(rest)
        elif said.kind == "killed" and said.by in job.tests and said.by not in self._trusted:
            busy[pipe] = (mutant, job, said, tried_rest)
            pipe.send(Job(None, (said.by,), 10.0))
        else:
            self._settle(mutant, said)

    def _settle(self, mutant: Mutant, verdict: Verdict) -> None:
        self.verdicts[mutant.name] = verdict
        if verdict.kind == "killed":
            self._tests.learn(mutant, verdict.by)


def report(console: Console, mutants: Sequence[Mutant], verdicts: dict[str, Verdict], every: Sequence[str]) -> int:
    """The table, the survivors, and the exit code."""
    reasons = survivors.explained()
    table = Table("of", "all", "killed", "explained", "alive", "untried", "invalid", "error", "left")
    rows: dict[str, Counter[str]] = {}
    surprising = []
    for mutant in mutants:
        verdict = verdicts.get(mutant.name)
        kind = "left" if verdict is None else {"hung": "killed"}.get(verdict.kind, verdict.kind)
        if kind in ("survived", "untested"):
            if mutant.name in reasons:
                kind = "explained"
            else:
                surprising.append(f"{kind}: {mutant.name}")
        elif kind == "killed" and verdict is not None and mutant.name in reasons:
            surprising.append(f"explained, but killed by {verdict.by}: {mutant.name}")
        elif kind == "error" and verdict is not None:
            surprising.append(f"error: {mutant.name}: {verdict.by}")
        rows.setdefault(mutant.group, Counter())[kind] += 1
    kinds = ("killed", "explained", "survived", "untested", "invalid", "error", "left")
    total: Counter[str] = Counter()
    for name, counts in rows.items():
        total.update(counts)
        table.add_row(name, str(counts.total()), *(str(counts[kind]) for kind in kinds))
    table.add_row("all", str(total.total()), *(str(total[kind]) for kind in kinds), style="bold")
    console.print(table)
    surprising += [f"in survivors.toml, but no mutant: {name}" for name in survivors.stale(reasons, every)]
    for line in surprising:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    judged = total["killed"] + total["survived"] + total["untested"]
    score = 100 * total["killed"] / judged if judged else 100.0
    console.print(f"{total['killed']} of {judged} that could be told from the original were: {score:.1f} %")
    return 1 if surprising else 0


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    mutants = chosen(options)
    if options.list:
        print("\n".join(mutant.name for mutant in mutants))
        return 0
    console = Console()
    noted = record.read()
    if not noted:
        console.print("First let the tests say what they execute: ./ops/test -p ops.proof.mutants.record")
        return 2
    run = Run(mutants, Tests(noted, options.seconds), options.minutes or (5.0 if options.quick else 0.0))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with worker.working(options.processes) as pipes, Progress(*columns, console=console) as told:
        run.go(pipes, told)
    if options.json:
        options.json.write_text(
            json.dumps({name: verdict._asdict() for name, verdict in run.verdicts.items()}, indent=1)
        )
    every = [m.name for name in statements.statements() for m in statements.mutants(name)]
    return report(console, mutants, run.verdicts, [*every, *(mutant.name for mutant in code.mutants())])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
