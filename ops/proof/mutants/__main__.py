"""Mutates SQL statements and functions of the play path, one place at a time, and runs the tests that execute them.

A NAME is the beginning of a mutant's name: `commit`, `claims.claim`, `runtime.rules`. Without a name: all mutants.
First the tests run without a mutant, which records what each executes; a test that fails here is left out.
Verdicts are written to .tombola/mutants.json. Exits with 1 if fewer than --at-least percent are killed.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final

from ops.proof.mutants import code, statements, worker
from ops.proof.mutants.worker import Job, RecordedTest, Verdict

VERDICTS: Final = code.ROOT / ".tombola" / "mutants.json"

SQL_TESTS: Final = ("tests/sql",)
PYTHON_TESTS: Final = ("tests/unit", "tests/sql", "tests/acceptance")

Mutant = statements.Mutant | code.Mutant


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="ops/mutate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="the beginning of mutants' names")
    parser.add_argument("--changed", action="store_true", help="only what the branch changed since it left main")
    parser.add_argument(
        "--tests", nargs="+", default=[], help="test files or directories (default: by what is mutated)"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="of tests for a mutant (default: %(default)g)")
    parser.add_argument("--minutes", type=float, help="takes mutants in random order and starts none after this time")
    parser.add_argument("--at-least", type=float, default=100.0, metavar="PERCENT", help="default: %(default)g")
    parser.add_argument("--processes", type=int, default=min(os.cpu_count() or 1, 4), help="default: %(default)s")
    parser.add_argument("--list", action="store_true", help="prints the mutants' names and runs nothing")
    return parser.parse_args(arguments)


def every() -> list[Mutant]:
    return [*statements.mutants(), *code.mutants()]


def chosen(options: argparse.Namespace) -> list[Mutant]:
    """The mutants that the options select."""
    found = [one for one in every() if one.name.startswith(tuple(options.names or [""]))]
    if options.changed:
        base = _reader_of_main()
        old = statements.texts(base) | code.texts(base)
        new = statements.texts() | code.texts(statements.read_file)
        found = [one for one in found if old.get(one.target) != new[one.target]]
    if options.minutes:
        random.shuffle(found)
    return found


def _reader_of_main() -> Callable[[str], str]:
    """Reads files as they were where the branch left main (without a main: at HEAD). A new file was empty."""
    commit = _git("merge-base", "main", "HEAD").strip() or "HEAD"
    there = set(_git("ls-tree", "-r", "--name-only", commit).splitlines())
    return lambda path: _git("show", f"{commit}:{path}") if path in there else ""


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=code.ROOT, capture_output=True, text=True).stdout


def test_files(paths: Iterable[str]) -> list[str]:
    """The test files below the paths; a path with `::` stands for itself."""
    found = [list(Path(path).rglob("test_*.py")) if Path(path).is_dir() else [path] for path in paths]
    return sorted(str(file) for files in found for file in files)


class Tests:
    """Chooses the tests for a mutant: first those that killed its neighbours, then the short and narrow."""

    def __init__(self, recorded: dict[str, RecordedTest], budget_seconds: float) -> None:
        self._recorded = recorded
        self._budget = budget_seconds
        self._kills: dict[str, Counter[str]] = {}

    def job(self, mutant: Mutant) -> Job:
        """The tests that execute the mutant's target, as many as the budget allows, each file's together."""
        kills = self._kills.get(mutant.target, Counter())
        executing = [name for name, recorded in self._recorded.items() if mutant.target in recorded.targets]
        executing.sort(key=lambda name: (-kills[name], self._cost(name)))
        files: dict[str, list[str]] = {}
        seconds = 0.0
        for name in executing:
            files.setdefault(name.partition("::")[0], []).append(name)
            seconds += self._recorded[name].seconds
            if seconds > self._budget:
                break
        return Job(mutant, tuple(name for names in files.values() for name in names), seconds)

    def _cost(self, name: str) -> float:
        """Duration times breadth: a test that executes little else is more likely about the target."""
        return (self._recorded[name].seconds + 0.05) * (10 + len(self._recorded[name].targets))

    def learn(self, mutant: Mutant, killer: str) -> None:
        self._kills.setdefault(mutant.target, Counter())[killer] += 1


def each(pipes: Sequence[Connection], jobs: Iterator[Job]) -> Iterator[tuple[Job, Any]]:
    """Hands the jobs to the workers and yields each with its answer as it comes."""
    busy: dict[Any, Job] = {}
    waiting = list(pipes)
    while True:
        for pipe in waiting:
            if (job := next(jobs, None)) is not None:
                pipe.send(job)
                busy[pipe] = job
        if not busy:
            return
        waiting = [pipe for pipe in wait(list(busy)) if isinstance(pipe, Connection)]
        for pipe in waiting:
            yield busy.pop(pipe), pipe.recv()


def run(pipes: Sequence[Connection], mutants: Sequence[Mutant], files: list[str], options: Any) -> dict[str, Verdict]:
    """The verdicts by the mutants' names. Mutants that --minutes left no time for have none."""
    recorded: dict[str, RecordedTest] = {}
    for _, found in each(pipes, iter([Job(None, (file,), worker.RECORDING_SECONDS) for file in files])):
        recorded.update(found)
    print(f"{len(recorded)} tests of {len(files)} files recorded", flush=True)
    tests, verdicts = Tests(recorded, options.seconds), {}
    end = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")

    def jobs() -> Iterator[Job]:
        for mutant in mutants:
            if time.monotonic() < end:
                job = tests.job(mutant)
                verdicts[mutant.name] = Verdict("untested", "no test executes it")
                if job.tests:
                    yield job

    for job, verdict in each(pipes, jobs()):
        verdicts[job.mutant.name] = verdict
        if verdict.kind == "killed":
            tests.learn(job.mutant, verdict.by)
        if len(verdicts) % 20 == 0:
            print(f"{len(verdicts)} of {len(mutants)} tried", flush=True)
    return verdicts


