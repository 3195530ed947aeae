"""`tombola export`: exports all rows of one kind as CSV, JSON lines or Parquet."""

from __future__ import annotations

import csv
import io
import sys
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Literal

import aiohttp
import msgspec
from cyclopts import Parameter
from rich.progress import DownloadColumn

from runtime.commands.builder import app_of
from runtime.commands.confirm import replacing
from runtime.commands.connection import (
    DEFAULTS,
    EXIT_REFUSED,
    EXIT_UNREACHABLE,
    Connection,
    connected,
    fail,
    print_result,
)
from runtime.commands.progress import progress
from runtime.wire.times import unix

app = app_of("export")

Name = Literal[
    "plays", "play_receipts", "rewards", "winners", "ledger", "tasks", "audit", "redemptions", "participants", "views"
]
OF_FORMS: Final = ("participants", "winners")
"""The exports whose CSV columns depend on a campaign's forms."""

LATER: Final = 2**33
"""A time after every row, in 2242: an export from then on is a header."""

CUTS_MAX: Final = 5
"""The maximum number of consecutive resumes without progress."""


@app.default
async def export(
    name: Name,
    /,
    *,
    out: Annotated[Path, Parameter(allow_leading_hyphen=True)] = Path("-"),
    campaign: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
    consent: str = "",
    form: Annotated[Literal["csv", "jsonl", "parquet"], Parameter(name="--format")] = "csv",
    connection: Connection = DEFAULTS,
) -> None:
    """Write all rows of one kind to a file, oldest first. An interrupted download resumes after the last full line.

    A download of Parquet does not resume.

    Parameters
    ----------
    name
        The kind of rows.
    out
        The file; `-` is standard output.
    campaign
        Only rows of this campaign.
    since
        Only rows from this time on: 2026-03-01, or 2026-03-01T09:00:00+01:00 (UTC without an offset).
    until
        Only rows before this time.
    consent
        Only participants and winners whose consent of this id is in force.
    form
        The format of the file.
    """
    query = {"campaign_id": campaign, "from": unix(since), "to": unix(until), "consent": consent, "format": form}
    writers: dict[str, type[_File]] = {"csv": _Csv, "jsonl": _JsonLines, "parquet": _File}
    written = writers[form]()
    file = nullcontext(sys.stdout.buffer) if str(out) == "-" else replacing(connection, out)
    with file as target, progress(connection.json, DownloadColumn()) as bar:
        task = bar.add_task(f"exporting {name}", total=None)
        async with connected(connection) as edge:
            cuts, resumed = 0, False
            while True:
                before = written.rows
                try:
                    async for piece in edge.read(f"/exports/{name}", **query, cursor=written.cursor):
                        bar.advance(task, written.take(piece, target))
                    break
                except aiohttp.ClientPayloadError as error:
                    written.cut()
                    cuts = 0 if written.rows > before else cuts + 1
                    if not written.resumes or cuts > CUTS_MAX:
                        fail(connection, EXIT_UNREACHABLE, f"connection lost after {written.bytes:,} bytes: {error}")
                    resumed = True
            if resumed and form == "csv" and isinstance(written, _Csv) and name in OF_FORMS:
                later = query | {"from": LATER, "to": 0}
                if written.head != b"".join([piece async for piece in edge.read(f"/exports/{name}", **later)]):
                    fail(connection, EXIT_REFUSED, "the columns changed with a form during the export; export again")
    if str(out) == "-":
        return
    found = {"rows": written.rows} if written.resumes else {}
    count = f"{written.rows:,} " if written.resumes else ""
    print_result(connection, {**found, "bytes": written.bytes}, f"{count}{name} in {out}")


class _File:
    """Writes all that it is given. Does not resume: a part of a Parquet file is unreadable."""

    resumes = False

    def __init__(self) -> None:
        self.rows = 0
        self.bytes = 0
        self.cursor = ""

    def take(self, piece: bytes, target: BinaryIO) -> int:
        """Writes the piece and returns the number of bytes written."""
        target.write(piece)
        self.bytes += len(piece)
        return len(piece)

    def cut(self) -> None:
        """The connection was lost."""


class _Csv(_File):
    """Writes complete lines only; the first cell of the last line is the cursor to resume from."""

    resumes = True

    def __init__(self) -> None:
        super().__init__()
        self.head = b""
        self._rest = b""
        self._repeats_header = False

    def take(self, piece: bytes, target: BinaryIO) -> int:
        """Writes the complete lines and returns their size in bytes."""
        buffered = self._rest + piece
        end = self._end_of_lines(buffered)
        whole, self._rest = buffered[:end], buffered[end:]
        if whole and self._repeats_header:
            self._repeats_header = False
            whole = whole.partition(b"\r\n")[2]  # The names of columns have no line breaks.
        if whole:
            self._count(whole)
            super().take(whole, target)
        return len(whole)

    def cut(self) -> None:
        """Drops the incomplete line: the next connection sends it again, and the header if no row was complete."""
        self._rest = b""
        self._repeats_header = bool(self.bytes) and not self.cursor

    def _count(self, whole: bytes) -> None:
        rows = list(csv.reader(io.StringIO(whole.decode(), newline="")))
        header = not self.bytes
        self.head = self.head or whole[: whole.index(b"\r\n") + 2]
        self.rows += len(rows) - header
        if self.rows:
            self.cursor = rows[-1][0]

    @staticmethod
    def _end_of_lines(data: bytes) -> int:
        """The end of the last complete line. A line break within quotes does not end a line."""
        end = data.rfind(b"\r\n")
        while end >= 0 and data.count(b'"', 0, end) % 2:
            end = data.rfind(b"\r\n", 0, end)
        return end + 2 if end >= 0 else 0


class _JsonLines(_Csv):
    """The same for JSON lines, whose first value is the cursor."""

    def _count(self, whole: bytes) -> None:
        lines = whole.splitlines()
        self.rows += len(lines)
        self.cursor = next(iter(msgspec.json.decode(lines[-1]).values()))

    @staticmethod
    def _end_of_lines(data: bytes) -> int:
        return data.rfind(b"\n") + 1
