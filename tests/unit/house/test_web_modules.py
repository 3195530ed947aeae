"""JavaScript is in runtime/web alone, and its modules import each other without cycles."""

from __future__ import annotations

import posixpath
import re
from graphlib import TopologicalSorter
from pathlib import Path

from runtime import web

WEB = Path(web.__file__).parent
OURS = ("widget", "hosted", "dashboard")
COMMENT = re.compile(r"/\*.*?\*/|^\s*//.*?$", re.DOTALL | re.MULTILINE)
IMPORT = re.compile(r'^(?:import|export)\b[^;]*? from "([^"]+)";|\bimport\("([^"]+)"\)', re.MULTILINE)
"""Of a module, at once or later."""

MODULES = {
    path.relative_to(WEB).as_posix(): COMMENT.sub("", path.read_text())
    for folder in OURS
    for path in (WEB / folder).rglob("*.js")
}
IMPORTED = {path: [now or later for now, later in IMPORT.findall(text)] for path, text in MODULES.items()}


def test_javascript_is_in_the_web_folder_alone() -> None:
    kinds = {".js", ".mjs", ".ts", ".css", ".html"}
    found = [path for path in WEB.parent.rglob("*") if path.suffix in kinds and WEB not in path.parents]
    assert found == []


def test_modules_import_without_cycles() -> None:
    graph = {
        path: {posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) for name in names if name[0] == "."}
        for path, names in IMPORTED.items()
    }
    assert len(graph) > 100 and set().union(*graph.values()) <= graph.keys()
    TopologicalSorter(graph).prepare()  # CycleError


def test_pages_link_by_the_operation_that_the_route_needs() -> None:
    routes = dict(re.findall(r'path: "([^"]+)", needs: "(\w+)"', MODULES["dashboard/pages.js"]))
    links = dict(re.findall(r'^  "(/\w+)": "(\w+)",$', MODULES["dashboard/pages/now.js"], re.MULTILINE))
    assert links and links.items() <= routes.items()
