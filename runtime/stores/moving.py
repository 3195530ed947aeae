"""Moves a tenant to another database while it is in use.

The tenant's rows are copied as of the start of a replication slot, and PostgreSQL's logical replication (a publication
with row filters) follows their changes from there.
Then the tenant is paused: its requests get UNAVAILABLE with retry_after, at most PAUSE_SECONDS. Once every process has
acknowledged the pause, and every transaction from before has ended, all tables are compared by hash and the directory
is switched. Then the old rows are removed.

The directory's row records the step. After an interruption, the database named there has all rows of the tenant. The
next run removes the incomplete copy and starts again, or, after the switch, removes the old rows. The next process that
reads an expired pause ends it with a conditional update; the switch is a conditional update too. Only one of the two
succeeds, so no process resumes in the old database after the switch.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg

import sql
from runtime.errors import Fault
from runtime.settings import Settings
from runtime.stores.database import HOME
from runtime.stores.databases import FOLLOW_SECONDS, START
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.pipeline import EphemeralDown
from runtime.stores.ranking_sets import PREFIX
from sql.hosts import connect
from sql.migrate import LIVE_SECONDS, NO_TENANT, pending
from sql.pooler import is_pooled
from sql.tables import tenant_tables

PAUSE_SECONDS: Final = 2.0
"""The longest pause, also if the move is killed; a move that needs longer is given up."""

SWITCH_SECONDS: Final = PAUSE_SECONDS - FOLLOW_SECONDS
"""How long the switch may take. The processes read the end of the pause up to FOLLOW_SECONDS later."""

COPY_SECONDS: Final = 3600.0
"""How long copying may take."""

LAG_BYTES: Final = 256 * 1024
"""The tenant is paused once the target is this close behind."""

POLL_SECONDS: Final = 0.02
REMOVED_AT_ONCE: Final = 5_000
"""Rows per statement when the old rows are removed."""

_SQL: Final = sql.load("moving")
_DIRECTORY: Final = sql.load("directory")


DIRECT: Final = "a URL leads through a connection pooler; run the command with URLs that lead to PostgreSQL itself"
"""A move depends on sessions: a lock, replication, session_replication_role."""


class NotMoved(Exception):
    """The tenant was not moved; the message says where it lives and what to do."""


class Move:
    """One move. `report` is called with each step."""

    def __init__(self, settings: Settings, tenant_id: str, target: str, report: Callable[[str], None]) -> None:
        self._settings = settings
        self._urls = {HOME: settings.database_url, **dict(settings.databases)}
        self._tenant_id = tenant_id
        self._target_name = target
        self._name = f"tombola_move_{hashlib.sha256(tenant_id.encode()).hexdigest()[:24]}"
        self._report = report
        self._home: asyncpg.Connection
        self._source: asyncpg.Connection
        self._target: asyncpg.Connection
        self._source_name = HOME
        self._paused_at = START
        self.pause_seconds = 0.0

    async def run(self) -> int:
        """Moves the tenant, or ends an earlier move. Returns the number of rows moved; 0: it lived there already."""
        if self._target_name not in self._urls:
            raise NotMoved(f"there is no database {self._target_name!r}; there are {', '.join(self._urls)}")
        async with _connected(self._urls[HOME]) as self._home:
            if not await self._home.fetchval(_SQL["lock"], self._tenant_id):
                raise NotMoved("another move of this tenant is running")
            row = await self._home.fetchrow(_DIRECTORY["get"], self._tenant_id)
            self._source_name = row["database"] if row is not None else HOME
            if row is not None and row["moved_from"]:
                await self._finish(row["moved_from"])
            if row is not None and row["moving_to"]:
                await self._give_up(row["moving_to"])
            if self._source_name == self._target_name:
                return 0
            async with self._connected_to(self._source_name, self._target_name):
                await self._check()
                try:
                    await self._copy()
                    rows = await self._pause_and_switch()
                except BaseException:
                    await self._give_up(self._target_name)
                    raise
            await self._finish(self._source_name, rows)
            return sum(count for count, _ in rows.values())

    @asynccontextmanager
    async def _connected_to(self, source: str, target: str) -> AsyncIterator[None]:
        async with _connected(self._urls[source]) as self._source, _connected(self._urls[target]) as self._target:
            yield

    # -- steps -------------------------------------------------------------------------------

    async def _check(self) -> None:
        """Raises NotMoved if a move is impossible."""
        if not await self._source.fetchval(_SQL["exists"], self._tenant_id):
            raise NotMoved(f"there is no tenant {self._tenant_id!r} in {self._source_name}")
        for name, connection in ((self._source_name, self._source), (self._target_name, self._target)):
            if missing := await pending(connection):
                raise NotMoved(f"{name} lacks {', '.join(missing)}; run `tombola migrate` first")
            row = await connection.fetchrow(_SQL["can_move"])
            assert row is not None
            if connection is self._source and row["wal_level"] != "logical":
                raise NotMoved(
                    f"{name} has wal_level {row['wal_level']}. Run `ALTER SYSTEM SET wal_level = logical` there and"
                    " restart its PostgreSQL"
                )
            if not row["can_replace"]:
                raise NotMoved(
                    f"{name}: the role of the URL may not set session_replication_role. Run the command with the URLs"
                    " of a superuser, or of a role that may also replicate and create subscriptions"
                )
        behind = await self._home.fetch(_DIRECTORY["behind"], NO_TENANT, LIVE_SECONDS, START)
        if behind:
            names = "; ".join(row["process"] for row in behind)
            raise NotMoved(f"these processes do not read the directory: {names}. Restart them with DATABASES")

    async def _copy(self) -> None:
        """Copies the rows, and returns when the copy is close behind."""
        if (
            await self._home.fetchval(_DIRECTORY["begin_move"], self._tenant_id, self._source_name, self._target_name)
            is None
        ):
            raise NotMoved("the directory has changed; run it again")
        self._report(f"copying from {self._source_name} to {self._target_name}")
        await self._drop_subscription()  # Of an earlier try, as the rows.
        await self._remove_rows(self._target)
        tables = list(tenant_tables())
        await self._source.execute(
            await self._source.fetchval(_SQL["create_publication"], self._name, self._tenant_id, tables)
        )
        url = self._urls[self._source_name]
        async with asyncio.timeout(COPY_SECONDS):
            # The subscription's own copy takes seconds for each table, even an empty one.
            await self._copy_rows(url)
            await self._target.execute(await self._target.fetchval(_SQL["create_subscription"], self._name, url))
            position = await self._source.fetchval(_SQL["position"]) - LAG_BYTES
            await _until(self._source, _SQL["is_received"], self._name, position)

    async def _copy_rows(self, url: str) -> None:
        """Copies the rows as of the slot's start, so that the subscription continues exactly there."""
        await self._target.execute("SET session_replication_role = replica")
        async with _connected(url, replication="database") as slot:
            await slot.execute("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ")
            await slot.execute(await self._source.fetchval(_SQL["create_slot"], self._name))
            for table in tenant_tables():
                columns = [row["name"] for row in await self._target.fetch(_SQL["columns"], table)]
                query = await self._target.fetchval(_SQL["read"], table, columns, self._tenant_id)
                await self._copy_table(slot, query, table, columns)
            await slot.execute("COMMIT")
        await self._target.execute("SET session_replication_role = origin")

    async def _copy_table(self, slot: asyncpg.Connection, query: str, table: str, columns: list[str]) -> None:
        parts: asyncio.Queue[bytes] = asyncio.Queue(maxsize=16)

        async def read() -> None:
            await slot.copy_from_query(query, output=parts.put, format="binary")
            await parts.put(b"")

        async def received() -> AsyncIterator[bytes]:
            while part := await parts.get():
                yield part

        async with asyncio.TaskGroup() as group:
            group.create_task(read())
            group.create_task(self._target.copy_to_table(table, source=received(), columns=columns, format="binary"))

    async def _pause_and_switch(self) -> dict[str, tuple[int, str]]:
        """Pauses the tenant, compares its rows and switches the directory. Returns the rows of each table."""
        self._report("pausing")
        began = time.monotonic()
        try:
            async with asyncio.timeout(SWITCH_SECONDS):
                rows = await self._switch()
        except TimeoutError:
            behind = await self._home.fetch(_DIRECTORY["behind"], NO_TENANT, LIVE_SECONDS, self._paused_at)
            if names := "; ".join(row["process"] for row in behind):
                raise NotMoved(f"these processes did not acknowledge the pause: {names}") from None
            raise NotMoved(f"it needs a longer pause than {PAUSE_SECONDS:.0f} s; try when there is less load") from None
        self.pause_seconds = time.monotonic() - began
        self._report(f"switched to {self._target_name} after a pause of {self.pause_seconds:.2f} s")
        return rows

    async def _switch(self) -> dict[str, tuple[int, str]]:
        for _ in range(2):  # A process that has read a change from after the first commit has read the pause, too.
            self._paused_at = await self._home.fetchval(_DIRECTORY["pause"], self._tenant_id, SWITCH_SECONDS)
        await _until(self._home, _DIRECTORY["is_read"], NO_TENANT, LIVE_SECONDS, self._paused_at)
        # A statement that had its connection before the pause may begin a moment later.
        await asyncio.sleep(5 * POLL_SECONDS)
        now = await self._source.fetchval(_SQL["now"])
        await _until(self._source, _SQL["is_quiet"], now)
        position = await self._source.fetchval(_SQL["position"])
        await self._source.execute(_SQL["mark"], self._tenant_id)
        await _until(self._source, _SQL["is_received"], self._name, position)
        old, new = await asyncio.gather(self._rows(self._source), self._rows(self._target))
        if differing := [name for name in old if old[name] != new[name]]:
            raise NotMoved(f"the copy differs in {', '.join(differing)}")
        await self._clear_cache()
        if await self._home.fetchval(_DIRECTORY["switch"], self._tenant_id) is None:
            raise NotMoved("the pause is over; run it again")
        return new

    async def _rows(self, connection: asyncpg.Connection) -> dict[str, tuple[int, str]]:
        """The number and the hash of the tenant's rows in each table."""
        query = await connection.fetchval(_SQL["compare"], self._tenant_id, list(tenant_tables()))
        return {row["name"]: (row["rows"], row["hash"]) for row in await connection.fetch(query)}

    async def _clear_cache(self) -> None:
        """Deletes the tenant's rankings in Valkey: their versions are transaction ids of the old database."""
        settings = self._settings
        if not settings.redis_url:
            return
        ephemeral = Ephemeral(
            settings.redis_url, cluster=settings.redis_cluster, timeout_seconds=settings.redis_timeout_seconds
        )
        try:
            await ephemeral.start()
            await ephemeral.delete_of(self._is_tenant, PREFIX)
        except (EphemeralDown, Fault) as error:
            raise NotMoved(f"Valkey does not answer ({error}); run it again when it does") from None
        finally:
            await ephemeral.close()

    def _is_tenant(self, tag: str) -> bool:
        return tag == self._tenant_id

    # -- ends --------------------------------------------------------------------------------

    async def _give_up(self, target: str) -> None:
        """Ends a move before its switch: the tenant stays, and its copy is removed."""
        # First, and without the target: if that is lost, the slot would fill the source's disk.
        async with _connected(self._urls[self._source_name]) as self._source:
            await self._refuse_without_tenant(self._source, self._source_name, target)
            await self._drop_slot()
        if await self._home.fetchval(_DIRECTORY["give_up"], self._tenant_id) is None:
            return
        self._report(f"removing the incomplete copy in {target}")
        async with _connected(self._urls[target]) as self._target:
            await self._drop_subscription()
            await self._remove_rows(self._target)

    async def _finish(self, source: str, rows: dict[str, tuple[int, str]] | None = None) -> None:
        """Removes the old rows, if nothing was written to them after they were compared."""
        self._report(f"removing the old rows in {source}")
        target = self._target_name if rows is not None else self._source_name
        async with self._connected_to(source, target):
            await self._refuse_without_tenant(self._target, target, source)
            await self._drop_subscription()
            await self._drop_slot()
            await asyncio.sleep(2 * FOLLOW_SECONDS)
            found = await self._rows(self._source) if rows is not None else {}
            if late := [name for name, one in found.items() if rows is not None and one != rows[name]]:
                raise NotMoved(
                    f"rows were written to {', '.join(late)} in {source} after they were compared, and are kept there."
                    f" The tenant lives in {target}; running the command again removes them"
                )
            await self._remove_rows(self._source)
        await self._home.execute(_DIRECTORY["finish"], self._tenant_id)

    async def _refuse_without_tenant(self, kept: asyncpg.Connection, name: str, other: str) -> None:
        """Raises NotMoved if the database that the directory names lacks the tenant: `other` may have its only rows."""
        if not await kept.fetchval(_SQL["exists"], self._tenant_id):
            raise NotMoved(
                f"the directory says that {self._tenant_id} lives in {name}, which lacks it. Its rows in {other} are"
                f" kept. If {HOME} was restored to an earlier time and {other} has the tenant, run in {HOME}:"
                f" UPDATE tenant_databases SET database = '{other}', moving_to = '', moved_from = '', paused_until ="
                f" NULL, changed_at = clock_timestamp() WHERE tenant_id = '{self._tenant_id}'"
            )

    async def _drop_subscription(self) -> None:
        """Drops the target's subscription, without its slot."""
        if drop := await self._target.fetchval(_SQL["drop_subscription"], self._name):
            for statement in drop.split("; "):
                await self._target.execute(statement)

    async def _drop_slot(self) -> None:
        """Drops the source's slot and publication."""
        async with asyncio.timeout(LIVE_SECONDS):
            while True:
                try:
                    await self._source.execute(_SQL["drop_slot"], self._name)
                    break
                except asyncpg.ObjectInUseError:
                    await asyncio.sleep(POLL_SECONDS)
        await self._source.execute(await self._source.fetchval(_SQL["drop_publication"], self._name))

    async def _remove_rows(self, connection: asyncpg.Connection) -> None:
        await connection.execute("SET session_replication_role = replica")
        for table in reversed(tenant_tables()):
            statement = await connection.fetchval(_SQL["remove"], table, self._tenant_id, REMOVED_AT_ONCE)
            while await connection.execute(statement) == f"DELETE {REMOVED_AT_ONCE}":
                pass
        await connection.execute("SET session_replication_role = origin")


async def _until(connection: asyncpg.Connection, query: str, *args: Any) -> None:
    """Waits until the statement gives true."""
    while not await connection.fetchval(query, *args):  # noqa: ASYNC110  The fact is another server's.
        await asyncio.sleep(POLL_SECONDS)


@asynccontextmanager
async def _connected(url: str, **settings: str) -> AsyncIterator[asyncpg.Connection]:
    # The comparison casts rows to text, which these settings influence.
    text = {"timezone": "UTC", "datestyle": "ISO", "extra_float_digits": "1", "bytea_output": "hex"}
    text |= {"application_name": "tombola move", **settings}
    try:
        connection = await connect(url, server_settings=text)
    except asyncpg.ProtocolViolationError as error:
        raise NotMoved(f"{DIRECT} ({error})") from None
    try:
        if "replication" not in settings and await is_pooled(connection):
            raise NotMoved(DIRECT)
        yield connection
    finally:
        await connection.close()
