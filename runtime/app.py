"""The composition root: what each role of a process is made of, how it starts and how it stops.

A stop has an order. First nothing new is accepted, while what was accepted is answered; then the actors
are drained, so that everything they decided is committed and published; then the stores are closed.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import asyncpg
import structlog
from aiojobs import Job

from runtime.actors.engine import Engine
from runtime.background import Background, attempt
from runtime.core import Caller, Core
from runtime.errors import Fault
from runtime.groups import GROUPS
from runtime.http import admin, callback, consumer
from runtime.http import core as core_http
from runtime.http.admission.local_rates import Gate
from runtime.http.auth import revocations
from runtime.http.core_guard import Door
from runtime.http.cors import Cors
from runtime.http.dashboard import serving as dashboard
from runtime.http.docs import pages as docs
from runtime.http.edge import Edge
from runtime.http.login import routes as login
from runtime.http.login import sign_in
from runtime.http.operational import Check, mount_health, mount_metrics
from runtime.http.pages import files as widget
from runtime.http.pages import hosted
from runtime.http.serving import Runner, make_app
from runtime.http.serving import serve as listen
from runtime.jobs import jobs
from runtime.logs import configure_logs
from runtime.metrics import Stores
from runtime.registry import load_plugins
from runtime.rpc.client import RpcCaller
from runtime.rpc.server import RpcServer
from runtime.settings import Settings, SettingsError
from runtime.stores import history
from runtime.stores.database import Database
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.heartbeat import EVERY_SECONDS as PRESENCE_SECONDS
from runtime.stores.heartbeat import Presence
from runtime.stores.keyring import EVERY_SECONDS as KEYS_SECONDS
from runtime.stores.keyring import KeyMissing
from runtime.stores.publisher import Publisher
from runtime.wire import contacts
from sql.migrate import MigrationError

CLOCK_SECONDS: Final = 20.0
"""How often the database's time is read again: clocks drift apart."""

HISTORY: Final = "history"
"""The job that holds the ephemeral store against the database."""

CLOSE_SECONDS: Final = 2.0
"""What is left of DRAIN_SECONDS for closing, once the rest is over."""

log = structlog.get_logger(__name__)


class CannotStart(SystemExit):
    """The process ends with this message, which says what to do."""


@dataclass(slots=True)
class Running:
    """A process that serves. Addresses are those it listens on, also where a port was 0; "" where it does not."""

    settings: Settings
    engine: Engine | None = None
    core: Core | None = None
    caller: Caller | None = None
    core_url: str = ""
    consumer_url: str = ""
    admin_url: str = ""
    rpc_address: str = ""
    metrics_url: str = ""
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    failure: str = ""

    def fail(self, why: str) -> None:
        """Has the process end, saying why."""
        self.failure = self.failure or why
        self.failed.set()


