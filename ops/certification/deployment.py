"""Both stores, two Cores, both edges, and the workers that a scenario needs, each in its own process.

They listen on free ports of 127.0.0.1 and keep their files in one directory. PostgreSQL runs with fsync.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp

from ops.certification.process import Process
from ops.certification.proxy import Proxy, between
from ops.servers.embedded import EmbeddedServers
from ops.servers.postgres import Postgres
from ops.servers.valkey import Valkey
from runtime.settings import Settings
from sql.migrate import migrate

T = TypeVar("T")

WORKERS: Final = ("deliveries", "integrations", "leaderboards", "auditor")
HIGH: Final = "1000000"
DATABASE: Final = "certify"
CONNECTIONS: Final = 10
IDLE_SECONDS: Final = 1.0
"""The idle time of the load's connections, below GOODBYE_SECONDS: a request on a connection that a rolling restart is
closing would be lost."""

ENVIRONMENT: Final = {
    # Rate limits are enforced as usual, but too high to refuse anything.
    **{f"RATE_{who}_{what}": HIGH for who in ("PLAYER", "IP", "LOGIN", "GUEST") for what in ("PER_SECOND", "BURST")},
    "DEVELOPMENT": "on",
    "OUTBOUND_ALLOW_CIDRS": "127.0.0.0/8",
    "CORE_WORKERS": "off",
    "DATABASE_POOL_SIZE": str(CONNECTIONS),
    "LOG_LEVEL": "warning",
}


@dataclass
class Deployment:
    """All processes, in the order of their start.

    together: so many processes of `tombola all` share their ports, in place of Cores and edges.
    """

    directory: Path
    http: aiohttp.ClientSession
    together: int = 0
    servers: EmbeddedServers = field(init=False)
    environment: dict[str, str] = field(init=False)
    processes: dict[str, Process] = field(default_factory=dict)
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def __post_init__(self) -> None:
        self.servers = EmbeddedServers(self.directory / "data", durable_valkey=True)

    @property
    def postgres(self) -> Postgres:
        assert self.servers.postgres is not None
        return self.servers.postgres

    @property
    def valkey(self) -> Valkey:
        assert self.servers.valkey is not None
        return self.servers.valkey

    @property
    def database_url(self) -> str:
        return self.postgres.url(DATABASE)

    def of(self, surface: str) -> list[Process]:
        """The processes that serve "core", "consumer" or "admin"."""
        return [process for process in self.processes.values() if surface in process.surfaces]

    @property
    def cores(self) -> list[Process]:
        return self.of("core")

    @property
    def settings(self) -> Settings:
        """The processes' settings, for minting tokens and reading the stores here."""
        return Settings.from_env({**self.environment, "CORE_RPC_ADDRESSES": ""})

    async def blocking(self, work: Callable[..., T], *args: Any) -> T:
        """Runs blocking work (starting or stopping a store) while the load continues.

        On one thread for the life of the deployment: a store ends with the thread that started it.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    async def start(self) -> None:
        """Returns once the stores, the Cores and the edges are ready."""
        await self.blocking(self.servers.start)
        await self.blocking(self.postgres.psql, f"CREATE DATABASE {DATABASE}")
        await migrate(self.database_url)
        self.environment = {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.valkey.url,
            "SERVER_KEYS": f"1:{secrets.token_hex(32)}",
            "CODE_KEYS": f"1:{secrets.token_hex(32)}",
            "JWT_SECRET": secrets.token_hex(32),
            "JWT_STAFF_SECRET": secrets.token_hex(32),
            **ENVIRONMENT,
        }
        if self.together:
            await self.add("all", f"all --processes {self.together}").start()
            return
        cores = [self.add(f"core-{nth}", "core") for nth in (1, 2)]
        self.environment["CORE_RPC_ADDRESSES"] = ",".join(core.rpc_address for core in cores)
        for process in (*cores, self.add("consumer-1", "consumer"), self.add("admin-1", "admin")):
            process.environment = dict(self.environment)
            # One by one: all at once would be slow on few processors.
            await process.start()

    def add(self, name: str, role: str, **environment: str) -> Process:
        """A further process, not started. environment: overrides the deployment's settings."""
        own = {**getattr(self, "environment", {}), **environment}
        made = self.processes[name] = Process(name, role, self.directory / f"{name}.log", own)
        return made

    async def remove(self, process: Process) -> None:
        await process.stop()
        del self.processes[process.name]

    async def worker(self, group: str) -> Process:
        """The worker of a consumer group; starts it if necessary."""
        if group not in self.processes:
            await self.add(group, f"worker {group}").start()
        return self.processes[group]

    async def restart(self, process: Process, **environment: str) -> float:
        """Restarts a process with these settings over the deployment's; seconds until it is ready."""
        await process.stop()
        process.environment = {**self.environment, **environment}
        return await process.start()

    async def mend(self) -> None:
        """Restores the initial state for the next scenario: every process runs with the deployment's settings."""
        for process in self.processes.values():
            if not process.running:
                process.environment = dict(self.environment)
                await process.start()
            elif process.environment != self.environment:
                await self.restart(process)
            else:
                process.resume()
                await process.ready()

    @asynccontextmanager
    async def linked(self, process: Process, to: str) -> AsyncIterator[Sequence[Proxy]]:
        """Restarts a process with a proxy in front of its "core" (one each), "postgres" or "valkey"."""
        ports = {
            "core": [core.ports["RPC_PORT"] for core in self.cores],
            "postgres": [self.postgres.port],
            "valkey": [self.valkey.port],
        }[to]
        async with between(*ports) as proxies:
            environment = {
                "core": {"CORE_RPC_ADDRESSES": ",".join(f"127.0.0.1:{proxy.port}" for proxy in proxies)},
                "postgres": {"DATABASE_URL": with_port(self.database_url, proxies[0].port)},
                "valkey": {"REDIS_URL": with_port(self.valkey.url, proxies[0].port)},
            }[to]
            await self.restart(process, **environment)
            try:
                yield proxies
            finally:
                for proxy in proxies:
                    proxy.heal()
                await self.restart(process)

    async def stop(self) -> None:
        """Stops every process, the stores last."""
        for process in reversed(list(self.processes.values())):
            await process.stop()
        await self.blocking(self.servers.stop)
        self._thread.shutdown()


@asynccontextmanager
async def deployed(directory: Path, *, together: int = 0) -> AsyncIterator[Deployment]:
    """A deployment for the length of the block."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS)
    async with aiohttp.ClientSession(connector=connector) as http:
        deployment = Deployment(directory, http, together)
        try:
            await deployment.start()
            yield deployment
        finally:
            await deployment.stop()


@contextmanager
def paused(*processes: Process) -> Iterator[None]:
    """Suspends these processes (SIGSTOP) for the length of the block."""
    for process in processes:
        process.pause()
    try:
        yield
    finally:
        for process in processes:
            process.resume()


def with_port(url: str, port: int) -> str:
    """A store's URL with another port."""
    head, _, tail = url.rpartition(":")
    return f"{head}:{port}{tail.lstrip('0123456789')}"
