"""Proves that a row is in a tenant's log."""

from __future__ import annotations

from typing import Final

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.rules.log.notes import read_checkpoint
from runtime.rules.log.tiles import Tile, read_node, tiles_of
from runtime.rules.log.tree import HASH_BYTES, TILE_HEIGHT, hash_range, inclusion_ranges, nodes

_SQL: Final = sql.load("log")


async def prove_play(engine: Engine, tenant_id: str, play_id: str) -> m.PlayLogProof | None:
    """The proof that a play is under the newest checkpoint of its tenant's log. None: there is no log.

    It does not have the stored texts of the play, which the log only hashes.
    """
    if not engine.settings.merkle_log:
        return None
    note = await engine.database.fetchval(_SQL["newest"], tenant_id)
    leaf = await engine.database.fetchrow(_SQL["leaf_of"], tenant_id, "play", play_id)
    size = read_checkpoint(note).size if note else 0
    if leaf is None or leaf["entry"] is None or leaf["leaf_index"] >= size:
        return m.PlayLogProof(pending=True)
    ranges = inclusion_ranges(leaf["leaf_index"], size)
    needed = [node for first, end in ranges for node in nodes(first, end)]
    tiles = {(tile.level, tile.number): await _read(engine, tenant_id, tile) for tile in tiles_of(needed, size)}
    return m.PlayLogProof(
        entry=leaf["entry"].decode(),
        index=leaf["leaf_index"],
        proof=[hash_range(first, end, lambda node: read_node(node, tiles)).hex() for first, end in ranges],
        checkpoint=note,
        salt=leaf["salt"] or "",
    )


async def _read(engine: Engine, tenant_id: str, tile: Tile) -> bytes:
    """The hashes of a tile."""
    about = (tenant_id, tile.level * TILE_HEIGHT, tile.first, tile.first + tile.width)
    hashes = await engine.database.fetchval(_SQL["tile"], *about)
    assert len(hashes) == tile.width and all(len(one) == HASH_BYTES for one in hashes)
    return b"".join(hashes)
