"""The Merkle log of each tenant. Jobs append settled rows, sign checkpoints and get them stamped; anyone reads tiles.

The formats are those of runtime/rules/log/. Without MERKLE_LOG there is no log, and its job costs nothing.
"""

from __future__ import annotations

from typing import Final

from runtime.operations.log.reading import (
    get_log,
    read_fresh_log_checkpoint,
    read_log_checkpoint,
    read_log_entries,
    read_log_stamp,
    read_log_tile,
)
from runtime.operations.row import STAFF, Command, Operation

READ_LOG_CHECKPOINT: Final = Operation(
    "ReadLogCheckpoint", "GET /log/checkpoint", run=read_log_checkpoint, bounded=True
)
READ_FRESH_LOG_CHECKPOINT: Final = Operation(
    "ReadFreshLogCheckpoint", "GET /log/checkpoint/fresh", run=read_fresh_log_checkpoint, lengthy=True
)
READ_LOG_STAMP: Final = Operation("ReadLogStamp", "GET /log/stamp", run=read_log_stamp, bounded=True)
READ_LOG_TILE: Final = Operation("ReadLogTile", "GET /log/tile", run=read_log_tile, bounded=True)
READ_LOG_ENTRIES: Final = Operation("ReadLogEntries", "GET /log/entries", run=read_log_entries, bounded=True)
"""Core's own; the edges serve them in the format of tlog-tiles (runtime/http/feeds/log_tiles.py)."""

ROWS: Final = (
    Operation(
        "GetLog",
        "GET /log",
        run=get_log,
        admin=STAFF,
        tenant_wide=True,
        command=Command(
            "log status",
            "Show the size, the newest checkpoint, the newest stamp and the verifier keys of the tenant's log.",
            columns="size, checkpoint=checkpoint_size, signed={checkpoint_at:minute}, stamp=stamp_size,"
            " stamped={stamp_at:minute}, origin, keys",
        ),
    ),
    READ_LOG_CHECKPOINT,
    READ_FRESH_LOG_CHECKPOINT,
    READ_LOG_STAMP,
    READ_LOG_TILE,
    READ_LOG_ENTRIES,
)
