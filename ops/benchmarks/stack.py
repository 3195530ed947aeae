"""The bench's own stack: embedded PostgreSQL with fsync on, Valkey, and Tombola's processes, each apart.

What a process costs is read from the operating system, what it asks of its stores from its /metrics.
"""

from __future__ import annotations

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

from ops.api import Api, answers
from ops.servers.base import free_port, launch, wait_for
from ops.servers.embedded import EmbeddedServers
from ops.servers.postgres import Postgres
from runtime.http.auth.tokens import Tokens
from runtime.settings import Settings
from sql.migrate import migrate

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 40.0
HIGH: Final = "1000000"
ENVIRONMENT: Final[Mapping[str, str]] = {
    # Rates are counted as ever, only so high that they refuse nobody.
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
    """A process of the bench did not do what it should; the message holds the end of its log."""


@dataclass(slots=True)
class Process:
    """A child process of the bench. url: where its consumer edge listens, or what it serves; "" where nothing."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path
    url: str = ""
    core_url: str = ""
    admin_url: str = ""
    rpc_address: str = ""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def rss_bytes(self) -> int:
        """Memory that it holds now."""
        return int(psutil.Process(self.popen.pid).memory_info().rss)

    def failure(self) -> StackError | None:
        """Why waiting on is pointless: it ended (None: it runs)."""
        if self.popen.poll() is None:
            return None
        return StackError(f"{self.name} ended with {self.popen.returncode}:\n{self.tail()}")

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-12:])

    def stop(self) -> None:
        """SIGTERM, and the drain."""
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

    cpu: seconds by process; trips: to the database and to the ephemeral store; busy, idle: CPU seconds of the
    whole machine; own: those of the bench itself and of its generators that have ended.
    """

    cpu: dict[str, float]
    database_trips: float
    ephemeral_trips: float
    busy: float
    idle: float
    own: float

    def others_since(self, before: Reading) -> float:
        """Part of the machine's CPU time since `before` that went to none of the bench's processes."""
        busy, idle = self.busy - before.busy, self.idle - before.idle
        ours = self.own - before.own + sum(seconds - before.cpu.get(name, 0.0) for name, seconds in self.cpu.items())
        return max(0.0, busy - ours) / (busy + idle) if busy + idle else 0.0


@dataclass
class BenchStack:
    """Everything that runs, on `directory`; `stop` ends all of it."""

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
        """Starts the stores, and migrates the first database."""
        self.servers.start()
        self.make_database("bench")

    def make_database(self, name: str) -> None:
        """A new, migrated database."""
        self.postgres.psql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")  # of an earlier run in the same directory
        self.postgres.psql(f"CREATE DATABASE {name}")
        asyncio.run(migrate(self.postgres.url(name)))

    def sql(self, statement: str, database: str = "bench") -> str:
        """Runs SQL, and returns its bare output."""
        return self.postgres.psql(statement, database)

    # -- processes ---------------------------------------------------------------------------

    def serve(self, role: str, name: str, *, database: str = "bench", valkey_db: int = 0, **environ: str) -> Process:
        """`tombola ROLE` ("all", "core", "consumer", "worker deliveries"), answering when this returns."""
        ports = {f"{part}_PORT": str(free_port()) for part in ("CORE", "CONSUMER", "ADMIN", "RPC", "METRICS")}
        assert self.servers.redis_url is not None
        stores = {
            "DATABASE_URL": self.postgres.url(database),
            "REDIS_URL": f"{self.servers.redis_url.rpartition('/')[0]}/{valkey_db}",
        }
        process = self.spawn(
            name, ["-m", "runtime", *role.split()], {**self.keys, **ENVIRONMENT, **stores, **ports, **environ}
        )
        process.url = f"http://127.0.0.1:{ports['CONSUMER_PORT']}"
        process.admin_url = f"http://127.0.0.1:{ports['ADMIN_PORT']}"
        if role in ("all", "core"):
            process.core_url = f"http://127.0.0.1:{ports['CORE_PORT']}"
            process.rpc_address = f"127.0.0.1:{ports['RPC_PORT']}"
        if role.startswith("worker"):
            process.core_url = f"http://127.0.0.1:{ports['METRICS_PORT']}"
        ready = process.core_url or process.url
        wait_for(lambda: answers(f"{ready}/readyz"), START_SECONDS, process.failure)
        return process

    def helper(self, name: str, port: int, *arguments: str) -> Process:
        """A helper (bare.py) that listens on `port`."""
        process = self.spawn(name, ["-m", "ops.benchmarks.bare", *arguments], {})
        process.url = f"http://127.0.0.1:{port}"
        wait_for(lambda: _accepts(port), START_SECONDS, process.failure)
        return process

    def spawn(self, name: str, arguments: list[str], environ: Mapping[str, str]) -> Process:
        """Any Python process of the bench; its output goes to a log of its own."""
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
        """Stops one process and forgets it."""
        process.stop()
        self.processes.remove(process)

    def stop(self) -> None:
        """Stops everything, the stores last."""
        for process in reversed(self.processes):
            process.stop()
        self.processes.clear()
        self.servers.stop()

    def core(self, process: Process) -> Api:
        """Core's REST of a process."""
        return Api(process.core_url)

    def staff_token(self, tenant_id: str) -> str:
        """A token of the tenant's admin."""
        settings = Settings(jwt_secret=self.keys["JWT_SECRET"], jwt_staff_secret=self.keys["JWT_STAFF_SECRET"])
        return Tokens.of(settings).mint("ann", tenant_id=tenant_id, seconds=7200, roles=("admin",))

    # -- readings ----------------------------------------------------------------------------

    def read(self) -> Reading:
        """What everything has cost up to now."""
        cpu: dict[str, float] = {}
        for process in self.processes:
            cpu[process.name] = cpu.get(process.name, 0.0) + _cpu_seconds(process.popen.pid)
        cpu["postgres"] = _cpu_seconds(self.postgres.pid)
        assert self.servers.valkey is not None
        cpu["valkey"] = _cpu_seconds(self.servers.valkey.pid)
        database = ephemeral = 0.0
        for process in self.processes:
            if process.core_url:
                trips = dict(_TRIPS.findall(read_url(f"{process.core_url}/metrics")))
                database += float(trips.get("database", 0))
                ephemeral += float(trips.get("ephemeral", 0))
        machine, own = psutil.cpu_times(), os.times()
        idle = machine.idle + getattr(machine, "iowait", 0.0)
        return Reading(
            cpu,
            database,
            ephemeral,
            busy=machine.user + machine.system + sum(getattr(machine, name, 0.0) for name in _ALSO_BUSY),
            idle=idle,
            own=own.user + own.system + own.children_user + own.children_system,
        )


def _cpu_seconds(pid: int) -> float:
    """Of a process and all below it that runs."""
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
    """What is at a URL."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def _accepts(port: int) -> bool:
    import socket

    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def read_json(path: Path) -> dict[str, Any]:
    """A helper's log of one JSON object; {} where it is not there yet."""
    try:
        said: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return said
