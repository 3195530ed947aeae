"""`tombola codes`: imports voucher codes from a file (streamed), lists, expires and withdraws them."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Literal

from cyclopts import Parameter
from rich.progress import BarColumn, DownloadColumn, Progress

from runtime.commands.builder import app_of
from runtime.commands.confirm import file_errors
from runtime.commands.connection import (
    DEFAULTS,
    EXIT_REFUSED,
    Connection,
    connected,
    print_result,
)
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
    """Add the codes of a file to a prize's pool. Existing codes are counted as duplicates and not added again.

    Exits with 1 if a line is not a valid code; the other lines are added.

    Parameters
    ----------
    prize
        The prize's id.
    file
        One code per line, or JSON `{"codes": [...]}`, or CSV with the code in the first column and optionally a column
        `expires_at` (unix seconds, ISO 8601, or a last day); with a heading, ; or tabs work too. `-` is standard input.
    format
        The file's format; default: from its extension (.csv, .json, otherwise text).
    key
        The key of an interrupted import of the same file, to resume it.
    """
    await import_file(f"/prizes/{prize}/codes", file, format=format, key=key, connection=connection)


async def import_file(path: str, file: Path, *, format: str | None, key: str, connection: Connection) -> None:
    """Sends a file of codes to a prize or pack, and prints the report. Exits with 1 if a line is not a valid code."""
    from runtime import messages as m  # a slow import that the group's other commands do not need

    ending = file.suffix.removeprefix(".")
    content_type = _TYPES[format or (ending if ending in ("csv", "json") else "text")]
    with file_errors(connection, file):
        source, size = _opened(file)
    with source, progress(connection.json, BarColumn(), DownloadColumn()) as bar:
        task = bar.add_task("importing", total=size)
        async with connected(connection) as edge:
            body = _pieces(source, bar, task)
            done = await edge.send(path, body, content_type, key)
        bar.update(task, total=bar.tasks[0].completed)
    report = m.ImportCodesReply.from_dict(done, ignore_unknown_fields=True)
    counts = f"{report.added:,} added, {report.duplicates:,} duplicates, {report.invalid:,} invalid"
    print_result(connection, done, f"{counts}, {report.available:,} available")
    for row in report.errors if not connection.json else ():
        print(f"{file}:{row.line}: {row.reason}", file=sys.stderr)
    if report.invalid:
        sys.exit(EXIT_REFUSED)


def _opened(file: Path) -> tuple[BinaryIO, int | None]:
    """The file and its size; None: unknown (standard input)."""
    if str(file) == "-":
        return sys.stdin.buffer, None
    return file.open("rb"), file.stat().st_size


async def _pieces(source: BinaryIO, bar: Progress, task: object) -> AsyncIterator[bytes]:
    """Reads the file in pieces, each after the previous one was sent."""
    while piece := source.read(PIECE_BYTES):
        yield piece
        bar.advance(task, len(piece))  # type: ignore[arg-type]
