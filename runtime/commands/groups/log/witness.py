"""A witness of a log: remembers the last checkpoint, and accepts a new one only if the log was appended to.

It trusts only the keys in its state. With entries it also notices changed rows: an entry bundle is made of the rows as
they are now, so a changed row does not hash to its leaf. It uses only hashes that are verified against a signed
root. Every log grows, at least by a mark each half hour. If it stops growing, its operator can insert false rows before
they are logged. Memory does not grow with the log.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from runtime.commands.environment import fail_to_start
from runtime.commands.groups.log.archived import Archived
from runtime.rules.log import stamps
from runtime.rules.log.entries import BACKDATED_MICROSECONDS, made_of, mark_of, read_bundle, read_entry
from runtime.rules.log.notes import BadNote, Checkpoint, VerifierKey, read_checkpoint, verify_checkpoint
from runtime.rules.log.tiles import TILE_WIDTH, Tile, read_node, tiles_of, width_at
from runtime.rules.log.tree import (
    HASH_BYTES,
    MerkleTree,
    Node,
    consistency_ranges,
    hash_leaf,
    hash_range,
    nodes,
    verify_consistency,
)

WAIT_MINUTES: Final = 10.0
"""How long a row may wait for its entry: twenty intervals of the log's job."""

WAITS_MAX: Final = 100
"""Standstills that are named."""

ROWS_MAX: Final = 50_000
"""Rows of the newest entries to remember: at least this many, at most twice as many."""

AT_ONCE: Final = 4
"""Tiles fetched at a time."""

Fetch = Callable[[str], Awaitable[bytes]]
"""Fetches a path below the log's URL."""


class BadState(ValueError):
    """The file is not the state of a witness."""


class Distrusted(Exception):
    """The log is not what it was, or its signature is wrong. The message says what."""


@dataclass
class State:
    """What a witness remembers. mark: the time of the last one read. grown_at: the visit that saw the log grow.
    recent: the index of the mark before the last one read.
    """

    keys: list[str]
    size: int = 0
    frontier: list[str] = field(default_factory=list)
    note: str = ""
    read: int = 0
    mark: int = 0
    grown_at: float = 0.0
    recent: int = 0

    @classmethod
    def load(cls, file: Path) -> State | None:
        """The state in the file; None if there is none yet. BadState if it is damaged."""
        try:
            state = cls(**json.loads(file.read_text(encoding="utf-8")))
            _ = state.verifiers, state.tree  # Raises if a key or a hash is damaged.
        except FileNotFoundError:
            return None
        except (TypeError, ValueError, AttributeError, RecursionError) as error:
            raise BadState(f"{file} is not the state of a witness") from error
        return state

    def store(self, file: Path) -> None:
        """Replaces the file, so that an interruption leaves the old state or the new one."""
        new = file.with_name(f"{file.name}.new")
        with new.open("w", encoding="utf-8") as stream:
            json.dump(vars(self), stream, indent=1)
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(file)

    @property
    def tree(self) -> MerkleTree:
        return MerkleTree(self.size, map(bytes.fromhex, self.frontier))

    @property
    def verifiers(self) -> list[VerifierKey]:
        return [VerifierKey.parse(key) for key in self.keys]


class _Rows:
    """The rows of the newest entries. A second entry of an older row is found as back-dated, unless it states a later
    time.
    """

    def __init__(self) -> None:
        self._older: set[tuple[str, str]] = set()
        self._newer: set[tuple[str, str]] = set()

    def add(self, facts: dict[str, Any]) -> bool:
        """False if the row has an entry already."""
        row = (str(facts.get("kind")), str(facts.get("id")))
        is_new = row not in self._newer and row not in self._older
        self._newer.add(row)
        if len(self._newer) > ROWS_MAX:
            self._older, self._newer = self._newer, set()
        return is_new


def key_of_argument(text: str) -> VerifierKey:
    """The key of the option --key. Ends the process if it is none."""
    try:
        return VerifierKey.parse(text)
    except ValueError:
        fail_to_start(f"--key: {text!r} is not a verifier key. Use one that `tombola log status` shows")


