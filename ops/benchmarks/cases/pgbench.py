"""The same writes as one transaction per play, by pgbench: the upper limit of a service without actors."""

import re
import subprocess
from pathlib import Path
from typing import Final

from ops.benchmarks import requests
from ops.benchmarks.bench import Bench
from ops.benchmarks.case import Case, Run
from ops.benchmarks.fixture import CHANCE, Fixture
from ops.benchmarks.load import Loaded
from ops.benchmarks.stack import StackError

CLIENTS: Final = (4, 8, 16, 32)
SAMPLES: Final = 64
_SCRIPT: Final = Path(__file__).parents[1] / "play.pgbench.sql"
# Shaped like a ULID, and increasing with time.
_ULID: Final = (
    "(lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || lpad(to_hex(:salt::bigint), 14, '0'))"
)
_DONE: Final = re.compile(r"number of transactions actually processed: (\d+)")
_TPS: Final = re.compile(r"tps = ([\d.]+)")
_LATENCY: Final = re.compile(r"latency average = ([\d.]+) ms")

assert CHANCE == 0.5, "play.pgbench.sql wins every other play"


class Pgbench(Case):
    """The best of several numbers of clients; columns are as long as those of real plays."""

    name = "pgbench"
    title = "pgbench: the same writes, one transaction a play"

    def prepare(self, bench: Bench) -> None:
        """Plays through Core, then fills in the script with the game's ids and the outcomes of a win and a loss."""
        fixture = Fixture(bench.stack.core(bench.server))
        prize_id = fixture.prize()
        game_id = fixture.spin(prize_id)
        entrants = [(game_id, player) for player in bench.players(fixture.tenant_id, SAMPLES)]
        port = bench.server.port
        sessions = bench.loader.start_sessions(port, [requests.start(*entrant) for entrant in entrants], 8)
        plays = [requests.play(*entrant, session) for entrant, session in zip(entrants, sessions, strict=True)]
        bench.loader.send(port, plays, 8)
        names = {
            "tenant": fixture.tenant_id,
            "game": game_id,
            "prize": prize_id,
            "campaign": fixture.campaign_id,
            "players": str(bench.scale.players),
            "session": sessions[0].decode(),
            "seed": 32 * "5a",
            "hash": 16 * "5a",
            "ulid": _ULID,
            **{
                column: bench.stack.sql(
                    f"SELECT outcome FROM plays WHERE tenant_id = '{fixture.tenant_id}' AND (wins > 0) = {won} LIMIT 1"
                ).replace("'", "''")
                for column, won in (("won", "true"), ("lost", "false"))
            },
        }
        self._script = bench.directory / _SCRIPT.name
        self._script.write_text(_SCRIPT.read_text().format(**names))

    def run(self, bench: Bench) -> Run:
        runs = [(clients, bench.measure(lambda clients=clients: self._load(bench, clients))) for clients in CLIENTS]  # type: ignore[misc]
        clients, best = max(runs, key=lambda pair: pair[1].per_second)
        self.facts = ["plays/s by clients: " + ", ".join(f"{n}: {run.per_second:,.0f}" for n, run in runs)]
        # Its sessions end with it, and so do their processes: their CPU time cannot be read.
        return Run(best.done, best.seconds, p50_ms=best.p50_ms, note=f"{clients} clients")

    def _load(self, bench: Bench, clients: int) -> Loaded:
        seconds = max(1, round(bench.scale.seconds))
        stack = bench.stack
        command = [str(stack.postgres.bin_dir / "pgbench"), "-n", "-M", "prepared", "-j", "2", "-c", str(clients)]
        command += ["-T", str(seconds), "-f", str(self._script), stack.postgres.url("bench")]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0 or not _LATENCY.search(done.stdout):  # no latency: it completed no transaction
            raise StackError(f"pgbench failed: {done.stdout[-500:]}{done.stderr[-2000:]}")
        count, tps, latency = (float(pattern.findall(done.stdout)[0]) for pattern in (_DONE, _TPS, _LATENCY))
        return Loaded(int(count), 0, "", count / tps, latency, 0.0, 0.0)


CASES: Final = (Pgbench(),)