async def serve(
    settings: Settings,
    roles: Sequence[str],
    *,
    stop: asyncio.Event,
    on_ready: Callable[[], Awaitable[None]],
) -> None:
    """Runs `roles` ("core", "rpc", "consumer", "admin", "worker:<group>") until `stop` is set, and drains.

    CannotStart where a store, a port or a plugin is not there. A consumer group that ends by itself, and a schema
    that goes beyond this version, end the process: whoever started it starts it anew, or the version that fits.
    """
    configure_logs(settings)
    async with running(settings, roles) as process:
        _spare_the_collector()
        await on_ready()
        waits = [asyncio.ensure_future(event.wait()) for event in (stop, process.failed)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
    if process.failed.is_set():
        sys.exit(f"tombola: {process.failure}")


def _spare_the_collector() -> None:
    """What is there at the start stays, so it need not be walked again; and a batch makes many objects but no cycles.

    Measured: 54 us of CPU a play with the defaults, 50 us so. Not so rarely that what does get into a cycle stays:
    the oldest generation is looked at each time that 2 million objects have come and not gone. (At 20 million a
    stranger's requests took gigabytes first.) The collection finds it empty, and so makes the collector count from
    nothing: it puts off the oldest one until a quarter as much is new as the last full one left. Nothing is collected
    before: 0.1 s of the start, for the few thousand objects that imports leave behind.
    """
    gc.freeze()
    gc.collect()
    gc.set_threshold(20_000, 10, 10)
    gc.enable()


@asynccontextmanager
async def running(settings: Settings, roles: Sequence[str]) -> AsyncIterator[Running]:
    """The roles, answering for the length of the block, and stopped in order after it."""
    try:
        load_plugins(settings.plugins)
    except RuntimeError as error:
        raise CannotStart(f"tombola: {error}") from error
    process = Running(settings)
    parts = _Parts(settings)
    try:
        await parts.start(process, frozenset(roles))
        yield process
    finally:
        await parts.stop()


class _Parts:
    """What was started, so that it can be stopped in order, however far the start came."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._ephemeral: Ephemeral | None = None
        self._database: Database | None = None
        self._core: Core | None = None
        self._stores: Stores | None = None
        self._runners: list[Runner] = []
        self._closers: list[Callable[[], Awaitable[None]]] = []  # end with the requests
        self._last: list[Callable[[], Awaitable[None]]] = []
        self._background = Background()
        self._edges_jobs = Background()  # They ask Core, so they end before it does.
        self._groups: list[Job[None]] = []
        self._stop_groups = asyncio.Event()

    async def start(self, process: Running, roles: frozenset[str]) -> None:
        settings = self._settings
        groups = sorted(role.partition(":")[2] for role in roles if role.startswith("worker:"))
        here = bool(roles & {"core", "rpc"}) or not settings.core_rpc_addresses
        self._ephemeral = Ephemeral(
            settings.redis_url, cluster=settings.redis_cluster, timeout_seconds=settings.redis_timeout_seconds
        )
        await self._ephemeral.start()
        if here or groups:
            presence = Presence()
            self._database = await _open_database(settings, presence)
            self._leave_at_last("presence", partial(presence.end, self._database))
            publisher = Publisher(self._ephemeral, shards=settings.stream_shards, length_max=settings.stream_maxlen)
            process.engine = Engine(settings, self._database, self._ephemeral, publisher)
            await self._background.repeat("clock", self._database.read_clock, CLOCK_SECONDS)
            go_on = partial(_go_on, process, presence, self._database)
            await self._background.repeat("presence", go_on, PRESENCE_SECONDS)
            await self._join_keys(process.engine)
            follow = partial(history.follow, self._database, self._ephemeral)
            await attempt(HISTORY, follow())
            await self._background.repeat(HISTORY, follow, history.EVERY_SECONDS)
        if here and roles & {"core", "rpc", "consumer", "admin"}:
            assert process.engine is not None
            process.core = process.caller = self._core = Core(process.engine)
            for job in jobs():
                await self._background.repeat(job.name, partial(job.run, process.engine), job.every_seconds)
        elif roles & {"consumer", "admin"}:
            process.caller = remote = RpcCaller(settings.core_rpc_addresses, token=settings.shown_token)
            self._last.append(remote.close)
        self._stores = Stores(self._database, self._ephemeral)
        self._stores.register()
        await self._listen(process, roles, groups)
        if process.caller is not None:
            await self._background.run("contacts", contacts.prepare)
        await self._start_groups(process, groups)

    async def _join_keys(self, engine: Engine) -> None:
        """Uses keys that every other process has, from now until the end."""
        keyring, database = engine.keyring, engine.database
        try:
            await keyring.join(database)
        except KeyMissing as error:
            raise CannotStart(f"tombola: {error}") from None
        except (Fault, asyncpg.PostgresError) as error:
            raise CannotStart(f"tombola: the database cannot be written to ({error}); check DATABASE_URL") from None
        await self._background.repeat("keys", partial(keyring.announce, database), KEYS_SECONDS)
        self._leave_at_last("keys", partial(keyring.leave, database))

    def _leave_at_last(self, what: str, leave: Callable[[], Awaitable[None]]) -> None:
        """Has the process say at its end that it has ended."""

        async def say() -> None:
            try:
                await asyncio.wait_for(leave(), CLOSE_SECONDS / 4)
            except (Fault, asyncpg.PostgresError, TimeoutError) as error:
                log.warning("not_left", what=what, error=str(error))  # It counts as living for a while.

        self._last.append(say)

    async def _listen(self, process: Running, roles: frozenset[str], groups: list[str]) -> None:
        settings = self._settings
        if "core" in roles:
            assert process.core is not None
            app = make_app(body_bytes_max=settings.body_limit_bytes)
            core_http.mount(app, process.core, Door(settings.core_hosts, settings.service_token))
            docs.mount(app, "core")
            mount_health(app, self._checks())
            mount_metrics(app)
            process.core_url = await self._serve(app, settings.core_host, settings.core_port, "CORE_PORT")
        if "rpc" in roles:
            assert process.core is not None
            process.rpc_address = await self._serve_rpc(process.core)
        if "consumer" in roles:
            app = make_app(body_bytes_max=settings.body_limit_bytes)
            edge = await self._edge(process, "consumer")
            consumer.mount(app, edge)
            try:
                login.mount(app, edge)
            except SettingsError as error:
                raise CannotStart(f"tombola: {error}") from None
            docs.mount(app, "consumer", header_fallback=settings.header_fallback)
            widget.mount(app)
            hosted.mount(app, edge)
            mount_health(app, self._checks())
            process.consumer_url = await self._serve(
                app, settings.host, settings.consumer_port, "CONSUMER_PORT", edge.new_gate(), Cors(edge.origins)
            )
        if "admin" in roles:
            app = make_app(body_bytes_max=settings.body_limit_bytes)
            edge = await self._edge(process, "admin")
            admin.mount(app, edge)
            issuer = sign_in.mount(app, edge)
            if issuer is not None:
                self._last.append(issuer.close)
            dashboard.mount(app)
            widget.mount(app)  # The game designer shows it.
            callback.mount(app, edge.caller, default_tenant=settings.default_tenant)
            docs.mount(app, "admin", role_matrix=settings.role_matrix)
            mount_health(app, self._checks())
            process.admin_url = await self._serve(
                app, settings.host, settings.admin_port, "ADMIN_PORT", edge.new_gate()
            )
        # Of its own, so that what watches a process needs no way to anything else of it.
        app = make_app()
        mount_health(app, self._checks())
        mount_metrics(app)
        process.metrics_url = await self._serve(app, settings.core_host, settings.metrics_port, "METRICS_PORT")

    async def _edge(self, process: Running, name: str) -> Edge:
        assert process.caller is not None and self._ephemeral is not None
        edge = Edge.build(self._settings, process.caller, self._ephemeral, staff=name == "admin")
        self._last.append(edge.close)
        await self._edges_jobs.repeat(f"revocations of {name}", edge.revocations.read, revocations.EVERY_SECONDS)
        return edge

    async def _serve(
        self, app: Any, host: str, port: int, variable: str, gate: Gate | None = None, cors: Cors | None = None
    ) -> str:
        """Listens; the URL."""
        every = round(1 / self._settings.log_sample) if self._settings.log_sample else 0
        try:
            runner = await listen(
                app,
                host,
                port,
                shutdown_seconds=self._drain_seconds,
                access_log_every=every,
                gate=gate,
                cors=cors,
                connections_max=self._settings.connections_max,
                proxies=self._settings.trusted_proxies,
            )
        except OSError as error:
            raise CannotStart(_port_message(host, port, variable, error)) from None
        self._runners.append(runner)
        address = runner.addresses[0]
        return f"http://{_host(address[0])}:{address[1]}"

    async def _serve_rpc(self, core: Core) -> str:
        host, port = self._settings.core_host, self._settings.rpc_port
        server = RpcServer(core, self._settings.service_token)
        try:
            address = await server.start(host, port)
        except OSError as error:
            raise CannotStart(_port_message(host, port, "RPC_PORT", error)) from None
        self._closers.append(server.stop)
        return address

    def _checks(self) -> dict[str, Check]:
        assert self._ephemeral is not None
        checks: dict[str, Check] = {}
        if self._database is not None:
            checks["database"] = self._database.ping
        return {**checks, "redis": self._ephemeral.ping}

    async def _start_groups(self, process: Running, groups: list[str]) -> None:
        if not groups:
            return
        engine = process.engine
        assert engine is not None

        async def run(name: str) -> None:
            try:
                await GROUPS[name].load()(engine, self._stop_groups)  # late: an edge's process needs none of it
            finally:
                if not self._stop_groups.is_set():
                    process.fail("a consumer group ended; its error is in the log")

        self._groups = [await self._background.run(f"group {name}", partial(run, name)) for name in groups]

    # -- the stop ----------------------------------------------------------------------------

    @property
    def _drain_seconds(self) -> float:
        return max(0.0, self._settings.drain_seconds - CLOSE_SECONDS)

    async def stop(self) -> None:
        """Ends everything, within DRAIN_SECONDS."""
        ends = time.monotonic() + self._drain_seconds
        self._stop_groups.set()
        stops = [runner.cleanup() for runner in self._runners] + [close() for close in self._closers]
        await _within(ends, "requests", asyncio.gather(*stops, return_exceptions=True))
        await self._edges_jobs.close()
        if self._core is not None:
            await _within(ends, "actors", self._core.drain())
            await _within(ends, "starts", self._core.engine.starts.keep())
        if self._groups:
            await _within(ends, "consumer groups", asyncio.gather(*(group.wait() for group in self._groups)))
        await self._background.close()
        for close in self._last:
            await close()
        if self._stores is not None:
            self._stores.unregister()
        if self._database is not None:
            await self._database.close()
        if self._ephemeral is not None:
            await self._ephemeral.close()


async def _within(ends: float, what: str, work: Awaitable[Any]) -> None:
    """Waits for work until `ends` (monotonic seconds); what is not over then is given up, and said so."""
    try:
        await asyncio.wait_for(work, max(0.01, ends - time.monotonic()))
    except TimeoutError:
        log.warning("drain_gave_up", what=what)


async def _open_database(settings: Settings, presence: Presence) -> Database:
    database = Database(
        settings.database_url,
        size=settings.database_pool_size,
        acquire_seconds=settings.database_acquire_timeout_seconds,
        statement_seconds=settings.database_statement_timeout_seconds,
    )
    try:
        await database.start()
        missing = await presence.begin(database)
    except (Fault, OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError) as error:
        cause = error.__cause__ or error
        raise CannotStart(
            f"tombola: the database cannot be reached ({type(cause).__name__}: {cause}); check DATABASE_URL"
        ) from None
    except MigrationError as error:
        raise CannotStart(f"tombola: {error}") from None
    if missing:
        await database.close()
        raise CannotStart(f"tombola: the database lacks {', '.join(missing)}; run `tombola migrate` first")
    return database


async def _go_on(process: Running, presence: Presence, database: Database) -> None:
    """Says that the process lives; ends it where it can no longer go on beside what was migrated."""
    try:
        await presence.go_on(database)
    except MigrationError as error:
        process.fail(str(error))


def _port_message(host: str, port: int, variable: str, error: OSError) -> str:
    return f"tombola: cannot listen on {host}:{port} ({error.strerror or error}); free it, or set {variable}"


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
