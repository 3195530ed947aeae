"""Which versions live, as migrations see it: nothing is taken away that one of them uses."""

import shutil
from pathlib import Path

import asyncpg
import pytest

import sql
from runtime.stores.database import Database
from runtime.stores.heartbeat import Presence
from sql.migrate import LIVE_SECONDS, REMOVAL_LOCK_KEY, MigrationError, migrate, newest
from tests.support.locks import blocked

EXPAND = "ALTER TABLE plays ADD COLUMN since text NOT NULL DEFAULT '';"
CONTRACT = "-- needs: 0002_expand.sql\nALTER TABLE plays DROP COLUMN since;"


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    directory = Path(shutil.copytree(sql.MIGRATIONS, tmp_path / "migrations"))
    (directory / "0002_expand.sql").write_text(EXPAND)
    (directory / "0003_contract.sql").write_text(CONTRACT)
    return directory


async def lives(database: Database, migration: str = "") -> Presence:
    presence = Presence()
    presence._migration = migration or presence._migration
    assert await presence.begin(database) == []
    return presence


async def silenced(database: Database, presence: Presence) -> None:
    await database.execute(
        "UPDATE processes SET seen_at = seen_at - make_interval(secs => $2) WHERE process_id = $1",
        presence.id,
        LIVE_SECONDS + 1,
    )


async def has(database: Database, migration: str) -> bool:
    return bool(await database.fetchval("SELECT count(*) FROM schema_migration WHERE name = $1", migration))


async def test_contraction_is_refused_beside_live_processes_that_need_it(
    empty: Database, database_url: str, newer: Path
) -> None:
    old = [await lives(empty), await lives(empty)]
    with pytest.raises(MigrationError, match=rf"0002_expand\.sql, but some lack it: 2 of {newest()} \(.*process"):
        await migrate(database_url, directory=newer)
    assert await has(empty, "0002_expand.sql") and not await has(empty, "0003_contract.sql")
    assert await empty.fetchval("SELECT count(since) FROM plays") == 0
    await old[0].end(empty)
    await old[1].beat(empty)
    with pytest.raises(MigrationError, match=rf"some lack it: 1 of {newest()} "):
        await migrate(database_url, directory=newer)
    await old[1].end(empty)
    assert await migrate(database_url, directory=newer) == ["0003_contract.sql"]


async def test_contraction_runs_beside_processes_without(empty: Database, database_url: str, newer: Path) -> None:
    await lives(empty, "0002_expand.sql")
    await lives(empty, "0003_contract.sql")
    assert await migrate(database_url, directory=newer) == ["0002_expand.sql", "0003_contract.sql"]


async def test_contraction_ignores_a_killed_process(empty: Database, database_url: str, newer: Path) -> None:
    killed = await lives(empty)
    await silenced(empty, killed)
    assert "0003_contract.sql" in await migrate(database_url, directory=newer)
    # It had only stood still.
    with pytest.raises(MigrationError, match=r"which needs 0002_expand\.sql: this version is too old"):
        await killed.beat(empty)


async def test_process_that_starts_during_a_contraction_is_refused(empty: Database, rival: asyncpg.Connection) -> None:
    async with rival.transaction():
        await rival.execute("SELECT pg_advisory_xact_lock($1)", REMOVAL_LOCK_KEY)
        coming = await blocked(rival, Presence().begin(empty))
        await rival.execute(
            "INSERT INTO schema_migration (name, sha256, needs) VALUES ('0003_contract.sql', '', '0002_expand.sql')"
        )
    with pytest.raises(MigrationError, match=r"which needs 0002_expand\.sql: this version is too old"):
        await coming
    assert await empty.fetchval("SELECT count(*) FROM processes") == 0


async def test_heartbeat_is_renewed_and_removed_at_the_end(empty: Database) -> None:
    presence = await lives(empty)
    await silenced(empty, presence)
    await presence.beat(empty)
    assert await empty.fetchval("SELECT now() - seen_at < interval '20 seconds' FROM processes")
    await presence.end(empty)
    assert await empty.fetchval("SELECT count(*) FROM processes") == 0
