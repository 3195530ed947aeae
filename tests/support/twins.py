"""Two databases that must not be told apart: a real Postgres, and the simulation's model of one.

What is asked of one is asked of the other; what comes back, who waits for whom, and what the tables have afterwards is
compared. Both have the machine's clock, and the same beginning of each transaction.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime
from random import Random
from typing import Any

import asyncpg
import msgspec

from ops.simulation.network import Calm
from ops.simulation.postgres import ModelServer
from ops.simulation.postgres.client import ModelConnection
from ops.simulation.postgres.schema import INFINITE_FUTURE, INFINITE_PAST, SHAPES
from ops.simulation.postgres.server import wall_clock
from ops.simulation.postgres.values import micros_of
from ops.simulation.postgres.vocabulary import Statement
from runtime.stores.database import _prepare_connection

STATEMENT_SECONDS = 20.0
CLOCKS = frozenset({"now", "extract", "asked_at", "horizon", "as_of"})
"""Columns that come from the clock as it is at that very moment."""

TIED = frozenset({"fulfillment.overdue", "rewards.late", "wallet.ledger"})
"""Statements that order their rows by times which several of them may have."""

UNLIKE = frozenset({"version", "seq"})
"""Columns that count what each counts in its own way."""


class InOrder(Random):
    """Draws no other order than that in which things come."""

    def shuffle(self, x: Any) -> None:
        pass


class Side:
    """A connection to each of the two."""

    def __init__(self, real: asyncpg.Connection, pid: int, model: ModelConnection) -> None:
        self.real = real
        self.pid = pid
        self.model = model
        self.waiting: tuple[asyncio.Task[Any], asyncio.Task[Any]] | None = None
        self.what = ""


class Different(AssertionError):
    """The two have done different things."""


class Twins:
    """The two databases, with two connections to each."""

    def __init__(self, url: str, watched_from: str) -> None:
        self._url = url
        self._watched_from = watched_from
        self._begins = 0
        self.server = ModelServer(clock=self._clock, random=InOrder(0))
        self.ran: Counter[str] = Counter()
        self.matched: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.waits = 0
        self.told: list[str] = []
        """What was asked, in words."""

    def _clock(self) -> int:
        """The machine's, which both have; of a transaction's beginning, what the real one says of it."""
        return self._begins or wall_clock()

    async def open(self) -> None:
        self.sides = [await self._side() for _ in range(2)]
        self.owner = await asyncpg.connect(self._url)
        # Of another database: who asks who else is at work here is not to find it.
        self.monitor = await asyncpg.connect(self._watched_from)
        for table in SHAPES:
            # A vacuum would be somebody whose work is not over, for those who ask.
            await self.owner.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")

    async def _side(self) -> Side:
        settings = {"jit": "off", "plan_cache_mode": "force_generic_plan"}
        real = await asyncpg.connect(self._url, server_settings=settings)
        await _prepare_connection(real)
        return Side(real, real.get_server_pid(), ModelConnection(self.server, Calm(), STATEMENT_SECONDS))

    async def close(self) -> None:
        for side in self.sides:
            await side.real.close()
        await self.owner.close()
        await self.monitor.close()

    # -- alone -------------------------------------------------------------------------------------

    async def ask(self, text: str, *args: Any) -> Any:
        """One statement in a transaction of its own, of both; what the model gave."""
        side = self.sides[0]
        await self.begin(side)
        given = await self.step(side, text, *args)
        await self.finish(side)
        return given

    async def put(self, table: str, **values: Any) -> None:
        """A row, in both."""
        columns = list(values)
        places = ", ".join(f"${nth}" for nth in range(1, len(columns) + 1))
        kinds = {column.name: column.type for column in SHAPES[table].columns}
        side = self.sides[0]
        await self.begin(side)
        await side.real.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", *values.values())
        transaction = side.model._session._tx
        assert transaction is not None
        statement = Statement(self.server.store, transaction, Calm().point)
        times = {name: micros_of(value) for name, value in values.items() if isinstance(value, datetime)}
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        coded = {name: msgspec.json.encode(value) for name, value in values.items() if kinds[name].startswith("json")}
        await statement.insert(table, **(values | times | lists | coded))
        statement.end()
        await self.finish(side)

    async def let_time_pass(self) -> None:
        """Makes rewards that are won late to be claimed, and the log of deliveries old, in both."""
        for table, column, where in (("rewards", "expires_at", "won"), ("integration_deliveries", "created_at", None)):
            await self.owner.execute(
                f"UPDATE {table} SET {column} = to_timestamp(1) WHERE $1::text IS NULL OR status = $1", where
            )
            for slot in self.server.store.tables[table].slots:
                for version in slot.versions:
                    if version.row is not None and where in (None, version.row.status):
                        version.row = version.row._replace(**{column: 1_000_000})

    # -- together ----------------------------------------------------------------------------------

    async def begin(self, side: Side) -> None:
        """BEGIN, in both at one time."""
        await side.real.execute("BEGIN")
        self._begins = await side.real.fetchval("SELECT (extract(epoch FROM now()) * 1000000)::bigint")
        await _let_go(side.real)
        await side.model._ask("BEGIN")
        self._begins = 0

    async def finish(self, side: Side, word: str = "COMMIT") -> None:
        await side.real.execute(word)
        await side.model._ask(word)

    async def step(self, side: Side, text: str, *args: Any) -> Any:
        """A statement in the transactions that are open. What it gave; None where it waits, on both sides."""
        side.what = f"{text.splitlines()[0]} {args}"
        self.told.append(f"{self.sides.index(side)}: {side.what}")
        model = asyncio.create_task(_outcome_of_model(side.model, text, args))
        real = asyncio.create_task(_outcome_of_real(side.real, text, args))
        side.waiting = (real, model)
        return await self.look(side)

    async def look(self, side: Side) -> Any:
        """What a statement under way gave; None where it waits still, on both sides."""
        assert side.waiting is not None
        real, model = side.waiting
        waits = await self._waits(side, real)
        while not model.done() and not self._model_waits(side):
            await asyncio.sleep(0)
        if waits != (not model.done()):
            raise Different(
                f"{side.what}: the real one {'waits' if waits else 'goes on'}, the model does not\n{self._story()}"
            )
        if waits:
            self.waits += 1
            return None
        side.waiting = None
        return self._compare(side.what, text_of(side.what), real.result(), model.result())

    async def _waits(self, side: Side, real: asyncio.Task[Any]) -> bool:
        """Whether the real statement waits for another transaction."""
        while True:
            done, _ = await asyncio.wait({real}, timeout=0.002)
            if done:
                return False
            if await self.monitor.fetchval("SELECT cardinality(pg_blocking_pids($1)) > 0", side.pid):
                return not real.done()

    def _model_waits(self, side: Side) -> bool:
        working = side.model._session._working
        return working is not None and working.sleep is not None and not working.sleep.done()

    async def untie(self) -> int:
        """Both wait for each other: lets both come to an end, and undoes both. How many were victims, on each side."""
        victims = []
        for nth in range(2):
            outcomes = await asyncio.gather(*[side.waiting[nth] for side in self.sides if side.waiting])
            victims.append([getattr(one, "sqlstate", "") for one in outcomes].count("40P01"))
        if victims[0] != victims[1]:
            raise Different(f"victims: {victims[0]}, and {victims[1]} in the model\n{self._story()}")
        for side in self.sides:
            side.waiting = None
            await self.finish(side, "ROLLBACK")
        return victims[0]

    def _compare(self, what: str, name: str, real: Any, model: Any) -> Any:
        self.ran[name] += 1
        if isinstance(real, asyncpg.PostgresError) or isinstance(model, Exception):
            if _error(real) != _error(model):
                raise Different(f"{what}\nreal:  {real!r}\nmodel: {model!r}\n{self._story()}") from (
                    model if isinstance(model, Exception) else None
                )
            self.refused[name] += 1
            return model
        rows, count, ordered = real
        found = model if not isinstance(model, int) else []
        if (model if isinstance(model, int) else len(model)) != (count if isinstance(model, int) else len(rows)):
            raise Different(f"{what}\nreal:  {count} {rows}\nmodel: {model}\n{self._story()}")
        pair = [_comparable(rows, name), _comparable(found, name)]
        if not ordered or name in TIED:
            pair = [sorted(one, key=repr) for one in pair]
        for mine, other in zip(*pair, strict=True):
            if not _alike(mine, other):
                raise Different(f"{what}\nreal:  {mine}\nmodel: {other}\n{self._story()}")
        if model:
            self.matched[name] += 1
        return model

    def _story(self) -> str:
        return "\n".join(self.told[-12:])

    # -- what they have ----------------------------------------------------------------------------

    async def compare_tables(self) -> None:
        """Raises Different where a table has other rows in one than in the other."""
        for table, shape in SHAPES.items():
            real = [_stored(row) for row in await self.sides[0].real.fetch(f"SELECT * FROM {table}")]
            model = self.server.rows(table)
            key = shape.uniques[0].columns
            if table == "ledger_entries":
                _number([real, model])
                key = ("tenant_id", "entry_id")
            pair = [{tuple(row[name] for name in key): row for row in rows} for rows in (real, model)]
            if pair[0].keys() != pair[1].keys():
                surplus = [one.keys() - other.keys() for one, other in (pair, pair[::-1])]
                raise Different(f"{table}: only real {surplus[0]}, only model {surplus[1]}\n{self._story()}")
            for one, mine in pair[0].items():
                other = pair[1][one]
                differing = [
                    f"{name}: {mine[name]!r}, in the model {other[name]!r}"
                    for name in mine
                    if not _same_cell(name, mine[name], other[name])
                ]
                if differing:
                    raise Different(f"{table} {one}: {differing}\n{self._story()}")


def text_of(what: str) -> str:
    """The statement's name, out of what was asked."""
    return what[3:].split(" ")[0] if what.startswith("-- ") else what.partition(" (")[0]


