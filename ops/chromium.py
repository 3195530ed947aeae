"""Finds the system's Chromium, for tests and measurements of the pages."""

import shutil
from typing import Final

NAMES: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Possible names, best first: the headless shell takes three fifths of the CPU time."""


def chromium() -> str | None:
    """The program's path; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)
