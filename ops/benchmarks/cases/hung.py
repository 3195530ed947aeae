"""A hanging receiver: the cost of its waiting tasks for plays."""

from typing import Final

from ops.benchmarks.bench import Bench
from ops.benchmarks.case import Case, Ratio, Run
from ops.benchmarks.cases.delivery import SECRET, entrants_of
from ops.benchmarks.cases.plays import Entrant, Plays
from ops.benchmarks.fixture import Fixture
from ops.benchmarks.stack import Process, read_json
from ops.servers.base import free_port, wait_for

DATABASE: Final = "bench_hung"
VALKEY_DB: Final = 9
TASKS: Final = 3_000
PATH: Final = "/hung"
"""Path of the hanging receiver, which identifies its prize."""
WAIT_SECONDS: Final = 60.0

_PRIZE: Final = f"(SELECT prize_id FROM prizes WHERE channel_config ->> 'url' LIKE '%{PATH}')"

_REWARDS: Final = f"""
    INSERT INTO rewards (tenant_id, reward_id, player_id, prize_id, campaign_id, name, type, value, quantity)
    SELECT p.tenant_id, 'reward_' || lpad(n::text, 26, '0'), 'player_hung', p.prize_id, p.campaign_id, p.name, p.type,
           p.value, 1
    FROM prizes AS p, generate_series(1, {TASKS}) AS n WHERE p.prize_id = {_PRIZE};
    UPDATE stock SET awarded = awarded + {TASKS}, remaining = remaining - {TASKS} WHERE prize_id = {_PRIZE}
"""
_NO_TASKS: Final = f"DELETE FROM tasks WHERE prize_id = {_PRIZE}"
_TASKS: Final = f"""
    UPDATE rewards SET status = 'won' WHERE prize_id = {_PRIZE};
    INSERT INTO tasks (tenant_id, task_id, reward_id, prize_id, campaign_id, player_id, channel, status,
                       next_attempt_at)
    SELECT tenant_id, replace(reward_id, 'reward', 'task'), reward_id, prize_id, campaign_id, player_id, 'webhook',
           'pending', now()
    FROM rewards WHERE prize_id = {_PRIZE}
"""


class BesideTheWorker(Plays):
    """Plays without deliveries while a delivery worker runs: idle, or with TASKS for a receiver that hangs.

    Both cases use one process and one database, and alternate by round.
    """

    def __init__(self, name: str, title: str, ratios: tuple[Ratio, ...] = (), *, hung: bool) -> None:
        super().__init__(name, title, _server, _entrants, ratios, DATABASE)
        self._hung = hung

    def run(self, bench: Bench) -> Run:
        bench.stack.sql(_NO_TASKS, DATABASE)
        if self._hung:
            bench.stack.sql(_TASKS, DATABASE)
        log = bench.directory / "hung.json"
        before = _received_count(bench)
        worker = bench.stack.serve("worker deliveries", "worker deliveries", database=DATABASE, valkey_db=VALKEY_DB)
        try:
            if self._hung:
                wait_for(lambda: read_json(log).get("count", 0) > before, WAIT_SECONDS, worker.failure)
            return super().run(bench)
        finally:
            bench.stack.end(worker)
            if self._hung:
                self._attempts = _received_count(bench) - before

    def finish(self, bench: Bench) -> None:
        super().finish(bench)
        if self._hung:
            self.facts.append(
                f"of {TASKS:,} tasks {self._attempts:,} were attempted in the last run, and none answered"
            )


def _received_count(bench: Bench) -> int:
    return int(read_json(bench.directory / "hung.json").get("count", 0))


def _server(bench: Bench) -> Process:
    return bench.separate_server(DATABASE, VALKEY_DB)


def _entrants(bench: Bench, server: Process) -> list[Entrant]:
    def receiver() -> Process:
        port = free_port()
        return bench.stack.helper("hung receiver", port, "hung", str(port), str(bench.directory / "hung.json"))

    fixture = Fixture(bench.stack.core(server))
    if bench.stack.sql(f"SELECT count(*) FROM prizes WHERE prize_id = {_PRIZE}", DATABASE) == "0":
        url = bench.shared("hung-receiver", receiver).url + PATH
        fixture.prize(fulfillment={"channel": "webhook", "config": {"url": url, "secret": SECRET}})
        bench.stack.sql(_REWARDS, DATABASE)
    return entrants_of(bench, fixture, "", 0.5)


CASES: Final[tuple[Case, ...]] = (
    BesideTheWorker("worker-idle", "plays, and a delivery worker without anything to do", hung=False),
    BesideTheWorker(
        "worker-hung",
        f"the same, with {TASKS:,} tasks of a receiver that hangs",
        (Ratio("worker-idle", most=1.1, p99=True), Ratio("worker-idle")),
        hung=True,
    ),
)
