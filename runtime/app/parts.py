"""Starts and stops the parts of a process: stores, keys, leases, background jobs, ports and consumer groups.

A stop has a fixed order. First the process accepts nothing new and answers what it has accepted; then the actors are
drained, so that all decisions are committed and published; then the stores are closed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import asyncpg
import structlog
from aiojobs import Job

from runtime import spans
from runtime.actors.engine import Engine
from runtime.app.listeners import Listeners
from runtime.app.process import CLOSE_SECONDS, CannotStart, Running
from runtime.background import Background, Work, attempt
from runtime.core import Core
from runtime.errors import Fault
from runtime.groups import GROUPS
from runtime.http.operational import Check
from runtime.inherited import Inherited
from runtime.jobs import jobs
from runtime.metrics import ROLES, Stores
from runtime.rpc.client import RpcCaller
from runtime.stores import history, replica
from runtime.stores.database import HOME, Database, StoreUnavailable, at
from runtime.stores.databases import FOLLOW_SECONDS, Databases, DatabasesMissing, database_of, read_directory
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.heartbeat import EVERY_SECONDS as PRESENCE_SECONDS
from runtime.stores.heartbeat import Presence
from runtime.stores.keyring import EVERY_SECONDS as KEYS_SECONDS
from runtime.stores.keyring import KeyMissing
from runtime.stores.leases import RENEW_SECONDS
from runtime.stores.publisher import Publisher
from runtime.wire import contacts
from sql.migrate import MigrationError
from sql.pooler import PoolerUnsuitable

T = TypeVar("T")

CLOCK_SECONDS: Final = 20.0
"""How often the database's time is read again, since clocks drift."""

PING_SECONDS: Final = 5.0
"""How often each of several databases is asked whether it answers."""

HISTORY: Final = "history"
"""The job that compares the ephemeral store with the database."""

REPLICA: Final = "replica"
"""The job that measures a read replica's lag."""

START_SECONDS: Final = 10.0
"""How long a start waits for a database that is slow to answer. One that refuses ends it at once."""

_NOT_REACHED: Final = (Fault, OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError)

log = structlog.get_logger(__name__)


