"""The bench's stack: embedded PostgreSQL with fsync on, Valkey, and Tombola's processes, each separate.

The CPU use of processes is read from the operating system, their round trips to the stores from /metrics.
"""

import asyncio
import itertools
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from ops.api import Api, accepts, answers
from ops.servers.base import free_port, free_ports, launch, wait_for
from ops.servers.embedded import EmbeddedServers
from ops.servers.postgres import Postgres
from runtime.http.auth.tokens import Tokens
from runtime.settings import Settings
from sql.migrate import migrate

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 40.0
HIGH: Final = "1000000"
ENVIRONMENT: Final[Mapping[str, str]] = {
    # Rate limits are enforced as usual, but too high to refuse anything.
    "RATE_PLAYER_PER_SECOND": HIGH,
    "RATE_PLAYER_BURST": HIGH,
    "RATE_IP_PER_SECOND": HIGH,
    "RATE_IP_BURST": HIGH,
    "DEVELOPMENT": "on",
    "SESSION_TTL_SECONDS": "86400",
    "OUTBOUND_ALLOW_CIDRS": "127.0.0.0/8",
    "CORE_WORKERS": "off",
    "LOG_LEVEL": "warning",
}
_TRIPS: Final = re.compile(r"^tombola_(database|ephemeral)_round_trips_total (\S+)$", re.MULTILINE)
_ALSO_BUSY: Final = ("nice", "irq", "softirq", "steal")


class StackError(RuntimeError):
    """A process of the bench failed; the message has the end of its log."""


@dataclass(slots=True)
class Process:
    """A child process of the bench. url: its consumer edge, or what it serves; "" if it serves nothing."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path
    url: str = ""
    core_url: str = ""
    admin_url: str = ""
    rpc_address: str = ""
    metrics_ports: range = range(0)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def rss_bytes(self) -> int:
        """Its current memory."""
        return int(psutil.Process(self.popen.pid).memory_info().rss)

    def failure(self) -> StackError | None:
        """An error if the process has ended; None while it runs."""
        if self.popen.poll() is None:
            return None
        return StackError(f"{self.name} ended with {self.popen.returncode}:\n{self.tail()}")

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-12:])

    def stop(self) -> None:
        """SIGTERM; waits for the drain."""
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
            try:
                self.popen.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()


@dataclass(frozen=True, slots=True)
class Reading:
    """Counters at one moment.

    cpu: seconds by process; trips: to the database and to the ephemeral store; wal_bytes: the position of PostgreSQL's
    log; busy, idle: CPU seconds of the whole machine; own: those of the bench itself and its finished generators.
    """

    cpu: dict[str, float]
    database_trips: float
    ephemeral_trips: float
    wal_bytes: float
    busy: float
    idle: float
    own: float

    def cpu_since(self, before: "Reading", seconds: float) -> dict[str, float]:
        """CPU seconds of each process since `before`, without those that used less than 2 % of the time."""
        used = {name: spent - before.cpu.get(name, 0.0) for name, spent in self.cpu.items()}
        return {name: spent for name, spent in used.items() if spent > 0.02 * seconds}

    def others_since(self, before: "Reading") -> float:
        """The share of the machine's CPU time since `before` used outside the bench."""
        busy, idle = self.busy - before.busy, self.idle - before.idle
        ours = self.own - before.own + sum(seconds - before.cpu.get(name, 0.0) for name, seconds in self.cpu.items())
        return max(0.0, busy - ours) / (busy + idle) if busy + idle else 0.0


