"""Several Postgres: a tenant lives wholly in one of them.

DATABASE_URL is the home database, DATABASES names further ones. The directory is the table `tenant_databases` at home;
a tenant without a row lives at home. Each process caches it and follows its changes, so routing costs no round trip.

A statement goes to the database of the request's tenant (`trace.tenant`); without one to the chosen database (`at`, for
work that runs once per database or names its tenant); otherwise home. Nothing joins or locks across databases.

A process with one database has a plain `Database` and does none of this.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

import asyncpg
import structlog

import sql
from runtime import trace
from runtime.settings import Settings
from runtime.stores.clock import Clock
from runtime.stores.database import HOME, Database, StoreUnavailable, current
from runtime.stores.replica import Replica
from sql.migrate import NO_TENANT

T = TypeVar("T")

FOLLOW_SECONDS: Final = 0.25
"""How often a process reads the directory's changes."""

LOOK_BACK_SECONDS: Final = 60.0
"""Changes of so long ago are read again, since a row is visible only once its transaction has committed."""

EACH_SECONDS: Final = 0.5
"""How long a request that concerns every database waits for each."""

START: Final = datetime(1970, 1, 1, tzinfo=UTC)

_SQL: Final = sql.load("directory")

log = structlog.get_logger(__name__)


class TenantMoved(StoreUnavailable):
    """The tenant was paused or moved before the statement was sent."""

    def __init__(self) -> None:
        super().__init__("the tenant is being moved to another database; try again", sent=False)


class Databases(Database):
    """Routes each statement to one of `parts`: home, then the others."""

    def __init__(self, url: str, others: Iterable[tuple[str, str]], **limits: Any) -> None:
        super().__init__(url, **limits)
        self.home = Database(url, **limits)
        self.others = [Database(address, name=name, **limits) for name, address in others]
        self._parts = (self.home, *self.others)
        self._by_name: dict[str, Database] = {part.name: part for part in self._parts}
        self._places: dict[str, Database] = {}
        self._since = START
        self._paused = _Paused("", name="paused", size=1, acquire_seconds=1, statement_seconds=1)
        self.process_id = ""
        """This process in `processes`: it acknowledges there what it has read of the directory."""
        self._acknowledged = False
        self.clock = _RoutedClock(self)
        self.on_other_history.append(self._read_all_again)
        for part in self._parts:
            part.on_other_history = self.on_other_history
            part._patience = self._patience

    # -- routing -----------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[Database, ...]:
        return self._parts

    def here(self) -> Database:
        if tenant_id := trace.tenant.get():
            return self._places.get(tenant_id, self.home)
        place = current()
        return self.of(place) if isinstance(place, str) else place

    def of(self, tenant_id: str) -> Database:
        return self._places.get(tenant_id, self.home)

    def route(self, tenant_id: str) -> Database:
        return _Route(self, tenant_id)

    def connection(self) -> AbstractAsyncContextManager[asyncpg.Connection]:
        return _checked(self.here)

    # -- the directory -----------------------------------------------------------------------

    def place(self, tenant_id: str, name: str, *, paused: bool = False) -> None:
        """Routes a tenant, as its row in the directory says. paused: it is being moved and gets UNAVAILABLE."""
        if paused:
            self._places[tenant_id] = self._paused
            return
        if (part := self._by_name.get(name)) is None:
            log.error("database_unknown", database=name, tenant=tenant_id)
            part = self._by_name[name] = _Unknown("", name=name, size=1, acquire_seconds=1, statement_seconds=1)
        self._places[tenant_id] = part

    async def follow(self) -> None:
        """Reads the changes of the directory."""
        since = self._since
        rows = await self.home.fetch(_SQL["changes"], since, LOOK_BACK_SECONDS)
        if expired := [row["tenant_id"] for row in rows if row["expired"]]:
            for tenant_id in expired:  # First: otherwise a late switch could follow a write to the old database.
                await self.home.execute(_SQL["end_pause"], tenant_id)
            rows = await self.home.fetch(_SQL["changes"], since, LOOK_BACK_SECONDS)
        for row in rows:
            self.place(row["tenant_id"], row["database"], paused=row["paused"])
            self._since = max(self._since, row["changed_at"])
        if self.process_id and (self._since > since or not self._acknowledged):
            await self.home.execute(_SQL["acknowledge"], NO_TENANT, self.process_id, self._since)
            self._acknowledged = True

    def _read_all_again(self) -> None:
        self._since = START

    # -- all of them -------------------------------------------------------------------------

    @property
    def busy(self) -> int:
        return sum(part.busy for part in self._parts)

    async def start(self) -> None:
        """Connects to each database. One that does not answer, other than home, is only logged."""
        await self.home.start()
        for other in self.others:
            try:
                await other.start()
            except StoreUnavailable:
                other.answers = False
                log.error("database_does_not_answer", database=other.name)

    async def close(self) -> None:
        await asyncio.gather(*(part.close() for part in self._parts))

    async def read_clock(self) -> None:
        await self.here().read_clock()

    async def ping(self, timeout_seconds: float = 0.8) -> bool:
        """Whether any database answers: the process can then serve its tenants."""
        return any(await asyncio.gather(*(part.ping(timeout_seconds) for part in self._parts)))