def report(mutants: Sequence[Mutant], verdicts: dict[str, Verdict], at_least: float) -> int:
    """Prints what is alive and a line for each file, module or class. Returns the exit code."""
    rows: dict[str, Counter[str]] = {}
    for mutant in mutants:
        verdict = verdicts.get(mutant.name, Verdict("left", ""))
        rows.setdefault(mutant.target.rpartition(".")[0], Counter())[verdict.kind] += 1
        if verdict.kind in ("survived", "untested"):
            print(f"{verdict.kind}: {mutant.name} ({verdict.by})")
    for name, counts in rows.items():
        print(f"{name:<32} " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    total = sum(rows.values(), Counter())
    killed = total["killed"] + total["hung"]
    tried = killed + total["survived"] + total["untested"]
    percent = 100 * killed / tried if tried else 0.0
    print(f"mutants: {killed} of {tried} killed ({percent:.1f} %), {len(mutants) - tried} invalid or left")
    return 0 if tried and percent >= at_least else 1


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    mutants = chosen(options)
    if options.list:
        print(*(mutant.name for mutant in mutants), sep="\n")
        return 0
    if not mutants:
        print("no mutant to try")
        return 0 if options.changed else 1
    is_sql = all(isinstance(mutant, statements.Mutant) for mutant in mutants)
    files = test_files(options.tests or (SQL_TESTS if is_sql else PYTHON_TESTS))
    print(f"{len(mutants)} mutants", flush=True)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # also of the workers, which stop their servers
    with worker.working(options.processes, files) as pipes:
        verdicts = run(pipes, mutants, files, options)
    VERDICTS.parent.mkdir(exist_ok=True)
    VERDICTS.write_text(json.dumps(verdicts, indent=1))
    return report(mutants, verdicts, options.at_least)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
