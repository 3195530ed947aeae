"""Settings for commands, and the exit of a command that cannot start."""

from __future__ import annotations

import os
import re
import sys
from typing import Final, NoReturn
from urllib.parse import urlsplit

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


def problem_of_url(argument: str, url: str) -> str:
    """The problem with the URL of an argument, and the remedy; "": none."""
    if _is_web(url):
        return ""
    web = f"http://{url.partition('://')[2] or url}"
    return f"{argument}: {url!r} must be an http or https URL. Use {web if _is_web(web) else 'https://HOST'}"


def _is_web(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and not re.search(r"\s", url)
        )
    except ValueError:  # An invalid port or IPv6 address.
        return False


def fail_to_start(why: str) -> NoReturn:
    """Prints the reason on standard error and ends the process."""
    print(f"tombola: {why}", file=sys.stderr)
    sys.exit(EXIT_USE)
