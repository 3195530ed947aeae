"""Tiles (C2SP tlog-tiles): up to 256 consecutive hashes of the tree at a level that is a multiple of 8.

Hash i of the tiles at level L is the root of the leaves from i * 256**L to before (i + 1) * 256**L.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from runtime.rules.log.tree import HASH_BYTES, TILE_HEIGHT, Node, hash_pair

TILE_WIDTH: Final = 1 << TILE_HEIGHT

LEVEL_MAX: Final = 7
"""The highest level of a tree with fewer than 2**63 leaves."""

_PATH: Final = re.compile(r"(entries|0|[1-9][0-9]?)/((?:x[0-9]{3}/){0,6}[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?", re.ASCII)


class Tile(NamedTuple):
    """A tile. width: the number of its hashes, fewer than 256 in a partial one. entries: the entry bundle instead."""

    level: int
    number: int
    width: int = TILE_WIDTH
    entries: bool = False

    @property
    def path(self) -> str:
        """The path of the tile below the log's URL."""
        first, *others = f"{self.number:,}".split(",")
        *left, last = first.zfill(3), *others
        name = "/".join([*(f"x{part}" for part in left), last])
        partial = f".p/{self.width}" if self.width < TILE_WIDTH else ""
        return f"tile/{'entries' if self.entries else self.level}/{name}{partial}"

    @property
    def first(self) -> int:
        """The number of its first hash within the level."""
        return self.number * TILE_WIDTH


def parse_tile(path: str) -> Tile | None:
    """The tile of a path after `tile/`. None: it names none."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    kind, digits, width = found.groups()
    entries = kind == "entries"
    tile = Tile(
        0 if entries else int(kind),
        int(digits.replace("x", "").replace("/", "")),
        TILE_WIDTH if width is None else int(width),
        entries,
    )
    # The path has one spelling: no leading x000, no width of 256 and more.
    valid = tile.level <= LEVEL_MAX and (width is None or tile.width < TILE_WIDTH) and tile.path == f"tile/{path}"
    return tile if valid else None


def width_at(level: int, number: int, size: int) -> int:
    """The number of hashes that a tree of this size has in the tile; 0 or less: none."""
    return min(TILE_WIDTH, (size >> (TILE_HEIGHT * level)) - number * TILE_WIDTH)


def tiles_of(needed: Iterable[Node], size: int) -> list[Tile]:
    """The tiles that have the subtrees, in a tree of this size."""
    found = dict.fromkeys((node.level // TILE_HEIGHT, _first_hash(node) // TILE_WIDTH) for node in needed)
    return [Tile(level, number, width_at(level, number, size)) for level, number in found]


def _first_hash(node: Node) -> int:
    return node.number << (node.level % TILE_HEIGHT)


def read_node(node: Node, tiles: Mapping[tuple[int, int], bytes]) -> bytes:
    """The hash of a subtree from the tiles by level and number. ValueError if its tile is too short."""
    first, count = _first_hash(node), 1 << (node.level % TILE_HEIGHT)
    held, at = tiles[node.level // TILE_HEIGHT, first // TILE_WIDTH], first % TILE_WIDTH
    hashes = [held[HASH_BYTES * i : HASH_BYTES * (i + 1)] for i in range(at, at + count)]
    if len(hashes[-1]) != HASH_BYTES:
        raise ValueError("the tile is too short")
    while len(hashes) > 1:
        hashes = [hash_pair(hashes[i], hashes[i + 1]) for i in range(0, len(hashes), 2)]
    return hashes[0]
