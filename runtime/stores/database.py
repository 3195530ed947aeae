"""The durable store (Postgres): a pool of connections whose every wait is bounded.

Whatever goes wrong below becomes one of two things: a `Fault` UNAVAILABLE (the store cannot be
reached, is too slow, or has no free connection: try again), or the database's own error, for the
caller to understand (a guard that refused, a unique row that exists).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, TypeVar

import asyncpg
import msgspec
import structlog

from runtime import trace
from runtime.errors import Fault, Status
from runtime.settings import Settings
from runtime.stores import history
from runtime.stores.clock import Clock
from runtime.stores.history import History
from runtime.stores.tenant_quota import Shares

T = TypeVar("T")

RETRIES: Final = 5
"""How often what lost a deadlock or a serialisation race, and was undone, is tried."""

RACE_PAUSE_SECONDS: Final = 0.01
"""The first pause before that; each next one is twice as long."""

GUARD: Final = "TB001"
"""SQLSTATE of the schema's refuse(): a batch's guard found something changed."""

RETIRED: Final = "TB002"
"""SQLSTATE of the schema's hold_key(): this process seals with a key that was retired."""


class StoreUnavailable(Fault):
    """The durable store did not answer in time. What was under way may or may not have committed."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(Status.UNAVAILABLE, "STORE_UNAVAILABLE", message, retry_after_seconds=1)
        self.sent = sent
        """False where nothing was sent, so nothing can have happened."""


class Guarded(Exception):
    """A statement's guard refused, and all of the statement was undone. `guard` names it."""

    def __init__(self, guard: str) -> None:
        super().__init__(guard)
        self.guard = guard


log = structlog.get_logger(__name__)

_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a backend that was ended while its connection was put away
    asyncpg.OperatorInterventionError,
    OSError,
    TimeoutError,
)

_NO_ROOM = (asyncpg.InsufficientResourcesError, asyncpg.ReadOnlySQLTransactionError)
"""The server takes nothing more: its disk, memory or connections are used up, or it is a standby. All was undone."""

_RACE_LOST = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)


