"""The durable store as a simulated process has it: the service's own pool, over connections to the model.

All that `Database` does of itself is as it is: the shares of tenants, the wait for a connection, tries again, and what
becomes of errors. Only the connection is another.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import asyncpg

from ops.simulation.network import Calm, Network
from ops.simulation.postgres.server import ModelServer, Record, Session, name_of
from ops.simulation.postgres.vocabulary import NotModelled, Result
from runtime.stores.clock import Clock
from runtime.stores.database import Database


class ModelConnection:
    """A connection to the model, with what the service uses of asyncpg's."""

    def __init__(self, server: ModelServer, network: Network, statement_seconds: float) -> None:
        self._network = network
        self._statement_seconds = statement_seconds
        self._session = Session(server, network)
        self._closed = False
        self._in_transaction = False

    async def fetch(self, query: str, *args: Any, timeout: float | None = None) -> list[Record]:  # noqa: ASYNC109
        result = await self._ask(query, args, timeout)
        return [] if isinstance(result, int) else [Record(row) for row in result]

    async def fetchrow(self, query: str, *args: Any, timeout: float | None = None) -> Record | None:  # noqa: ASYNC109
        rows = await self.fetch(query, *args, timeout=timeout)
        return rows[0] if rows else None

    async def fetchval(self, query: str, *args: Any, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        row = await self.fetchrow(query, *args, timeout=timeout)
        return None if row is None else row[0]

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:  # noqa: ASYNC109
        result = await self._ask(query, args, timeout)
        return f"DID {result if isinstance(result, int) else len(result)}"

    async def _ask(self, query: str, args: tuple[Any, ...] = (), timeout: float | None = None) -> Result:  # noqa: ASYNC109
        """A round trip. What goes wrong on the way is what asyncpg raises."""
        what = name_of(query)
        if self.is_closed():
            raise asyncpg.InterfaceError("the connection is closed")
        work = self._session.carry_out(what, query, args)
        try:
            async with asyncio.timeout(timeout or self._statement_seconds):
                result = await asyncio.shield(work)
                await self._network.after("postgres", what)
        except (TimeoutError, asyncio.CancelledError):
            # The pool throws it away: what is under way goes on without it, or ends.
            self.terminate()
            raise
        except OSError as error:
            self.terminate()
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation") from error
        return result

    def transaction(self) -> _Transaction:
        return _Transaction(self)

    def is_closed(self) -> bool:
        return self._closed or self._session.gone

    def is_in_transaction(self) -> bool:
        return self._in_transaction

    def terminate(self) -> None:
        """Goes without a word."""
        if not self._closed:
            self._closed = True
            self._session.leave()

    async def close(self) -> None:
        self.terminate()


class _Transaction:
    """BEGIN, and COMMIT or ROLLBACK."""

    def __init__(self, connection: ModelConnection) -> None:
        self._connection = connection

    async def start(self) -> None:
        if self._connection._in_transaction:
            raise NotModelled("a transaction within a transaction")
        await self._connection._ask("BEGIN")
        self._connection._in_transaction = True

    async def commit(self) -> None:
        await self._end("COMMIT")

    async def rollback(self) -> None:
        await self._end("ROLLBACK")

    async def _end(self, word: str) -> None:
        await self._connection._ask(word)
        self._connection._in_transaction = False


class ModelDatabase(Database):
    """The durable store of one simulated process."""

    def __init__(
        self,
        server: ModelServer,
        *,
        size: int,
        acquire_seconds: float,
        statement_seconds: float,
        clock: Clock | None = None,
        network: Network | None = None,
    ) -> None:
        super().__init__(
            "", size=size, acquire_seconds=acquire_seconds, statement_seconds=statement_seconds, clock=clock
        )
        self._server = server
        self._network = network or Calm()
        self._made: list[ModelConnection] = []

    async def _take(self) -> asyncpg.Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        made = ModelConnection(self._server, self._network, self.statement_seconds)
        self._made = [*(one for one in self._made if not one.is_closed()), made]
        try:
            async with asyncio.timeout(self.acquire_seconds):
                await self._network.before("postgres", "connect")
                if not self._server.up:
                    raise ConnectionRefusedError("the server is away")
                await self._network.after("postgres", "connect")
            await self._compare_history(cast(asyncpg.Connection, made))
        except BaseException:
            made.terminate()
            self._slots.release()
            raise
        return cast(asyncpg.Connection, made)

    async def fetch(self, query: str, *args: Any) -> list[asyncpg.Record]:
        rows: list[asyncpg.Record] = await self._run(ModelConnection.fetch, query, args)
        return rows

    async def fetchrow(self, query: str, *args: Any) -> asyncpg.Record | None:
        row: asyncpg.Record | None = await self._run(ModelConnection.fetchrow, query, args)
        return row

    async def execute(self, query: str, *args: Any) -> int:
        status: str = await self._run(ModelConnection.execute, query, args)
        return int(status.rpartition(" ")[2])

    def crash(self) -> None:
        """The process is gone: its connections are cut, whatever was under way on them."""
        for connection in self._made:
            connection.terminate()
