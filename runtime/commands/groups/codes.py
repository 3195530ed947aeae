"""`tombola codes`: a pool of voucher codes filled from a file, read as it is sent; listed, ended, withdrawn from."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal

from cyclopts import Parameter
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from runtime.commands.confirm import Yes, confirmed, file_told
from runtime.commands.connection import (
    DEFAULTS,
    EXIT_REFUSED,
    Connection,
    connected,
    fail,
    people,
    print_json,
    progress_console,
    refusals_told,
)
from runtime.commands.environment import EXIT_USE
from runtime.commands.loop import app_of
from runtime.http.codes import expiry

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
    """
    ending = file.suffix.removeprefix(".")
    content_type = _TYPES[format or (ending if ending in ("csv", "json") else "text")]
    with file_told(connection, file):
        source, size = _opened(file)
    with source, refusals_told(connection), _progress(connection) as progress:
        task = progress.add_task("importing", total=size)
        async with connected(connection) as edge:
            body = _pieces(source, progress, task)
            report = await edge.send(f"/prizes/{prize}/codes", body, content_type)
        progress.update(task, total=progress.tasks[0].completed)
    if connection.json:
        print_json(report)
    else:
        words = ("added", "duplicates", "invalid", "available")
        people().print(", ".join(f"{report[word]:,} {word}" for word in words))
        for row in report["errors"]:
            print(f"{file}:{row['line']}: {row['reason']}", file=sys.stderr)
    if report["invalid"]:
        sys.exit(EXIT_REFUSED)


def _opened(file: Path) -> tuple[BinaryIO, int | None]:
    """The file, and how many bytes it has, where that can be told."""
    if str(file) == "-":
        return sys.stdin.buffer, None
    return file.open("rb"), file.stat().st_size


async def _pieces(source: BinaryIO, progress: Progress, task: object) -> AsyncIterator[bytes]:
    """The file, piece by piece; the service takes each before the next is read."""
    while piece := source.read(PIECE_BYTES):
        yield piece
        progress.advance(task, len(piece))  # type: ignore[arg-type]


def _progress(connection: Connection) -> Progress:
    """A bar on standard error; none for machines."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    console = progress_console()
    return Progress(*columns, console=console, disable=connection.json or not console.is_terminal, transient=True)


@app.command
async def withdraw(
    prize: str,
    /,
    *codes: str,
    all_free: Annotated[bool, Parameter(negative=())] = False,
    reason: str = "",
    yes: Yes = False,
    connection: Connection = DEFAULTS,
) -> None:
    """Take codes out of a prize's pool for good. Ends with 1 where one was won, or withdrawn, before.

    Parameters
    ----------
    prize
        The prize's id.
    codes
        The codes' ids, as `tombola codes list` shows them.
    all_free
        Withdraw every free one instead.
    reason
        Why, for the audit log.
    """
    confirmed(connection, yes, f"Withdraw {'every free code' if all_free else f'{len(codes)} codes'}?")
    body = {"ids": list(codes), "all_free": all_free, "reason": reason}
    with refusals_told(connection):
        async with connected(connection) as edge:
            report = await edge.post(f"/prizes/{prize}/codes/withdraw", body)
    _told(connection, report, f"{report['withdrawn']:,} withdrawn, {report['available']:,} free still")


@app.command
async def expire(
    prize: str,
    /,
    *codes: str,
    until: str = "",
    never: Annotated[bool, Parameter(negative=())] = False,
    all_free: Annotated[bool, Parameter(negative=())] = False,
    all_expired: Annotated[bool, Parameter(negative=())] = False,
    ending: str = "",
    reason: str = "",
    yes: Yes = False,
    connection: Connection = DEFAULTS,
) -> None:
    """Set when codes of a prize's pool end. Ends with 1 where one was won, or withdrawn, before.

    Parameters
    ----------
    prize
        The prize's id.
    codes
        The codes' ids, as `tombola codes list` shows them.
    until
        Until when they are given out: unix seconds, ISO 8601, or a last day such as 2026-12-31 (UTC).
    never
        They are given out for ever.
    all_free
        Every free one instead.
    all_expired
        Every expired one instead: they can be won again.
    ending
        Of every free or expired one, those alone that end then.
    reason
        Why, for the audit log.
    """
    body: dict[str, Any] = {"ids": list(codes), "all_free": all_free, "all_expired": all_expired, "never": never}
    body |= {"expires_at": _seconds(connection, "until", until), "ending_at": _seconds(connection, "ending", ending)}
    which = "every free code" if all_free else "every expired code" if all_expired else f"{len(codes)} codes"
    confirmed(connection, yes, f"Have {which} end {'never' if never else until}?")
    with refusals_told(connection):
        async with connected(connection) as edge:
            report = await edge.post(f"/prizes/{prize}/codes/expiry", {**body, "reason": reason})
    _told(connection, report, f"{report['changed']:,} changed, {report['available']:,} free now")


def _seconds(connection: Connection, name: str, text: str) -> int:
    """A time as the import reads it; 0: none is given."""
    if (seconds := expiry(text)) < 0:
        fail(connection, EXIT_USE, f"--{name}: {text!r} is no time: unix seconds, ISO 8601, or a day")
    return seconds


def _told(connection: Connection, report: dict[str, Any], said: str) -> None:
    """Says what became of codes; ends with 1 where some stay as they were."""
    if connection.json:
        print_json(report)
    else:
        people().print(said)
        for one in report["kept"]:
            state = one["state"].removeprefix("CODE_STATE_").lower()
            print(f"tombola: {one['id']}: {'unknown' if state == 'unspecified' else state}", file=sys.stderr)
    if report["kept"]:
        sys.exit(EXIT_REFUSED)