async def visit(state: State, fetch: Fetch) -> Checkpoint:
    """Verifies the newest checkpoint against the state, which it advances. Raises Distrusted."""
    note = (await fetch("checkpoint")).decode(errors="replace")
    try:
        new = verify_checkpoint(note, state.verifiers)
    except BadNote as error:
        raise Distrusted(str(error)) from error
    old = state.tree
    if new.origin != state.verifiers[0].name:
        raise Distrusted(f"the checkpoint is of another log, {new.origin}")
    if new.size < old.size:
        raise Distrusted(f"the log has shrunk from {old.size} entries to {new.size}: entries were removed")
    # Both proofs are of hashes that may be forged: the roots decide whether they are genuine.
    ranges = consistency_ranges(old.size, new.size)
    frontier = nodes(0, new.size)
    tiles = await _tiles([node for one in ranges for node in nodes(*one)] + frontier, new.size, fetch)
    proof = [hash_range(start, end, lambda node: read_node(node, tiles)) for start, end in ranges]
    if not verify_consistency(old.size, new.size, old.digest(), new.root, proof):
        raise Distrusted(f"the log does not begin with the {old.size} entries seen before: its past was changed")
    tree = MerkleTree(new.size, [read_node(node, tiles) for node in frontier])
    if tree.digest() != new.root:
        raise Distrusted("the log's tiles do not lead to its signed root")
    if new.size > old.size or not state.grown_at:
        state.grown_at = time.time()
    state.size, state.frontier, state.note = new.size, [one.hex() for one in tree.frontier], note
    return new


async def check_stamped(state: State, stamped: stamps.Stamped, fetch: Fetch) -> int:
    """Checks that the stamped checkpoint is an earlier one of this log. Returns its size. Raises Distrusted."""
    try:
        old = read_checkpoint(stamped.note)
    except BadNote as error:
        raise Distrusted(f"the stamp: {error}") from error
    ranges = consistency_ranges(old.size, state.size)
    tiles = await _tiles([node for one in ranges for node in nodes(*one)], state.size, fetch)
    proof = [hash_range(start, end, lambda node: read_node(node, tiles)) for start, end in ranges]
    if not verify_consistency(old.size, state.size, old.root, state.tree.digest(), proof):
        raise Distrusted(f"the stamped checkpoint of {old.size} entries is not of this log")
    return old.size


async def _tiles(needed: list[Node], size: int, fetch: Fetch) -> dict[tuple[int, int], bytes]:
    found = {}
    for tile in tiles_of(needed, size):
        found[tile.level, tile.number] = await _tile(tile, fetch)
    return found


async def _tile(tile: Tile, fetch: Fetch) -> bytes:
    held = await fetch(tile.path)
    if len(held) != tile.width * HASH_BYTES:
        raise Distrusted(f"{tile.path} has {len(held)} bytes in place of {tile.width * HASH_BYTES}")
    return held


