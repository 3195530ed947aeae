"""The simulation's Postgres: rows, serialized writing transactions, and connections that faults cut.

A statement is a function (statements.py) that executes at one moment. A writing transaction waits until the previous
one has ended; others read committed data. Concurrency inside Postgres is not modelled: tests/sql covers it with real
servers.

The server works in its own tasks, in an empty context: when a client leaves or its process dies, the server may or may
not execute what was already sent, as a real one.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import Context
from copy import deepcopy
from random import Random
from typing import Any, Final, NamedTuple, NoReturn, cast

import asyncpg
from asyncpg.exceptions import UnknownPostgresError

from ops.simulation.faults import Link
from runtime.stores.database import Check, Database
from sql.guards import GUARD

Row = dict[str, Any]
Key = tuple[Any, ...]
Result = list[Row] | int
"""The rows that a statement returns, or the number it affected if it returns none."""

PID: Final = 1
ASKS_PID: Final = "SELECT pg_backend_pid()"
"""Asked at start: the same process id as the connection's says that no pooler is in between."""


class Table(NamedTuple):
    """key: primary key columns. stamped: columns with default now(). once: a unique index over the rows whose last
    column in it is not NULL.
    """

    key: tuple[str, ...]
    stamped: tuple[str, ...] = ()
    once: tuple[str, ...] = ()


def _table(key: str, stamped: str = "", once: str = "") -> Table:
    return Table(tuple(key.split()), tuple(stamped.split()), tuple(once.split()))


TABLES: Final = {
    "tenants": _table("tenant_id", "created_at"),
    "campaigns": _table("campaign_id", "created_at updated_at"),
    "games": _table("game_id", "created_at updated_at"),
    "game_revisions": _table("game_id revision", "created_at"),
    "prizes": _table("prize_id", "created_at updated_at"),
    "stock": _table("prize_id"),
    "stock_moves": _table("prize_id seq", "created_at"),
    "codes": _table("prize_id code_id", "created_at"),
    "players": _table("player_id", "created_at updated_at"),
    "promised_terms": _table("revision_hash", "created_at"),
    "plays": _table("play_id", "played_at", "player_id game_id idempotency_key"),
    "game_players": _table("game_id player_id"),
    "prize_days": _table("prize_id day"),
    "prize_players": _table("prize_id player_id"),
    "turn_balances": _table("player_id campaign_id", "updated_at"),
    "turn_entries": _table("player_id entry_id", "created_at"),
    "balances": _table("player_id scope_key currency", "updated_at"),
    "ledger_entries": _table("player_id entry_id", "created_at"),
    "rewards": _table("reward_id", "won_at"),
    "tasks": _table("task_id", "created_at updated_at"),
    "milestone_grants": _table("player_id game_id milestone_id", "granted_at", "player_id game_id idempotency_key"),
    "keyed_requests": _table("merchant_id subject route idempotency_key", "requested_at"),
    "audit_entries": _table("entry_id", "created_at"),
}
"""Tables of one tenant."""


class Server:
    """One Postgres. clock: its time in microseconds. random: draws what Postgres leaves undefined."""

    def __init__(self, clock: Callable[[], int], random: Random) -> None:
        self.clock = clock
        self.random = random
        self.tables: dict[str, dict[Key, Row]] = {name: {} for name in TABLES}
        self.connections: dict[Connection, None] = {}
        self.up = True
        self.ran: list[Ran] = []
        """Every statement and COMMIT, in execution order."""
        self.transactions_begun = 0
        self.writer: Transaction | None = None
        self.waiting: deque[asyncio.Future[None]] = deque()

    def stop(self) -> None:
        """Stops the server: cuts every connection and rolls back; committed data stays."""
        self.up = False
        for connection in list(self.connections):
            connection.cut()

    def start(self) -> None:
        self.up = True

    @property
    def busy(self) -> bool:
        """Whether a statement is running or a transaction open."""
        return any(connection.sent or connection.tx is not None for connection in self.connections)

    def do(self, work: "Callable[[Transaction], Any]") -> Any:
        """Writes as another client, in an instantaneous transaction."""
        tx = Transaction(self)
        result = work(tx)
        self.ran.append(Ran(tx.number, tx.began, tx.began, WRITE, (tx.changes,), 0))
        tx.commit()
        return result


WRITE: Final = "WRITE"
"""A write by another client; its argument is the rows by table and key."""


class Ran(NamedTuple):
    """An executed statement. tx: its transaction's number. at: time. result: a text if it was refused."""

    tx: int
    began: int
    at: int
    text: str
    args: tuple[Any, ...]
    result: Result | str


