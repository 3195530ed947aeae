"""The Merkle tree of RFC 6962 (section 2.1): roots, and proofs of inclusion and of consistency.

A proof consists of hashes of ranges of leaves. `inclusion_ranges` and `consistency_ranges` name the ranges, `nodes`
splits a range into complete subtrees, and `hash_range` computes its hash from theirs (tiles.py reads those).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

TILE_HEIGHT: Final = 8

EMPTY_ROOT: Final = hashlib.sha256(b"").digest()

HASH_BYTES: Final = 32


class Node(NamedTuple):
    """A complete subtree: the 2**level leaves from number * 2**level."""

    level: int
    number: int


def hash_leaf(entry: bytes) -> bytes:
    """The hash of a leaf."""
    return hashlib.sha256(b"\0" + entry).digest()


def hash_pair(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    return hashlib.sha256(b"\1" + left + right).digest()


class MerkleTree:
    """The root over leaves added one by one, in memory that grows with the logarithm of their number.

    frontier: the hashes of the complete subtrees of the leaves so far, the greatest first.
    """

    def __init__(self, size: int = 0, frontier: Iterable[bytes] = ()) -> None:
        self.size = size
        self.frontier = list(frontier)
        if len(self.frontier) != size.bit_count():
            raise ValueError("the frontier does not fit the size")

    def add(self, leaf: bytes) -> None:
        """Adds a leaf."""
        self.add_hash(hash_leaf(leaf))

    def add_hash(self, node: bytes) -> list[tuple[Node, bytes]]:
        """Adds the hash of a leaf. Returns the subtrees that it completes and that are a hash in a tile."""
        index, level, completed = self.size, 0, []
        while index & 1:
            node = hash_pair(self.frontier.pop(), node)
            index >>= 1
            level += 1
            if level % TILE_HEIGHT == 0:
                completed.append((Node(level, index), node))
        self.frontier.append(node)
        self.size += 1
        return completed

    def add_hashes(self, hashes: Iterable[bytes]) -> list[tuple[Node, bytes]]:
        """Adds the hashes of leaves. Returns the subtrees as `add_hash` does."""
        return [node for one in hashes for node in self.add_hash(one)]

    def digest(self) -> bytes:
        """The Merkle tree hash of the leaves so far."""
        return _fold(self.frontier) if self.frontier else EMPTY_ROOT

    def root(self) -> str:
        """The same in hex."""
        return self.digest().hex()


def _fold(hashes: Sequence[bytes]) -> bytes:
    *left, node = hashes
    for subtree in reversed(left):
        node = hash_pair(subtree, node)
    return node


def nodes(start: int, end: int) -> list[Node]:
    """The complete subtrees of the leaves from start to before end, the greatest first. start: a multiple of the
    smallest power of two that is not below end - start.
    """
    found = []
    while start < end:
        level = (end - start).bit_length() - 1
        found.append(Node(level, start >> level))
        start += 1 << level
    return found


def hash_range(start: int, end: int, hash_of: Callable[[Node], bytes]) -> bytes:
    """The Merkle tree hash of the leaves from start to before end (not empty)."""
    return _fold([hash_of(node) for node in nodes(start, end)])


def _half(size: int) -> int:
    """The largest power of two below the size (at least 2)."""
    return 1 << ((size - 1).bit_length() - 1)


def inclusion_ranges(index: int, size: int) -> list[tuple[int, int]]:
    """The ranges whose hashes prove that leaf `index` is in the tree of this size. ValueError if it is not."""
    if not 0 <= index < size:
        raise ValueError("the index is not below the size")
    ranges, start, end = [], 0, size
    while end - start > 1:
        middle = start + _half(end - start)
        if index < middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    return ranges[::-1]


def consistency_ranges(old: int, new: int) -> list[tuple[int, int]]:
    """The ranges whose hashes prove that the tree of size `old` is the beginning of that of size `new`."""
    if not 0 <= old <= new:
        raise ValueError("the old size is above the new one")
    if old in (0, new):
        return []
    ranges, start, end = [], 0, new
    while old != end:
        middle = start + _half(end - start)
        if old <= middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    if start:
        ranges.append((start, end))
    return ranges[::-1]


def verify_inclusion(leaf_hash: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether the proof shows that the leaf is in the tree (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    node, last = leaf_hash, size - 1
    for part in proof:
        if last == 0:
            return False
        if index & 1 or index == last:
            node = hash_pair(part, node)
            while not index & 1 and index:
                index >>= 1
                last >>= 1
        else:
            node = hash_pair(node, part)
        index >>= 1
        last >>= 1
    return last == 0 and node == root


def verify_consistency(old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether the proof shows that the old tree is the beginning of the new one (RFC 9162, 2.1.4.2)."""
    if not 0 <= old <= new:
        return False
    if old == 0:
        return not proof and old_root == EMPTY_ROOT
    if old == new:
        return not proof and old_root == new_root
    path = [old_root, *proof] if old.bit_count() == 1 else list(proof)
    if not path:
        return False
    index, last = old - 1, new - 1
    while index & 1:
        index >>= 1
        last >>= 1
    first = second = path[0]
    for part in path[1:]:
        if last == 0:
            return False
        if index & 1 or index == last:
            first, second = hash_pair(part, first), hash_pair(part, second)
            while not index & 1 and index:
                index >>= 1
                last >>= 1
        else:
            second = hash_pair(second, part)
        index >>= 1
        last >>= 1
    return last == 0 and first == old_root and second == new_root
