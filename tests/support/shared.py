"""What the tests of a process share: databases that are emptied between tests, and the services that run on them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

import asyncpg

from tests.support.stack import OTHER_TENANT, TENANT, Stack, make_tenant, new_stack, settings_of

KEPT: Final = ("schema_migration",)
"""The table whose rows a database is made with."""

KEPT_FOR_SERVICES: Final = (*KEPT, "processes", "key_holders")
"""A running service relies on its own rows in these, too."""

LARGE_BYTES: Final = 4_000_000
"""Tables that are larger together are truncated: DELETE leaves a table as large as it was."""

_SHAPE: Final = """
SELECT concat_ws(' ', (SELECT count(*) FROM pg_attribute), (SELECT count(*) FROM pg_index),
    (SELECT count(*) FROM pg_constraint), (SELECT count(*) FROM pg_trigger WHERE tgenabled = 'O'),
    (SELECT count(*) FROM pg_proc), (SELECT count(*) FROM schema_migration))"""
"""Changes where a test changed the schema. Its temporary tables are gone by then."""

_TABLES: Final = """
SELECT relname FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> ALL ($1) ORDER BY relname"""

_numbers: Final = itertools.count(1)


class SharedDatabase:
    """One migrated database after another, each emptied until a test spoils it."""

    def __init__(self, make: Callable[[], str], drop: Callable[[str], None], *, kept: tuple[str, ...] = KEPT) -> None:
        self.url = ""
        self._make, self._drop, self._kept = make, drop, kept
        self._shape = self._script = ""

    async def is_emptied(self) -> bool:
        """Deletes every row. False where there is no database yet, its schema was changed, or a lock is held."""
        if not self.url:
            return False
        connection = await asyncpg.connect(self.url)
        try:
            if await connection.fetchval(_SHAPE) != self._shape:
                return False
            await connection.execute(self._script)
        except asyncpg.PostgresError:
            return False
        finally:
            await connection.close()
        return True

    async def replace(self) -> None:
        """Drops the database, and makes another."""
        if self.url:
            self._drop(self.url)
        self.url = self._make()
        connection = await asyncpg.connect(self.url)
        self._shape = await connection.fetchval(_SHAPE)
        self._script = _emptying([row["relname"] for row in await connection.fetch(_TABLES, [*self._kept])])
        await connection.close()


class SharedService:
    """A service on a shared database. A test that wants other settings than the one before it starts another.

    Each test has tenants of its own, of which the service's caches know nothing.
    """

    def __init__(self, database: SharedDatabase, redis_url: str) -> None:
        self._database, self._redis_url = database, redis_url
        self._settings = ""
        self._stack: Stack | None = None
        self._parts = AsyncExitStack()

    @property
    def database_url(self) -> str:
        """Of the database; empty before the first use."""
        return self._database.url

    async def empty_database(self) -> str:
        """The URL of the database, without a row of an earlier test."""
        if not await self._database.is_emptied():
            await self.stop()
            await self._database.replace()
        return self._database.url

    async def with_settings(self, extra: Mapping[str, Any], *, tenant_id: str = "") -> Stack:
        """The service with these settings, as a tenant sees it: a new one unless it is named."""
        wanted = repr(sorted(extra.items()))
        if self._stack is None or self._settings != wanted:
            await self.stop()
            settings = settings_of(self._database.url, self._redis_url, **extra)
            self._stack = await self._parts.enter_async_context(new_stack(settings))
            self._settings = wanted
        await make_tenant(self._stack, OTHER_TENANT)
        return await make_tenant(self._stack, tenant_id or f"{TENANT}_{next(_numbers)}")

    async def stop(self) -> None:
        """Stops the service, where it runs."""
        self._stack = None
        await self._parts.aclose()


def _emptying(tables: list[str]) -> str:
    """A statement that empties these tables, in a few milliseconds where they have few rows."""
    sizes = " + ".join(f"pg_relation_size('{name}')" for name in tables)
    deletions = " ".join(f"IF EXISTS (SELECT FROM {name}) THEN DELETE FROM {name}; END IF;" for name in tables)
    return f"""DO $$ BEGIN
        SET LOCAL lock_timeout = '3s';
        SET LOCAL session_replication_role = replica;
        IF {sizes} > {LARGE_BYTES} THEN TRUNCATE {", ".join(tables)}; ELSE {deletions} END IF;
    END $$"""
