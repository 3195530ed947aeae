"""Settings for commands, and the exit of a command that cannot start."""

from __future__ import annotations

import os
import sys
from typing import Final, NoReturn

from runtime.logs import configure_logs
from runtime.settings import Settings, SettingsError

EXIT_USE: Final = 2
"""Usage error: in the command line or the environment."""

EXIT_FILE: Final = 3
"""A file is invalid, or cannot be read or written."""


def settings_for(*roles: str) -> Settings:
    """The environment's settings for `roles`. Ends the process with one line per invalid or missing setting.

    Also sends logs to standard error, since standard output is for the command's output.
    """
    try:
        settings = Settings.from_env(os.environ, roles)
    except SettingsError as error:
        fail_to_start(f"invalid settings:\n{error}")
    configure_logs(settings)
    return settings


def fail_to_start(why: str) -> NoReturn:
    """Prints the reason on standard error and ends the process."""
    print(f"tombola: {why}", file=sys.stderr)
    sys.exit(EXIT_USE)
