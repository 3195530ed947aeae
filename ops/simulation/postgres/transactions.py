"""Transactions of the model, the row locks that they hold, and how they wait for each other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import asyncpg

from ops.simulation.postgres.schema import SHAPES
from ops.simulation.postgres.tables import Slot, Table, Version

KEY_SHARE: Final = 0
SHARE: Final = 1
NO_KEY_UPDATE: Final = 2
UPDATE: Final = 3
"""The strengths of row locks. Two of them conflict where they add up to three or more."""

DEADLOCK_SECONDS: Final = 1.0
"""Who has waited for so long looks whether it waits in a circle, and is then the victim (deadlock_timeout)."""

IDLE_SECONDS: Final = 10.0
"""A transaction older than this that has written nothing holds nobody up (schema.sql, settled_at)."""

_FIRST_XID: Final = 1_000


class Transaction:
    """A transaction. began: microseconds, what now() is in it. xid: 0 until it writes or locks something.

    xmin: the oldest transaction under way that its last statement saw, for as long as it keeps that snapshot; 0: none.
    """

    def __init__(self, began: int) -> None:
        self.began = began
        self.command = 0
        self.xid = 0
        self.xmin = 0
        self.failed = False
        self.written: dict[Slot, None] = {}
        self.locked: dict[Slot, None] = {}
        self.waits_for: Sequence[Transaction] = ()
        self.sleep: asyncio.Future[None] | None = None
        self.sleepers: list[asyncio.Future[None]] = []


class Store:
    """The tables, and the transactions at work on them.

    clock: microseconds of the database's time. random: draws every order that Postgres leaves open.
    """

    def __init__(self, *, clock: Callable[[], int], random: Random) -> None:
        self.clock = clock
        self.random = random
        self.deadlock_seconds = DEADLOCK_SECONDS
        self.deadlocks = 0
        self.tables = {name: Table(shape) for name, shape in SHAPES.items()}
        self.commits = 0
        self.timeline = 1
        """Which history this is: a restore to a point in time begins another."""
        self.running: dict[Transaction, None] = {}
        self.snapshots: dict[Any, int] = {}
        """The statements under way, and the commit that each sees up to."""
        self._advisory: dict[int | str, Slot] = {}
        self._next_xid = _FIRST_XID
        self.completed_xid = _FIRST_XID - 1

    def kept(self) -> dict[str, list[Any]]:
        """The committed rows of each table: what a backup has, or the log up to a point in time."""
        found: dict[str, list[Any]] = {}
        for name, table in self.tables.items():
            last = [[version.row for version in slot.versions if version.commit is not None] for slot in table.slots]
            found[name] = [rows[-1] for rows in last if rows and rows[-1] is not None]
        return found

    def restored(self, kept: dict[str, list[Any]], commits: int) -> Store:
        """Another store, of these rows, that were there after so many commits."""
        store = Store(clock=self.clock, random=self.random)
        store.timeline, store.commits = self.timeline + 1, commits
        store.deadlock_seconds, store._next_xid = self.deadlock_seconds, self._next_xid
        store.completed_xid = self._next_xid - 1
        past = Transaction(self.clock())
        for name, rows in kept.items():
            for row in rows:
                slot = Slot(store.tables[name])
                version = Version(row._replace(slot=slot), past, 0)
                version.commit = commits
                store.tables[name].write(slot, version)
        return store

    def begin(self) -> Transaction:
        """A new transaction, as of now."""
        tx = Transaction(self.clock())
        self.running[tx] = None
        return tx

    def live(self, tx: Transaction) -> None:
        """ConnectionResetError where the server went away under a transaction at work."""
        if tx not in self.running:
            raise ConnectionResetError("the server went away")

    def give_xid(self, tx: Transaction) -> None:
        """Numbers a transaction that changes something."""
        if not tx.xid:
            tx.xid = self._next_xid
            self._next_xid += 1

    def commit(self, tx: Transaction) -> None:
        """Makes all that a transaction wrote seen, at once."""
        self.commits += 1
        for slot in tx.written:
            for version in slot.versions:
                if version.tx is tx and version.commit is None:
                    version.commit = self.commits
        oldest = min(self.snapshots.values(), default=self.commits)
        for slot in tx.written:
            assert slot.table is not None
            slot.table.prune(slot, oldest)
        self._end(tx)

    def abort(self, tx: Transaction) -> None:
        """Undoes all that a transaction wrote. Of one that has ended: nothing."""
        if tx not in self.running:
            return
        for slot in tx.written:
            assert slot.table is not None
            slot.table.undo(slot, tx)
        tx.failed = True
        self._end(tx)

    def _end(self, tx: Transaction) -> None:
        for slot in tx.locked:
            slot.locks.pop(tx, None)
        del self.running[tx]
        self.completed_xid = max(self.completed_xid, tx.xid)
        for sleeper in tx.sleepers:
            if not sleeper.done():
                sleeper.set_result(None)
        tx.sleepers = []

    async def hold(self, tx: Transaction, slot: Slot, strength: int, *, skip: bool = False) -> bool:
        """Locks a slot's row until the transaction ends. False: another has it, and `skip` waits for nobody."""
        while True:
            self.live(tx)
            rivals = [other for other, had in slot.locks.items() if other is not tx and had + strength > 2]
            if not rivals:
                slot.locks[tx] = max(strength, slot.locks.get(tx, strength))
                tx.locked[slot] = None
                self.give_xid(tx)
                return True
            if skip:
                return False
            await self.wait(tx, rivals)

    async def hold_advisory(self, tx: Transaction, key: int | str, *, shared: bool = False) -> None:
        """pg_advisory_xact_lock, or its shared kind."""
        slot = self._advisory.setdefault(key, Slot(None))
        await self.hold(tx, slot, SHARE if shared else UPDATE)

    async def wait(self, tx: Transaction, rivals: Sequence[Transaction]) -> None:
        """Waits until the first of those has ended. DeadlockDetectedError where they wait for it in turn."""
        self.live(tx)
        loop = asyncio.get_running_loop()
        tx.sleep = loop.create_future()
        tx.waits_for = rivals
        rivals[0].sleepers.append(tx.sleep)
        looks = loop.call_later(self.deadlock_seconds, self._look_for_circle, tx, tx.sleep)
        try:
            await tx.sleep
        finally:
            looks.cancel()
            tx.sleep, tx.waits_for = None, ()

    def wake(self, tx: Transaction, error: Exception) -> None:
        """Ends a wait of the transaction's with an error; one that waits for nothing goes on."""
        if tx.sleep is not None and not tx.sleep.done():
            tx.sleep.set_exception(error)

    def _look_for_circle(self, tx: Transaction, sleep: asyncio.Future[None]) -> None:
        reached, beyond = {tx}, list(tx.waits_for)
        while beyond:
            other = beyond.pop()
            if other is tx:
                if not sleep.done():
                    self.deadlocks += 1
                    tx.waits_for = ()  # The circle is open, before another of it looks.
                    sleep.set_exception(asyncpg.DeadlockDetectedError("deadlock detected"))
                return
            if other not in reached:
                reached.add(other)
                beyond += other.waits_for

    def settled_at(self, tx: Transaction) -> int:
        """A time before which nothing more will appear (schema.sql)."""
        recent = tx.began - int(IDLE_SECONDS * 1_000_000)
        others = [other.began for other in self.running if other is not tx and (other.xid or other.began > recent)]
        return min([tx.began, *others])
