"""`tombola packs`: imports codes from a file (streamed), and writes new random codes to one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter
from rich.progress import BarColumn, MofNCompleteColumn

from runtime.commands.builder import app_of
from runtime.commands.confirm import file_errors
from runtime.commands.connection import DEFAULTS, Connection, connected, fail, print_result
from runtime.commands.environment import EXIT_USE
from runtime.commands.groups.codes import import_file
from runtime.commands.progress import progress

app = app_of("packs")

PART: Final = 5_000
"""Codes per request."""


@app.command(name="import")
async def import_codes(
    pack: str,
    file: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    format: Literal["csv", "json", "text"] | None = None,
    key: str = "",
    connection: Connection = DEFAULTS,
) -> None:
    """Add the codes of a file to a pack. Existing codes are counted as duplicates and not added again.

    Exits with 1 if a line is not a valid code; the other lines are added.

    Parameters
    ----------
    pack
        The pack's id.
    file
        One code per line, or JSON `{"codes": [...]}`, or CSV with the code in the first column. `-` is standard input.
    format
        The file's format; default: from its extension (.csv, .json, otherwise text).
    key
        The key of an interrupted import of the same file, to resume it.
    """
    await import_file(f"/packs/{pack}/codes", file, format=format, key=key, connection=connection)


@app.command
async def generate(pack: str, count: int, file: Path, /, *, connection: Connection = DEFAULTS) -> None:
    """Add new random codes of 80 bits to a pack and write them to a new CSV file: they are shown only once.

    Parameters
    ----------
    pack
        The pack's id.
    count
        The number of codes.
    file
        The file, which must not exist.
    """
    if count < 1:
        fail(connection, EXIT_USE, "COUNT must be at least 1")
    with file_errors(connection, file):
        target = file.open("x", encoding="utf-8", newline="")
    with target, progress(connection.json, BarColumn(), MofNCompleteColumn()) as bar:
        task, left = bar.add_task("generating", total=count), count
        target.write("code\r\n")
        async with connected(connection) as edge:
            while left > 0:
                made = await edge.post(f"/packs/{pack}/codes/generate", {"count": min(left, PART)})
                target.write("".join(f"{code}\r\n" for code in made["codes"]))
                target.flush()
                left -= len(made["codes"])
                bar.update(task, completed=count - left)
    print_result(connection, {"codes": count}, f"{count:,} codes written to {file}")
