"""Tables of the model: rows in versions, found by any of their columns.

A row that is changed keeps its slot, whatever its key becomes, as Postgres's update chain does: who waited for it
looks at what it is now. A version is pending until its transaction commits, and is then numbered with the commit.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ops.simulation.postgres.schema import Shape

if TYPE_CHECKING:
    from ops.simulation.postgres.transactions import Transaction


class Version:
    """What a row is from a command on. row: None where it is deleted; commit: None while it is pending."""

    __slots__ = ("command", "commit", "row", "tx")

    def __init__(self, row: Any, tx: Transaction, command: int) -> None:
        self.row = row
        self.tx = tx
        self.command = command
        self.commit: int | None = None


class Slot:
    """Where a row lies: its versions, the newest last, and who has locked it how."""

    __slots__ = ("locks", "table", "versions")

    def __init__(self, table: Table | None) -> None:
        self.table = table
        self.versions: list[Version] = []
        self.locks: dict[Transaction, int] = {}

    def latest(self, tx: Transaction) -> Version | None:
        """What the row is for who holds it: the newest version that is committed or the transaction's own."""
        for version in reversed(self.versions):
            if version.commit is not None or version.tx is tx:
                return version
        return None

    def rival(self, tx: Transaction) -> Transaction | None:
        """The other transaction that is changing the row."""
        last = self.versions[-1]
        return last.tx if last.commit is None and last.tx is not tx else None


class Index:
    """Slots by the values of some columns that any of their versions has: what is found is yet to be looked at."""

    __slots__ = ("columns", "key", "slots")

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        getter = attrgetter(*columns)
        self.key = getter if len(columns) > 1 else lambda row: (getter(row),)
        self.slots: dict[tuple[Any, ...], dict[Slot, None]] = {}

    def add(self, slot: Slot, row: Any) -> None:
        self.slots.setdefault(self.key(row), {})[slot] = None

    def remove(self, slot: Slot, row: Any) -> None:
        """Forgets a version's values, unless another version that is kept has them too."""
        key = self.key(row)
        if any(version.row is not None and self.key(version.row) == key for version in slot.versions):
            return
        if (found := self.slots.get(key)) is not None:
            found.pop(slot, None)
            if not found:
                del self.slots[key]


class Table:
    """A table: its slots in the order in which they were made, and the indexes that anybody asked for."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.slots: dict[Slot, None] = {}
        self._indexes: dict[tuple[str, ...], Index] = {}
        self.uniques = [(unique, self.index(unique.columns)) for unique in shape.uniques]

    def index(self, columns: tuple[str, ...]) -> Index:
        """The index of these columns, made at the first time of asking."""
        index = self._indexes.get(columns)
        if index is None:
            index = self._indexes[columns] = Index(columns)
            for slot in self.slots:
                for version in slot.versions:
                    if version.row is not None:
                        index.add(slot, version.row)
        return index

    def write(self, slot: Slot, version: Version) -> None:
        """Adds a version to a slot, which may be a new one."""
        slot.versions.append(version)
        self.slots[slot] = None
        if version.row is not None:
            for index in self._indexes.values():
                index.add(slot, version.row)

    def undo(self, slot: Slot, tx: Transaction) -> None:
        """Takes away what a transaction wrote that did not commit."""
        self._drop(slot, [version for version in slot.versions if version.tx is tx and version.commit is None])

    def prune(self, slot: Slot, oldest: int) -> None:
        """Takes away the versions that nobody sees any more whose snapshot is `oldest` or later."""
        seen = 0
        for place, version in enumerate(slot.versions):
            if version.commit is not None and version.commit <= oldest:
                seen = place
        gone = slot.versions[:seen]
        if seen == len(slot.versions) - 1 and slot.versions[seen].row is None:
            gone = list(slot.versions)
        self._drop(slot, gone)

    def _drop(self, slot: Slot, gone: list[Version]) -> None:
        if not gone:
            return
        slot.versions = [version for version in slot.versions if version not in gone]
        for version in gone:
            if version.row is not None:
                for index in self._indexes.values():
                    index.remove(slot, version.row)
        if not slot.versions:
            self.slots.pop(slot, None)
