"""What is certified: both stores, two Cores, the edges and the workers, each a process, and a receiver of webhooks.

All of it listens on 127.0.0.1, on ports that were free, in a directory of its own. PostgreSQL has fsync on.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp

from ops.certification.node import Node, merged
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
ENVIRONMENT: Final = {
    # Rates are counted as ever, only so high that they refuse nobody but in the row that is about them.
    **{f"RATE_{who}_{what}": HIGH for who in ("PLAYER", "IP", "LOGIN", "GUEST") for what in ("PER_SECOND", "BURST")},
    "DEVELOPMENT": "on",
    "OUTBOUND_ALLOW_CIDRS": "127.0.0.0/8",
    "CORE_WORKERS": "off",
    "DATABASE_POOL_SIZE": str(CONNECTIONS),
    "LOG_LEVEL": "warning",
}


@dataclass
class Stack:
    """Everything that runs on `directory`. Its lists are in the order in which it was started."""

    directory: Path
    http: aiohttp.ClientSession
    servers: EmbeddedServers = field(init=False)
    environment: dict[str, str] = field(init=False)
    nodes: dict[str, Node] = field(default_factory=dict)
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

    @property
    def cores(self) -> list[Node]:
        return self._of("core")

    @property
    def consumers(self) -> list[Node]:
        return self._of("consumer")

    @property
    def admins(self) -> list[Node]:
        return self._of("admin")

    @property
    def workers(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.role.startswith("worker")]

    def worker(self, group: str) -> Node:
        return self.nodes[group]

    def _of(self, role: str) -> list[Node]:
        return [node for node in self.nodes.values() if node.role == role]

    @property
    def settings(self) -> Settings:
        """What its processes are told, for who mints tokens or reads the stores here."""
        return Settings.from_env({**self.environment, "CORE_RPC_ADDRESSES": ""})

    # -- its life --------------------------------------------------------------------------------

    async def blocking(self, work: Callable[..., T], *args: Any) -> T:
        """Does what blocks (starting, stopping a store) while the load goes on.

        In one thread that lives as long as the stack: a store is told to stop when the thread that started it ends.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    async def start(self) -> None:
        """Returns once all of it is ready."""
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
        cores = [self.add(f"core-{nth}", "core") for nth in (1, 2)]
        self.environment["CORE_RPC_ADDRESSES"] = ",".join(core.rpc_address for core in cores)
        consumer, admin = self.add("consumer-1", "consumer"), self.add("admin-1", "admin")
        # Workflows are told to call back there.
        self.environment["CALLBACK_BASE_URL"] = admin.admin_url
        for group in WORKERS:
            self.add(group, f"worker {group}")
        # One after the other: on a machine of few cores they would all be slow together.
        for node in (*cores, consumer, admin, *self.workers):
            node.environment = merged(self.environment, node.environment)
            await node.start(self.http)

    def add(self, name: str, role: str, **environment: str) -> Node:
        """A further process, not yet started. environment: its own settings, before the stack's."""
        own = merged(getattr(self, "environment", {}), environment)
        node = self.nodes[name] = Node(name, role, self.directory / f"{name}.log", own)
        return node

    async def remove(self, node: Node) -> None:
        """Stops a process that was added, and forgets it."""
        await node.stop()
        del self.nodes[node.name]

    async def restart(self, node: Node, **environment: str) -> float:
        """Stops a process and starts it with these settings in place of the stack's; seconds until it was ready."""
        await node.stop()
        node.environment = merged(self.environment, environment)
        return await node.start(self.http)

    async def mend(self) -> None:
        """Brings back whatever does not run, or has settings of its own: each row begins with a whole stack."""
        for node in self.nodes.values():
            if not node.running:
                node.environment = dict(self.environment)
                await node.start(self.http)
            elif node.environment != self.environment:
                await self.restart(node)
            else:
                node.resume()
                await node.ready(self.http)

    async def stop(self) -> None:
        """Ends everything, the stores last."""
        for node in reversed(list(self.nodes.values())):
            await node.stop()
        await self.blocking(self.servers.stop)
        self._thread.shutdown()


@asynccontextmanager
async def standing(directory: Path) -> AsyncIterator[Stack]:
    """A stack for the length of the block."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as http:
        stack = Stack(directory, http)
        try:
            await stack.start()
            yield stack
        finally:
            await stack.stop()
