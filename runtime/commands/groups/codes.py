"""`tombola codes`: a pool of voucher codes filled from a file, read as it is sent; listed, ended, withdrawn from."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Literal

from cyclopts import Parameter
from rich.progress import BarColumn, DownloadColumn, Progress

from runtime.commands.confirm import file_told
from runtime.commands.connection import (
    DEFAULTS,
    EXIT_REFUSED,
    Connection,
    connected,
    print_done,
)
from runtime.commands.loop import app_of
from runtime.commands.progress import progress

app = app_of("codes")

PIECE_BYTES: Final = 64 * 1024


_TYPES: Final = {"csv": "text/csv", "json": "application/json", "text": "text/plain"}


@app.command(name="import")
async def import_codes(
    prize: str,
    file: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    format: Literal["csv", "json", "text"] | None = None,
    key: str = "",
    connection: Connection = DEFAULTS,
) -> None:
    """Add the codes of a file to a prize's pool. Codes that are there already are counted, and not added again.

    Ends with 1 where a line is no code; the others are added all the same.

    Parameters
    ----------
    prize
        The prize's id.
    file
        One code a line, or CSV (after a heading also with ; or tabs) with the code in the first column and, where the
        heading names it `expires_at`, when it expires (unix seconds, ISO 8601, a last day), or JSON
        `{"codes": [...]}`; `-` is standard input.
    format
        What the file is; otherwise its ending says so (.csv, .json, else text).
    key
        The key of an import of the same file that broke off, which goes on where it stopped.
    """
    from runtime import messages as m  # late: the group's other commands need none of them

    ending = file.suffix.removeprefix(".")
    content_type = _TYPES[format or (ending if ending in ("csv", "json") else "text")]
    with file_told(connection, file):
        source, size = _opened(file)
    with source, progress(connection.json, BarColumn(), DownloadColumn()) as bar:
        task = bar.add_task("importing", total=size)
        async with connected(connection) as edge:
            body = _pieces(source, bar, task)
            done = await edge.send(f"/prizes/{prize}/codes", body, content_type, key)
        bar.update(task, total=bar.tasks[0].completed)
    report = m.ImportCodesReply.from_dict(done, ignore_unknown_fields=True)
    counts = f"{report.added:,} added, {report.duplicates:,} duplicates, {report.invalid:,} invalid"
    print_done(connection, done, f"{counts}, {report.available:,} available")
    for row in report.errors if not connection.json else ():
        print(f"{file}:{row.line}: {row.reason}", file=sys.stderr)
    if report.invalid:
        sys.exit(EXIT_REFUSED)


def _opened(file: Path) -> tuple[BinaryIO, int | None]:
    """The file, and how many bytes it has, where that can be told."""
    if str(file) == "-":
        return sys.stdin.buffer, None
    return file.open("rb"), file.stat().st_size


async def _pieces(source: BinaryIO, bar: Progress, task: object) -> AsyncIterator[bytes]:
    """The file, piece by piece; the service takes each before the next is read."""
    while piece := source.read(PIECE_BYTES):
        yield piece
        bar.advance(task, len(piece))  # type: ignore[arg-type]
