"""CONTRIBUTING's worked example works as written, in a copy of the project."""

import filecmp
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
EXAMPLE = TEXT.split("### A resource with its table, commands and page\n")[1].split("### ")[0]
COPIED = ("docs", "ops", "runtime", "sql", "tests")
GENERATED = ("runtime/messages/", "runtime/commands/commands.json", "runtime/web/built/", "docs/reference/")
OWN_TEST = "tests/acceptance/campaigns/test_notes.py"
LOOPS = (
    *("tests/acceptance/edges/test_operations_table.py", "tests/sql/test_statements.py"),
    *("tests/unit/http/test_openapi.py", "tests/unit/http/test_served_files.py", "tests/unit/http/test_commands.py"),
)
TABLES = {
    "runtime/operations/__init__.py": {
        "from runtime.operations import (": "    notes,",
        "OPERATIONS: Final[tuple[Operation, ...]] = (": "    *notes.ROWS,",
    },
    "runtime/commands/groups/__init__.py": {"OPERATOR_COMMANDS: Final[dict[str, tuple[str, str]]] = {": ""},
    "runtime/web/dashboard/pages.js": {"export const ROUTES = [": ""},
    "runtime/web/dashboard/words/en.js": {"export const words = {": ""},
}


def blocks() -> dict[str, str]:
    steps = re.split(r"^\d+\. `([^`]+)`", EXAMPLE, flags=re.MULTILINE)[1:]
    found = dict(zip(steps[::2], steps[1::2], strict=True))
    return {name: "".join(re.findall(r"^```\w+\n(.*?)^```$", step, re.M | re.S)) for name, step in found.items()}


def test_example_takes_ten_files_with_its_page_and_test() -> None:
    assert len(blocks()) == 10 and "ten files" in EXAMPLE
    found = re.findall(r"^(Four|Six|As the page on plugins shows)", TEXT, re.MULTILINE)
    assert found == ["As the page on plugins shows", "Four", "Six"]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for module in ("grpc_tools", "betterproto2_compiler"):
        pytest.importorskip(module, reason="the compiler comes with the `dev` extra")
    folder = tmp_path_factory.mktemp("example")
    unneeded = shutil.ignore_patterns("__pycache__", "node_modules", ".*_cache")
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=unneeded)
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    for name, code in blocks().items():
        path = folder / name
        if name in TABLES:
            for opening, line in TABLES[name].items():
                assert path.read_text().count(opening) == 1
                path.write_text(path.read_text().replace(opening, f"{opening}\n{line or code.rstrip()}"))
        else:
            path.write_text((path.read_text() + "\n" if path.exists() else "") + code)
    run(folder, "-m", "ops.generate")
    return folder


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_example_works_and_touches_no_other_file(example: Path) -> None:
    assert {name for name in changed(example) if not name.startswith(GENERATED)} == blocks().keys()
    assert_passes(example, OWN_TEST)
    assert "List notes, newest first." in run(example, "-m", "runtime", "notes", "list", "--help")


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_example_passes_the_tests_that_loop_over_rows(example: Path) -> None:
    assert_passes(example, *LOOPS)
    paths = run(example, "-c", "from runtime.http.docs.openapi import document; print(*document('admin')['paths'])")
    assert "/api/v1/admin/notes" in paths.split()


def assert_passes(folder: Path, *files: str) -> None:
    # No xdist: this run has servers of its own.
    printed = run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *files)
    assert re.search(r"\d+ passed", printed), printed


def changed(folder: Path) -> set[str]:
    there = [path for name in COPIED for path in (folder / name).rglob("*") if path.is_file() and not path.is_symlink()]
    made = {path for path in there if {"__pycache__", "node_modules"} & {*path.parts}}
    names = {path.relative_to(folder).as_posix() for path in there if path not in made}
    return {name for name in names if not (ROOT / name).exists() or not filecmp.cmp(ROOT / name, folder / name, False)}


def run(folder: Path, *argv: str) -> str:
    environ = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(folder), "HOME": str(folder)}
    done = subprocess.run([sys.executable, *argv], cwd=folder, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout
