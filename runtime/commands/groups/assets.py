"""`tombola assets add`: uploads a picture or a font."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from cyclopts import Parameter

from runtime.commands.builder import app_of
from runtime.commands.confirm import file_errors
from runtime.commands.connection import DEFAULTS, Connection, connected, print_result

app = app_of("assets")


@app.command(name="add")
async def add(
    file: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    name: str = "",
    connection: Connection = DEFAULTS,
) -> None:
    """Upload a picture (PNG, JPEG or WebP) or a font (WOFF2), and print its URL.

    Parameters
    ----------
    file
        The file.
    name
        Its name in the list; default: the file's name.
    """
    with file_errors(connection, file):
        body = file.read_bytes()

    async def whole() -> AsyncIterator[bytes]:
        yield body

    async with connected(connection) as edge:
        path = f"/assets?name={quote(name or file.name)}"
        made = await edge.send(path, whole(), "application/octet-stream")
    print_result(connection, made, made["url"])
