"""`./ops/mutate [NAME ...]`: breaks statements and functions one place at a time, and runs their tests.

A NAME is the beginning of a mutant's name: `commit`, `claims.claim`, `runtime.rules`. Without one, all of them.
Ends with 1 where a mutant survives that survivors.toml does not explain.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Final, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ops.proof.mutants import code, record, score, statements, survivors, worker
from ops.proof.mutants.worker import Job, Verdict

QUICK: Final = (
    *("commit.", "claims.", "quests.complete ", "wallet.move "),
    *("codes.add ", "codes.free ", "codes.hold ", "codes.withdraw "),
    *("rewards.take_", "rewards.give_back ", "rewards.revoke ", "rewards.fulfill ", "rewards.expire "),
    *("fulfillment.lease ", "fulfillment.record ", "fulfillment.complete "),
    *("runtime.outgoing.connector.allowed", "runtime.outgoing.connector.check_url"),
)
"""What `--quick` always tries: what guards money, stock and caps, and what keeps calls from private addresses."""

QUICK_DRAWN: Final = (
    (("merging.",), 50),
    (("codes.", "runtime.actors.", "runtime.rules.", "runtime.http.auth.", "runtime.outgoing.connector."), 30),
)
"""Of what it tries so many besides, others for each commit: all of it would take longer than the minutes below."""

QUICK_MINUTES: Final = 5.0
QUICK_LEAST_SHARE: Final = 0.15
"""Of what it set out to try, it fails where it tried less. In those minutes a busy machine of two cores did 0.57 of as
many: one three times as slow does 0.19."""

REST: Final = 5
"""How many times the tests' time is spent on a mutant that the first of them do not see."""

Mutant = statements.Mutant | code.Mutant


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ops/mutate", description=__doc__)
    parser.add_argument("names", nargs="*", help="beginnings of mutants' names; all where none is given")
    parser.add_argument("--quick", action="store_true", help="what guards money and stock, by known tests")
    parser.add_argument("--tenants", action="store_true", help="also the conditions on tenant_id")
    parser.add_argument("--by", nargs="*", default=[""], help="beginnings of the names of tests: by no others")
    parser.add_argument("--seconds", type=float, default=20.0, help="of tests a mutant at most (default: %(default)g)")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no mutant after so many (0: no end)")
    parser.add_argument("--sample", type=int, default=0, help="of so many statements and functions, chosen by --seed")
    parser.add_argument("--seed", help="of the choice (default: of --quick the commit's hash, else tombola)")
    parser.add_argument("--processes", type=int, default=min(os.cpu_count() or 1, 4))
    parser.add_argument("--json", type=Path, help="writes each verdict there, and tries none again that is there")
    parser.add_argument("--list", action="store_true", help="prints the mutants' names, and runs nothing")
    return parser.parse_args(arguments)


@cache
def every() -> list[Mutant]:
    """All mutants there are."""
    return [*(mutant for name in statements.statements() for mutant in statements.mutants(name)), *code.mutants()]


def chosen(options: argparse.Namespace) -> list[Mutant]:
    """The mutants to try, as the options say, in the order in which to begin them."""
    seed = options.seed or (commit() if options.quick else "tombola")
    names = tuple(options.names) or (QUICK if options.quick else ("",))
    there = [one for one in every() if options.tenants or not one.of_tenant]
    found = [one for one in there if one.name.startswith(names)]
    if options.quick and not options.names:
        # What no known test kills has been seen to hang, or to be no code: there is nothing to try it with.
        triable = {statement for statement, stands in score.read().items() if stands.killers}
        for drawn, count in QUICK_DRAWN:
            of_them = [one for one in there if one.name.startswith(drawn) and one.statement in triable]
            found += _first(count, [one for one in of_them if one not in found], seed)
    if options.sample:
        of = {one.statement: one for one in found}
        statements = {one.statement for one in _first(options.sample, of.values(), seed, by=lambda one: one.statement)}
        found = [one for one in found if one.statement in statements]
    if options.quick and found:
        # From another place for each commit: what is left out for want of time is not always the same.
        start = random.Random(seed).randrange(len(found))
        found = [*found[start:], *found[:start]]
    return found