class Database:
    """Connections to one Postgres, at most `size`, made when they are first needed.

    acquire_seconds bounds the wait for a free connection, statement_seconds each statement. A pool of
    our own, since asyncpg's lets late comers pass those who wait, so that some starve under load, and
    makes a task and two timers at every use: a commit of one play cost its process 1.4 times as much.
    """

    def __init__(
        self, url: str, *, size: int, acquire_seconds: float, statement_seconds: float, clock: Clock | None = None
    ) -> None:
        self.clock = clock or Clock()
        self.round_trips = 0
        self.size = size
        self._url = url
        self.acquire_seconds = acquire_seconds
        self.statement_seconds = statement_seconds
        self._session_settings = {
            "application_name": "tombola",
            "jit": "off",
            "plan_cache_mode": "force_generic_plan",
            # A backend whose client left it, being late, would wait on for its lock, with those that it has: whoever
            # asks again would wait for it, and many would use up the server.
            "client_connection_check_interval": f"{max(1, round(statement_seconds * 250))}ms",
        }
        self._shares = Shares(size, quiet_seconds=2 * statement_seconds)
        self._slots = asyncio.Semaphore(size)  # First come, first served.
        self._idle: list[asyncpg.Connection] = []
        self._busy: set[asyncpg.Connection] = set()
        self._patience: dict[asyncio.Task[Any] | None, float] = {}  # Seconds left to who waits as one.
        self.on_other_history: list[Callable[[], None]] = []
        """Called before a statement can reach a database that was restored or promoted: forget what it said."""
        self._history: History | None = None

    @classmethod
    @asynccontextmanager
    async def opened(cls, settings: Settings, *, size: int) -> AsyncIterator[Database]:
        """The settings' database, for the length of the block."""
        database = cls(
            settings.database_url,
            size=size,
            acquire_seconds=settings.database_acquire_timeout_seconds,
            statement_seconds=settings.database_statement_timeout_seconds,
        )
        await database.start()
        try:
            yield database
        finally:
            await database.close()

    async def start(self) -> None:
        """Connects once, so that a wrong URL is known at start, and reads the clock."""
        await self.read_clock()

    async def close(self) -> None:
        """Waits for the statements under way, for as long as one may take."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.statement_seconds + 1):
                for _ in range(self.size):
                    await self._slots.acquire()
                while self._idle:
                    await self._idle.pop().close()
        for connection in [*self._idle, *self._busy]:
            _throw_away(connection)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[asyncpg.Connection]:
        """One connection for a while, of the share of `trace.tenant`.

        One that did not answer in time is thrown away, not given back.
        """
        tenant_id = trace.tenant.get()
        connection, entered = await self._acquire(tenant_id)
        try:
            yield connection
        except _LOST as error:
            # A frozen backend would hold its slot for ever: the socket is closed without a word.
            _throw_away(connection)
            if isinstance(error, TimeoutError):
                self._shares.late(tenant_id)
            raise StoreUnavailable("the database did not answer in time", sent=True) from error
        except asyncio.CancelledError:
            # Who asked has given up.
            _throw_away(connection)
            self._shares.late(tenant_id)
            raise
        except _NO_ROOM as error:
            # Another server may stand at the address by now.
            _throw_away(connection)
            raise StoreUnavailable("the database takes nothing more", sent=False) from error
        except asyncpg.PostgresError as error:
            if error.sqlstate == RETIRED:
                raise StoreUnavailable("this process is behind with its keys; try again", sent=False) from error
            raise
        else:
            self._shares.answered(tenant_id)
        finally:
            self._release(connection)
            self._shares.leave(tenant_id, entered)

    @contextmanager
    def waiting_as_one(self) -> Iterator[None]:
        """All that this task waits for connections in the block is one wait: acquire_seconds together, not each."""
        task = asyncio.current_task()
        assert task is not None
        self._patience[task] = self.acquire_seconds
        try:
            yield
        finally:
            del self._patience[task]

    async def _acquire(self, tenant_id: str) -> tuple[asyncpg.Connection, bool]:
        """A connection, and how the tenant's share was entered."""
        try:
            if self._slots.locked() or not self._idle or self._shares.waits(tenant_id):
                return await self._wait_for_one(tenant_id)
            return await self._enter(tenant_id)  # Free: does not wait, and needs no timer.
        except (*_LOST, *_NO_ROOM) as error:
            raise StoreUnavailable("no connection to the database was free in time", sent=False) from error

    async def _wait_for_one(self, tenant_id: str) -> tuple[asyncpg.Connection, bool]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(self._patience.get(asyncio.current_task(), self.acquire_seconds)):
                return await self._enter(tenant_id)
        finally:
            self._spend(loop.time() - began)

    def _spend(self, seconds: float) -> None:
        """Takes what was waited from the patience of who waits as one."""
        task = asyncio.current_task()
        if task in self._patience:
            self._patience[task] -= seconds

    async def _enter(self, tenant_id: str) -> tuple[asyncpg.Connection, bool]:
        entered = await self._shares.enter(tenant_id)
        try:
            await self._slots.acquire()
            connection = await self._take()
        except BaseException:
            self._shares.leave(tenant_id, entered)
            raise
        self._busy.add(connection)
        return connection, entered

    async def _take(self) -> asyncpg.Connection:
        """An idle connection that is still open, or a new one. The slot goes back where there is none to be had."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        made: asyncpg.Connection | None = None
        try:
            made = await asyncpg.connect(
                self._url,
                timeout=self.acquire_seconds,
                command_timeout=self.statement_seconds,
                server_settings=self._session_settings,
            )
            await _prepare_connection(made)
            await self._compare_history(made)
        except BaseException:
            if made is not None:
                _throw_away(made)
            self._slots.release()
            raise
        return made

    async def _compare_history(self, connection: asyncpg.Connection) -> None:
        before = self._history  # Read first: others may look at the same time, and further on.
        now = await history.look(connection)
        if now is None:
            return
        self._history = now
        if before is not None and not now.goes_on(before):
            log.warning("database_has_another_history", now=str(now), before=str(before))
            for forget in self.on_other_history:
                forget()

    def _release(self, connection: asyncpg.Connection) -> None:
        """Gives the slot back, and the connection where it can be used again."""
        self._busy.discard(connection)
        if not connection.is_closed():
            if connection.is_in_transaction():
                _throw_away(connection)
            else:
                self._idle.append(connection)
        self._slots.release()

    async def fetch(self, query: str, *args: Any) -> list[asyncpg.Record]:
        """Every row of one statement."""
        rows: list[asyncpg.Record] = await self._run(asyncpg.Connection.fetch, query, args)
        return rows

    async def fetchrow(self, query: str, *args: Any) -> asyncpg.Record | None:
        """The first row of one statement, or None."""
        row: asyncpg.Record | None = await self._run(asyncpg.Connection.fetchrow, query, args)
        return row

    async def fetchval(self, query: str, *args: Any) -> Any:
        """The first column of the first row, or None."""
        first = await self.fetchrow(query, *args)
        return None if first is None else first[0]

    async def execute(self, query: str, *args: Any) -> int:
        """Runs one statement; the number of rows that it touched."""
        status: str = await self._run(asyncpg.Connection.execute, query, args)
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def _run(self, method: Callable[..., Awaitable[Any]], query: str, args: tuple[Any, ...]) -> Any:
        """One statement, again where it lost a deadlock or a serialisation race. Guarded where a guard refused."""
        for attempt in range(RETRIES):
            async with self.connection() as connection:
                self.round_trips += 1
                try:
                    return await method(connection, query, *args)
                except _RACE_LOST:
                    if attempt == RETRIES - 1:
                        raise
                except asyncpg.PostgresError as error:
                    if error.sqlstate == GUARD:
                        raise Guarded((error.args[0] or "").removeprefix("guard ")) from error
                    raise
            await asyncio.sleep(RACE_PAUSE_SECONDS * 2**attempt)
        raise AssertionError("unreachable")

    async def transaction(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Runs `work` in a transaction; one that lost a deadlock or a serialisation race runs again.

        `work` must have no effect but on its connection, since it may run several times.
        """
        for attempt in range(RETRIES):
            try:
                async with self.connection() as connection:
                    return await _in_transaction(connection, work)
            except _RACE_LOST:
                if attempt == RETRIES - 1:
                    raise
                await asyncio.sleep(RACE_PAUSE_SECONDS * 2**attempt)
        raise AssertionError("unreachable")

    async def read_clock(self) -> None:
        """Takes a reading of the database's time."""
        sent = time.monotonic()
        now = await self.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")
        self.clock.sync(now, sent, time.monotonic())

    async def ping(self, timeout_seconds: float = 0.8) -> bool:
        """True where the database answers."""
        try:
            await asyncio.wait_for(self.read_clock(), timeout_seconds)
        except (Fault, TimeoutError, asyncpg.PostgresError):
            return False
        return True


async def _in_transaction(connection: asyncpg.Connection, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
    transaction = connection.transaction()
    await transaction.start()
    try:
        result = await work(connection)
    except (*_LOST, asyncio.CancelledError):
        # The connection is thrown away, and with it the transaction. A ROLLBACK would wait for a backend that does
        # not answer once more.
        raise
    except BaseException:
        await transaction.rollback()
        raise
    await transaction.commit()
    return result


async def _prepare_connection(connection: asyncpg.Connection) -> None:
    # Binary, since only binary values may stand inside the composite types of commit.sql.
    await connection.set_type_codec(
        "json", schema="pg_catalog", encoder=_encode_json, decoder=msgspec.json.decode, format="binary"
    )
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        encoder=lambda value: b"\x01" + _encode_json(value),
        decoder=lambda data: msgspec.json.decode(data[1:]),
        format="binary",
    )


def _encode_json(value: Any) -> bytes:
    """`bytes` are JSON already (the play path encodes once, for the row and the answer); anything else is encoded."""
    return value if isinstance(value, bytes) else msgspec.json.encode(value)


def _throw_away(connection: asyncpg.Connection) -> None:
    # One that the server closed is closed already, and says so.
    with suppress(asyncpg.InterfaceError):
        connection.terminate()
