"""A Postgres with a streaming standby."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from ops.servers.base import write_private
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
            standby = _standby_of(primary, second, {**settings, **standby_settings})
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

    async def is_so() -> bool:
        return primary.psql("select sync_state from pg_stat_replication where state = 'streaming'") == state

    await until(is_so)


def _standby_of(primary: Postgres, directory: Path, settings: Mapping[str, str]) -> Postgres:
    standby = Postgres(directory / "postgres", settings)
    write_private(directory / "postgres.password", primary.password)
    subprocess.run(
        [
            *(primary.bin_dir / "pg_basebackup", "-h", "127.0.0.1", "-p", str(primary.port), "-U", "postgres"),
            *("-D", standby.data_dir, "-X", "stream", "-c", "fast", "-R"),
        ],
        check=True,
        env={**os.environ, "PGPASSWORD": primary.password},
    )
    if os.geteuid() == 0:  # The server runs as who owns its data.
        owner = primary.data_dir.stat()
        for path in (standby.data_dir, *standby.data_dir.rglob("*")):
            shutil.chown(path, owner.st_uid, owner.st_gid)
    return standby
