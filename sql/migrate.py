"""Brings a database to the newest migration, safely from several processes at once.

Our own loop rather than pogo-migrate: that one takes no lock, so two replicas that start together
race; it splits files into statements with a parser of its own, and asks of every file a rollback
section and a dependency header, so that the first migration could not be `schema.sql` itself; and it
brings sqlglot, rtoml and three more packages into the service.

Migrations are the files `migrations/NNNN_name.sql`, applied in the order of their names, each in a
transaction of its own under an advisory lock that ends with it (so a pooler in transaction mode does
no harm). There is no way down: a wrong migration is put right by the next one.

Processes of the version before go on beside a migration, and are started beside it, so one that takes away what
they use must come a version later, and says at its head which migration a process must have to go on beside it:

    -- needs: 0007_expand.sql

It is not applied while a process lives that lacks that one (`processes`: runtime/stores/heartbeat.py). One that comes
later does not start, and one that was silent for LIVE_SECONDS, and lives, ends (`pending` raises).
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import asyncpg

import sql
from sql import MIGRATIONS

LOCK_KEY: Final = 0x746F6D626F6C61  # "tombola" in ASCII
TAKING_AWAY: Final = 0x746F6D74616B65  # "tomtake" in ASCII
"""Of a migration that takes something away, so that no process comes beside it unseen."""

LIVE_SECONDS: Final = 30.0
"""A process that has said nothing for longer has ended."""

NOBODYS: Final = ""
"""In place of the tenant."""

_LEDGER: Final = """
create table if not exists schema_migration (
    name       text primary key,
    sha256     text not null,
    needs      text not null default '',
    applied_at timestamptz not null default now()
)
"""

LOCK_SECONDS: Final = 0.5
"""How long a migration waits for a table at a time: whoever comes after it waits behind it, plays too."""

LOCK_TRIES: Final = 120
LOCK_PAUSE_SECONDS: Final = 1.0

_NEEDS: Final = re.compile(r"^-- needs: (\S+)$", re.MULTILINE)


class MigrationError(RuntimeError):
    """The database was made by other files than these; nothing was changed."""


class _Applied(NamedTuple):
    """A migration as the ledger has it. needs: which one a process must have to go on beside it; "" for any."""

    sha256: str
    needs: str


async def migrate(
    database_url: str, *, directory: Path = MIGRATIONS, report: Callable[[str], None] = lambda name: None
) -> list[str]:
    """Applies what is missing and returns its names; `report` hears each name before it is applied.

    Raises MigrationError where an applied file was changed since, or where this version is too old for the
    database, and whatever the database raises, with that migration undone and the ones before it kept.
    """
    applied: list[str] = []
    tries = 0
    connection = await asyncpg.connect(database_url, command_timeout=None)
    try:
        while True:
            try:
                name = await _apply_next(connection, directory, report if not tries else lambda name: None)
            except asyncpg.LockNotAvailableError:
                if (tries := tries + 1) == LOCK_TRIES:
                    raise
                await asyncio.sleep(LOCK_PAUSE_SECONDS)
                continue
            if name is None:
                return applied
            applied.append(name)
            tries = 0
    finally:
        await connection.close()


async def pending(connection: asyncpg.Connection, directory: Path = MIGRATIONS) -> list[str]:
    """The names of the migrations that this database lacks, in order. Changes nothing. Raises MigrationError."""
    if not await connection.fetchval("select to_regclass('schema_migration') is not null"):
        return [path.name for path in _files(directory)]
    return [path.name for path in _missing(await _ledger(connection), directory)]


def newest(directory: Path = MIGRATIONS) -> str:
    """The name of the newest migration that this version has."""
    return _files(directory)[-1].name


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
        text = path.read_text(encoding="utf-8")
        needs = found[1] if (found := _NEEDS.search(text)) else ""
        if needs and not (needs <= path.name and (directory / needs).exists()):
            raise MigrationError(f"{path.name} needs {needs}, which is no migration before it")
        if needs:
            await _refuse_beneath_others(connection, path.name, needs)
        report(path.name)
        await connection.execute(f"set local lock_timeout = '{LOCK_SECONDS * 1000:.0f}ms'")
        await connection.execute(text)
        await connection.execute(
            "insert into schema_migration (name, sha256, needs) values ($1, $2, $3)", path.name, _digest(path), needs
        )
        return path.name


async def _refuse_beneath_others(connection: asyncpg.Connection, name: str, needs: str) -> None:
    """MigrationError where a process lives that lacks what it must have to go on beside this migration."""
    await connection.execute("select pg_advisory_xact_lock($1)", TAKING_AWAY)
    if not await connection.fetchval("select to_regclass('processes') is not null"):
        return
    behind = await connection.fetch(sql.load("processes")["behind"], NOBODYS, needs, LIVE_SECONDS)
    if behind:
        who = "; ".join(f"{row['many']} of {row['migration']} ({row['processes']})" for row in behind)
        raise MigrationError(
            f"{name} takes away what processes use that lack {needs}, and such live: {who}. Have a version in their"
            f" place that has it, or end them (one that was killed counts for {LIVE_SECONDS:.0f} seconds more)"
        )


async def _ledger(connection: asyncpg.Connection) -> dict[str, _Applied]:
    rows = await connection.fetch("select name, sha256, needs from schema_migration order by name")
    return {row["name"]: _Applied(row["sha256"], row["needs"]) for row in rows}


def _missing(ledger: dict[str, _Applied], directory: Path) -> list[Path]:
    files = {path.name: path for path in _files(directory)}
    unknown = [name for name in ledger if name not in files]
    for name, applied in ledger.items():
        if name not in files and applied.needs and applied.needs not in files:
            raise MigrationError(
                f"the database has {name}, beside which no version goes on that lacks {applied.needs}:"
                " it is newer than this; start that version"
            )
        if name in files and _digest(files[name]) != applied.sha256:
            raise MigrationError(
                f"{name} was changed after this database had applied it: make a new migration instead"
                " (of a development database: start over with an empty one)"
            )
    missing = [path for name, path in files.items() if name not in ledger]
    if missing and unknown:
        raise MigrationError(
            f"the database has {', '.join(unknown)} and lacks {missing[0].name}: it is newer than this, and another's"
        )
    return missing


def _files(directory: Path) -> list[Path]:
    return sorted(directory.glob("[0-9][0-9][0-9][0-9]_*.sql"))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