class Refused(UnknownPostgresError):
    """The error of the schema's refuse()."""

    sqlstate = GUARD


class Transaction:
    """began: its now(), in microseconds. Its changes are visible only to itself until it commits."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.began = server.clock()
        self.changes: dict[str, dict[Key, Row | None]] = {}
        self.failed = False
        self.number = server.transactions_begun = server.transactions_begun + 1

    # -- interface for the models ----------------------------------------------------------------

    def get(self, table: str, *key: Any) -> Row | None:
        own = self.changes.get(table, {})
        return own[key] if key in own else self.server.tables[table].get(key)

    def find(self, table: str, **equals: Any) -> list[Row]:
        """The rows with these values, in random order."""
        own = self.changes.get(table, {})
        rows = [own.get(key, row) for key, row in self.server.tables[table].items()]
        rows += [row for key, row in own.items() if key not in self.server.tables[table]]
        names = equals.items()
        found = [row for row in rows if row is not None and all(row.get(name) == value for name, value in names)]
        self.server.random.shuffle(found)
        return found

    def insert(self, table: str, **values: Any) -> Row:
        row = self.insert_unless(table, **values)
        if row is None:
            raise asyncpg.UniqueViolationError(f"duplicate key in {table}")
        return row

    def insert_unless(self, table: str, **values: Any) -> Row | None:
        """ON CONFLICT DO NOTHING. None: the row exists."""
        shape = TABLES[table]
        key = _key(table, values)
        once = {name: values[name] for name in shape.once}
        if self.get(table, *key) is not None or (once and values[shape.once[-1]] and self.find(table, **once)):
            return None
        row = dict.fromkeys(shape.stamped, self.began) | values
        self.changes.setdefault(table, {})[key] = row
        return row

    def update(self, table: str, row: Row, **changes: Any) -> Row:
        """Updates a row and returns it."""
        changed = self.changes.setdefault(table, {})[_key(table, row)] = {**row, **changes}
        return changed

    def refuse(self, guard: str) -> NoReturn:
        raise Refused(f"guard {guard}")

    # -- end of the transaction ------------------------------------------------------------------

    async def hold(self) -> None:
        """Waits until no other transaction is writing."""
        server = self.server
        while server.writer is not None and server.writer is not self:
            turn = asyncio.get_running_loop().create_future()
            server.waiting.append(turn)
            await turn
        server.writer = self

    def commit(self) -> None:
        self.server.ran.append(Ran(self.number, self.began, self.server.clock(), "COMMIT", (), 0))
        for table, changes in self.changes.items():
            for key, row in changes.items():
                if row is None:
                    self.server.tables[table].pop(key, None)
                else:
                    self.server.tables[table][key] = row
        self.end()

    def end(self) -> None:
        """Lets the next transaction write. Rolls back unless committed."""
        self.changes = {}
        if self.server.writer is self:
            self.server.writer = None
            while self.server.waiting and self.server.writer is None:
                turn = self.server.waiting.popleft()
                if not turn.done():
                    turn.set_result(None)
                    break


def _key(table: str, values: Row) -> Key:
    return tuple(values[name] for name in TABLES[table].key)


class NotModelled(Exception):
    """The simulated code used a statement without a model."""


MODELS: Final[dict[str, Callable[..., Result]]] = {}
"""The models by statement name (statements.py); each takes the transaction and the arguments."""


def writes(text: str) -> bool:
    """Whether a statement writes or locks."""
    return any(word in text for word in ("INSERT INTO", "DELETE FROM", " SET ", "FOR SHARE", "FOR UPDATE"))


def _retrieve_exception(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # retrieved: its client may have left


class Record(dict[str, Any]):
    """A row like asyncpg's: accessible by column name and by position."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else tuple(self.values())[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values())


