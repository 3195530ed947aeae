"""The programs in JavaScript that check a receipt or the file of a draw."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.support.browsing import REQUIRED

RECEIPTS: Final = Path(__file__).parents[2] / "docs/examples/verify.mjs"
DRAWS: Final = Path(__file__).parents[2] / "runtime/web/verifiers/draws.mjs"
MARKS: Final = {True: "ok     ", False: "FAILED ", None: "open   "}


def javascript(program: Path, paths: Sequence[Path], key: str = "") -> list[list[str]]:
    """The program's findings about each file."""
    if shutil.which("node") is None and not os.environ.get(REQUIRED):
        pytest.skip("there is no node to run the verifier")
    command = ["node", program, *(["--key", key] if key else []), *paths]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    names, found = set(map(str, paths)), list[list[str]]()
    for line in done.stdout.splitlines():
        found.append([]) if line in names else found[-1].append(line)
    assert len(found) == len(paths), done.stderr
    return found


def is_refuted(found: list[str]) -> bool:
    return any(line.startswith(("FAILED", "error")) for line in found)
