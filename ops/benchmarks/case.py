"""A case of the bench, and its results."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ops.benchmarks.bench import Bench


@dataclass(frozen=True, slots=True)
class Run:
    """One short run. done: successful operations (responses with code OK); cpu_seconds by process.

    database_trips, ephemeral_trips: round trips of all Tombola processes; None if not counted.
    wal_bytes: what PostgreSQL wrote to its log; None if not counted.
    others: share of the machine's CPU time used by processes outside the bench; None if unknown.
    at: the time of its end (time.monotonic).
    """

    done: int
    seconds: float
    failed: int = 0
    first_failure: str = ""
    p50_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    cpu_seconds: Mapping[str, float] = field(default_factory=dict)
    database_trips: float | None = None
    ephemeral_trips: float | None = None
    wal_bytes: float | None = None
    others: float | None = None
    note: str = ""
    at: float = field(default_factory=time.monotonic)

    @property
    def per_second(self) -> float:
        return self.done / self.seconds if self.seconds else 0.0

    def cpu_each(self, process: str = "") -> float:
        """CPU seconds per operation of a process, or of all except the generator; 0 if nothing was done."""
        used = sum(
            seconds
            for name, seconds in self.cpu_seconds.items()
            if name == process or (not process and name != "generator")
        )
        return used / self.done if self.done else 0.0


@dataclass(frozen=True, slots=True)
class Ratio:
    """A case's rate relative to that of the case `to` at about the same time; with `cost`, the inverse.

    p99: relates the 99th percentiles of the latencies instead. cpu: relates the CPU time per operation of all
    processes except the generator; cpu_of: of this process. least, most: the target, if any.
    """

    to: str
    least: float | None = None
    most: float | None = None
    cost: bool = False
    p99: bool = False
    cpu: bool = False
    cpu_of: str = ""

    def of(self, run: Run, other: Run) -> float | None:
        """None if one of the two did nothing."""
        if self.p99:
            return run.p99_ms / other.p99_ms if run.p99_ms and other.p99_ms else None
        if self.cpu or self.cpu_of:
            ours, theirs = run.cpu_each(self.cpu_of), other.cpu_each(self.cpu_of)
            return ours / theirs if ours and theirs else None
        over, under = (other, run) if self.cost else (run, other)
        return over.per_second / under.per_second if under.per_second else None

    @property
    def what(self) -> str:
        """The quantity compared, as words before the other case's name."""
        if self.cpu_of:
            return f"the CPU ({self.cpu_of}) of "
        return "the p99 of " if self.p99 else "the CPU of " if self.cpu else "the cost of " if self.cost else ""

    @property
    def target(self) -> str:
        if self.least is not None:
            return f">= {self.least:g}"
        return f"<= {self.most:g}" if self.most is not None else ""

    def holds(self, value: float) -> bool | None:
        """Whether a measured ratio meets the target; None if there is none."""
        if self.least is not None:
            return value >= self.least
        return value <= self.most if self.most is not None else None


class Case(ABC):
    """One row of the table. `prepare` creates everything that a run needs; `run` is called once per round.

    once: runs in the first round only, since it takes long or changes what it measures. facts: further
    figures, for the notes below the table.
    """

    name: str
    title: str
    unit: str = "plays"
    ratios: tuple[Ratio, ...] = ()
    once: bool = False

    def __init__(self) -> None:
        self.facts: list[str] = []

    def prepare(self, bench: Bench) -> None:  # noqa: B027  not every case needs it
        """Called once, before the rounds."""

    @abstractmethod
    def run(self, bench: Bench) -> Run:
        """One short run."""

    def finish(self, bench: Bench) -> None:  # noqa: B027  nor this
        """Called once, after the rounds. Verifies the data and adds to `facts`."""


@dataclass(slots=True)
class Result:
    """A case with its runs: one per round, and more for comparisons. error: why it could not be measured."""

    case: Case
    runs: list[Run] = field(default_factory=list)
    error: str = ""

    def middle(self, of: str) -> float | None:
        """The median over the rounds of an attribute of Run."""
        values = [value for run in self.runs if (value := getattr(run, of)) is not None]
        return median(values) if values else None

    @property
    def spread(self) -> float:
        """(highest - lowest) / median of the rates: a measure of noise."""
        rates = [run.per_second for run in self.runs]
        return (max(rates) - min(rates)) / median(rates) if rates and median(rates) else 0.0

    def per_done(self, of: str) -> float | None:
        """The median over the rounds of an attribute of Run, per operation."""
        values = [value / run.done for run in self.runs if run.done and (value := getattr(run, of)) is not None]
        return median(values) if values else None

    def cpu_per_1000(self) -> dict[str, float]:
        """CPU seconds per 1,000 operations, by process: medians over the rounds."""
        names = dict.fromkeys(name for run in self.runs for name in run.cpu_seconds)
        return {
            name: median([run.cpu_seconds.get(name, 0.0) / run.done * 1000 for run in self.runs if run.done] or [0.0])
            for name in names
        }


def ratio(result: Result, wanted: Ratio, results: Mapping[str, Result]) -> float | None:
    """The median ratio over the case's runs, each relative to the other case's nearest in time; None without one.

    Nearest, because the speed of a shared machine varies over time.
    """
    other = results.get(wanted.to)
    if other is None or not other.runs:
        return None
    nearest = [(run, min(other.runs, key=lambda rival: abs(rival.at - run.at))) for run in result.runs]
    found = [value for run, rival in nearest if (value := wanted.of(run, rival)) is not None]
    return median(found) if found else None
