"""`tombola export`: everything of a kind as CSV, into a file."""

from __future__ import annotations

import csv
import io
import sys
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Literal

import aiohttp
from cyclopts import Parameter
from rich.progress import DownloadColumn

from runtime.commands.confirm import file_told
from runtime.commands.connection import (
    DEFAULTS,
    EXIT_UNREACHABLE,
    Connection,
    connected,
    fail,
    print_done,
)
from runtime.commands.loop import app_of
from runtime.commands.progress import progress
from runtime.wire.times import unix

app = app_of("export")

Name = Literal["plays", "rewards", "winners", "ledger", "tasks", "audit"]
CUTS_MAX: Final = 5
"""How often in a row it goes on where it was cut off, without a line more."""


@app.default
async def export(
    name: Name,
    /,
    *,
    out: Annotated[Path, Parameter(allow_leading_hyphen=True)] = Path("-"),
    campaign: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
    connection: Connection = DEFAULTS,
) -> None:
    """Write everything of a kind to a file, the oldest first. What is cut off goes on from its last whole line.

    Parameters
    ----------
    name
        What to export.
    out
        The file; `-` is standard output.
    campaign
        Only what is of this campaign.
    since
        Only what happened from then on: 2026-03-01, or 2026-03-01T09:00:00+01:00 (UTC where it says no offset).
    until
        Only what happened before then.
    """
    query = {"campaign_id": campaign, "from": unix(since), "to": unix(until)}
    written = _Written()
    with file_told(connection, out):
        file = nullcontext(sys.stdout.buffer) if str(out) == "-" else out.open("wb")
    with file as target, progress(connection.json, DownloadColumn()) as bar:
        task = bar.add_task(f"exporting {name}", total=None)
        async with connected(connection) as edge:
            cuts = 0
            while True:
                before = written.lines
                try:
                    async for piece in edge.read(f"/exports/{name}", **query, cursor=written.cursor):
                        bar.advance(task, written.take(piece, target))
                    break
                except aiohttp.ClientPayloadError as error:
                    written.cut()
                    cuts = 0 if written.lines > before else cuts + 1
                    if cuts > CUTS_MAX:
                        fail(connection, EXIT_UNREACHABLE, f"cut off after {written.lines:,} lines: {error}")
    rows = max(0, written.lines - 1)
    if str(out) == "-":
        return
    print_done(connection, {"rows": rows, "bytes": written.bytes}, f"{rows:,} {name} in {out}")


class _Written:
    """What has been written: whole lines alone, of which the last one says where to go on."""

    def __init__(self) -> None:
        self.lines = 0
        self.bytes = 0
        self.cursor = ""
        self._rest = b""

    def take(self, piece: bytes, target: BinaryIO) -> int:
        """Writes what is whole of it; how many bytes that is."""
        held = self._rest + piece
        end = _end_of_lines(held)
        whole, self._rest = held[:end], held[end:]
        if whole:
            target.write(whole)
            rows = list(csv.reader(io.StringIO(whole.decode(), newline="")))
            self.lines += len(rows)
            if self.lines > 1:
                self.cursor = rows[-1][0]
        self.bytes += len(whole)
        return len(whole)

    def cut(self) -> None:
        """Forgets what was no whole line."""
        self._rest = b""


def _end_of_lines(held: bytes) -> int:
    """Where the last whole line ends: a line break within quotes ends none."""
    end = held.rfind(b"\r\n")
    while end >= 0 and held.count(b'"', 0, end) % 2:
        end = held.rfind(b"\r\n", 0, end)
    return end + 2 if end >= 0 else 0
