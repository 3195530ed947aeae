"""Confirmation prompts, and error output for invalid files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, NoReturn

import aiohttp
from cyclopts import Parameter

from runtime.commands.connection import EXIT_UNCONFIRMED, Connection, fail
from runtime.commands.documents import InvalidFile
from runtime.commands.environment import EXIT_FILE

Yes = Annotated[bool, Parameter(name=["--yes", "-y"], negative=(), help="Do not ask for confirmation.")]
"""The option of commands that ask for confirmation."""


def confirmed(connection: Connection, yes: bool, question: str = "Apply this?") -> None:
    """Returns if --yes is set or the user confirms. Otherwise ends the process."""
    if yes:
        return
    if connection.json or not sys.stdin.isatty():
        fail(connection, EXIT_UNCONFIRMED, "nothing was changed. Use --yes to skip the confirmation")
    if input(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
        fail(connection, EXIT_UNCONFIRMED, "nothing was changed")


def fail_invalid_file(connection: Connection, wrong: InvalidFile) -> NoReturn:
    """Ends the process and prints the file's problems, one per line."""
    problem = {"code": "FILE_WRONG", "message": f"{wrong.name} cannot be used", "violations": wrong.violations}
    fail(connection, EXIT_FILE, *wrong.lines, error=problem)


@contextmanager
def replacing(connection: Connection, file: Path) -> Iterator[BinaryIO]:
    """A new file that replaces `file` once the block succeeds. Errors end the process, as in `file_errors`."""
    part = file.with_name(f"{file.name}.part")
    with file_errors(connection, file):
        try:
            with part.open("wb") as target:
                yield target
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def file_errors(connection: Connection, file: Path) -> Iterator[None]:
    """Ends the process with the file's problems if the block raises InvalidFile, or OSError except of a connection."""
    try:
        yield
    except InvalidFile as wrong:
        fail_invalid_file(connection, wrong)
    except aiohttp.ClientError:
        raise  # Some are OSErrors, of the connection to the edge.
    except OSError as error:
        fail(connection, EXIT_FILE, f"{file}: {error.strerror or error}")