class Connection:
    """A connection, with the part of asyncpg's interface that the service uses. closed: either end has closed it."""

    def __init__(self, server: Server, link: Link, statement_seconds: float) -> None:
        self.server = server
        self.tx: Transaction | None = None
        self.sent = self.closed = False
        self._link = link
        self._statement_seconds = statement_seconds
        server.connections[self] = None

    # -- client side -----------------------------------------------------------------------------

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
        """A round trip. Faults raise the errors of asyncpg."""
        if self.closed:
            raise asyncpg.InterfaceError("the connection is closed")
        self.sent = True
        loop = asyncio.get_running_loop()
        work: asyncio.Task[Result] = loop.create_task(self._execute(query, args), context=Context())
        work.add_done_callback(_retrieve_exception)
        try:
            async with asyncio.timeout(timeout or self._statement_seconds):
                result = await asyncio.shield(work)
                await self._link.after()
        except (TimeoutError, asyncio.CancelledError):
            # The pool discards the connection; its statement continues on the server, or not.
            self.terminate()
            raise
        except OSError as error:
            self.terminate()
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation") from error
        return result

    def transaction(self) -> "Connection":
        """A transaction: BEGIN at `start`, then `commit` or `rollback`."""
        return self

    async def start(self) -> None:
        await self._ask("BEGIN")

    async def commit(self) -> None:
        await self._ask("COMMIT")

    async def rollback(self) -> None:
        await self._ask("ROLLBACK")

    def is_closed(self) -> bool:
        return self.closed

    def get_server_pid(self) -> int:
        return PID

    def is_in_transaction(self) -> bool:
        return self.tx is not None

    def terminate(self) -> None:
        """The client closes. A statement in flight may or may not be executed."""
        if not self.closed:
            self.closed = True
            if not self.sent or self.server.random.random() < 0.5:
                self._disconnect()

    async def close(self) -> None:
        self.terminate()

    # -- server side -----------------------------------------------------------------------------

    def cut(self) -> None:
        """The server closes."""
        self.closed = True
        self._disconnect()

    async def _execute(self, text: str, args: tuple[Any, ...]) -> Result:
        """Executes a statement after the network's delay, or perhaps not if the client has left meanwhile."""
        try:
            await self._link.before()
            self._require_connected()
            if text == "BEGIN":
                self.tx = Transaction(self.server)
            elif text in ("COMMIT", "ROLLBACK"):
                tx, self.tx = self.tx, None
                if tx is not None:
                    tx.commit() if text == "COMMIT" and not tx.failed else tx.end()
            elif text == ASKS_PID:
                return [{"pid": PID}]
            else:
                return await self._run(text, args)
            return 0
        finally:
            self.sent = False
            if self.closed:
                self._disconnect()

    async def _run(self, text: str, args: tuple[Any, ...]) -> Result:
        name = text[3 : text.index("\n")] if text.startswith("-- ") else text
        model = MODELS.get(name)
        if model is None:
            raise NotModelled(f"no model of {name}")
        tx = self.tx or Transaction(self.server)
        try:
            if writes(text) and not (name == "play.refresh" and not args[4]):  # It writes only for new players.
                await tx.hold()
                await self._link.within()
                self._require_connected()
                if self.closed and self.server.random.random() < 0.5:
                    raise ConnectionResetError("the client went away")
            result = model(tx, *((text, *args) if name == "commit.commit" else args))
            self.server.ran.append(Ran(tx.number, tx.began, self.server.clock(), text, args, deepcopy(result)))
        except BaseException as error:
            if isinstance(error, Refused):
                self.server.ran.append(Ran(tx.number, tx.began, self.server.clock(), text, args, str(error)))
            tx.failed = True
            if tx is not self.tx:
                tx.end()
            raise
        if tx is not self.tx:
            tx.commit()
        return result

    def _require_connected(self) -> None:
        if not self.server.up or self not in self.server.connections:
            raise ConnectionResetError("the server is away")

    def _disconnect(self) -> None:
        self.server.connections.pop(self, None)
        tx, self.tx = self.tx, None
        if tx is not None:
            tx.end()


class SimulatedDatabase(Database):
    """The service's own connection pool, over connections to the model."""

    def __init__(self, server: Server, link: Link, **limits: Any) -> None:
        super().__init__("", **limits)
        self._server = server
        self._link = link
        self._opened: list[Connection] = []

    async def _take(self) -> asyncpg.Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        opened = Connection(self._server, self._link, self.statement_seconds)
        self._opened = [*(one for one in self._opened if not one.is_closed()), opened]
        try:
            async with asyncio.timeout(self.acquire_seconds):
                await self._link.before()
                if not self._server.up:
                    raise ConnectionRefusedError("the server is away")
                await self._link.after()
        except BaseException:
            opened.terminate()
            self._slots.release()
            raise
        return cast(asyncpg.Connection, opened)

    async def fetch(self, query: str, *args: Any) -> list[asyncpg.Record]:
        rows: list[asyncpg.Record] = await self._run(Connection.fetch, query, args)
        return rows

    async def fetchrow(self, query: str, *args: Any, check: Check = None) -> asyncpg.Record | None:
        row: asyncpg.Record | None = await self._run(Connection.fetchrow, query, args, check)
        return row

    async def execute(self, query: str, *args: Any) -> int:
        status: str = await self._run(Connection.execute, query, args)
        return int(status.rpartition(" ")[2])

    def crash(self) -> None:
        """Cuts the connections of a dead process."""
        for connection in self._opened:
            connection.terminate()
