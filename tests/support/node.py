"""What Node runs and pages are checked with: packages by the lock of ops/web."""

import fcntl
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.support.browsing import REQUIRED

WEB: Final = Path(__file__).parents[2] / "ops" / "web"
_LOCK: Final = WEB.parents[1] / ".tombola" / "npm.lock"
_INSTALL: Final = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


@cache
def package(name: str) -> Path:
    folder = WEB / "node_modules" / name
    _LOCK.parent.mkdir(exist_ok=True)
    with _LOCK.open("w") as lock:
        # What another process of the tests installs is not read half.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            if shutil.which("npm") is None and not os.environ.get(REQUIRED):
                pytest.skip(f"{name} is not there (npm ci --prefix ops/web)")
            subprocess.run(_INSTALL, cwd=WEB, check=True, timeout=300)
    return folder
