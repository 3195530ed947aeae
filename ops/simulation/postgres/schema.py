"""The tables of the model, read out of sql/schema.sql: columns, defaults, keys, unique indexes and checks.

A column that the schema gains is one that the model has. A check or a default that it cannot read is refused at
import, rather than left out.
"""

from __future__ import annotations

import hashlib
import re
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import asyncpg

import sql

Check = Callable[[Any], bool | None]
"""Whether a row satisfies a CHECK; None (unknown) does."""


class Column(NamedTuple):
    """A column. default: what it is where nothing is given; NOW the transaction's beginning."""

    name: str
    type: str
    required: bool
    default: Any


class Unique(NamedTuple):
    """A primary key or a unique index: whole, or of those rows alone whose column `of` is NULL, or is not."""

    name: str
    columns: tuple[str, ...]
    of: str = ""
    null: bool = False

    def has(self, row: Any) -> bool:
        """Whether a row is in it."""
        return not self.of or (getattr(row, self.of) is None) == self.null


NOW: Final = object()

_INTEGERS: Final = {"integer": 2**31, "bigint": 2**63}


@dataclass(frozen=True, slots=True)
class Shape:
    """What the schema says of a table. `row` is the type of its rows: its columns, and the slot that it lies in."""

    name: str
    columns: tuple[Column, ...]
    uniques: tuple[Unique, ...]
    checks: tuple[tuple[str, Check], ...]
    row: Any
    names: frozenset[str]
    required: tuple[str, ...]
    bounded: tuple[tuple[str, int], ...]
    key_columns: frozenset[str]
    """Whoever changes one of these locks the row against KEY SHARE too: those of whole unique indexes."""

    def make(self, values: Mapping[str, Any], now: int) -> Any:
        """A new row of these values; the others have their defaults."""
        assert self.names.issuperset(values), f"{self.name} has no {set(values) - self.names}"
        fields = []
        for column in self.columns:
            value = values.get(column.name, column.default) if column.name in values else column.default
            fields.append(now if value is NOW else value)
        row = self.row(*fields, None)
        self.check(row)
        return row

    def check(self, row: Any) -> None:
        """Raises what Postgres would of a row that may not be."""
        for name in self.required:
            if getattr(row, name) is None:
                raise asyncpg.NotNullViolationError(f'null value in column "{name}" of relation "{self.name}"')
        for name, bound in self.bounded:
            value = getattr(row, name)
            if value is not None and not -bound <= value < bound:
                raise asyncpg.NumericValueOutOfRangeError(f"{name} out of range")
        for text, holds in self.checks:
            if holds(row) is False:
                raise asyncpg.CheckViolationError(f'new row for relation "{self.name}" violates CHECK ({text})')


def read(text: str) -> dict[str, Shape]:
    """The tables that a schema declares, by name. ValueError where it has something that the model cannot read."""
    text = re.sub(r"--[^\n]*", "", text)
    uniques: dict[str, list[Unique]] = {}
    for name, table, columns, where in re.findall(
        r"CREATE UNIQUE INDEX (\w+) ON (\w+) \(([^)]*)\)(?:\s+WHERE ([^;]*))?;", text
    ):
        unique = Unique(name, _names(columns))
        if where:
            found = re.fullmatch(r"(\w+) IS (NOT )?NULL", where.strip())
            if found is None:
                raise ValueError(f"{name}: a unique index WHERE {where}")
            unique = unique._replace(of=found[1], null=not found[2])
        uniques.setdefault(table, []).append(unique)
    tables = re.findall(r"CREATE TABLE (\w+) \((.*?)\n\)", text, re.DOTALL)
    return {name: _shape(name, body, uniques.get(name, [])) for name, body in tables}