def _first(
    count: int, of: Iterable[Mutant], seed: str, by: Callable[[Mutant], str] = lambda one: one.name
) -> list[Mutant]:
    """So many of them, drawn: each by its own name, so that one more does not change the choice of the others."""
    return sorted(of, key=lambda one: random.Random(f"{seed} {by(one)}").random())[:count]


def commit() -> str:
    """The hash of the commit that is worked on; the day, where there is none."""
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=code.ROOT, capture_output=True, text=True)
    return asked.stdout.strip() or datetime.now(UTC).date().isoformat()


def of_killers() -> dict[str, record.Noted]:
    """The tests that are known to kill, as if they had been noted to execute what they kill and nothing else."""
    killed: dict[str, list[str]] = {}
    for statement, stands in score.read().items():
        for killer in stands.killers:
            killed.setdefault(killer, []).append(statement)
    return {killer: record.Noted(1.0, tuple(of), tuple(of)) for killer, of in killed.items()}


class Tests:
    """Which tests to try a mutant with: what killed it before, what killed its neighbours, what is short and narrow."""

    def __init__(self, noted: dict[str, record.Noted], budget_seconds: float) -> None:
        self._noted = noted
        self._budget = budget_seconds
        self._kills: dict[str, Counter[str]] = {}
        self._unfit: set[str] = set()
        self._killers: dict[str, str] = {}
        for statement, stands in score.read().items():
            for killer, killed in stands.killers.items():
                if killer in noted:
                    self._kills.setdefault(statement, Counter())[killer] = len(killed)
                    self._killers.update(dict.fromkeys(killed, killer))

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
        before = self._killers.get(score.digest(mutant.name))
        return sorted(fitting, key=lambda name: (name != before, -kills[name] / self._seconds(name), self._cost(name)))

    def _job(self, mutant: Any, names: list[str], budget: float) -> Job:
        files: dict[str, list[str]] = {}
        seconds = 0.0
        for name in names:
            # A file's together: what its tests share is made once.
            files.setdefault(name.partition("::")[0], []).append(name)
            seconds += self._noted[name].seconds
            if seconds > budget:
                break
        return Job(mutant, tuple(name for taken in files.values() for name in taken), seconds)

    def files(self) -> list[str]:
        """The files that they are in."""
        return sorted({name.partition("::")[0] for name in self._noted})

    def _seconds(self, name: str) -> float:
        return self._noted[name].seconds + 0.05

    def _cost(self, name: str) -> float:
        """What it takes, and how little it is about what is broken: by how much else it executes."""
        return self._seconds(name) * (10 + len(self._noted[name].statements) + len(self._noted[name].functions))

    def _executing(self, mutant: Any) -> list[str]:
        return [name for name, of in self._noted.items() if mutant.is_executed_by(of.statements, of.functions)]

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

    def __init__(self, mutants: Sequence[Mutant], tests: Tests, minutes: float, file: Path | None) -> None:
        self._file = file
        lines = file.read_text().splitlines() if file is not None and file.exists() else []
        self.verdicts = {name: Verdict(*verdict) for name, verdict in map(json.loads, lines)}
        self._waiting = [mutant for mutant in reversed(mutants) if mutant.name not in self.verdicts]
        self._tests = tests
        self._minutes = minutes or float("inf")
        self._end = float("inf")
        self._trusted: set[tuple[str, str]] = set()  # a test, and what it may be believed of

    def go(self, pipes: Sequence[Any], told: Progress) -> None:
        self._told, self._bar = told, told.add_task("mutants", total=len(self._waiting))
        busy: Busy = {}
        for pipe in pipes:
            self._next(pipe, busy)
        while busy:
            ready = cast(list[Any], wait(list(busy)))
            # By the first verdict the workers are ready: what they took to begin is not of these minutes.
            self._end = min(self._end, time.monotonic() + self._minutes * 60)
            for pipe in ready:
                self._hear(pipe, busy, busy.pop(pipe), pipe.recv())
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
            self._settle(mutant, Verdict("untested", "no test that was noted executes it", 0.0))

    def _hear(self, pipe: Any, busy: Busy, of: Tried, said: Verdict) -> None:
        mutant, job, claimed, tried_rest = of
        if claimed is not None:
            # What was heard is of the original: whether its test may be believed.
            if said.kind == "survived":
                self._trusted.add((claimed.by, mutant.statement))
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
        elif said.kind == "killed" and said.by in job.tests and (said.by, mutant.statement) not in self._trusted:
            busy[pipe] = (mutant, job, said, tried_rest)
            pipe.send(Job(None, (said.by,), 10.0))
        else:
            if said.kind == "survived":
                self._trusted.update((test, mutant.statement) for test in job.tests)
            self._settle(mutant, said)

    def _settle(self, mutant: Mutant, verdict: Verdict) -> None:
        self.verdicts[mutant.name] = verdict
        self._told.advance(self._bar)
        if self._file is not None:
            with self._file.open("a") as file:
                file.write(json.dumps([mutant.name, verdict]) + "\n")
        if verdict.kind == "killed":
            self._tests.learn(mutant, verdict.by)


