"""What the models of the statements are written in: reads by a snapshot, locks, conditional writes.

Each named statement of sql/*.sql that the simulated part uses is a function in `statements/`, registered under its
name. It reads by the statement's snapshot (`get`, `find`), and whatever it locks or writes is, as in Postgres at READ
COMMITTED, looked at once more as it is by then (`where`). Rows come in an order that is drawn; who needs another one
sorts them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NoReturn, TypeVar

import asyncpg
from asyncpg.exceptions import UnknownPostgresError

from ops.simulation.postgres.schema import Unique
from ops.simulation.postgres.tables import Index, Slot, Table, Version
from ops.simulation.postgres.transactions import KEY_SHARE, NO_KEY_UPDATE, SHARE, UPDATE, Store, Transaction
from ops.simulation.postgres.values import Row, loads

__all__ = ["KEY_SHARE", "NO_KEY_UPDATE", "SHARE", "UPDATE"]

Point = Callable[[str], Awaitable[None]]
"""Awaited between two steps of a transaction, for another to go on meanwhile."""

Where = Callable[[Row], bool]
Change = Mapping[str, Any] | Callable[[Row], Mapping[str, Any]]
Result = list[dict[str, Any]] | int
"""The rows that a statement gives, or how many it touched where it gives none."""

Model = Callable[..., Result | Awaitable[Result]]
T = TypeVar("T")


class NotModelled(Exception):
    """The simulated part used a statement, or a feature of Postgres, that the model does not have."""


MODELS: Final[dict[str, Model]] = {}
"""The models by the names of their statements."""


def statement(name: str) -> Callable[[Model], Model]:
    """Registers the model of a statement, which takes a `Statement` and then what the statement takes."""

    def register(model: Model) -> Model:
        assert name not in MODELS, f"{name} has two models"
        MODELS[name] = model
        return model

    return register


class Refused(UnknownPostgresError):
    """What a function of the schema raises: refuse() or hold_key()."""

    def __init__(self, message: str, sqlstate: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate  # type: ignore[misc]


class Statement:
    """One statement at work in its transaction."""

    def __init__(self, store: Store, tx: Transaction, point: Point) -> None:
        self.store = store
        self.tx = tx
        self.point = point
        self.now = tx.began
        self._seen = store.commits
        tx.command += 1
        self._command = tx.command
        self.xmax = store.completed_xid + 1
        running = [other.xid for other in store.running if other.xid]
        self.xmin = tx.xmin = min([self.xmax, *running])
        self.in_progress = [xid for xid in running if xid < self.xmax and xid != tx.xid]
        store.snapshots[self] = self._seen

    def end(self) -> None:
        """Gives the snapshot back."""
        self.store.snapshots.pop(self, None)

    # -- time ------------------------------------------------------------------------------------

    def clock(self) -> int:
        """clock_timestamp(), or microseconds(): as it is at this moment."""
        return self.store.clock()

    def seconds(self) -> float:
        """The same in seconds."""
        return self.store.clock() / 1_000_000

    def after(self, seconds: float) -> int:
        """now() + make_interval(secs => seconds)."""
        return self.now + round(seconds * 1_000_000)

    def settled_at(self) -> int:
        """settled_at() of the schema."""
        return self.store.settled_at(self.tx)

    # -- reading ---------------------------------------------------------------------------------

    def get(self, table: str, *key: Any) -> Row | None:
        """The row of a primary key, as the statement's snapshot has it."""
        _, index = self.store.tables[table].uniques[0]
        for slot in index.slots.get(key, ()):
            row = self._visible(slot)
            if row is not None and index.key(row) == key:
                return row
        return None

    def find(self, table: str, **equals: Any) -> list[Row]:
        """The rows with these values (None: NULL), as the snapshot has them, in a drawn order."""
        source = self.store.tables[table]
        if not equals:
            return self.unordered([row for slot in source.slots if (row := self._visible(slot)) is not None])
        index = source.index(tuple(equals))
        key = tuple(equals.values())
        found = []
        for slot in index.slots.get(key, ()):
            row = self._visible(slot)
            if row is not None and index.key(row) == key:
                found.append(row)
        return self.unordered(found)

    def exists(self, table: str, **equals: Any) -> bool:
        """Whether there is a row with these values."""
        source = self.store.tables[table]
        index = source.index(tuple(equals))
        key = tuple(equals.values())
        for slot in index.slots.get(key, ()):
            row = self._visible(slot)
            if row is not None and index.key(row) == key:
                return True
        return False

    def unordered(self, rows: list[T]) -> list[T]:
        """Rows in an order that nothing promises."""
        if len(rows) > 1:
            self.store.random.shuffle(rows)
        return rows

    def _visible(self, slot: Slot) -> Row | None:
        for version in reversed(slot.versions):
            if version.commit is None:
                if version.tx is self.tx and version.command < self._command:
                    return version.row
            elif version.commit <= self._seen:
                return version.row
        return None

    def writer(self, row: Row) -> int:
        """xmin of a row: the transaction that made it what it is. 0: one that is long past."""
        for version in row.slot.versions:
            if version.row is row:
                return int(version.tx.xid)
        return 0

    # -- locks -----------------------------------------------------------------------------------

    async def lock(
        self,
        rows: Iterable[Row],
        strength: int,
        where: Where | None = None,
        *,
        skip: bool = False,
        limit: int | None = None,
    ) -> list[Row]:
        """Locks rows in the order given: those that are there still and satisfy `where`, as they are now.

        skip: SKIP LOCKED, what another has locked is left out. limit: at most so many.
        """
        held: list[Row] = []
        for row in rows:
            if limit is not None and len(held) >= limit:
                break
            current = await self._take(row, strength, where, skip=skip)
            if current is not None:
                held.append(current)
        return held

    async def _take(self, row: Row, strength: int, where: Where | None, *, skip: bool = False) -> Row | None:
        """A row of the snapshot, locked: what it is by now; None where it is gone, or is none of those any more."""
        slot: Slot = row.slot
        await self._step("lock")
        if not await self.store.hold(self.tx, slot, strength, skip=skip):
            return None
        latest = slot.latest(self.tx)
        if latest is None or latest.row is None:
            return None
        if latest.tx is self.tx and latest.commit is None and latest.command == self._command:
            return None  # Changed by this very statement: it is not changed twice.
        if latest.row is not row and where is not None and not where(latest.row):
            return None
        return latest.row

    # -- writes ----------------------------------------------------------------------------------

    async def update(self, rows: Iterable[Row], change: Change, where: Where | None = None) -> list[Row]:
        """UPDATE of rows of the snapshot, in the order given. Those that were changed, as they are then."""
        changed = []
        for row in rows:
            shape = row.slot.table.shape
            values = change(row) if callable(change) else change
            strength = NO_KEY_UPDATE
            if any(name in shape.key_columns and getattr(row, name) != value for name, value in values.items()):
                strength = UPDATE
            current = await self._take(row, strength, where)
            if current is None:
                continue
            if current is not row and callable(change):
                values = change(current)
            changed.append(await self._replace(current, values))
        return changed

    async def delete(self, rows: Iterable[Row], where: Where | None = None) -> list[Row]:
        """DELETE of rows of the snapshot. Those that were there still, as they were."""
        gone = []
        for row in rows:
            current = await self._take(row, UPDATE, where)
            if current is not None:
                self._write(current.slot, None)
                gone.append(current)
        return gone

    async def insert(self, table: str, **values: Any) -> Row:
        """INSERT of a row. UniqueViolationError where its key, or another unique one, is taken."""
        row, twin, unique = await self._add(table, values)
        if twin is not None:
            assert unique is not None
            raise _violation(unique)
        return row

    async def insert_unless(self, table: str, *, on: tuple[str, ...] = (), **values: Any) -> Row:
        """INSERT ... ON CONFLICT (on) DO NOTHING; of any unique index where `on` is empty. None: nothing was done."""
        row, twin, unique = await self._add(table, values)
        if twin is None:
            return row
        assert unique is not None
        if on and set(on) != set(unique.columns):
            raise _violation(unique)
        return None

    async def upsert(
        self,
        table: str,
        change: Callable[[Row, Row], Mapping[str, Any]],
        *,
        on: tuple[str, ...] = (),
        where: Where | None = None,
        **values: Any,
    ) -> Row:
        """INSERT ... ON CONFLICT (on) DO UPDATE SET change(row, excluded) WHERE where(row); `on` is the primary key.

        The row as it is then; None where `where` refused it.
        """
        source = self.store.tables[table]
        shape = source.shape
        excluded = shape.make(values, self.now)
        on = on or shape.uniques[0].columns
        while True:
            row, twin, unique = await self._add(table, values)
            if twin is None:
                return row
            assert unique is not None
            if set(unique.columns) != set(on):
                raise _violation(unique)
            latest = twin.latest(self.tx)
            assert latest is not None
            changes = change(latest.row, excluded)
            strength = UPDATE if shape.key_columns.intersection(changes) else NO_KEY_UPDATE
            await self._step("lock")
            await self.store.hold(self.tx, twin, strength)
            latest = twin.latest(self.tx)
            if latest is None or latest.row is None or not _same_key(unique, latest.row, excluded):
                continue  # Gone, or another by now: there is room for the row.
            if latest.tx is self.tx and latest.commit is None and latest.command == self._command:
                raise asyncpg.CardinalityViolationError("ON CONFLICT DO UPDATE command cannot affect row a second time")
            if where is not None and not where(latest.row):
                return None
            return await self._replace(latest.row, change(latest.row, excluded))

    async def _add(self, table: str, values: Mapping[str, Any]) -> tuple[Row, Slot | None, Unique | None]:
        """Inserts a row where nothing has its keys; else what has, and the unique index that says so."""
        source = self.store.tables[table]
        row = source.shape.make(values, self.now)
        await self._step("insert")
        found = await self._twin(source, row, None)
        if found is not None:
            return None, *found
        slot = Slot(source)
        row = row._replace(slot=slot)
        self.store.give_xid(self.tx)
        slot.locks[self.tx] = UPDATE
        self.tx.locked[slot] = None
        self._write(slot, row)
        return row, None, None

    async def _replace(self, row: Row, values: Mapping[str, Any]) -> Row:
        slot: Slot = row.slot
        assert slot.table is not None
        changed = row._replace(**values)
        slot.table.shape.check(changed)
        if any(getattr(row, column) != getattr(changed, column) for column in _unique_columns(slot.table, values)):
            found = await self._twin(slot.table, changed, slot)
            if found is not None:
                raise _violation(found[1])
        self._write(slot, changed)
        return changed

    async def _twin(self, table: Table, row: Row, own: Slot | None) -> tuple[Slot, Unique] | None:
        """Another row with a unique key of this one. Who is making or ending one is waited for."""
        for unique, index in table.uniques:
            if not unique.has(row):
                continue
            key = index.key(row)
            again = True
            while again:
                again = False
                for slot in list(index.slots.get(key, ())):
                    if slot is own:
                        continue
                    latest = slot.latest(self.tx)
                    has = latest is not None and _keyed(unique, index, latest.row, key)
                    rival = slot.rival(self.tx)
                    if rival is not None and (has or _keyed(unique, index, slot.versions[-1].row, key)):
                        await self.store.wait(self.tx, [rival])
                        again = True
                        break
                    if has:
                        return slot, unique
        return None

    async def _step(self, what: str) -> None:
        """Lets others go on. ConnectionResetError where the server went away meanwhile."""
        await self.point(what)
        self.store.live(self.tx)

    def _write(self, slot: Slot, row: Row | None) -> None:
        assert slot.table is not None
        self.store.give_xid(self.tx)
        slot.table.write(slot, Version(row, self.tx, self._command))
        self.tx.written[slot] = None

    # -- what the schema's functions do ----------------------------------------------------------

    def refuse(self, guard: str) -> NoReturn:
        """refuse(): undoes the whole statement."""
        raise Refused(f"guard {guard}", "TB001")

    async def hold_key(self, key_id: str) -> None:
        """hold_key(): this transaction seals with that key. Refused where it is retired."""
        await self.store.hold_advisory(self.tx, f"key {key_id}", shared=True)
        # plpgsql looks with a snapshot of its own, which sees what was committed while the lock was waited for.
        look = Statement(self.store, self.tx, self.point)
        try:
            retired = look.get("retired_keys", "", key_id) is not None
        finally:
            look.end()
        if retired:
            raise Refused(f"key {key_id} is retired", "TB002")

    async def hold_keys_of_config(self, config: bytes, before: bytes | None = None) -> None:
        """hold_keys_of_config(): of what is sealed in a receiver's config, that which was not there before."""
        for sealed in sorted(_sealed_in(loads(config)) - _sealed_in(loads(before) if before is not None else {})):
            await self.hold_key(sealed.split(":")[1])

    def campaigns_of(self, tenant_id: str, merchant_id: str, writing: bool) -> Callable[[str], bool]:
        """campaigns_of(): whether staff of a merchant may read, or write, what is of a campaign ('' of none)."""

        def may(campaign_id: str) -> bool:
            if campaign_id == "":
                return merchant_id == "" or not writing
            campaign = self.get("campaigns", tenant_id, campaign_id)
            if campaign is None:
                return False
            owner = campaign.merchant_id
            return merchant_id == "" or owner == merchant_id or (owner == "" and not writing)

        return may

    def theirs(self, tenant_id: str, merchant_id: str, writing: bool) -> Callable[[str], bool]:
        """`$n = '' OR campaign_id IN campaigns_of(...)`: the tenant's own staff asks for no campaign at all."""
        if merchant_id == "":
            return lambda campaign_id: True
        return self.campaigns_of(tenant_id, merchant_id, writing)


def _unique_columns(table: Table, values: Mapping[str, Any]) -> list[str]:
    return [name for name in values if any(name in (*unique.columns, unique.of) for unique, _ in table.uniques)]


def _keyed(unique: Unique, index: Index, row: Row | None, key: tuple[Any, ...]) -> bool:
    """Whether a row has that key of a unique index."""
    return row is not None and unique.has(row) and index.key(row) == key


def _same_key(unique: Unique, row: Row, other: Row) -> bool:
    return all(getattr(row, name) == getattr(other, name) for name in unique.columns)


def _violation(unique: Unique) -> asyncpg.UniqueViolationError:
    error = asyncpg.UniqueViolationError(f'duplicate key value violates unique constraint "{unique.name}"')
    error.constraint_name = unique.name
    return error


def _sealed_in(config: Mapping[str, Any]) -> set[str]:
    """sealed_in(): a receiver's secrets, and what its headers carry, as far as it is sealed."""
    headers = config.get("headers")
    held = [config.get("secret"), config.get("previous_secret")]
    held += headers.values() if isinstance(headers, dict) else ()
    return {text for text in held if isinstance(text, str) and text.startswith("sealed:")}
