"""The durable store (Postgres): a connection pool with a timeout on every wait.

Failures become a `Fault` UNAVAILABLE (the store cannot be reached, is too slow, or has no free connection; the client
may retry), or the database's own error for the caller to handle (a guard that refused, a unique violation).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar

import asyncpg
import structlog

from runtime import trace
from runtime.errors import Fault, Status
from runtime.metrics import Counts, Histogram
from runtime.stores import history
from runtime.stores.clock import Clock
from runtime.stores.history import History
from runtime.stores.tenant_quota import TenantQuotas
from sql import pooler
from sql.connections import LOST, in_transaction, prepare, session_settings, throw_away
from sql.guards import guard_of
from sql.hosts import Hosts

if TYPE_CHECKING:
    from runtime.stores.replica import Replica

T = TypeVar("T")
Method = Callable[..., Awaitable[Any]]
Check = Callable[[], None] | None

ATTEMPTS_MAX: Final = 5
"""Attempts for work that is rolled back by a deadlock or serialisation failure."""

RACE_PAUSE_SECONDS: Final = 0.01
"""The first pause between these attempts; it doubles each time."""

OPENED_AT_START: Final = 3

RETIRED: Final = "TB002"
"""SQLSTATE of the schema's lock_key(): this process encrypts with a retired key."""

GUARDS: Final = (
    *("balance", "catalog", "codes", "day", "grant", "guest", "plays", "prize_day", "prize_player"),
    *("reward", "session", "standing", "stock", "turns", "entry"),
)
"""Every guard of sql/."""

GUARD_REFUSALS: Final = Counts(
    "tombola_guard_refusals", "Statements undone by a guard, by guard.", ["guard"], [(guard,) for guard in GUARDS]
)
POOL_WAITS: Final = Histogram("tombola_pool_wait_seconds", "Waits for a database connection; free ones cost none.")
_POOL_WAITS: Final = POOL_WAITS.series()


class StoreUnavailable(Fault):
    """The durable store failed or did not answer in time. sent: whether the work may have committed."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(Status.UNAVAILABLE, "STORE_UNAVAILABLE", message, retry_after_seconds=1)
        self.sent = sent


class Guarded(Exception):
    """A statement's guard refused, and the whole statement was rolled back. `guard` names the guard."""

    def __init__(self, guard: str) -> None:
        super().__init__(guard)
        self.guard = guard


log = structlog.get_logger(__name__)

_NO_ROOM = (asyncpg.InsufficientResourcesError, asyncpg.ReadOnlySQLTransactionError)
"""The server accepts no writes: out of disk, memory or connections, or a standby. The work was rolled back."""

_RACE_LOST = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)

HOME: Final = "home"
"""The name of the database at DATABASE_URL."""

_chosen: ContextVar[Database | str] = ContextVar("database", default="")


async def at(place: Database | str, work: Awaitable[T]) -> T:
    """Awaits `work`. Its statements without `trace.tenant` go to `place`: a database, or that of a tenant by id."""
    with chosen(place):
        return await work


@contextmanager
def chosen(place: Database | str) -> Iterator[None]:
    """As `at`, for the block."""
    before = _chosen.set(place)
    try:
        yield
    finally:
        _chosen.reset(before)


def current() -> Database | str:
    """The chosen database, or the id of the tenant that determines it; "": neither."""
    return _chosen.get()


