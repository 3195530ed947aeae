"""Reads YAML files with the line of each value, and writes values as YAML.

Paths have the service's form: `games[1].handler_config.prizes[0].probability`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

BYTES_MAX: Final = 8 * 1024 * 1024
VALUES_MAX: Final = 500_000
"""A limit because aliases can expand a small file to a huge value."""

_COLLECTIONS: Final = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a file: its path, or its line (from 1)."""

    path: str
    description: str
    line: int = 0


class InvalidFile(Exception):
    """An invalid file, with all its problems ordered by line."""

    def __init__(self, name: str, problems: Iterable[Problem]) -> None:
        self.name = name
        self.problems = sorted(problems, key=lambda problem: problem.line)
        super().__init__("\n".join(self.lines))

    @property
    def lines(self) -> list[str]:
        """`FILE:LINE: PATH: description`, one per problem."""
        return [
            f"{self.name}:{problem.line}: {problem.path + ': ' if problem.path else ''}{problem.description}"
            for problem in self.problems
        ]

    @property
    def violations(self) -> list[dict[str, Any]]:
        """The problems as JSON."""
        return [
            {"line": problem.line, "field": problem.path, "description": problem.description}
            for problem in self.problems
        ]


@dataclass(frozen=True, slots=True)
class Document:
    """A file's value, and the line of each path in it."""

    name: str
    value: Any
    lines: dict[str, int]

    def line_of(self, path: str) -> int:
        """The line of a path, or of its nearest ancestor."""
        while path and path not in self.lines:
            path = re.sub(r"(\.[^.\[]*|\[\d+\]|^[^.\[]+)$", "", path)
        return self.lines.get(path, 1)

    def invalid(self, problems: Iterable[tuple[str, str]]) -> InvalidFile:
        """InvalidFile for (path, description) pairs."""
        return InvalidFile(
            self.name, (Problem(path, description, self.line_of(path)) for path, description in problems)
        )


def read(path: Path) -> Document:
    """Reads a YAML (or JSON) file with one document. Raises InvalidFile, or OSError if it cannot be read."""
    name = str(path)
    if path.stat().st_size > BYTES_MAX:
        raise InvalidFile(name, [Problem("", f"is larger than {BYTES_MAX} bytes", 1)])
    try:
        return parse(name, path.read_text("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidFile(name, [Problem("", "is not UTF-8", 1)]) from None


def parse(name: str, text: str) -> Document:
    """Parses a text as YAML. `name` is used in error messages. Raises InvalidFile."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        reader = _Reader(name, loader)
        value = reader.read(node, "") if node is not None else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(part for part in (error.context, error.problem) if part)
        raise InvalidFile(name, [Problem("", f"is not YAML: {reason}", mark.line + 1 if mark else 1)]) from None
    except yaml.YAMLError as error:
        raise InvalidFile(name, [Problem("", f"is not YAML: {error}", 1)]) from None
    except RecursionError:
        raise InvalidFile(name, [Problem("", "is nested too deeply", 1)]) from None
    finally:
        loader.dispose()
    return Document(name, value, reader.lines)


class _Reader:
    def __init__(self, name: str, loader: yaml.SafeLoader) -> None:
        self.lines: dict[str, int] = {}
        self._name = name
        self._loader = loader
        self._count = 0

    def read(self, node: Any, path: str) -> Any:
        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        self._count += 1
        if self._count > VALUES_MAX:
            raise self._wrong(path, f"must not have more than {VALUES_MAX} values", line)
        if not isinstance(node, yaml.ScalarNode) and node.tag not in _COLLECTIONS:
            raise self._wrong(path, f"{node.tag} is not supported", line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, f"{path}[{index}]") for index, item in enumerate(node.value)]
        if node.tag == _TIMESTAMP:
            return node.value  # Keep the text: PyYAML would drop the UTC offset.
        try:
            return self._loader.construct_object(node, deep=True)
        except (ValueError, OverflowError) as error:
            raise self._wrong(path, str(error), line) from None

    def _mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag == "tag:yaml.org,2002:merge":
                raise self._wrong(path, "a field's name must be plain text", line)
            key = key_node.value
            below = f"{path}.{key}" if path else key
            if key in made:
                raise self._wrong(below, f"must not be repeated; it is already on line {self.lines[below]}", line)
            self.lines[below] = line
            made[key] = self.read(value_node, below)
        return made

    def _wrong(self, path: str, description: str, line: int) -> InvalidFile:
        return InvalidFile(self._name, [Problem(path, description, line)])


class _Dumper(yaml.SafeDumper):
    """Writes no anchors, indents lists, and writes multi-line texts as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        return super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> Any:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def write(value: Any) -> str:
    """A value as YAML, with fields in their existing order."""
    made: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return made


def save(path: Path, value: Any) -> None:
    """Writes a value to a YAML file. Raises OSError."""
    path.write_text(write(value), "utf-8")
