"""Where the system's Chromium is, which the pages are tested and measured in."""

from __future__ import annotations

import shutil
from typing import Final

NAMES: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""What a system may call it, best first: the one that has no window takes three fifths of the processor time."""


def chromium() -> str | None:
    """The program's path. None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)
