"""One thing made or changed by a file of its fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runtime.commands import documents
from runtime.commands.confirm import file_told
from runtime.commands.connection import Connection, connected, fail, refusals_told
from runtime.commands.environment import EXIT_USE


async def filed(connection: Connection, file: Path, path: str, identifier: str) -> dict[str, Any]:
    """What the service has after the file's fields were set: of a new thing under `path`, or of `identifier`."""
    with file_told(connection, file):
        given: Any = documents.read(file).value
    if not isinstance(given, dict):
        fail(connection, EXIT_USE, f"{file} must hold the fields of one of {path.removeprefix('/')}")
    with refusals_told(connection):
        async with connected(connection) as edge:
            return await (edge.put(f"{path}/{identifier}", given) if identifier else edge.post(path, given))
