"""Changes shown, and asked about, before they are made."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

from cyclopts import Parameter

from runtime.commands.connection import EXIT_FILE, EXIT_REFUSED, EXIT_UNCONFIRMED, Connection, fail, people
from runtime.commands.documents import FileWrong
from runtime.commands.resources import told
from runtime.operations.files.kinds import Change

Yes = Annotated[bool, Parameter(name=["--yes", "-y"], negative=(), help="Do it without asking.")]
"""Of a command that asks before it does something."""


def show(connection: Connection, changes: Sequence[Change]) -> None:
    """Prints what differs, for people."""
    if connection.json:
        return
    console = people()
    for change in changes:
        if change.action != "keep":
            console.print(told(change), end="")
    console.print(counted(changes))


def counted(changes: Sequence[Change]) -> str:
    """`2 to create, 1 to change, 5 as they are`"""
    count = Counter(change.action for change in changes)
    said = (("create", "to create"), ("change", "to change"), ("keep", "as they are"))
    return ", ".join(f"{count[action]} {words}" for action, words in said if count[action])


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