async def read_entries(
    state: State,
    fetch: Fetch,
    *,
    whole: bool = False,
    waits: list[str] | None = None,
    notes: list[str] | None = None,
    minutes: float = math.inf,
) -> AsyncIterator[str]:
    """Checks the entries since the last visit (whole: all), and yields each problem. Without any, advances the state.

    waits: receives each past standstill (`waited`), which is not a problem by itself: an outage looks the same. It also
    receives each archive that still deletes plays. notes: receives each archive. An attacker who
    can write to the database can forge one with all its rows, so the operator compares each with the files.

    An archived play makes it check all entries, since an archive is compared as a whole.

    The leaves are hashed again up to the signed root, so they are those that were signed.
    """
    size, began, sound = state.size, 0 if whole else state.read, True
    tree, mark, oldest = MerkleTree(), 0 if whole else state.mark, 0
    rows, recent, newest = _Rows(), state.recent, state.recent
    waits, notes, archived = [] if waits is None else waits, [] if notes is None else notes, Archived()
    at = min(began, state.recent) // TILE_WIDTH * TILE_WIDTH
    if at:  # The tree up to there, from tiles; wrong ones do not lead to the signed root below.
        frontier = nodes(0, at)
        tiles = await _tiles(frontier, size, fetch)
        tree = MerkleTree(at, [read_node(node, tiles) for node in frontier])
    while at < size:
        starts = range(at, min(size, at + AT_ONCE * TILE_WIDTH), TILE_WIDTH)
        pairs = await asyncio.gather(*(_leaves(start // TILE_WIDTH, size, fetch) for start in starts))
        for leaves, entries in pairs:
            for leaf, entry in zip(leaves, entries, strict=True):
                tree.add_hash(leaf)
                index, facts = tree.size - 1, read_entry(entry)
                is_new = rows.add(facts)
                if facts.get("kind") == "mark":
                    recent, newest = newest, index
                if index < began:
                    continue
                if archived.takes(index, leaf, facts):
                    continue
                if problem := _problem(index, leaf, entry, facts, mark, is_new=is_new):
                    sound = False
                    yield problem
                elif facts["kind"] != "mark":
                    notes += archived.name(facts)
                    oldest = min(oldest or int(facts["at"]), int(facts["at"]))
                else:
                    before, mark = mark, mark_of(facts)
                    if before and len(waits) < WAITS_MAX and (wait := waited(oldest, before, made_of(facts), minutes)):
                        waits.append(wait)
                    oldest = 0
        at = starts[-1] + TILE_WIDTH
        if began and archived:
            notes.clear()
            async for problem in read_entries(state, fetch, whole=True, waits=waits, notes=notes, minutes=minutes):
                yield problem
            return
    for problem in archived.problems(waits):
        sound = False
        yield problem
    if tree.digest() != state.tree.digest():
        raise Distrusted("the log's tiles do not lead to its signed root")
    if sound:
        state.read, state.mark, state.recent = size, mark, recent


async def _leaves(number: int, size: int, fetch: Fetch) -> tuple[Iterator[bytes], list[bytes]]:
    """The leaf hashes of a tile, and the entries."""
    width = width_at(0, number, size)
    held = await _tile(Tile(0, number, width), fetch)
    bundle = Tile(0, number, width, entries=True)
    try:
        entries = list(read_bundle(await fetch(bundle.path)))
    except ValueError as error:
        raise Distrusted(f"{bundle.path}: {error}") from error
    if len(entries) != width:
        raise Distrusted(f"{bundle.path} has {len(entries)} entries in place of {width}")
    return (held[i : i + HASH_BYTES] for i in range(0, len(held), HASH_BYTES)), entries


def _problem(index: int, leaf: bytes, entry: bytes, facts: dict[str, Any], mark: int, *, is_new: bool) -> str:
    """What is wrong with an entry; "": nothing. is_new: it is the first of its row.

    The log may be hostile: no control characters from it are shown.
    """
    about = "".join(one for one in f"{facts.get('kind', '')} {facts.get('id', '')}"[:200] if one.isprintable())
    name = f"entry {index}: {about}".rstrip()
    if hash_leaf(entry) != leaf:
        return f"{name} was removed" if facts.keys() == {"id", "kind"} else f"{name} was changed"
    try:
        at = mark_of(facts) if facts["kind"] == "mark" else int(facts["at"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return f"{name} is malformed"
    if not is_new:
        return f"{name} is in the log twice"
    if facts["kind"] == "mark":
        return f"{name}: the clock went back by {(mark - at) // 1_000_000} seconds" if at < mark else ""
    return f"{name} is back-dated" if at < mark - BACKDATED_MICROSECONDS else ""


def waited(oldest: int, before: int, made: int, minutes: float) -> str:
    """A description of the log's standstill between two marks; "": there was none. Times in microseconds.

    made: when the later one was made. oldest: of the rows in between; 0: none. minutes: how long a log without rows may
    have no mark.
    """
    since, most = (oldest, min(WAIT_MINUTES, minutes)) if oldest else (before, minutes)
    if made - since <= most * 60_000_000:
        return ""
    first, last = (stamps.shown(at / 1_000_000) for at in (since, made))
    why = "a row waited" if oldest else "it had no mark"
    return f"the log stood still: {why} from {first} to {last}. Its rows could be changed before they were logged"


def standstill(state: State, minutes: float, *, entries: bool) -> str:
    """Says that the log stands still: its newest mark is older. Without entries: it has not grown for longer. "": no.

    A mark of a later time than now is no better: the log could stand still until then.
    """
    since = state.mark / 1_000_000 if entries else state.grown_at
    if abs(time.time() - since) <= minutes * 60:
        return ""
    about = "the newest mark is from" if entries else "it has not grown since the visit of"
    return f"the log stands still, or a clock is wrong: {about} {stamps.shown(since)}"
