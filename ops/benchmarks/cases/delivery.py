"""Outgoing deliveries: rewards by webhook, events to integrations, and their cost for plays."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ops.benchmarks import requests
from ops.benchmarks.bench import Bench
from ops.benchmarks.case import Case, Ratio, Run
from ops.benchmarks.cases.plays import Entrant, Plays
from ops.benchmarks.fixture import Fixture
from ops.benchmarks.load import Loaded
from ops.benchmarks.stack import Process, StackError, read_json
from ops.servers.base import free_port, wait_for

DELIVERIES_PER_SECOND: Final = 800
POSTS_PER_SECOND: Final = 5_000
"""Estimates of the number that makes a run of about the intended length."""
CLIENTS: Final = 64
WAIT_SECONDS: Final = 120.0
SECRET: Final = "bench-secret-bench-secret"


class Posts(Case):
    """The baseline: as many POSTs by a bare aiohttp client, to the same receiver."""

    name, title, unit = "posts", f"bare aiohttp client, {CLIENTS} at once", "POSTs"

    def run(self, bench: Bench) -> Run:
        count = bench.scale.count(POSTS_PER_SECOND)
        port = free_port()
        receiver = bench.stack.helper("receiver", port, "receiver", str(port), str(bench.directory / "posts.json"))
        try:
            return replace(
                bench.measure(lambda: self._post(receiver.url, count)), ephemeral_trips=None, p50_ms=None, p99_ms=None
            )
        finally:
            bench.stack.end(receiver)

    def _post(self, url: str, count: int) -> Loaded:
        command = [sys.executable, "-m", "ops.benchmarks.bare", "posts", url, str(count), str(CLIENTS)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3])
        if done.returncode != 0:
            raise StackError(done.stderr[-2000:])
        return Loaded(count, 0, "", json.loads(done.stdout)["seconds"], 0.0, 0.0, 0.0)


class Backlog(Case):
    """Plays first, without a worker; then one worker delivers the whole backlog to a local receiver.

    group: the worker's consumer group. The rate is that of arrivals, from the first to the last.
    """

    def __init__(self, name: str, title: str, unit: str, group: str, ratio: Ratio) -> None:
        super().__init__()
        self.name, self.title, self.unit, self.ratios = name, title, unit, (ratio,)
        self._group = group
        self._database = f"bench_{group}"
        self._valkey_db = {"deliveries": 5, "integrations": 6}[group]

    def prepare(self, bench: Bench) -> None:
        bench.stack.make_database(self._database)
        self._server = bench.stack.serve("all", "server", database=self._database, valkey_db=self._valkey_db)
        self._fixture = Fixture(bench.stack.core(self._server))
        self._port = free_port()
        url = f"http://127.0.0.1:{self._port}/hook"
        self._entrants = entrants_of(bench, self._fixture, url if self._group == "deliveries" else "", 1.0)
        if self._group == "integrations":
            self._fixture.integration(url, ["play_completed"])
        # The first worker creates the consumer group: later plays add to its backlog.
        bench.stack.end(self._worker(bench))

    def run(self, bench: Bench) -> Run:
        count = bench.scale.count(DELIVERIES_PER_SECOND)
        entrants = [self._entrants[number % len(self._entrants)] for number in range(count)]
        play(bench, self._server, entrants)
        log = bench.directory / f"{self.name}.json"
        log.unlink(missing_ok=True)
        receiver = bench.stack.helper("receiver", self._port, "receiver", str(self._port), str(log))
        worker = self._worker(bench)
        before = bench.stack.read()  # after its start, which uses more CPU than many deliveries
        try:
            wait_for(lambda: read_json(log).get("count", 0) >= count, WAIT_SECONDS, worker.failure)
            after = bench.stack.read()
            came = read_json(log)
            if self._group == "deliveries":
                undelivered = "SELECT count(*) FROM tasks WHERE status <> 'delivered'"
                wait_for(lambda: bench.stack.sql(undelivered, self._database) == "0", WAIT_SECONDS, worker.failure)
        except TimeoutError:
            raise StackError(f"{read_json(log)} of {count} came; the worker says:\n{worker.tail()}") from None
        finally:
            bench.stack.end(worker)
            bench.stack.end(receiver)
        cpu = {
            name: after.cpu[name] - before.cpu.get(name, 0.0) for name in ("worker", "receiver", "postgres", "valkey")
        }
        extra = came["count"] - count
        return Run(
            done=count,
            seconds=came["last"] - came["first"],
            cpu_seconds=cpu,
            note=f"{extra} more than once" if extra else "",
        )

    def _worker(self, bench: Bench) -> Process:
        return bench.stack.serve(f"worker {self._group}", "worker", database=self._database, valkey_db=self._valkey_db)


class Beside(Plays):
    """Plays of a game with rewards delivered by webhook and events sent to an integration."""

    def __init__(self, name: str, title: str, ratios: tuple[Ratio, ...] = (), *, workers: bool) -> None:
        super().__init__(name, title, _beside_server, _beside_entrants, ratios, "bench_beside")
        self._workers = workers

    def run(self, bench: Bench) -> Run:
        if not self._workers:
            return super().run(bench)
        workers = [
            bench.stack.serve(f"worker {group}", f"worker {group}", database="bench_beside", valkey_db=8)
            for group in ("deliveries", "integrations")
        ]
        try:
            return super().run(bench)
        finally:
            for worker in workers:
                bench.stack.end(worker)


def _beside_server(bench: Bench) -> Process:
    return bench.separate_server("bench_beside", 8)


def _beside_entrants(bench: Bench, server: Process) -> list[Entrant]:
    def make() -> Process:
        port = free_port()
        return bench.stack.helper("receiver", port, "receiver", str(port), str(bench.directory / "beside.json"))

    fixture = Fixture(bench.stack.core(server))
    url = bench.shared("beside-receiver", make).url + "/hook"
    entrants = entrants_of(bench, fixture, url, 0.5)
    fixture.integration(url, ["play_completed", "prize_won"])
    return entrants


def entrants_of(bench: Bench, fixture: Fixture, webhook_url: str, chance: float) -> list[Entrant]:
    """Every player at one game, with a prize delivered by webhook if a URL is given."""
    fulfillment: dict[str, Any] = {"redemption_mode": "REDEMPTION_MODE_ON_WIN", "channel": "none"}
    if webhook_url:
        fulfillment |= {"channel": "webhook", "config": {"url": webhook_url, "secret": SECRET}}
    game_id = fixture.spin(fixture.prize(fulfillment=fulfillment), chance)
    return [Entrant(game_id, player) for player in bench.players(fixture.tenant_id)]


def play(bench: Bench, server: Process, entrants: list[Entrant]) -> None:
    """Plays that build up a backlog. StackError if any fails."""
    connections = bench.scale.connections
    sessions = bench.loader.start_sessions(server.port, [requests.start(*entrant) for entrant in entrants], connections)
    plays = [requests.play(*entrant, session) for entrant, session in zip(entrants, sessions, strict=True)]
    loaded = bench.loader.send(server.port, plays, connections)
    if loaded.failed:
        raise StackError(loaded.first_failure)


CASES: Final[tuple[Case, ...]] = (
    Posts(),
    Backlog("deliveries", "deliveries, one worker", "deliveries", "deliveries", Ratio("posts", least=0.4)),
    Backlog(
        "events",
        "events to an integration, one worker",
        "events",
        "integrations",
        Ratio("posts"),
    ),
    Beside("beside-none", "plays that leave deliveries and events, no worker", workers=False),
    Beside(
        "beside-both",
        "the same, while both workers run",
        (Ratio("beside-none", least=0.75),),
        workers=True,
    ),
)
