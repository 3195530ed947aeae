"""That this process lives, and of which version it is: so no migration takes away what it uses (sql/migrate.py).

Each process that has the database says so there, again and again (`processes`). One that ends says that too, or says
nothing for LIVE_SECONDS. A process that only stood still for so long may find on its return that it was left behind,
and ends.
"""

from __future__ import annotations

import os
import socket
from typing import Final

import asyncpg

import sql
from runtime import ids
from runtime.stores.database import Database
from sql.migrate import LIVE_SECONDS, NOBODYS, TAKING_AWAY, newest, pending

_SQL: Final = sql.load("processes")

EVERY_SECONDS: Final = LIVE_SECONDS / 3
"""How often a process says that it lives, and looks whether a newer version's migrations have left it behind."""

FORGET_SECONDS: Final = 20 * LIVE_SECONDS


class Presence:
    """This process, as the others see it."""

    __slots__ = ("_id", "_name", "_migration")

    def __init__(self) -> None:
        self._id = ids.make("process")
        self._name = f"{socket.gethostname()}, process {os.getpid()}"
        self._migration = newest()

    async def begin(self, database: Database) -> list[str]:
        """Says that it has come; the migrations that the database lacks, and then it has said nothing.

        Raises MigrationError where this version cannot go on beside what was migrated, and has said nothing either.
        """
        async with database.connection() as connection:
            if missing := await pending(connection):
                return missing
            async with connection.transaction():
                # One that takes something away looks for us first: it sees us, or we see what it did.
                await connection.execute(_SQL["keep_off"], TAKING_AWAY)
                missing = await pending(connection)
                await self._announce(connection)
                await connection.execute(_SQL["forget"], NOBODYS, FORGET_SECONDS)
        return missing

    async def go_on(self, database: Database) -> None:
        """Says that it lives. Raises MigrationError where it can no longer go on beside what was migrated."""
        async with database.connection() as connection:
            await pending(connection)
            await self._announce(connection)

    async def end(self, database: Database) -> None:
        """It uses nothing any more."""
        await database.execute(_SQL["leave"], NOBODYS, self._id)

    async def _announce(self, connection: asyncpg.Connection) -> None:
        await connection.execute(_SQL["announce"], NOBODYS, self._id, self._name, self._migration)
