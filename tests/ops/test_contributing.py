"""CONTRIBUTING's worked example is done as it stands there, in a copy, and what loops over the rows takes it up."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
EXAMPLE = TEXT.split("### An admin route with a table\n")[1].split("### ")[0]
COPIED = ("docs", "ops", "runtime", "sql", "tests")
LOOPS = ("tests/acceptance/test_operations_table.py", "tests/sql/test_statements.py", "tests/unit/test_openapi.py")


def blocks() -> dict[str, str]:
    """The example's code by the file that it goes to; the last file has none, but two names to add."""
    steps = re.split(r"^\d\. `([^`]+)`", EXAMPLE, flags=re.MULTILINE)[1:]
    found = dict(zip(steps[::2], steps[1::2], strict=True))
    return {name: "".join(re.findall(r"^```\w+\n(.*?)^```$", step, re.M | re.S)) for name, step in found.items()}


def test_no_example_takes_more_than_five_files() -> None:
    assert len(blocks()) == 5
    assert re.findall(r"^(Five|As the page on plugins shows)", TEXT, re.MULTILINE) == [
        "As the page on plugins shows",
        "Five",
        "Five",
    ]


@pytest.mark.skipif(
    importlib.util.find_spec("grpc_tools") is None or importlib.util.find_spec("betterproto2_compiler") is None,
    reason="the compiler comes with the `dev` extra",
)
@pytest.mark.timeout(400)
def test_an_admin_route_with_a_table_takes_these_five_files(tmp_path: Path) -> None:
    for name in COPIED:
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    code = blocks()
    *_, table = code
    for name in ("runtime/rpc/game.proto", "sql/schema.sql"):
        path = tmp_path / name
        path.write_text(path.read_text() + "\n" + code[name])
    for name in ("sql/notes.sql", "runtime/operations/notes.py"):
        (tmp_path / name).write_text(code[name])
    path = tmp_path / table
    path.write_text(
        path.read_text()
        .replace("    leaderboards,\n", "    leaderboards,\n    notes,\n", 1)
        .replace("    *leaderboards.ROWS,\n", "    *leaderboards.ROWS,\n    *notes.ROWS,\n", 1)
    )
    run(tmp_path, "-m", "ops.generate")
    # Its servers are its own.
    said = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *LOOPS)
    assert re.search(r"\d+ passed", said), said
    paths = run(tmp_path, "-c", "from runtime.http.docs.openapi import document; print(*document('admin')['paths'])")
    assert "/api/v1/admin/notes" in paths.split()


def run(folder: Path, *arguments: str) -> str:
    """What Python prints there; fails the test with all that it said."""
    environ = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(folder), "HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environ, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout
