"""One module made of many: the entry and all that it imports, so that a slow line is crossed once for all of them.

A browser asks one host for six things at a time, each after a round trip: a dozen small files are three of those.
What is bundled keeps its own names: each module is a function that answers what it exports. Nothing is parsed, since
the modules keep to a few forms, each on a line of its own: any other import or export is refused when they are read.
What is not among the modules (others' libraries) is imported by the bundle as it is.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Final

_IMPORT: Final = re.compile(r'^import (?:\{ ([\w$, ]+) \}|(\w+)) from "(\..+)";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (default |(?:async )?function (\w+)|(?:const|class) (\w+))", re.MULTILINE)
_PASSED_ON: Final = re.compile(r'^export \{ ([\w$, ]+) \} from "(\..+)";$', re.MULTILINE)
_OTHER_IMPORT: Final = re.compile(r"^(?:import\b(?!\()|export\b.* from\b).*", re.MULTILINE)
_OTHER_EXPORT: Final = re.compile(r"^export\b.*", re.MULTILINE)
_LATER: Final = re.compile(r'\bimport\("(\.[^"]+)"\)')
_BESIDE: Final = re.compile(r"\bnew URL\(([\"`])(\.[^\"`]+)\1, import\.meta\.url\)")


class Unbundled(ValueError):
    """A module says something that a bundle cannot hold."""


def bundle(entry: str, modules: Mapping[str, str], *, whole: bool = False) -> tuple[str, frozenset[str]]:
    """The entry with all that it imports as one module, and the paths of what is in it.

    whole: with what it imports later (`import(...)`), too, so nothing is outside.
    """
    order: list[str] = []
    _collect(entry, modules, order, ())
    for path in order if whole else ():
        for found in _LATER.finditer(modules[path]):
            if (target := _target(path, found[1])) in modules:
                _collect(target, modules, order, ())
    inner, held = [path for path in order if path != entry], frozenset(order)
    others = sorted({target for path in order for target in _imported(path, modules)} - modules.keys())
    parts = [f'import * as {_name(path)} from "{_address(path, entry)}";\n' for path in others]
    parts += [_function(path, _placed(path, modules[path], entry, held)) for path in inner]
    parts.append(_with_imports_taken(entry, _placed(entry, modules[entry], entry, held)))
    parts.append(f"export {{ {', '.join(map(_name, inner))} }};\n")
    return "".join(parts), held


def outside(path: str, source: str, entry: str, held: frozenset[str]) -> str:
    """A module that is not in the bundle, which takes what is in it from there: so there is one of each."""

    def taken(found: re.Match[str]) -> str:
        target = _target(path, found[3])
        if target not in held:
            return found[0]
        return f'import {{ {_name(target)} }} from "{_address(entry, path)}"; {_taken(found, target)}'

    _refuse(_OTHER_IMPORT, path, _IMPORT.sub("", source))
    return _IMPORT.sub(taken, source)


def _collect(path: str, modules: Mapping[str, str], order: list[str], above: tuple[str, ...]) -> None:
    """The module, after all that it imports: depth first."""
    if path in above:
        raise Unbundled(f"{' -> '.join([*above, path])}: modules that import each other cannot be bundled")
    if path in order:
        return
    for target in _imported(path, modules):
        if target in modules:
            _collect(target, modules, order, (*above, path))
    order.append(path)


def _imported(path: str, modules: Mapping[str, str]) -> list[str]:
    """What the module imports at once, others' included."""
    own = [found[3] for found in _IMPORT.finditer(modules[path])]
    return [_target(path, address) for address in [*own, *(found[2] for found in _PASSED_ON.finditer(modules[path]))]]


def _function(path: str, source: str) -> str:
    exported: list[str] = []

    def kept(found: re.Match[str]) -> str:
        name = found[2] or found[3]
        exported.append(name or "default: $default")
        return found[1] if name else "const $default = "

    def passed_on(found: re.Match[str]) -> str:
        exported.append(found[1])
        return f"const {{ {found[1]} }} = {_name(_target(path, found[2]))};"

    body = _EXPORT.sub(kept, _with_imports_taken(path, _PASSED_ON.sub(passed_on, source)))
    _refuse(_OTHER_EXPORT, path, body)
    return f"const {_name(path)} = (() => {{\n{body}return {{ {', '.join(exported)} }};\n}})();\n"


def _placed(path: str, source: str, entry: str, held: frozenset[str]) -> str:
    """The module with what it loads later, from where the entry is; what is held is there already."""

    def later(found: re.Match[str]) -> str:
        target = _target(path, found[1])
        return f"Promise.resolve({_name(target)})" if target in held else f'import("{_address(target, entry)}")'

    def beside(found: re.Match[str]) -> str:
        return f"new URL({found[1]}{_address(_target(path, found[2]), entry)}{found[1]}, import.meta.url)"

    return _BESIDE.sub(beside, _LATER.sub(later, source))


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


def _address(target: str, path: str) -> str:
    """How the module at `path` names the one at `target`."""
    address = posixpath.relpath(target, posixpath.dirname(path) or ".")
    return address if address.startswith(".") else f"./{address}"


def _name(path: str) -> str:
    return "$" + re.sub(r"\W", "_", path.removesuffix(".js"))
