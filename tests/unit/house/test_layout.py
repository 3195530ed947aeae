"""Limits of the code: sizes, import cycles, facts that only rows may hold, and links between pages."""

import ast
import posixpath
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import grimp

from ops.proof.mutants import statements
from runtime import web
from runtime.operations import BY_NAME

ROOT = Path(__file__).parents[3]
PACKAGES = ("runtime", "sql", "ops")
GENERATED = {ROOT / "runtime" / "messages" / name for name in ("game", "behavior.py", "comments.py")}
FOLDER_FILES_MAX = 20
FILE_LINES_MAX = 450


@cache
def files() -> dict[Path, str]:
    found = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    written = [path for path in found if not GENERATED & {path, *path.parents} and "node_modules" not in path.parts]
    return {path: path.read_text() for path in written}


@cache
def trees() -> dict[Path, list[ast.AST]]:
    return {path: list(ast.walk(ast.parse(text))) for path, text in files().items()}


def nodes(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """(place, node) of every node of a kind."""
    for path, found in trees().items():
        for node in found:
            if isinstance(node, kind):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def test_folder_holds_at_most_twenty_python_files() -> None:
    counts = Counter(path.parent for path in files())
    assert {str(folder.relative_to(ROOT)): n for folder, n in counts.items() if n > FOLDER_FILES_MAX} == {}


def test_python_file_has_at_most_450_lines() -> None:
    counts = {str(path.relative_to(ROOT)): len(text.splitlines()) for path, text in files().items()}
    assert {name: n for name, n in counts.items() if n > FILE_LINES_MAX} == {}
    assert len((ROOT / "docs/examples/verify.mjs").read_text().splitlines()) <= 300, "short enough to read at once"


def test_python_imports_have_no_cycle() -> None:
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert set(TopologicalSorter(imported).static_order()) == graph.modules  # CycleError: names the cycle.


def test_operation_is_told_apart_by_its_row_and_not_by_its_name() -> None:
    compared = [
        (place, constant.value)
        for place, node in nodes(ast.Compare)
        for constant in ast.walk(node)
        if isinstance(constant, ast.Constant) and constant.value in BY_NAME
        if place.startswith("runtime")
    ]
    assert compared == []


def test_column_of_a_row_is_read_by_its_name() -> None:
    indexed = [
        place
        for place, node in nodes(ast.Subscript)
        if isinstance(node.value, ast.Name) and node.value.id in ("row", "record")
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int)
        if place.startswith(("runtime", "sql"))
    ]
    assert indexed == []


WEB = Path(web.__file__).parent
COMMENT = re.compile(r"/\*.*?\*/|^\s*//.*?$", re.DOTALL | re.MULTILINE)
IMPORT = re.compile(r'^(?:import|export)\b[^;]*? from "([^"]+)";|\bimport\("([^"]+)"\)', re.MULTILINE)
"""Of a module, at once or later."""

MODULES = {
    path.relative_to(WEB).as_posix(): COMMENT.sub("", path.read_text())
    for folder in ("widget", "hosted", "dashboard")
    for path in (WEB / folder).rglob("*.js")
}
IMPORTED = {path: [now or later for now, later in IMPORT.findall(text)] for path, text in MODULES.items()}


def test_javascript_is_in_the_web_folder_alone() -> None:
    kinds = {".js", ".mjs", ".ts", ".css", ".html"}
    assert [path for path in WEB.parent.rglob("*") if path.suffix in kinds and WEB not in path.parents] == []


def test_modules_import_without_cycles() -> None:
    graph = {
        path: {posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) for name in names if name[0] == "."}
        for path, names in IMPORTED.items()
    }
    assert len(graph) > 100 and set().union(*graph.values()) - graph.keys() == {
        "verifiers/verify.mjs",
        "verifiers/draws.mjs",
    }
    TopologicalSorter(graph).prepare()  # CycleError


def test_pages_link_by_the_operation_that_the_route_needs() -> None:
    routes = dict(re.findall(r'path: "([^"]+)", needs: "(\w+)"', MODULES["dashboard/pages.js"]))
    links = dict(re.findall(r'^  "(/\w+)": "(\w+)",$', MODULES["dashboard/pages/now.js"], re.MULTILINE))
    assert links and links.items() <= routes.items()


def test_mutation_tester_finds_statements_to_mutate() -> None:
    assert len(statements.mutants()) > 1_000