@dataclass
class BenchStack:
    """All processes and stores, in `directory`; `stop` ends all of them."""

    directory: Path
    servers: EmbeddedServers = field(init=False)
    keys: dict[str, str] = field(init=False)
    processes: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.servers = EmbeddedServers(self.directory / "data", durable_valkey=False)
        self.keys = {
            "SERVER_KEYS": f"1:{secrets.token_hex(32)}",
            "CODE_KEYS": f"1:{secrets.token_hex(32)}",
            "JWT_SECRET": secrets.token_hex(32),
            "JWT_STAFF_SECRET": secrets.token_hex(32),
        }
        self._numbers = itertools.count(1)

    # -- stores ------------------------------------------------------------------------------

    @property
    def postgres(self) -> Postgres:
        assert self.servers.postgres is not None
        return self.servers.postgres

    def start(self) -> None:
        """Starts the stores and migrates the first database."""
        self.servers.start()
        self.make_database("bench")

    def make_database(self, name: str) -> None:
        """Creates and migrates a database."""
        self.postgres.psql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")  # of an earlier run in the same directory
        self.postgres.psql(f"CREATE DATABASE {name}")
        asyncio.run(migrate(self.postgres.url(name)))

    def sql(self, statement: str, database: str = "bench") -> str:
        """Runs SQL and returns its bare output."""
        return self.postgres.psql(statement, database)

    # -- processes ---------------------------------------------------------------------------

    def serve(
        self,
        role: str,
        name: str,
        *,
        database: str = "bench",
        valkey_db: int = 0,
        processes: int = 1,
        **environ: str,
    ) -> Process:
        """Starts `tombola ROLE` ("all", "core", "consumer", "worker deliveries") and waits until it is ready.

        processes: how many of them share the ports.
        """
        ports = {f"{part}_PORT": str(free_port()) for part in ("CORE", "CONSUMER", "ADMIN", "RPC")}
        ports["METRICS_PORT"] = str(free_ports(processes))
        assert self.servers.redis_url is not None
        stores = {
            "DATABASE_URL": self.postgres.url(database),
            "REDIS_URL": f"{self.servers.redis_url.rpartition('/')[0]}/{valkey_db}",
        }
        process = self.spawn(
            name,
            ["-m", "runtime", *role.split()],
            {**self.keys, **ENVIRONMENT, **stores, **ports, **environ, "PROCESSES": str(processes)},
        )
        process.url = f"http://127.0.0.1:{ports['CONSUMER_PORT']}"
        process.admin_url = f"http://127.0.0.1:{ports['ADMIN_PORT']}"
        if role in ("all", "core"):
            process.core_url = f"http://127.0.0.1:{ports['CORE_PORT']}"
            process.rpc_address = f"127.0.0.1:{ports['RPC_PORT']}"
        if role.startswith("worker"):
            process.core_url = f"http://127.0.0.1:{ports['METRICS_PORT']}"
        process.metrics_ports = range(int(ports["METRICS_PORT"]), int(ports["METRICS_PORT"]) + processes)
        ready = process.core_url or process.url
        urls = [f"{ready}/readyz", *(f"http://127.0.0.1:{port}/readyz" for port in process.metrics_ports)]
        wait_for(lambda: all(map(answers, urls)), START_SECONDS, process.failure)
        return process

    def helper(self, name: str, port: int, *arguments: str) -> Process:
        """Starts a helper (bare.py) that listens on `port`."""
        process = self.spawn(name, ["-m", "ops.benchmarks.bare", *arguments], {})
        process.url = f"http://127.0.0.1:{port}"
        wait_for(lambda: accepts(port), START_SECONDS, process.failure)
        return process

    def spawn(self, name: str, arguments: list[str], environ: Mapping[str, str]) -> Process:
        """Starts a Python process of the bench with its own log."""
        log = self.directory / f"{name}-{next(self._numbers)}.log"
        inherited = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "LANG", "PYTHONPATH")}
        with log.open("wb") as output:
            popen = launch(
                [sys.executable, *arguments],
                signal.SIGTERM,
                env={**inherited, **environ},
                cwd=Path(__file__).parents[2],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        process = Process(name, popen, log)
        self.processes.append(process)
        return process

    def end(self, process: Process) -> None:
        """Stops and removes one process."""
        process.stop()
        self.processes.remove(process)

    def stop(self) -> None:
        """Stops everything, the stores last."""
        for process in reversed(self.processes):
            process.stop()
        self.processes.clear()
        self.servers.stop()

    def core(self, process: Process) -> Api:
        """A client for Core's REST of a process."""
        return Api(process.core_url)

    def staff_token(self, tenant_id: str) -> str:
        """A token of an admin of the tenant."""
        settings = Settings(jwt_secret=self.keys["JWT_SECRET"], jwt_staff_secret=self.keys["JWT_STAFF_SECRET"])
        return Tokens.of(settings).mint("ann", tenant_id=tenant_id, seconds=7200, roles=("admin",))

    # -- readings ----------------------------------------------------------------------------

    def read(self) -> Reading:
        """The current counters of all processes."""
        cpu: dict[str, float] = {}
        for process in self.processes:
            cpu[process.name] = cpu.get(process.name, 0.0) + cpu_seconds(process.popen.pid)
        cpu["postgres"] = cpu_seconds(self.postgres.pid)
        assert self.servers.valkey is not None
        cpu["valkey"] = cpu_seconds(self.servers.valkey.pid)
        database = ephemeral = 0.0
        for process in self.processes:
            for port in process.metrics_ports if process.core_url else ():
                trips = dict(_TRIPS.findall(read_url(f"http://127.0.0.1:{port}/metrics")))
                database += float(trips.get("database", 0))
                ephemeral += float(trips.get("ephemeral", 0))
        machine, own = psutil.cpu_times(), os.times()
        idle = machine.idle + getattr(machine, "iowait", 0.0)
        return Reading(
            cpu,
            database,
            ephemeral,
            wal_bytes=float(self.sql("SELECT pg_current_wal_insert_lsn() - '0/0'")),
            busy=machine.user + machine.system + sum(getattr(machine, name, 0.0) for name in _ALSO_BUSY),
            idle=idle,
            own=own.user + own.system + own.children_user + own.children_system,
        )


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and its running descendants."""
    total = 0.0
    root = psutil.Process(pid)
    for one in (root, *root.children(recursive=True)):
        try:
            times = one.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def read_url(url: str) -> str:
    """The content at a URL."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a helper's log; {} if it does not exist yet."""
    try:
        said: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return said