async def _let_go(connection: asyncpg.Connection) -> None:
    """Ends the snapshot of its last statement: one that wrote in a CTE, or has rows left, holds it until the next."""
    await connection.execute("SELECT")


async def _outcome_of_real(connection: asyncpg.Connection, text: str, args: tuple[Any, ...]) -> Any:
    try:
        prepared = await connection.prepare(text)
        rows = await prepared.fetch(*args)
        await _let_go(connection)
    except asyncpg.PostgresError as error:
        return error
    count = prepared.get_statusmsg().rpartition(" ")[2]
    return rows, int(count) if count.isdigit() else 0, _ordered(text)


async def _outcome_of_model(connection: ModelConnection, text: str, args: tuple[Any, ...]) -> Any:
    try:
        return await connection._ask(text, args)
    except asyncpg.PostgresError as error:
        return error
    except Exception as error:  # noqa: BLE001
        return error


def _ordered(text: str) -> bool:
    """Whether a statement says in which order its rows come."""
    depth, outer = 0, ""
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        outer += letter if depth == 0 else ""
    return "ORDER BY" in outer[max(outer.rfind("SELECT"), outer.rfind("RETURNING")) :]


def _error(outcome: Any) -> tuple[Any, ...]:
    """What an error says that the code goes by."""
    if not isinstance(outcome, asyncpg.PostgresError):
        return ("none", repr(outcome))
    guard = outcome.args[0] if outcome.sqlstate in ("TB001", "TB002") else ""
    return outcome.sqlstate, guard