def _shape(name: str, body: str, uniques: list[Unique]) -> Shape:
    columns: list[Column] = []
    checks: list[tuple[str, Check]] = []
    key: tuple[str, ...] = ()
    for part in _parts(body):
        if found := re.fullmatch(r"PRIMARY KEY \((.*)\)", part):
            key = _names(found[1])
        elif found := re.fullmatch(r"CHECK \((.*)\)", part):
            checks.append((found[1], _check(found[1])))
        else:
            column, rest = _column(part)
            columns.append(column)
            if found := re.search(r"CHECK \((.*)\)$", rest):
                checks.append((found[1], _check(found[1])))
            if "PRIMARY KEY" in rest:
                key = (column.name,)
    if not key:
        raise ValueError(f"{name} has no primary key")
    every = (Unique(f"{name}_pkey", key), *uniques)
    row = namedtuple(name, [*(column.name for column in columns), "slot"])  # type: ignore[misc]
    return Shape(
        name,
        tuple(columns),
        every,
        tuple(checks),
        row,
        frozenset(column.name for column in columns),
        tuple(column.name for column in columns if column.required),
        tuple((column.name, _INTEGERS[column.type]) for column in columns if column.type in _INTEGERS),
        frozenset(column for unique in every if not unique.of for column in unique.columns),
    )


def _parts(body: str) -> Iterator[str]:
    """The body of a CREATE TABLE, cut at the commas that stand in no parentheses."""
    depth, start = 0, 0
    for place, letter in enumerate(body + ","):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            yield " ".join(body[start:place].split())
            start = place + 1


def _names(listed: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in listed.split(","))


_COLUMN: Final = re.compile(r"(\w+) (double precision|text\[\]|\w+)(.*)")


def _column(text: str) -> tuple[Column, str]:
    found = _COLUMN.fullmatch(text)
    if found is None:
        raise ValueError(f"no column: {text}")
    name, type_name, rest = found.groups()
    default = re.search(r"DEFAULT ('[^']*'|\w+\(\)|\w+)", rest)
    required = "NOT NULL" in rest or "PRIMARY KEY" in rest
    return Column(name, type_name, required, _default(type_name, default[1]) if default else None), rest


def _default(type_name: str, text: str) -> Any:
    if text == "now()":
        return NOW
    if text in ("true", "false"):
        return text == "true"
    if text.isdigit():
        return int(text)
    if not text.startswith("'"):
        raise ValueError(f"a default of {text}")
    value = text.strip("'")
    if type_name == "text[]":
        if value != "{}":
            raise ValueError(f"a default of {text}")
        return ()
    if type_name in ("json", "jsonb", "bytea"):
        return value.encode()
    return {"-infinity": INFINITE_PAST, "infinity": INFINITE_FUTURE}.get(value, value)


INFINITE_PAST: Final = -(2**62)
INFINITE_FUTURE: Final = 2**62
"""timestamptz '-infinity' and 'infinity', in microseconds."""


def _check(text: str) -> Check:
    """A CHECK as a function of a row."""
    if text in _CHECKS:
        return _CHECKS[text]
    if found := re.fullmatch(r"(\w+) IN \((.*)\)", text):
        name, members = found[1], frozenset(re.findall(r"'([^']*)'", found[2]))
        return lambda row: getattr(row, name) in members
    if found := re.fullmatch(r"(\w+) (>=|>|<>) 0", text):
        name, sign = found[1], found[2]
        if sign == "<>":
            return lambda row: getattr(row, name) != 0
        least = 0 if sign == ">=" else 1
        return lambda row: getattr(row, name) >= least
    raise ValueError(f"a check that the model cannot read: {text}")


_CHECKS: Final[dict[str, Check]] = {
    "CASE WHEN total = 0 THEN remaining = 0 ELSE total = remaining + awarded END": lambda row: (
        row.remaining == 0 if row.total == 0 else row.total == row.remaining + row.awarded
    ),
    "reward_id IS NULL OR withdrawn_at IS NULL": lambda row: row.reward_id is None or row.withdrawn_at is None,
    "revision_hash = encode(sha256(terms), 'hex')": lambda row: (
        row.revision_hash == hashlib.sha256(row.terms).hexdigest()
    ),
    "status <> 'retry' OR (event IS NOT NULL AND next_attempt_at IS NOT NULL)": lambda row: (
        row.status != "retry" or (row.event is not None and row.next_attempt_at is not None)
    ),
}
"""Those that say more than of one column."""


SHAPES: Final = read(sql.SCHEMA.read_text(encoding="utf-8"))
