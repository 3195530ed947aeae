from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from ops.servers.postgres import Postgres
from sql.migrate import migrate
from tests.support.directories import server_directory
from tests.support.waiting import until


@asynccontextmanager
async def replicated(
    settings: Mapping[str, str], standby_settings: Mapping[str, str]
) -> AsyncIterator[tuple[Postgres, Postgres]]:
    """(primary, standby): the migrated database "tombola", and its standby that follows it."""
    with server_directory() as first, server_directory() as second:
        primary = Postgres(first / "postgres", settings)
        primary.start()
        try:
            primary.psql("create database tombola")
            await migrate(primary.url("tombola"))
            standby = primary.standby(second / "postgres", standby_settings)
            standby.start()
            try:
                yield primary, standby
            finally:
                standby.stop()
        finally:
            primary.stop()
        assert primary.deadlocks() == standby.deadlocks() == []


async def replication_is(primary: Postgres, state: str) -> None:
    """Waits until the standby's replication is `sync` or `async`, and streams."""
    await until(lambda: primary.psql("select sync_state from pg_stat_replication where state = 'streaming'") == state)
