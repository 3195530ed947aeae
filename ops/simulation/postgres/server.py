"""One Postgres of the simulation: the state that outlives its clients, and a session for each connection to it.

A session works in tasks of its own, in an empty context: a client that goes away, or whose process dies, leaves
behind what it has sent, and the server carries that out or not, as a real one may.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import Context
from functools import cache
from inspect import isawaitable
from random import Random
from typing import Any, Final

import asyncpg

from ops.simulation.network import Network
from ops.simulation.postgres.transactions import Store, Transaction
from ops.simulation.postgres.values import loads
from ops.simulation.postgres.vocabulary import MODELS, NotModelled, Result, Statement

NOTICED_SECONDS: Final = 1.0
"""A backend that waits for a lock has noticed by then that its client is gone (client_connection_check_interval)."""


def wall_clock() -> int:
    """The machine's time in microseconds."""
    return int(time.time() * 1_000_000)


class ModelServer:
    """All of one Postgres. clock: its time in microseconds; random: draws what Postgres leaves open."""

    def __init__(self, *, clock: Callable[[], int] = wall_clock, random: Random | None = None) -> None:
        self.store = Store(clock=clock, random=random or Random(0))
        self.sessions: dict[Session, None] = {}
        self.up = True
        self.ran: dict[str, int] = {}
        """How often each statement was carried out."""

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The committed rows of a table, in the order of its primary key; times in microseconds, JSON read."""
        found = self.store.tables[table]
        rows = []
        for slot in found.slots:
            committed = [version.row for version in slot.versions if version.commit is not None]
            if committed and committed[-1] is not None:
                rows.append(committed[-1])
        rows.sort(key=found.uniques[0][1].key)
        kinds = {column.name: column.type for column in found.shape.columns}
        return [
            {name: loads(value) if kinds[name] in ("json", "jsonb") else value for name, value in _columns(row)}
            for row in rows
        ]

    @property
    def busy(self) -> list[str]:
        """What is under way: the statements, and the transactions that are open, each by the last one's name."""
        return [session.at_work for session in self.sessions if session.at_work]

    def stop(self) -> None:
        """The server is away: every connection is cut, every transaction undone, what is committed stays."""
        self.up = False
        for session in list(self.sessions):
            session.cut()

    def keep(self) -> Callable[[], None]:
        """Remembers all that is committed now; what is given back restores it, while the server is away."""
        kept, commits = self.store.kept(), self.store.commits

        def restore() -> None:
            self.store = self.store.restored(kept, commits)

        return restore

    def start(self) -> None:
        """It is back."""
        self.up = True


class Session:
    """One connection, as the server sees it."""

    def __init__(self, server: ModelServer, network: Network) -> None:
        self._server = server
        self._store = server.store
        self._network = network
        self._tx: Transaction | None = None
        self._working: Transaction | None = None
        self._sent = False
        self.gone = False
        self.at_work = ""
        server.sessions[self] = None

    def carry_out(self, what: str, text: str, args: tuple[Any, ...]) -> asyncio.Task[Result]:
        """A statement, BEGIN, COMMIT or ROLLBACK, from when it is sent: OSError where it does not arrive."""
        self._sent = True
        work = self._arrive(what, text, args)
        task: asyncio.Task[Result] = asyncio.get_running_loop().create_task(work, context=Context())
        task.add_done_callback(_seen)
        return task

    async def _arrive(self, what: str, text: str, args: tuple[Any, ...]) -> Result:
        self.at_work = what
        try:
            await self._network.before("postgres", what)
            if not self._server.up or self not in self._server.sessions:
                raise ConnectionResetError("the server is away")
            if text in ("BEGIN", "COMMIT", "ROLLBACK"):
                return await self._transact(text)
            return await self._run(what, text, args)
        finally:
            self._sent = False
            if self.gone:
                self._leave()
            self.at_work = what if self._tx is not None else ""

    async def _transact(self, word: str) -> Result:
        if word == "BEGIN":
            self._tx = self._store.begin()
            return 0
        tx, self._tx = self._tx, None
        if tx is None:
            raise ConnectionResetError("the server went away")
        if word == "ROLLBACK" or tx.failed:
            self._store.abort(tx)
        else:
            await self._commit(tx)
        return 0

    async def _run(self, what: str, text: str, args: tuple[Any, ...]) -> Result:
        model = MODELS.get(what)
        if model is None:
            raise NotModelled(f"no model of {what}")
        alone = self._tx is None
        tx = self._tx or self._store.begin()
        if tx.failed:
            raise asyncpg.InFailedSQLTransactionError("current transaction is aborted")
        statement = Statement(self._store, tx, self._network.point)
        self._working = tx
        try:
            given = model(statement, *(args if what != COMMIT else (text, *args)))
            result: Result = await given if isawaitable(given) else given
        except BaseException:
            statement.end()
            self._store.abort(tx)
            raise
        finally:
            self._working = None
            statement.end()
        if writes(text):
            tx.xmin = 0
        if alone:
            await self._commit(tx)
        self._server.ran[what] = self._server.ran.get(what, 0) + 1
        return result

    async def _commit(self, tx: Transaction) -> None:
        self._working = tx
        try:
            await self._network.point("commit")
            self._store.live(tx)
            self._store.commit(tx)
        finally:
            self._working = None

    # -- the end ---------------------------------------------------------------------------------

    def leave(self) -> None:
        """The client is gone. What it has sent may still arrive, and be carried out to its end, or it may not."""
        if self.gone:
            return
        self.gone = True
        if not self._sent:
            self._leave()
        elif self._working is None:
            if self._store.random.random() < 0.5:
                self._leave()
        elif self._store.random.random() < 0.5:
            self._cancel()
        else:
            asyncio.get_running_loop().call_later(NOTICED_SECONDS, self._cancel, context=Context())

    def _cancel(self) -> None:
        """Ends a wait for a lock; what waits for nothing goes on."""
        if self._working is not None:
            self._store.wake(self._working, asyncpg.QueryCanceledError("canceling statement due to user request"))

    def _leave(self) -> None:
        self._server.sessions.pop(self, None)
        tx, self._tx = self._tx, None
        if tx is not None:
            self._store.abort(tx)

    def cut(self) -> None:
        """The server is gone."""
        self.gone = True
        self._leave()
        if self._working is not None:
            tx, lost = self._working, ConnectionResetError("the server went away")
            self._store.wake(tx, lost)
            self._store.abort(tx)


COMMIT: Final = "commit.commit"


@cache
def writes(text: str) -> bool:
    """Whether a statement writes: one that only reads keeps its snapshot until the next, or the transaction's end."""
    return any(word in text for word in ("INSERT INTO", "DELETE FROM", " SET "))


def name_of(text: str) -> str:
    """The name of a statement: its text begins with it, as a comment; one without is its own name."""
    return text[3 : text.index("\n")] if text.startswith("-- ") else text


def _columns(row: Any) -> Iterator[tuple[str, Any]]:
    return ((name, getattr(row, name)) for name in row._fields if name != "slot")


def _seen(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # Its client may have gone.


class Record:
    """A row as asyncpg gives it: by the names of its columns and by their places."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: str | int | slice) -> Any:
        if isinstance(key, str):
            return self._values[key]
        return tuple(self._values.values())[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values.values())

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Record | tuple) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Record {' '.join(f'{name}={value!r}' for name, value in self._values.items())}>"

    def get(self, name: str, default: Any = None) -> Any:
        return self._values.get(name, default)

    def keys(self) -> Any:
        return self._values.keys()

    def values(self) -> Any:
        return self._values.values()

    def items(self) -> Any:
        return self._values.items()
