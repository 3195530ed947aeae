"""The durable store: a pool of connections whose every wait is bounded.

Whatever goes wrong below becomes one of two things: a `Fault` UNAVAILABLE (the store cannot be
reached, is too slow, or has no free connection: try again), or the database's own error, for the
caller to understand (a guard that refused, a unique row that exists).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

import asyncpg
import msgspec

from runtime.clock import Clock
from runtime.errors import Fault, Status

T = TypeVar("T")

RETRIES: Final = 5
"""How often a transaction that lost a deadlock or a serialisation race is tried again."""

GUARD: Final = "TB001"
"""SQLSTATE of the schema's refuse(): a batch's guard found something changed."""


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


_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.OperatorInterventionError,
    OSError,
    TimeoutError,
)


class Database:
    """Connections to one Postgres, at most `size`, made when they are first needed.

    acquire_seconds bounds the wait for a free connection, statement_seconds each statement.
    """

    def __init__(
        self, url: str, *, size: int, acquire_seconds: float, statement_seconds: float, clock: Clock | None = None
    ) -> None:
        self.clock = clock or Clock()
        self.round_trips = 0
        self.size = size
        self._url = url
        self._acquire_seconds = acquire_seconds
        self._statement_seconds = statement_seconds
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None

    async def start(self) -> None:
        """Connects once, so that a wrong URL is known at start, and reads the clock."""
        self._pool = await asyncpg.create_pool(
            self._url,
            min_size=0,
            max_size=self.size,
            init=_prepare_connection,
            # The default reset costs a round trip at every release; we leave nothing behind to reset.
            reset=_leave_as_is,
            timeout=self._acquire_seconds,
            command_timeout=self._statement_seconds,
            max_inactive_connection_lifetime=300,
            server_settings={"application_name": "tombola", "jit": "off", "plan_cache_mode": "force_generic_plan"},
        )
        await self.read_clock()

    async def close(self) -> None:
        """Waits for the statements under way, for as long as one may take."""
        if self._pool is not None:
            try:
                await asyncio.wait_for(self._pool.close(), self._statement_seconds + 1)
            except TimeoutError:
                self._pool.terminate()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[asyncpg.Connection]:
        """One connection for a while; one that did not answer in time is thrown away, not given back."""
        assert self._pool is not None, "start() first"
        try:
            connection = await self._pool.acquire(timeout=self._acquire_seconds)
        except _LOST as error:
            raise StoreUnavailable("no connection to the database was free in time", sent=False) from error
        try:
            yield connection  # type: ignore[misc]
        except _LOST as error:
            # A frozen backend would hold its slot for ever: the socket is closed without a word.
            _throw_away(connection)
            raise StoreUnavailable("the database did not answer in time", sent=True) from error
        except asyncio.CancelledError:
            _throw_away(connection)
            raise
        finally:
            await self._pool.release(connection)

    async def fetch(self, query: str, *args: Any) -> list[asyncpg.Record]:
        """Every row of one statement."""
        async with self.connection() as connection:
            self.round_trips += 1
            return await connection.fetch(query, *args)

    async def fetchrow(self, query: str, *args: Any) -> asyncpg.Record | None:
        """The first row of one statement, or None."""
        async with self.connection() as connection:
            self.round_trips += 1
            try:
                return await connection.fetchrow(query, *args)
            except asyncpg.PostgresError as error:
                if error.sqlstate == GUARD:
                    raise Guarded((error.args[0] or "").removeprefix("guard ")) from error
                raise

    async def fetchval(self, query: str, *args: Any) -> Any:
        """The first column of the first row, or None."""
        row = await self.fetchrow(query, *args)
        return None if row is None else row[0]

    async def execute(self, query: str, *args: Any) -> int:
        """Runs one statement; the number of rows that it touched."""
        async with self.connection() as connection:
            self.round_trips += 1
            status = await connection.execute(query, *args)
            count = status.rpartition(" ")[2]
            return int(count) if count.isdigit() else 0

    async def transaction(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Runs `work` in a transaction; one that lost a deadlock or a serialisation race runs again.

        `work` must have no effect but on its connection, since it may run several times.
        """
        for attempt in range(RETRIES):
            try:
                async with self.connection() as connection:
                    async with connection.transaction():
                        return await work(connection)
            except (asyncpg.DeadlockDetectedError, asyncpg.SerializationError):
                if attempt == RETRIES - 1:
                    raise
                await asyncio.sleep(0.01 * 2**attempt)
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


async def _leave_as_is(connection: Any) -> None:
    """Nothing to reset: no session state is ever set."""


def _throw_away(connection: Any) -> None:
    # One that the server closed has left the pool by itself, and says so.
    with suppress(asyncpg.InterfaceError):
        connection.terminate()