class Database:
    """A pool of at most `size` connections to one Postgres, opened on demand.

    acquire_seconds bounds the wait for a connection, statement_seconds each statement. Not asyncpg's pool, in which
    latecomers overtake waiters and which makes a task and two timers for each use: 1.4 times the CPU of a commit.
    """

    def __init__(
        self,
        url: str,
        *,
        size: int,
        acquire_seconds: float,
        statement_seconds: float,
        clock: Clock | None = None,
        name: str = HOME,
    ) -> None:
        self.name = name
        self.clock = clock or Clock()
        self.answers = True
        """The result of the last `ping` or `read_clock`."""
        self.round_trips = 0
        self.size = size
        self._hosts = Hosts(url)
        self.acquire_seconds = acquire_seconds
        self.statement_seconds = statement_seconds
        self._session_settings = session_settings(statement_seconds)
        self._quotas = TenantQuotas(size, quiet_seconds=2 * statement_seconds)
        self._slots = asyncio.Semaphore(size)  # First come, first served.
        self._idle: list[asyncpg.Connection] = []
        self._busy: set[asyncpg.Connection] = set()
        self._patience: dict[asyncio.Task[Any] | None, float] = {}  # Seconds left for tasks in `share_acquire_limit`.
        self.on_other_history: list[Callable[[], None]] = []
        """Called before a statement reaches a restored or promoted database: clear all caches."""
        self._history: History | None = None
        self.replica: Replica | None = None
        self.pooled = False
        """Whether a connection pooler answers at the URL."""

    @property
    def busy(self) -> int:
        """Connections in use."""
        return len(self._busy)

    @property
    def parts(self) -> tuple[Database, ...]:
        """Each database: this one alone, unless it is a `Databases`."""
        return (self,)

    def here(self) -> Database:
        """The database that a statement goes to now."""
        return self

    def of(self, tenant_id: str) -> Database:
        """The database of a tenant."""
        return self

    def route(self, tenant_id: str) -> Database:
        """As `of`, for statements: refused if the tenant was moved while the statement waited for a connection."""
        return self

    def place(self, tenant_id: str, name: str) -> None:
        """Routes a tenant to the database of this name, as its row in the directory says."""
        assert name == self.name, "there is one database"

    def lives_here(self, tenant_id: str) -> bool:
        """Whether the database that statements go to now is the tenant's; '' belongs to every database."""
        return not tenant_id or self.of(tenant_id) is self.here()

    async def tenants(self, query: str, *args: Any) -> list[str]:
        """The column tenant_id of a statement across tenants. A copy of a tenant that lives elsewhere is left out."""
        return [row["tenant_id"] for row in await self.fetch(query, *args) if self.lives_here(row["tenant_id"])]

    async def start(self) -> None:
        """Opens connections for the first requests, and reads the clock. A wrong URL fails. Raises PoolerUnsuitable."""
        try:
            async with AsyncExitStack() as opened:
                for _ in range(min(OPENED_AT_START, self.size)):
                    connection = await opened.enter_async_context(self.connection())
                self.pooled = await pooler.is_pooled(connection)
                if self.pooled:
                    await pooler.refuse_unsuitable(connection, self._open)
        except StoreUnavailable as error:
            pooler.refuse_startup(error.__cause__)
            raise
        await self.read_clock()

    async def close(self) -> None:
        """Waits for running statements, at most one statement timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.statement_seconds + 1):
                for _ in range(self.size):
                    await self._slots.acquire()
                while self._idle:
                    await self._idle.pop().close()
        for connection in [*self._idle, *self._busy]:
            throw_away(connection)
        if self.replica is not None:
            await self.replica.close()

    def connection(self) -> AbstractAsyncContextManager[asyncpg.Connection]:
        """Borrows a connection, within the quota of `trace.tenant`.

        A connection that timed out is closed, not returned to the pool.
        """
        return self._borrow()

    @asynccontextmanager
    async def _borrow(self) -> AsyncIterator[asyncpg.Connection]:
        tenant_id = trace.tenant.get()
        connection, blocked = await self._acquire(tenant_id)
        try:
            yield connection
        except LOST as error:
            # A frozen backend would occupy its slot for ever: close the socket without a goodbye.
            throw_away(connection)
            if isinstance(error, TimeoutError):
                self._quotas.record_timeout(tenant_id)
            raise StoreUnavailable("the database did not answer in time", sent=True) from error
        except asyncio.CancelledError:
            # The caller has timed out.
            throw_away(connection)
            self._quotas.record_timeout(tenant_id)
            raise
        except _NO_ROOM as error:
            # The address may point to another server by now.
            throw_away(connection)
            raise StoreUnavailable("the database accepts no writes", sent=False) from error
        except Exception as error:
            self._quotas.record_answer(tenant_id)  # A refusal is an answer as well.
            if isinstance(error, asyncpg.PostgresError) and error.sqlstate == RETIRED:
                raise StoreUnavailable("this process uses a retired key; try again", sent=False) from error
            raise
        else:
            self._quotas.record_answer(tenant_id)
        finally:
            self._release(connection)
            self._quotas.leave(tenant_id, blocked)

    @contextmanager
    def share_acquire_limit(self) -> Iterator[None]:
        """Applies one acquire_seconds limit to all of this task's waits for connections, not one to each."""
        task = asyncio.current_task()
        assert task is not None
        self._patience[task] = self.acquire_seconds
        try:
            yield
        finally:
            del self._patience[task]

    async def _acquire(self, tenant_id: str) -> tuple[asyncpg.Connection, bool]:
        """A connection, and the result of entering the tenant's quota."""
        try:
            if self._slots.locked() or not self._idle or self._quotas.waits(tenant_id):
                return await self._wait_for_connection(tenant_id)
            return await self._enter(tenant_id)  # A connection is free: no wait, so no timer.
        except (*LOST, *_NO_ROOM) as error:
            raise StoreUnavailable("no connection to the database was free in time", sent=False) from error

    async def _wait_for_connection(self, tenant_id: str) -> tuple[asyncpg.Connection, bool]:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        began = loop.time()
        try:
            async with asyncio.timeout(self._patience.get(task, self.acquire_seconds)):
                return await self._enter(tenant_id)
        finally:
            waited = loop.time() - began
            _POOL_WAITS.observe(waited)
            if task in self._patience:
                self._patience[task] -= waited

    async def _enter(self, tenant_id: str) -> tuple[asyncpg.Connection, bool]:
        blocked = await self._wait_for_slot(tenant_id)
        try:
            connection = await self._take()
        except BaseException:
            self._quotas.leave(tenant_id, blocked)
            raise
        self._busy.add(connection)
        return connection, blocked

    async def _wait_for_slot(self, tenant_id: str) -> bool:
        """The result of entering the quota, which is entered again if the tenant was blocked before a slot was free."""
        while True:
            blocked = await self._quotas.enter(tenant_id)
            try:
                await self._slots.acquire()
            except BaseException:
                self._quotas.leave(tenant_id, blocked)
                raise
            if blocked or not self._quotas.blocks(tenant_id):
                return blocked
            self._slots.release()
            self._quotas.leave(tenant_id, blocked)

    async def _take(self) -> asyncpg.Connection:
        """An idle connection that is still open, or a new one. Releases the slot on failure."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        created: asyncpg.Connection | None = None
        try:
            created = await self._open()
            await prepare(created)
            await self._compare_history(created)
        except BaseException:
            if created is not None:
                throw_away(created)
            self._slots.release()
            raise
        return created

    async def _open(self) -> asyncpg.Connection:
        return await self._hosts.connect(
            self.acquire_seconds, command_timeout=self.statement_seconds, server_settings=self._session_settings
        )

    async def compare_history(self) -> None:
        """Clears all caches if the database has another history. Each new connection does so too."""
        async with self.connection() as connection:
            await self._compare_history(connection)

    async def _compare_history(self, connection: asyncpg.Connection) -> None:
        before = self._history  # Read first: a concurrent check may read a later position.
        now = await history.read_history(connection)
        if now is None:
            return
        self._history = now
        if before is not None and not now.continues(before):
            log.warning("database_has_another_history", now=str(now), before=str(before))
            for forget in self.on_other_history:
                forget()

    def _release(self, connection: asyncpg.Connection) -> None:
        """Releases the slot, and returns the connection to the pool if it is usable."""
        self._busy.discard(connection)
        if not connection.is_closed():
            if connection.is_in_transaction():
                throw_away(connection)
            else:
                self._idle.append(connection)
        self._slots.release()

    async def fetch(self, query: str, *args: Any) -> list[asyncpg.Record]:
        """Every row of one statement."""
        rows: list[asyncpg.Record] = await self._run(asyncpg.Connection.fetch, query, args)
        return rows

    async def fetchrow(self, query: str, *args: Any, check: Check = None) -> asyncpg.Record | None:
        """The first row of one statement, or None. check: called at each attempt, after its wait for a connection."""
        row: asyncpg.Record | None = await self._run(asyncpg.Connection.fetchrow, query, args, check)
        return row

    async def fetchval(self, query: str, *args: Any) -> Any:
        """The first column of the first row, or None."""
        first = await self.fetchrow(query, *args)
        return None if first is None else first[0]

    async def execute(self, query: str, *args: Any) -> int:
        """Runs one statement. Returns the number of affected rows."""
        status: str = await self._run(asyncpg.Connection.execute, query, args)
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def _run(self, method: Method, query: str, args: tuple[Any, ...], check: Check = None) -> Any:
        """Runs one statement; retries after a deadlock or serialisation failure. Guarded if a guard refused."""
        for attempt in range(ATTEMPTS_MAX):
            async with self.connection() as connection:
                if check is not None:
                    check()
                self.round_trips += 1
                try:
                    return await method(connection, query, *args)
                except _RACE_LOST:
                    if attempt == ATTEMPTS_MAX - 1:
                        raise
                except asyncpg.PostgresError as error:
                    if guard := guard_of(error):
                        GUARD_REFUSALS.add(guard)
                        raise Guarded(guard) from error
                    raise
            await asyncio.sleep(RACE_PAUSE_SECONDS * 2**attempt)
        raise AssertionError("unreachable")

    async def transaction(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Runs `work` in a transaction and returns its result. Retries a deadlock or serialisation failure.

        `work` may run several times, so its only effects must be on its connection. Raises StoreUnavailable, errors of
        `work` and PostgresError: a guard's refusal is not turned into Guarded.
        """
        for attempt in range(ATTEMPTS_MAX):
            try:
                async with self.connection() as connection:
                    return await in_transaction(connection, work)
            except _RACE_LOST:
                if attempt == ATTEMPTS_MAX - 1:
                    raise
                await asyncio.sleep(RACE_PAUSE_SECONDS * 2**attempt)
        raise AssertionError("unreachable")

    async def read(self, work: Callable[[Database], Awaitable[T]], *, written: bool = False) -> T:
        """Runs `work`, which only reads and decides nothing, on the read replica; here if it has none that is fit.

        written: the request has written what it reads, so only the primary has it.
        """
        replica = self.here().replica
        if replica is None or written:
            return await work(self)
        if not replica.reason:
            try:
                return await work(replica)
            except (StoreUnavailable, asyncpg.PostgresError) as error:
                replica.fail(error)
            except Fault:
                return await work(self)  # The replica may not have the resource yet.
        replica.count_fallback()
        return await work(self)

    async def read_rows(self, query: str, *args: Any) -> list[asyncpg.Record]:
        """Every row of one statement, by `read`."""

        async def fetch(database: Database) -> list[asyncpg.Record]:
            return await database.fetch(query, *args)

        return await self.read(fetch)

    async def read_clock(self) -> None:
        """Takes a reading of the database's time."""
        self.answers, sent = False, time.monotonic()
        now = await self.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")
        self.answers = True
        self.clock.sync(now, sent, time.monotonic())

    async def ping(self, timeout_seconds: float = 0.8) -> bool:
        """Whether the database answers."""
        with suppress(Fault, TimeoutError, asyncpg.PostgresError):
            await asyncio.wait_for(self.read_clock(), timeout_seconds)
        return self.answers