def report(console: Console, mutants: Sequence[Mutant], verdicts: dict[str, Verdict], least_share: float = 0.0) -> int:
    """The table, the survivors, and the exit code: 0 only where something was tried, and such a share of all."""
    reasons = survivors.explained()
    table = Table("of", "all", "killed", "explained", "alive", "untried", "invalid", "error", "left")
    rows: dict[str, Counter[str]] = {}
    surprising = []
    tried = 0
    for mutant in mutants:
        verdict = verdicts.get(mutant.name)
        tried += verdict is not None and verdict.kind in ("killed", "hung", "survived")
        kind = "left" if verdict is None else "killed" if verdict.is_kill else verdict.kind
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
    stale = survivors.stale(reasons, (mutant.name for mutant in every()))
    surprising += [f"in survivors.toml, but no mutant: {name}" for name in stale]
    for line in surprising:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    judged = total["killed"] + total["survived"] + total["untested"]
    begun_share = (len(mutants) - total["left"]) / len(mutants) if mutants else 0.0
    share = f" ({100 * total['killed'] / judged:.1f} %)" if judged else ""
    console.print(
        f"mutants: {total['killed']} of {judged} killed{share}, {total['explained']} explained, "
        f"{total['left']} left for want of time ({begun_share:.0%} of {len(mutants)} tried)",
        soft_wrap=True,
    )
    if not tried:
        console.print("no mutant was tried: this says nothing")
        return 1
    if begun_share < least_share:
        console.print(
            f"{begun_share:.0%} were tried, at least {least_share:.0%} are to be: give it --minutes", soft_wrap=True
        )
        return 1
    return 1 if surprising else 0


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    mutants = chosen(options)
    if options.list:
        print("\n".join(mutant.name for mutant in mutants))
        return 0
    console = Console()
    quick = options.quick
    known = of_killers() if quick else record.read()
    noted = {name: of for name, of in known.items() if name.startswith(tuple(options.by))}
    if not noted:
        console.print("First let the tests say what they execute: ./ops/test -p ops.proof.mutants.record")
        return 2
    tests = Tests(noted, options.seconds)
    run = Run(mutants, tests, options.minutes or (QUICK_MINUTES if quick else 0.0), options.json)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with worker.working(options.processes, tests.files()) as pipes, Progress(*columns, console=console) as told:
        run.go(pipes, told)
    if not quick:
        score.keep(every(), run.verdicts)
    return report(console, mutants, run.verdicts, QUICK_LEAST_SHARE if quick else 0.0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
