"""The SQL of Tombola: named, described statements in the `.sql` files of this folder.

A file holds blocks:

    -- name: take_stock
    -- Takes n of a prize. No row: sold out.
    update prize set remaining = remaining - $3 where ...

The comment lines that follow the name are the statement's description; the rest, up to the next
name, is the statement. Modules bind what they use at import, so that a wrong name fails there:

    TAKE_STOCK = sql.load("play")["take_stock"]
    row = await connection.fetchrow(TAKE_STOCK, tenant_id, prize_id, n)

`schema.sql` is not made of blocks: it is the readable truth that `migrations/` rebuild.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

DIRECTORY: Final = Path(__file__).parent
SCHEMA: Final = DIRECTORY / "schema.sql"
MIGRATIONS: Final = DIRECTORY / "migrations"

_NAME = re.compile(r"^--\s*name:\s*(\S+)\s*$", re.MULTILINE)
_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]*")


class Query(NamedTuple):
    """A statement: its `name` ("play.take_stock"), its description, and its text.

    The text begins with the name as a comment, so that pg_stat_activity and the server's log show it.
    """

    name: str
    doc: str
    text: str


class Queries(Mapping[str, str]):
    """The statements of one file by name, read-only, in the file's order. A KeyError lists the known names.

    The texts are plain `str`, since asyncpg accepts no subclass. `described` has the descriptions too.
    """

    def __init__(self, file: str, queries: Mapping[str, Query]) -> None:
        self._file = file
        self.described = dict(queries)

    def __getitem__(self, name: str) -> str:
        try:
            return self.described[name].text
        except KeyError:
            raise KeyError(f"{self._file}.sql has no {name!r}; it has {', '.join(self.described)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.described)

    def __len__(self) -> int:
        return len(self.described)


@cache
def load(file: str) -> Queries:
    """The statements of `sql/<file>.sql`. FileNotFoundError; ValueError if a block is malformed."""
    return Queries(file, parse(file, (DIRECTORY / f"{file}.sql").read_text(encoding="utf-8")))


def files() -> list[str]:
    """The names that `load` accepts: every .sql file here except the schema."""
    return sorted(path.stem for path in DIRECTORY.glob("*.sql") if path != SCHEMA)


def parse(file: str, text: str) -> dict[str, Query]:
    """Splits `text` into blocks. ValueError: invalid or duplicate name, no statement, SQL before the first name."""
    head, *parts = _NAME.split(text)
    if any(line.strip() and not line.lstrip().startswith("--") for line in head.splitlines()):
        raise ValueError(f"{file}.sql: SQL before the first '-- name:'")
    queries: dict[str, Query] = {}
    for name, block in zip(parts[::2], parts[1::2], strict=True):
        if not _IDENTIFIER.fullmatch(name):
            raise ValueError(f"{file}.sql: {name!r} is not a lower-case identifier")
        if name in queries:
            raise ValueError(f"{file}.sql: {name!r} is there twice")
        doc, statement = _split(block)
        if not statement:
            raise ValueError(f"{file}.sql: {name!r} has no statement")
        queries[name] = Query(f"{file}.{name}", doc, f"-- {file}.{name}\n{statement}")
    return queries


def _split(block: str) -> tuple[str, str]:
    """(description, statement) of a block: the leading comment lines, then the rest."""
    lines = block.strip("\n").splitlines()
    count = next((i for i, line in enumerate(lines) if not line.startswith("--")), len(lines))
    doc = "\n".join(line.removeprefix("--").strip() for line in lines[:count])
    return doc, "\n".join(lines[count:]).strip().removesuffix(";").rstrip()
