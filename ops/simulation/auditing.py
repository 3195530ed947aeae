"""Runs the checks of sql/conservation.sql on a run's final rows, in a real PostgreSQL."""

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

import asyncpg
import msgspec

from ops.servers.postgres import DISPOSABLE, Postgres
from ops.simulation.postgres import Row
from ops.simulation.statements import datetime_of
from runtime.operations.conservation.checks import CHECKS, CONSERVATION, KINDS
from sql.migrate import migrate

SHOWN: Final = 3
KEYS_MAX: Final = 1_000_000


class Auditor:
    """Checks one run after another in a migrated database of its own; each check is rolled back."""

    def __init__(self, url: str) -> None:
        self._url = url
        # A real event loop: those of runs are simulated.
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._connection: asyncpg.Connection | None = None

    def check(self, tenant_id: str, tables: Mapping[str, list[Row]]) -> tuple[str, str] | None:
        """The first violated check: its invariant and the violating rows."""
        return self._runner.run(self._check_once(tenant_id, tables))

    async def _check_once(self, tenant_id: str, tables: Mapping[str, list[Row]]) -> tuple[str, str] | None:
        if self._connection is None:
            self._connection = await asyncpg.connect(self._url)
        transaction = self._connection.transaction()
        await transaction.start()
        try:
            for table, rows in tables.items():
                if rows:
                    await put(self._connection, table, rows)
            return await _broken(self._connection, tenant_id)
        finally:
            await transaction.rollback()


@contextmanager
def database() -> Iterator[str]:
    """Starts an embedded server; yields the URL of a migrated database."""
    with tempfile.TemporaryDirectory(prefix="tombola-simulation-") as name:
        directory = Path(name)
        directory.chmod(0o711)  # the server's account must be able to pass
        server = Postgres(directory / "postgres", DISPOSABLE)
        server.start()
        try:
            server.psql("create database simulated")
            asyncio.run(migrate(server.url("simulated")))
            yield server.url("simulated")
        finally:
            server.stop()


async def put(connection: asyncpg.Connection, table: str, rows: list[Row]) -> None:
    """Inserts rows; missing columns get their defaults."""
    columns = ", ".join(rows[0])
    encoded = msgspec.json.encode([{name: _column(name, value) for name, value in row.items()} for row in rows])
    source = f"json_populate_recordset(NULL::{table}, $1::text::json)"
    await connection.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {source}", encoded.decode())


def _column(name: str, value: Any) -> Any:
    """A column's value for JSON. Times are microseconds in the model."""
    if isinstance(value, bytes):
        return rf"\x{value.hex()}"
    if name.endswith("_at") and isinstance(value, int):
        at = datetime_of(value)
        return at.isoformat() if at is not None else None
    return value.isoformat() if isinstance(value, date | datetime) else value


async def _broken(connection: asyncpg.Connection, tenant_id: str) -> tuple[str, str] | None:
    for kind in KINDS:
        keys = [row["id"] for row in await connection.fetch(CONSERVATION[f"walk_{kind}"], tenant_id, "", KEYS_MAX)]
        for check in CHECKS.values():
            if check.kind == kind and (rows := await connection.fetch(check.statement, tenant_id, keys)):
                return f"audit, {check.name}: {check.holds}", "; ".join(str(dict(row)) for row in rows[:SHOWN])
    return None
