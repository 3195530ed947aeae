"""The settings that a command begins with, and how it ends where it cannot begin."""

from __future__ import annotations

import os
import sys
from typing import Final, NoReturn

from runtime.logs import configure_logs
from runtime.settings import Settings, SettingsError

EXIT_USE: Final = 2
"""Wrong use, of the command line or of the environment."""


def settings_for(*roles: str) -> Settings:
    """The environment's settings; ends the process with a line for each that is wrong, or that these roles lack.

    What is logged goes to standard error from then on: standard output is the command's own.
    """
    try:
        settings = Settings.from_env(os.environ, roles)
    except SettingsError as error:
        cannot_begin(f"settings that cannot be used:\n{error}")
    configure_logs(settings)
    return settings


def cannot_begin(why: str) -> NoReturn:
    """Ends the process after saying why on standard error."""
    print(f"tombola: {why}", file=sys.stderr)
    sys.exit(EXIT_USE)
