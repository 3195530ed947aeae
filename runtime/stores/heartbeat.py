"""Process heartbeats, with versions: no migration removes what a live process uses (sql/migrate.py).

Each process with a database connection writes a heartbeat there (`processes`). A process ends by deleting its row, or
after LIVE_SECONDS without a heartbeat. A process that was suspended for that long may find on its return that a
migration has left its version behind; it then ends.
"""

from __future__ import annotations

import os
import socket
from typing import Final

import asyncpg

import sql
from runtime import ids
from runtime.stores.database import Database
from sql.migrate import LIVE_SECONDS, NO_TENANT, REMOVAL_LOCK_KEY, MigrationError, newest, pending

_SQL: Final = sql.load("processes")

EVERY_SECONDS: Final = LIVE_SECONDS / 3
"""The heartbeat interval; each one also checks that no newer migration has left this version behind."""

FORGET_SECONDS: Final = 20 * LIVE_SECONDS


class Presence:
    """This process's row in `processes`."""

    __slots__ = ("id", "_name", "_migration", "begun")

    def __init__(self) -> None:
        self.id = ids.make("process")
        self._name = f"{socket.gethostname()}, process {os.getpid()}"
        self._migration = newest()
        self.begun = False

    async def begin(self, database: Database) -> list[str]:
        """Writes the first heartbeat. Returns the migrations that the database lacks; then nothing is written.

        Raises MigrationError, without a heartbeat, if this version is incompatible with the applied migrations.
        """
        async with database.connection() as connection:
            if missing := await pending(connection):
                return missing
            async with connection.transaction():
                # A destructive migration takes the same lock first: either it sees this heartbeat, or we see its
                # changes.
                await connection.execute(_SQL["exclude_migrations"], REMOVAL_LOCK_KEY)
                missing = await pending(connection)
                await self._announce(connection)
                await connection.execute(_SQL["remove_silent"], NO_TENANT, FORGET_SECONDS)
        self.begun = True
        return missing

    async def beat(self, database: Database) -> None:
        """Writes a heartbeat. Raises MigrationError if this version and the applied migrations are incompatible."""
        if not self.begun:  # The database did not answer at the start.
            if missing := await self.begin(database):
                raise MigrationError(f"the database {database.name} lacks {', '.join(missing)}; run `tombola migrate`")
            return
        async with database.connection() as connection:
            await pending(connection)
            await self._announce(connection)

    async def end(self, database: Database) -> None:
        """Deletes this process's row."""
        await database.execute(_SQL["leave"], NO_TENANT, self.id)

    async def _announce(self, connection: asyncpg.Connection) -> None:
        await connection.execute(_SQL["announce"], NO_TENANT, self.id, self._name, self._migration)
