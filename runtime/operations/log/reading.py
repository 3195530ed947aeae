"""Reads a tenant's log: its newest checkpoint, its tiles and, for staff, its entries."""

from __future__ import annotations

import base64
from typing import Final

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import invalid
from runtime.operations.log.appending import append_now, signing_keys
from runtime.rules.log.entries import ENTRY_BYTES_MAX, write_bundle, write_entry
from runtime.rules.log.notes import origin_of
from runtime.rules.log.tiles import LEVEL_MAX, TILE_WIDTH
from runtime.rules.log.tree import TILE_HEIGHT
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("log")

_HASHES_MAX: Final = 2**62
"""Beyond every tree."""


async def get_log(engine: Engine, request: m.GetLogRequest) -> m.LogReply:
    """The size and the newest checkpoint of the tenant's log, and the keys that verify it. Empty without a log."""
    tenant_id = tenant_of(request)
    row = await engine.database.fetchrow(_SQL["status"], tenant_id)
    if row is None or not engine.settings.merkle_log:
        return m.LogReply(log=m.Log())
    origin = origin_of(engine.settings.merkle_log, tenant_id)
    keys = [str(key.verifier) for key in signing_keys(origin, engine.keyring.server)]
    return m.LogReply(log=m.Log(origin=origin, keys=keys, **row))


async def read_log_checkpoint(engine: Engine, request: m.ReadLogCheckpointRequest) -> m.ReadLogCheckpointReply:
    """The newest signed checkpoint. Empty: there is none."""
    return m.ReadLogCheckpointReply(note=await engine.database.fetchval(_SQL["newest"], tenant_of(request)) or "")


async def read_fresh_log_checkpoint(engine: Engine, request: m.ReadLogCheckpointRequest) -> m.ReadLogCheckpointReply:
    """The newest signed checkpoint, after the rows of now were appended. Empty: there is none."""
    await append_now(engine, tenant_of(request))
    return await read_log_checkpoint(engine, request)


async def read_log_stamp(engine: Engine, request: m.ReadLogCheckpointRequest) -> m.ReadLogStampReply:
    """The newest stamped checkpoint, with its stamp. Empty: there is none."""
    row = await engine.database.fetchrow(_SQL["newest_stamp"], tenant_of(request))
    if row is None:
        return m.ReadLogStampReply()
    return m.ReadLogStampReply(note=row["note"], stamp=base64.b64encode(row["stamp"]).decode())


async def read_log_tile(engine: Engine, request: m.ReadLogTileRequest) -> m.ReadLogTileReply:
    """The hashes of a tile, in base64. Empty: the tree has fewer."""
    first, end = _range(request)
    if not 0 <= request.level <= LEVEL_MAX:
        raise invalid("level", f"must be from 0 to {LEVEL_MAX}")
    about = (tenant_of(request), request.level * TILE_HEIGHT, first, end)
    hashes = await engine.database.fetchval(_SQL["tile"], *about)
    content = b"".join(hashes) if len(hashes) == end - first else b""
    return m.ReadLogTileReply(content=base64.b64encode(content).decode())


async def read_log_entries(engine: Engine, request: m.ReadLogTileRequest) -> m.ReadLogTileReply:
    """The entries of a tile of level 0 in base64, as their rows are now. Empty: the log has fewer.

    A row that was changed gives another entry than the one that was hashed; a missing row, only its kind and id, and
    the audit entry of its archive if it was archived.
    """
    first, end = _range(request)
    rows = await engine.database.fetch(_SQL["entries"], tenant_of(request), first, end)
    entries = []
    for row in rows if len(rows) == end - first else ():
        entry = row["entry"]
        if entry is None or len(entry) > ENTRY_BYTES_MAX:
            entry = write_entry(row["kind"], row["row_id"], {"archive": row["archive"]} if row["archive"] else {})
        entries.append(entry)
    return m.ReadLogTileReply(content=base64.b64encode(write_bundle(entries)).decode())


def _range(request: m.ReadLogTileRequest) -> tuple[int, int]:
    """The first hash of the requested tile, and the one after its last."""
    if not 0 <= request.width <= TILE_WIDTH:
        raise invalid("width", f"must be from 0 to {TILE_WIDTH}")
    if not 0 <= request.number < _HASHES_MAX // TILE_WIDTH:
        raise invalid("number", f"must be from 0 to {_HASHES_MAX // TILE_WIDTH - 1}")
    first = request.number * TILE_WIDTH
    return first, first + request.width