def _comparable(rows: Any, name: str) -> list[dict[str, Any]]:
    """Rows without what the two count in their own ways, and with what has no order in one."""
    if name == "history.history":
        return [dict.fromkeys(dict(row)) for row in rows]  # Each has its own.
    found = []
    for row in rows:
        one = {column: _cell(value) for column, value in dict(row).items() if column not in UNLIKE}
        for column in ("players", "prizes", "periods"):
            if isinstance(one.get(column), list):
                one[column] = sorted(one[column], key=repr)
        if name == "commit.commit" and one.get("prize_ids"):
            pairs = sorted(zip(one.pop("prize_ids"), one.pop("remaining"), strict=True), key=repr)
            one["taken"] = pairs
        found.append(one)
    return found


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return micros_of(value)
    return value


def _alike(mine: dict[str, Any], other: dict[str, Any]) -> bool:
    return list(mine) == list(other) and all(_same_cell(name, mine[name], other[name]) for name in mine)


def _same_cell(name: str, mine: Any, other: Any) -> bool:
    if name in CLOCKS or (name == "?column?" and isinstance(mine, int) and mine > 10**15):
        scale = 1 if isinstance(mine, float) else 1_000_000
        return abs(mine - other) < 5 * scale
    if name == "updated_at" and isinstance(mine, int) and isinstance(other, int):
        return abs(mine - other) < (5_000_000 if mine > 10**12 else 5)
    if isinstance(mine, float) and isinstance(other, float):
        return abs(mine - other) < 0.001
    return bool(mine == other) or name == "seq"


def _stored(row: asyncpg.Record) -> dict[str, Any]:
    """A row of the real table, as the model shows its own."""
    stored = {}
    for name, value in row.items():
        if isinstance(value, datetime):
            ends = {1: INFINITE_PAST, 9999: INFINITE_FUTURE}
            value = ends.get(value.year) or micros_of(value)
        stored[name] = tuple(value) if isinstance(value, list) and name in ("events", "known", "origins") else value
    return stored


def _number(sides: list[list[dict[str, Any]]]) -> None:
    """Puts the place of each entry in its balance in the place of its seq."""
    for rows in sides:
        groups: dict[Any, list[dict[str, Any]]] = {}
        for row in rows:
            groups.setdefault((row["player_id"], row["scope_key"], row["currency"]), []).append(row)
        for group in groups.values():
            group.sort(key=lambda row: (row["seq"], row["entry_id"]))
            for place, row in enumerate(group):
                row["place"] = place