class Parts:
    """The started parts, so that they can be stopped in order after any partial start."""

    def __init__(self, process: Running, inherited: Inherited | None) -> None:
        self._process = process
        self._settings = process.settings
        self._inherited = inherited
        self._ephemeral: Ephemeral | None = None
        self._database: Database | None = None
        self._presences: dict[str, Presence] = {}
        self._core: Core | None = None
        self._stores: Stores | None = None
        self._listeners: Listeners | None = None
        self._last: list[Callable[[], Awaitable[None]]] = []
        self._background = Background()
        self._groups: list[Job[None]] = []
        self._stop_groups = asyncio.Event()

    async def start(self, roles: frozenset[str]) -> None:
        process, settings = self._process, self._settings
        groups = sorted(role.partition(":")[2] for role in roles if role.startswith("worker:"))
        here = bool(roles & {"core", "rpc"}) or not settings.core_rpc_addresses
        self._ephemeral = Ephemeral(
            settings.redis_url, cluster=settings.redis_cluster, timeout_seconds=settings.redis_timeout_seconds
        )
        await self._ephemeral.start()
        if here or groups:
            database = await self._open_database()
            publisher = Publisher(self._ephemeral, shards=settings.stream_shards, length_max=settings.stream_maxlen)
            process.engine = Engine(settings, database, self._ephemeral, publisher)
            if isinstance(database, Databases):
                await self._background.repeat("directory", database.follow, FOLLOW_SECONDS)
                await self._background.repeat("databases", database.ping, PING_SECONDS)
            await self._join_keys(process.engine)
            for part in database.parts:
                await self._keep(part, database, process.engine)
        if here and roles & {"core", "rpc", "consumer", "admin"}:
            assert process.engine is not None
            process.core = self._core = Core(process.engine)
            process.caller = spans.of_calls(self._core)
            for job in jobs():
                work: Work = partial(job.run, process.engine)
                if job.leased:
                    work = partial(process.engine.leases.run, job.name, work)
                places: Sequence[Database | None] = process.engine.database.parts if job.leased else (None,)
                for place in places:
                    await self._repeat(place, job.name, work, job.every_seconds)
        elif roles & {"consumer", "admin"}:
            remote = RpcCaller(settings.core_rpc_addresses, token=settings.outgoing_service_token)
            process.caller = spans.of_calls(remote, remote=True)
            self._last.append(remote.close)
        self._stores = Stores(self._database, self._ephemeral)
        self._stores.register()
        self._listeners = Listeners(process, self._inherited, self._ephemeral, self._checks())
        await self._listeners.open(roles)
        if process.caller is not None:
            await self._background.run("contacts", contacts.prepare)
        await self._start_groups(groups)
        for role in roles:
            ROLES.labels(role).set(1)

    async def _open_database(self) -> Database:
        """Connects to the databases and registers this process in each."""
        database = database_of(self._settings)
        try:
            await _patiently(database.start)
        except _NOT_REACHED as error:
            raise _not_reached(error) from None
        except PoolerUnsuitable as error:
            raise CannotStart(f"tombola: {error}") from None
        self._database = database
        for part in database.parts:
            presence = self._presences[part.name] = Presence()
            begin = partial(presence.begin, part)
            try:
                if missing := await (_patiently(begin) if part.name == HOME else begin()):
                    which = "the database" if part.name == HOME else f"the database {part.name}"
                    raise CannotStart(f"tombola: {which} lacks {', '.join(missing)}; run `tombola migrate` first")
                if isinstance(database, Databases) and part.name == HOME:
                    database.process_id = presence.id
            except _NOT_REACHED as error:
                if part.name == HOME:
                    raise _not_reached(error) from None
                # Its tenants wait until it is back; `_beat` registers this process then.
                log.error("database_not_reached", database=part.name, error=str(error))
            except MigrationError as error:
                raise CannotStart(f"tombola: {error}") from None
        try:
            await _patiently(partial(read_directory, database))
        except _NOT_REACHED as error:
            raise _not_reached(error) from None
        except DatabasesMissing as error:
            raise CannotStart(f"tombola: {error}") from None
        return database

    async def _keep(self, part: Database, database: Database, engine: Engine) -> None:
        """Starts what each database needs: clock, heartbeat, leases, and the check of its history."""
        assert self._ephemeral is not None
        presence = self._presences[part.name]
        self._delete_row_on_exit("presence", partial(presence.end, part))
        self._delete_row_on_exit("leases", partial(_run_at, part, engine.leases.release))
        follow: Work = partial(history.follow, part, self._ephemeral)
        if len(database.parts) > 1:
            name = "" if part.name == HOME else part.name
            follow = partial(history.follow, part, self._ephemeral, name=name, lives_here=database.lives_here)
        await attempt(HISTORY, _run_at(part, follow))
        for job, work, seconds in (
            ("clock", part.read_clock, CLOCK_SECONDS),
            ("presence", partial(_beat, self._process, presence, part), PRESENCE_SECONDS),
            ("leases", engine.leases.renew, RENEW_SECONDS),
            (HISTORY, follow, history.EVERY_SECONDS),
        ):
            await self._repeat(part, job, work, seconds)
        if part.pooled:
            # The pooler replaces the connections of a failed database; ours, which compare it when they open, stay.
            await self._repeat(part, HISTORY, part.compare_history, history.EVERY_SECONDS)
        if part.replica is not None:
            await attempt(REPLICA, part.replica.measure())
            await self._repeat(part, REPLICA, part.replica.measure, replica.EVERY_SECONDS)

    async def _repeat(self, part: Database | None, name: str, work: Work, every_seconds: float) -> None:
        """Repeats a job, in this database if it is one of several."""
        if part is not None:
            name = name if part.name == HOME else f"{name} in {part.name}"
            work = partial(_run_at, part, work)
        await self._background.repeat(name, work, every_seconds)

    async def _join_keys(self, engine: Engine) -> None:
        """Joins the key ring: uses only keys that every other process has."""
        keyring, database = engine.keyring, engine.database
        try:
            await keyring.join(database)
        except KeyMissing as error:
            raise CannotStart(f"tombola: {error}") from None
        except (Fault, asyncpg.PostgresError) as error:
            raise CannotStart(f"tombola: the database cannot be written to ({error}); check DATABASE_URL") from None
        await self._background.repeat("keys", partial(keyring.announce, database), KEYS_SECONDS)
        self._delete_row_on_exit("keys", partial(keyring.leave, database))

    def _delete_row_on_exit(self, what: str, leave: Callable[[], Awaitable[None]]) -> None:
        """Registers a row to delete when the process ends."""

        async def delete_row() -> None:
            try:
                await asyncio.wait_for(leave(), CLOSE_SECONDS / 4)
            except (Fault, asyncpg.PostgresError, TimeoutError) as error:
                log.warning("not_left", what=what, error=str(error))  # It counts as live until its timeout.

        self._last.append(delete_row)

    def _checks(self) -> dict[str, Check]:
        """The readiness checks: the stores that this process uses."""
        assert self._ephemeral is not None
        checks: dict[str, Check] = {}
        if self._database is not None:
            checks["database"] = self._database.ping
        return {**checks, "redis": self._ephemeral.ping}

    async def _start_groups(self, groups: list[str]) -> None:
        if not groups:
            return
        process, engine = self._process, self._process.engine
        assert engine is not None

        async def run(name: str) -> None:
            try:
                await GROUPS[name].load()(engine, self._stop_groups)  # Imported late: an edge process needs none of it.
            finally:
                if not self._stop_groups.is_set():
                    process.fail("a consumer group ended; its error is in the log")

        self._groups = [await self._background.run(f"group {name}", partial(run, name)) for name in groups]

    async def stop(self) -> None:
        """Stops everything within DRAIN_SECONDS."""
        ends = time.monotonic() + self._process.drain_seconds
        self._stop_groups.set()
        if self._listeners is not None:
            await _within(ends, "requests", self._listeners.stop_accepting())
            await self._listeners.stop_jobs()
        if self._core is not None:
            await _within(ends, "actors", self._core.drain())
            await _within(ends, "starts", self._core.engine.starts.write())
        if self._groups:
            await _within(ends, "consumer groups", asyncio.gather(*(group.wait() for group in self._groups)))
        await self._background.close()
        for close in self._last:
            await close()
        if self._listeners is not None:
            await self._listeners.close()
        if self._stores is not None:
            self._stores.unregister()
        if self._database is not None:
            await self._database.close()
        if self._ephemeral is not None:
            await self._ephemeral.close()


async def _within(ends: float, what: str, work: Awaitable[Any]) -> None:
    """Waits for work until `ends` (monotonic seconds); logs and abandons unfinished work."""
    try:
        await asyncio.wait_for(work, max(0.01, ends - time.monotonic()))
    except TimeoutError:
        log.warning("drain_gave_up", what=what)


async def _patiently(step: Callable[[], Awaitable[T]]) -> T:
    """The step's result. Repeats it while the database is slow to answer, for START_SECONDS."""
    ends = time.monotonic() + START_SECONDS
    while True:
        try:
            return await step()
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, TimeoutError) or time.monotonic() >= ends:
                raise


def _not_reached(error: BaseException) -> CannotStart:
    cause = error.__cause__ or error
    return CannotStart(f"tombola: the database cannot be reached ({type(cause).__name__}: {cause}); check DATABASE_URL")


async def _run_at(part: Database, work: Work) -> None:
    await at(part, work())


async def _beat(process: Running, presence: Presence, database: Database) -> None:
    """Writes a heartbeat; ends the process if a migration has made its version incompatible."""
    try:
        await presence.beat(database)
    except MigrationError as error:
        process.fail(str(error))
