"""The auditor's checks over what a run left: its rows in a real PostgreSQL, where sql/conservation.sql looks at them.

The invariants (invariants.py) are looked at often, and written anew in Python. These are the statements themselves, of
which a run has its look once, at its end.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import asyncpg

from ops.servers.postgres import DISPOSABLE, Postgres
from ops.simulation.postgres.schema import INFINITE_FUTURE, INFINITE_PAST, SHAPES, Column
from ops.simulation.postgres.values import datetime_of
from ops.simulation.world import TENANT, Violation
from runtime.operations.conservation.checks import CHECKS, CONSERVATION, KINDS
from sql.migrate import migrate

Rows = Mapping[str, list[Any]]
"""What the tables have, by their names."""

SHOWN: Final = 3
KEYS_MAX: Final = 1_000_000

_INFINITE: Final = {INFINITE_PAST: "-infinity", INFINITE_FUTURE: "infinity"}
_ESCAPED: Final = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


class Auditor:
    """Looks at one run after another, in a migrated database that nobody else uses, and leaves nothing in it."""

    def __init__(self, url: str) -> None:
        self._url = url
        # The loops of runs are not the machine's: this is.
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._connection: asyncpg.Connection | None = None

    def look(self, rows: Rows) -> Violation | None:
        """The first check that does not hold."""
        return self._runner.run(self._look(rows))

    def close(self) -> None:
        if self._connection is not None:
            self._runner.run(self._connection.close())
        self._runner.close()

    async def _look(self, rows: Rows) -> Violation | None:
        if self._connection is None:
            self._connection = await asyncpg.connect(self._url)
        transaction = self._connection.transaction()
        await transaction.start()
        try:
            for table, own in rows.items():
                if own:
                    await _put(self._connection, table, own)
            return await _broken(self._connection)
        finally:
            await transaction.rollback()


@contextmanager
def database() -> Iterator[str]:
    """The URL of a migrated database of an embedded server, for the length of the block."""
    with tempfile.TemporaryDirectory(prefix="tombola-simulation-") as name:
        directory = Path(name)
        directory.chmod(0o711)  # the server's account goes through it
        server = Postgres(directory / "postgres", DISPOSABLE)
        server.start()
        try:
            server.psql("create database simulated")
            asyncio.run(migrate(server.url("simulated")))
            yield server.url("simulated")
        finally:
            server.stop()


async def copied(url: str, name: str) -> str:
    """The URL of a copy of that database, on the same server."""
    head, _, template = url.rpartition("/")
    connection = await asyncpg.connect(f"{head}/postgres")
    try:
        await connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    finally:
        await connection.close()
    return f"{head}/{name}"


async def _put(connection: asyncpg.Connection, table: str, rows: Iterable[Any]) -> None:
    columns = SHAPES[table].columns
    lines = ("\t".join(_text(column, getattr(row, column.name)) for column in columns) for row in rows)
    source = BytesIO("".join(f"{line}\n" for line in lines).encode())
    await connection.copy_to_table(table, source=source, columns=[column.name for column in columns], format="text")


def _text(column: Column, value: Any) -> str:
    """A column's value, as COPY reads it."""
    if value is None:
        return r"\N"
    if column.type == "timestamptz":
        at = _INFINITE.get(value) or datetime_of(value)
        return at if isinstance(at, str) else str(at)
    if column.type == "bytea":
        return rf"\\x{value.hex()}"
    if column.type == "text[]":
        quoted = ",".join('"' + one.replace("\\", r"\\").replace('"', r"\"") + '"' for one in value)
        return f"{{{quoted}}}".translate(_ESCAPED)
    text = value.decode() if isinstance(value, bytes) else value.isoformat() if isinstance(value, date) else str(value)
    return text.translate(_ESCAPED)


async def _broken(connection: asyncpg.Connection) -> Violation | None:
    for kind in KINDS:
        keys = [row["id"] for row in await connection.fetch(CONSERVATION[f"walk_{kind}"], TENANT, "", KEYS_MAX)]
        for check in CHECKS.values():
            if check.kind == kind and (rows := await connection.fetch(check.statement, TENANT, keys)):
                shown = "; ".join(str(dict(row)) for row in rows[:SHOWN])
                return Violation(f"audit, {check.name}: {check.holds}", "no such row", shown)
    return None
