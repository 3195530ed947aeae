"""The exit of a command whose store failed."""

from __future__ import annotations

import sys
from typing import Final, NoReturn

import asyncpg

from runtime.commands.connection import EXIT_REFUSED, EXIT_UNREACHABLE
from runtime.commands.environment import EXIT_USE
from runtime.errors import Fault, Status
from sql.connections import LOST

_EXITS: Final = {Status.NOT_FOUND: EXIT_USE, Status.UNAVAILABLE: EXIT_UNREACHABLE}


def fail_store(command: str, error: Exception, remedy: str = "") -> NoReturn:
    """Prints a store's error on standard error and ends the process, as refused if the store has answered."""
    answered = isinstance(error, asyncpg.PostgresError) and not isinstance(error, LOST)
    exit_code = EXIT_REFUSED if answered else EXIT_UNREACHABLE
    text = str(error) or type(error).__name__  # A timeout has no text.
    if isinstance(error, Fault):
        exit_code, text = _EXITS.get(error.status, EXIT_REFUSED), error.message
    print(f"tombola {command}: {text}{remedy}", file=sys.stderr)
    sys.exit(exit_code)
