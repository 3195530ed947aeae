"""The bench: prepares cases and runs them in rounds.

A round is one short run of every case in turn. The case that a ratio refers to is run again just before, unless it ran
a moment ago: if the machine is slow for a while, both are slow, and the ratio means more than either figure. Figures
are medians.
"""

import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ops.api import ApiError
from ops.benchmarks.case import Case, Result, Run
from ops.benchmarks.load import Loaded, Loader, LoadFailed
from ops.benchmarks.requests import Player, make_players
from ops.benchmarks.stack import BenchStack, Process, StackError

FRESH_SECONDS: Final = 30.0
"""An older run is repeated before a comparison."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured. seconds: approximate length of one run."""

    seconds: float = 4.0
    rounds: int = 3
    connections: int = 64
    players: int = 2_000
    full_plays: int = 3_000_000
    idle_games: int = 10_000
    pool_codes: int = 5_000_000
    import_codes: int = 1_000_000
    draw_holders: int = 1_000_000

    def count(self, per_second: float) -> int:
        """The number of requests for a run of `seconds` at a given rate."""
        return max(2 * self.connections, int(per_second * self.seconds))


class Bench:
    """What cases share. `server` is the process that most of them load: `tombola all`."""

    def __init__(self, directory: Path, scale: Scale) -> None:
        self.scale = scale
        self.directory = directory
        self.stack = BenchStack(directory)
        self.loader = Loader(directory)
        self._servers: dict[str, Process] = {}
        self._players: dict[str, list[Player]] = {}

    @property
    def server(self) -> Process:
        return self.shared("server", lambda: self.stack.serve("all", "server"))

    def shared(self, name: str, make: Callable[[], Process]) -> Process:
        """A process that several cases load, started at its first use."""
        if name not in self._servers:
            self._servers[name] = make()
        return self._servers[name]

    def processes(self, count: int) -> Process:
        """`tombola all` in several processes that share its ports."""
        return self.shared(
            f"processes-{count}", lambda: self.stack.serve("all", "server", valkey_db=3, processes=count)
        )

    def separate_server(self, database: str, valkey_db: int) -> Process:
        """`tombola all` on its own database, created at its first use."""

        def make() -> Process:
            self.stack.make_database(database)
            return self.stack.serve("all", "server", database=database, valkey_db=valkey_db)

        return self.shared(database, make)

    def players(self, tenant_id: str, count: int | None = None) -> list[Player]:
        """The first players of a tenant."""
        wanted = count or self.scale.players
        known = self._players.get(tenant_id, [])
        if len(known) < wanted:
            known = self._players[tenant_id] = make_players(self.stack.keys["JWT_SECRET"], tenant_id, wanted)
        return known[:wanted]

    def measure(self, load: Callable[[], Loaded]) -> Run:
        """Runs a load and measures its resource use."""
        before = self.stack.read()
        loaded = load()
        after = self.stack.read()
        return Run(
            done=loaded.ok,
            seconds=loaded.seconds,
            failed=loaded.failed,
            first_failure=loaded.first_failure,
            p50_ms=loaded.p50_ms,
            p99_ms=loaded.p99_ms,
            max_ms=loaded.max_ms,
            cpu_seconds={**after.cpu_since(before, loaded.seconds), "generator": loaded.cpu_seconds},
            database_trips=after.database_trips - before.database_trips,
            ephemeral_trips=after.ephemeral_trips - before.ephemeral_trips,
            wal_bytes=after.wal_bytes - before.wal_bytes,
            others=after.others_since(before),
        )


@contextmanager
def beside(work: Callable[[threading.Event], object]) -> Iterator[None]:
    """Runs `work` in a thread during the block. The end of the block sets the event, and waits for the thread."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def run(bench: Bench, cases: Sequence[Case], say: Callable[[str], None]) -> dict[str, Result]:
    """Prepares and runs the cases. An error ends only its own case and is reported in its result."""
    results = {case.name: Result(case) for case in cases}
    for result in results.values():
        say(f"preparing {result.case.name}")
        _guarded(result, lambda case=result.case: case.prepare(bench))  # type: ignore[misc]
    for number in range(bench.scale.rounds):
        for result in results.values():
            if result.error or (result.case.once and number):
                continue
            for stale in _stale(result, results):
                say(f"round {number + 1} of {bench.scale.rounds}: {stale.case.title}, to compare with")
                _run(bench, stale)
            say(f"round {number + 1} of {bench.scale.rounds}: {result.case.title}")
            _run(bench, result)
    for result in results.values():
        if result.runs:
            say(f"checking {result.case.name}")
            _guarded(result, lambda case=result.case: case.finish(bench))  # type: ignore[misc]
    return results


def _run(bench: Bench, result: Result) -> None:
    """One run. A deadlock in the database makes it fail, with any figures."""
    before = len(bench.stack.postgres.deadlocks())
    _guarded(result, lambda: result.runs.append(result.case.run(bench)))
    if (met := bench.stack.postgres.deadlocks()[before:]) and not result.error:
        result.error = f"{len(met)} deadlocks, the first: {met[0]}"


def _stale(result: Result, results: dict[str, Result]) -> list[Result]:
    """The cases of ratios with a target that did not run a moment ago."""
    wanted = [results[one.to] for one in result.case.ratios if one.target and one.to in results]
    limit = time.monotonic() - FRESH_SECONDS
    return [one for one in wanted if not one.error and (not one.runs or one.runs[-1].at < limit)]


def _guarded(result: Result, work: Callable[[], object]) -> None:
    try:
        work()
    except (StackError, LoadFailed, ApiError, OSError, TimeoutError, subprocess.CalledProcessError) as error:
        result.error = f"{type(error).__name__}: {error}"
        if isinstance(error, subprocess.CalledProcessError):
            result.error += f" {error.stderr}"
