"""One module made of many: the entry and all that it imports, so that a slow line is crossed once for all of them.

A browser asks one host for six things at a time, each after a round trip: a dozen small files are three of those.
What is bundled keeps its own names: each module is a function that answers what it exports. Nothing is parsed, since
the modules keep to a few forms, each on a line of its own: any other import or export is refused when they are read.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Final

_IMPORT: Final = re.compile(r'^import (?:\{ ([\w$, ]+) \}|(\w+)) from "(\..+)";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (default |(?:async )?function (\w+)|(?:const|class) (\w+))", re.MULTILINE)
_OTHER_IMPORT: Final = re.compile(r"^(?:import\b(?!\()|export\b.* from\b).*", re.MULTILINE)
_OTHER_EXPORT: Final = re.compile(r"^export\b.*", re.MULTILINE)


class Unbundled(ValueError):
    """A module says something that a bundle cannot hold."""


def bundle(entry: str, modules: Mapping[str, str]) -> tuple[str, frozenset[str]]:
    """The entry with all that it imports as one module, and the paths of what is in it."""
    order: list[str] = []
    _collect(entry, modules, order, ())
    held = frozenset(order)
    parts = [_function(path, modules[path]) for path in order[:-1]]
    names = ", ".join(map(_name, order[:-1]))
    return "".join([*parts, _with_imports_taken(entry, modules[entry]), f"export {{ {names} }};\n"]), held


def outside(path: str, source: str, entry: str, held: frozenset[str]) -> str:
    """A module that is not in the bundle, which takes what is in it from there: so there is one of each."""

    def taken(found: re.Match[str]) -> str:
        target = _target(path, found[3])
        if target not in held:
            return found[0]
        address = posixpath.relpath(entry, posixpath.dirname(path) or ".")
        address = address if address.startswith(".") else f"./{address}"
        return f'import {{ {_name(target)} }} from "{address}"; {_taken(found, target)}'

    _refuse(_OTHER_IMPORT, path, _IMPORT.sub("", source))
    return _IMPORT.sub(taken, source)


def _collect(path: str, modules: Mapping[str, str], order: list[str], above: tuple[str, ...]) -> None:
    """The module, after all that it imports: depth first."""
    if path in above:
        raise Unbundled(f"{' -> '.join([*above, path])}: modules that import each other cannot be bundled")
    if path in order:
        return
    for found in _IMPORT.finditer(modules[path]):
        _collect(_target(path, found[3]), modules, order, (*above, path))
    order.append(path)


def _function(path: str, source: str) -> str:
    exported: list[str] = []

    def kept(found: re.Match[str]) -> str:
        name = found[2] or found[3]
        exported.append(name or "default: $default")
        return found[1] if name else "const $default = "

    body = _EXPORT.sub(kept, _with_imports_taken(path, source))
    _refuse(_OTHER_EXPORT, path, body)
    return f"const {_name(path)} = (() => {{\n{body}return {{ {', '.join(exported)} }};\n}})();\n"


def _with_imports_taken(path: str, source: str) -> str:
    taken = _IMPORT.sub(lambda found: _taken(found, _target(path, found[3])), source)
    _refuse(_OTHER_IMPORT, path, taken)
    return taken


def _refuse(form: re.Pattern[str], path: str, source: str) -> None:
    if found := form.search(source):
        raise Unbundled(f"{path}: {found[0]}")


def _taken(found: re.Match[str], target: str) -> str:
    names = (found[1] or f"default as {found[2]}").replace(" as ", ": ")
    return f"const {{ {names} }} = {_name(target)};"


def _target(path: str, address: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), address))


def _name(path: str) -> str:
    return "$" + re.sub(r"\W", "_", path.removesuffix(".js"))
