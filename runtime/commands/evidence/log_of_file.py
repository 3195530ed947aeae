"""The log in a dossier: the hashes of its leaves, the signed checkpoint, the last mark and the stamp."""

from __future__ import annotations

import base64
import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from cryptography.x509 import Certificate

from runtime.commands.evidence.findings import Finding, read_object, same
from runtime.commands.evidence.witnessed import compare
from runtime.commands.groups.log.witness import State
from runtime.rules.log.entries import BACKDATED_MICROSECONDS, mark_of
from runtime.rules.log.notes import BadNote, VerifierKey, read_checkpoint, verify_checkpoint
from runtime.rules.log.stamps import BadStamp, Stamped, shown, verify_stamp
from runtime.rules.log.tree import HASH_BYTES, MerkleTree, hash_leaf

ENTRY: Final = "an entry of the log"


class LogOfFile:
    """Reads the lines of the log, then checks them. file: stores the leaves. key, witness, trusted: as in `verify`."""

    def __init__(
        self, file: Path, key: VerifierKey | None, witness: State | None, trusted: Sequence[Certificate]
    ) -> None:
        self.note, self.mark = "", ""
        self._file = file
        self._file.touch()
        self._tree = MerkleTree()
        self._key = key
        self._witness = witness
        self._trusted = trusted
        self._stamped: Stamped | None = None
        self._roots: dict[int, bytes | None] = {}  # Size -> root, for the sizes to compare.
        if witness is not None:
            self._roots[witness.size] = None

    def read_stamp(self, value: Mapping[str, Any]) -> None:
        """Reads the stamped checkpoint. Must precede the leaves."""
        self._stamped = Stamped.parse(json.dumps(value))
        self._roots.setdefault(read_checkpoint(self._stamped.note).size)

    def read_leaves(self, tile: str) -> None:
        """Reads the hashes of the next leaves, in base64."""
        hashes = base64.b64decode(tile, validate=True)
        for first in range(0, len(hashes), HASH_BYTES):
            self._tree.add_hash(hashes[first : first + HASH_BYTES])
            if self._tree.size in self._roots:
                self._roots[self._tree.size] = self._tree.digest()
        with self._file.open("ab") as file:
            file.write(hashes)

    def has(self, line: Mapping[str, Any], at: int, own: Mapping[str, Any]) -> bool:
        """Whether the line's entry has these facts and this time (seconds), and is the leaf of its index."""
        facts = read_object(line["entry"], ENTRY)
        if facts.get("kind") == "reward":
            facts["value"] = float(facts["value"])  # A text in the log.
        is_leaf = self._leaf(line["leaf_index"]) == hash_leaf(line["entry"].encode())
        same_time = facts["at"] // 1_000_000 == at
        return is_leaf and same_time and all(same(facts.get(name), value) for name, value in own.items())

    def _leaf(self, index: int) -> bytes:
        with self._file.open("rb") as file:
            file.seek(max(index, 0) * HASH_BYTES)
            return file.read(HASH_BYTES)

    def findings(self, newest: int | None) -> Generator[Finding, None, float | None]:
        """The findings. Returns the time (seconds) before which every row is in the log; None: there is no log.

        newest: the time of the newest play in the log, in microseconds.
        """
        checkpoint = read_checkpoint(self.note) if self.note else None
        if self._witness is not None:
            yield compare(self._witness, checkpoint, self._roots[self._witness.size])
        if checkpoint is None:
            if self._key is not None:
                yield Finding("the file contains the log of the key", False)
            yield Finding("the file has no log: nothing shows that plays were left out or written later", None)
            return None
        is_whole = (checkpoint.size, checkpoint.root) == (self._tree.size, self._tree.digest())
        yield Finding(f"the log's {self._tree.size:,} leaves have the root of the checkpoint", is_whole)
        if self._key is None:
            yield Finding("the checkpoint is signed: give the log's key to check it", None)
        else:
            yield Finding("the checkpoint is signed by the key", self._is_signed(self._key))
        yield from self._of_stamp()
        if self.mark:
            facts = read_object(self.mark, "a mark of the log")
            is_last = facts["kind"] == "mark" and self._leaf(self._tree.size - 1) == hash_leaf(self.mark.encode())
            yield Finding("the log ends with a mark: no back-dated rows follow it", is_last)
            newest = mark_of(facts) if is_last else newest
        else:
            yield Finding("the file has no mark of its log: nothing shows that its latest plays are logged", None)
        return float("inf") if newest is None else (newest - BACKDATED_MICROSECONDS) / 1_000_000

    def _is_signed(self, key: VerifierKey) -> bool:
        with suppress(BadNote):
            verify_checkpoint(self.note, [key])
            return True
        return False

    def _of_stamp(self) -> Generator[Finding, None, None]:
        if self._stamped is None:
            if self._trusted:
                yield Finding("the file has a stamp of its log", False)
            return
        checkpoint = read_checkpoint(self._stamped.note)
        text = f"the log's first {checkpoint.size:,} leaves were stamped"
        if not self._trusted:
            yield Finding(f"{text}: give the authority's root certificate to check it", None)
        elif self._roots[checkpoint.size] != checkpoint.root:
            yield Finding(f"{text}: the stamp is of another log", False)
        else:
            try:
                at = verify_stamp(self._stamped.stamp, self._stamped.note, list(self._trusted))
                yield Finding(f"{text} by the authority at {shown(at)}", True)
            except BadStamp as error:
                yield Finding(f"{text}: {error}", False)