async def everywhere(
    database: Database, work: Callable[[Database], Awaitable[T]], *, seconds: float
) -> list[tuple[Database, T | StoreUnavailable]]:
    """Runs `work` on each database at once, and returns the results.

    With several databases, a failure or timeout (`seconds`) of one is returned as its result; StoreUnavailable if all
    fail. With one database there is no time limit, and its error is raised.
    """
    if len(database.parts) == 1:
        return [(part, await work(part)) for part in database.parts]

    async def bounded(part: Database) -> T | StoreUnavailable:
        try:
            async with asyncio.timeout(seconds):
                return await work(part)
        except TimeoutError:
            return StoreUnavailable(f"the database {part.name} did not answer in time", sent=True)
        except StoreUnavailable as error:
            return error

    found = await asyncio.gather(*(bounded(part) for part in database.parts))
    errors = [one for one in found if isinstance(one, StoreUnavailable)]
    if len(errors) == len(found):
        raise errors[0]
    return list(zip(database.parts, found, strict=True))


@asynccontextmanager
async def _checked(place: Callable[[], Database]) -> AsyncIterator[asyncpg.Connection]:
    """Borrows a connection of the place. Raises TenantMoved if it is another one after the wait."""
    here = place()
    async with here.connection() as connection:
        if place() is not here:  # A move does not wait for statements that wait for a connection.
            raise TenantMoved
        yield connection


class _Route(Database):
    """The database of a tenant, whichever it is at a statement."""

    def __init__(self, databases: Databases, tenant_id: str) -> None:
        # Without super().__init__(): a route borrows connections of its place, so a pool made for each would be idle.
        self.name, self.clock, self.round_trips = "route", databases.clock, 0
        self._place = partial(databases.of, tenant_id)

    def here(self) -> Database:
        return self._place()

    def connection(self) -> AbstractAsyncContextManager[asyncpg.Connection]:
        return _checked(self._place)


class _Paused(Database):
    """The place of a tenant during the pause of its move."""

    def connection(self) -> AbstractAsyncContextManager[asyncpg.Connection]:
        raise TenantMoved


class _Unknown(Database):
    """A database that the directory names and DATABASES lacks."""

    def connection(self) -> AbstractAsyncContextManager[asyncpg.Connection]:
        raise StoreUnavailable(f"DATABASES of this process lacks {self.name}", sent=False)


class _RoutedClock(Clock):
    """The time of the database that statements go to now: two servers' clocks differ."""

    __slots__ = ("_database",)

    def __init__(self, database: Databases) -> None:
        super().__init__()
        self._database = database

    def sync(self, database_seconds: float, sent: float, received: float) -> None:
        self._database.here().clock.sync(database_seconds, sent, received)

    def now(self) -> float:
        return self._database.here().clock.now()


def database_of(settings: Settings, size: int = 0) -> Database:
    """The settings' databases, not connected yet. size: of each pool; default DATABASE_POOL_SIZE."""
    limits: dict[str, Any] = {
        "size": size or settings.database_pool_size,
        "acquire_seconds": settings.database_acquire_timeout_seconds,
        "statement_seconds": settings.database_statement_timeout_seconds,
    }
    if settings.databases:
        database: Database = Databases(settings.database_url, settings.databases, **limits)
    else:
        database = Database(settings.database_url, **limits)
    replicas = {HOME: settings.database_read_url, **dict(settings.databases_read)}
    for part in database.parts:
        if url := replicas.get(part.name):
            part.replica = Replica(part, url, **limits)
    return database


async def read_directory(database: Database) -> None:
    """Reads which tenants live where. Raises DatabasesMissing if some live in a database that DATABASES lacks."""
    known = {part.name for part in database.parts}
    counts = await database.parts[0].fetch(_SQL["counts"])
    if missing := [f"{row['database']} ({row['tenants']})" for row in counts if row["database"] not in known]:
        raise DatabasesMissing(f"DATABASES lacks databases in which tenants live: {', '.join(missing)}")
    if isinstance(database, Databases):
        await database.follow()


class DatabasesMissing(RuntimeError):
    """The directory names databases that DATABASES lacks."""


@asynccontextmanager
async def opened(settings: Settings, *, size: int) -> AsyncIterator[Database]:
    """Opens the settings' databases for the duration of the block."""
    database = database_of(settings, size)
    try:
        await database.start()
        await read_directory(database)
        yield database
    finally:
        await database.close()
