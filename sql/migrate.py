"""Brings a database to the newest migration, safely from several processes at once.

Our own loop rather than pogo-migrate: that one takes no lock, so two replicas that start together
race; it splits files into statements with a parser of its own, and asks of every file a rollback
section and a dependency header, so that the first migration could not be `schema.sql` itself; and it
brings sqlglot, rtoml and three more packages into the service.

Migrations are the files `migrations/NNNN_name.sql`, applied in the order of their names, each in a
transaction of its own under an advisory lock that ends with it (so a pooler in transaction mode does
no harm). There is no way down: a wrong migration is put right by the next one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import asyncpg

from sql import MIGRATIONS

LOCK_KEY: Final = 0x746F6D626F6C61  # "tombola" in ASCII

_LEDGER: Final = """
create table if not exists schema_migration (
    name       text primary key,
    sha256     text not null,
    applied_at timestamptz not null default now()
)
"""


class MigrationError(RuntimeError):
    """The database was made by other files than these; nothing was changed."""


async def migrate(
    database_url: str, *, directory: Path = MIGRATIONS, report: Callable[[str], None] = lambda name: None
) -> list[str]:
    """Applies what is missing and returns its names; `report` hears each name before it is applied.

    Raises MigrationError where an applied file was changed since or is gone, and whatever the
    database raises, with that migration undone and the ones before it kept.
    """
    applied: list[str] = []
    connection = await asyncpg.connect(database_url, command_timeout=None)
    try:
        while (name := await _apply_next(connection, directory, report)) is not None:
            applied.append(name)
    finally:
        await connection.close()
    return applied


async def pending(connection: asyncpg.Connection, directory: Path = MIGRATIONS) -> list[str]:
    """The names of the migrations that this database lacks, in order. Changes nothing."""
    if not await connection.fetchval("select to_regclass('schema_migration') is not null"):
        return [path.name for path in _files(directory)]
    return [path.name for path in _missing(await _ledger(connection), directory)]


async def _apply_next(connection: asyncpg.Connection, directory: Path, report: Callable[[str], None]) -> str | None:
    """Applies the first missing migration; None where none is missing."""
    async with connection.transaction():
        # The ledger is read after the lock: what a rival applied while we waited is then seen.
        await connection.execute("select pg_advisory_xact_lock($1)", LOCK_KEY)
        await connection.execute(_LEDGER)
        missing = _missing(await _ledger(connection), directory)
        if not missing:
            return None
        path = missing[0]
        report(path.name)
        await connection.execute(path.read_text(encoding="utf-8"))
        await connection.execute(
            "insert into schema_migration (name, sha256) values ($1, $2)", path.name, _digest(path)
        )
        return path.name


async def _ledger(connection: asyncpg.Connection) -> dict[str, str]:
    return {row["name"]: row["sha256"] for row in await connection.fetch("select name, sha256 from schema_migration")}


def _missing(ledger: dict[str, str], directory: Path) -> list[Path]:
    files = {path.name: path for path in _files(directory)}
    for name, digest in ledger.items():
        if name not in files:
            raise MigrationError(f"the database has {name}, which this version does not know: it is newer than this")
        if _digest(files[name]) != digest:
            raise MigrationError(
                f"{name} was changed after this database had applied it: make a new migration instead"
                " (of a development database: start over with an empty one)"
            )
    return [path for name, path in files.items() if name not in ledger]


def _files(directory: Path) -> list[Path]:
    return sorted(directory.glob("[0-9][0-9][0-9][0-9]_*.sql"))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
