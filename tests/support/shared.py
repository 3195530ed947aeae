"""What the tests of a process share: databases that are emptied between tests, and the services that run on them."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Final

import asyncpg

from tests.support.stack import OTHER_TENANT, TENANT, Stack, make_tenant, new_stack, settings_of

KEPT: Final = ("schema_migration",)
"""The table whose rows a database is made with."""

KEPT_FOR_SERVICES: Final = (*KEPT, "processes", "job_leases", "key_holders")
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
    def __init__(self, make: Callable[[], str], drop: Callable[[str], None], *, kept: tuple[str, ...] = KEPT) -> None:
        self.url = ""
        self._make, self._drop, self._kept = make, drop, kept
        self._shape = self._script = ""
        self._connection: asyncpg.Connection | None = None

    async def is_emptied(self) -> bool:
        """Deletes every row. False where there is no database yet, its schema was changed, or a lock is held."""
        if self._connection is None:
            return False
        try:
            if self._connection.is_closed():  # A test killed the server.
                self._connection = await asyncpg.connect(self.url)
            if await self._connection.fetchval(_SHAPE) != self._shape:
                return False
            await self._connection.execute(self._script)
        except (asyncpg.PostgresError, OSError):
            return False
        return True

    async def replace(self) -> None:
        if self.url:
            self._drop(self.url)
        self.url = self._make()
        # Kept: a new connection would read the catalogue of every table that it empties.
        self._connection = connection = await asyncpg.connect(self.url)
        self._shape = await connection.fetchval(_SHAPE)
        self._script = _emptying([row["relname"] for row in await connection.fetch(_TABLES, [*self._kept])])


class SharedService:
    """A service on shared databases. A test that wants other settings than the one before it starts another.

    The first database is home. With a second one, the tests' tenants live in the two in turn.
    """

    def __init__(self, databases: Sequence[SharedDatabase], redis_url: str) -> None:
        self._databases, self._redis_url = databases, redis_url
        self._turns = itertools.cycle(reversed(range(len(databases))))
        self._place = 0
        self._settings = ""
        self._stack: Stack | None = None
        self._parts = AsyncExitStack()

    @property
    def database_url(self) -> str:
        """The URL of the database that the test's tenants live in."""
        return self._databases[self._place].url

    async def empty_database(self) -> str:
        """As `database_url`, for the next test, and without a row of an earlier one."""
        for database in self._databases:
            if not await database.is_emptied():
                await self.stop()
                await database.replace()
        self._place = next(self._turns)
        return self.database_url

    async def with_settings(self, extra: Mapping[str, Any], *, tenant_id: str = "") -> Stack:
        wanted = repr(sorted(extra.items()))
        if self._stack is None or self._settings != wanted:
            await self.stop()
            self._stack = await self._parts.enter_async_context(self.own_stack(**extra))
            self._settings = wanted
        place = self._stack.engine.database.parts[self._place]
        await make_tenant(self._stack, OTHER_TENANT, place)
        return await make_tenant(self._stack, tenant_id or f"{TENANT}_{next(_numbers)}", place)

    def own_stack(self, *, counting_seconds: float = 86400.0, **extra: Any) -> AbstractAsyncContextManager[Stack]:
        """A process of a test's or module's own on the same databases."""
        home, *others = self._databases
        places = tuple((f"place_{nth}", other.url) for nth, other in enumerate(others, 2))
        settings = settings_of(home.url, self._redis_url, **{"databases": places, **extra})
        return new_stack(settings, counting_seconds=counting_seconds, place=self._place)

    async def stop(self) -> None:
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
