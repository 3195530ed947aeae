"""Migrates a database to the newest version, safely from several processes at once.

We do not use pogo-migrate: it takes no lock, so two replicas that start together race. It splits files with its own
parser and requires a rollback section and a dependency header in each, so `schema.sql` could not be the first
migration. And it adds sqlglot, rtoml and three more packages to the service.

Migrations are the files `migrations/NNNN_name.sql`, applied in order of name. Each runs in its own transaction under a
transaction-level advisory lock, which also works with a pooler in transaction mode. There are no down migrations: the
next migration corrects a wrong one.

During a rolling upgrade, processes of the previous version run, and start, against the new schema. So a migration that
removes something must come a version after the last use. Its header names the migration that a process must have:

    -- needs: 0007_expand.sql

It is refused while a live process lacks that one (`processes`: runtime/stores/heartbeat.py). A process without it that
starts later is refused; one that was silent for LIVE_SECONDS and comes back ends (`pending` raises).
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
from sql.hosts import connect

LOCK_KEY: Final = 0x746F6D626F6C61  # "tombola" in ASCII
REMOVAL_LOCK_KEY: Final = 0x746F6D74616B65  # "tomtake" in ASCII
"""Advisory lock of a migration that removes something: no process may start unseen meanwhile."""

LIVE_SECONDS: Final = 30.0
"""A process without a heartbeat for longer counts as ended."""

NO_TENANT: Final = ""
"""tenant_id of rows that belong to no tenant."""

_LEDGER: Final = """
create table if not exists schema_migration (
    name       text primary key,
    sha256     text not null,
    needs      text not null default '',
    applied_at timestamptz not null default now()
)
"""

LOCK_SECONDS: Final = 0.5
"""How long one try waits for a table lock. Everything later queues behind it, plays included."""

LOCK_TRIES: Final = 120
LOCK_PAUSE_SECONDS: Final = 1.0

_NEEDS: Final = re.compile(r"^-- needs: (\S+)$", re.MULTILINE)


class MigrationError(RuntimeError):
    """The database does not match these migrations; nothing was changed."""


class _Applied(NamedTuple):
    """An applied migration. needs: the migration that a process must have to run after it; "" for none."""

    sha256: str
    needs: str


async def migrate(
    database_url: str, *, directory: Path = MIGRATIONS, report: Callable[[str], None] = lambda name: None
) -> list[str]:
    """Applies the missing migrations and returns their names; calls `report` with each name first.

    Raises MigrationError if an applied file was changed, or if this version is too old for the database. A database
    error rolls back its migration; the earlier ones stay.
    """
    applied: list[str] = []
    tries = 0
    connection = await connect(database_url, command_timeout=None)
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
    """The names of the missing migrations, in order. Changes nothing. Raises MigrationError."""
    if not await connection.fetchval("select to_regclass('schema_migration') is not null"):
        return [path.name for path in _files(directory)]
    return [path.name for path in _missing(await _ledger(connection), directory)]


def newest(directory: Path = MIGRATIONS) -> str:
    """The newest migration of this version."""
    return _files(directory)[-1].name


async def _apply_next(connection: asyncpg.Connection, directory: Path, report: Callable[[str], None]) -> str | None:
    """Applies the first missing migration and returns its name; None if none is missing."""
    async with connection.transaction():
        # Read the ledger under the lock, so that migrations applied by a concurrent process are seen.
        await connection.execute("select pg_advisory_xact_lock($1)", LOCK_KEY)
        await connection.execute(_LEDGER)
        missing = _missing(await _ledger(connection), directory)
        if not missing:
            return None
        path = missing[0]
        text = path.read_text(encoding="utf-8")
        needs = found[1] if (found := _NEEDS.search(text)) else ""
        if needs and not (needs <= path.name and (directory / needs).exists()):
            raise MigrationError(f"{path.name} needs {needs}, which is not an earlier migration")
        if needs:
            await _require_live_processes(connection, path.name, needs)
        report(path.name)
        await connection.execute(f"set local lock_timeout = '{LOCK_SECONDS * 1000:.0f}ms'")
        await connection.execute(text)
        await connection.execute(
            "insert into schema_migration (name, sha256, needs) values ($1, $2, $3)", path.name, _digest(path), needs
        )
        return path.name


async def _require_live_processes(connection: asyncpg.Connection, name: str, needs: str) -> None:
    """Raises MigrationError if a live process lacks the migration that this one needs."""
    await connection.execute("select pg_advisory_xact_lock($1)", REMOVAL_LOCK_KEY)
    if not await connection.fetchval("select to_regclass('processes') is not null"):
        return
    behind = await connection.fetch(sql.load("processes")["behind"], NO_TENANT, needs, LIVE_SECONDS)
    if behind:
        who = "; ".join(f"{row['many']} of {row['migration']} ({row['processes']})" for row in behind)
        raise MigrationError(
            f"{name} needs all live processes to have {needs}, but some lack it: {who}. Upgrade or stop them (a killed"
            f" process counts as live for {LIVE_SECONDS:.0f} more seconds)"
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
                f"the database has {name}, which needs {applied.needs}: this version is too old for it;"
                " start a newer version"
            )
        if name in files and _digest(files[name]) != applied.sha256:
            raise MigrationError(
                f"{name} was changed after this database applied it: add a new migration instead"
                " (in development: start with an empty database)"
            )
    missing = [path for name, path in files.items() if name not in ledger]
    if missing and unknown:
        raise MigrationError(
            f"the database has the unknown {', '.join(unknown)} and lacks {missing[0].name}: another version made it"
        )
    return missing


def _files(directory: Path) -> list[Path]:
    return sorted(directory.glob("[0-9][0-9][0-9][0-9]_*.sql"))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
