"""What is asked before something is done, and said of a file that cannot be used."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

from cyclopts import Parameter

from runtime.commands.connection import EXIT_FILE, EXIT_REFUSED, EXIT_UNCONFIRMED, Connection, fail
from runtime.commands.documents import FileWrong

Yes = Annotated[bool, Parameter(name=["--yes", "-y"], negative=(), help="Do it without asking.")]
"""Of a command that asks before it does something."""


def confirmed(connection: Connection, yes: bool, question: str = "Apply this?") -> None:
    """Goes on where --yes says so, or a person does. Ends the process otherwise."""
    if yes:
        return
    if connection.json or not sys.stdin.isatty():
        fail(connection, EXIT_UNCONFIRMED, "nothing was changed: add --yes to do it without being asked")
    if input(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
        fail(connection, EXIT_UNCONFIRMED, "nothing was changed")


def fail_of_file(connection: Connection, wrong: FileWrong) -> NoReturn:
    """Ends the process with what is wrong with a file, line by line."""
    problem = {"code": "FILE_WRONG", "message": f"{wrong.name} cannot be used", "violations": wrong.violations}
    fail(connection, EXIT_FILE, *wrong.lines, error=problem)


@contextmanager
def file_told(connection: Connection, file: Path) -> Iterator[None]:
    """Ends the process with what is wrong with a file."""
    try:
        yield
    except FileWrong as wrong:
        fail_of_file(connection, wrong)
    except OSError as error:
        fail(connection, EXIT_REFUSED, f"{file}: {error.strerror or error}")
