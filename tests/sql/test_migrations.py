"""The migrations rebuild schema.sql exactly, once each, whoever starts together."""

import asyncio
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

import sql
import sql.migrate as migrate_module
from ops.servers.postgres import Postgres
from sql.migrate import MigrationError, migrate, pending

ONE = "create table one (id int primary key);"
TWO = "alter table one add column name text not null default '';"


@pytest.fixture
def second_database_url(postgres: Postgres) -> Iterator[str]:
    postgres.psql("create database second")
    yield postgres.url("second")
    postgres.psql("drop database second with (force)")


@pytest.fixture
def migrations(tmp_path: Path) -> Path:
    (tmp_path / "0001_one.sql").write_text(ONE)
    (tmp_path / "0002_two.sql").write_text(TWO)
    return tmp_path


async def test_migrations_rebuild_schema(postgres: Postgres, empty_database_url: str, second_database_url: str) -> None:
    await migrate(empty_database_url)
    connection = await asyncpg.connect(second_database_url)
    await connection.execute(sql.SCHEMA.read_text())
    await connection.close()
    assert dump(postgres, empty_database_url) == dump(postgres, second_database_url)


async def test_migrations_run_twice_apply_nothing(empty_database_url: str, migrations: Path) -> None:
    heard: list[str] = []
    assert await migrate(empty_database_url, directory=migrations, report=heard.append) == heard
    assert heard == ["0001_one.sql", "0002_two.sql"]
    assert await migrate(empty_database_url, directory=migrations) == []


async def test_migrations_run_by_rivals_apply_once(empty_database_url: str, migrations: Path) -> None:
    applied = await asyncio.gather(*(migrate(empty_database_url, directory=migrations) for _ in range(8)))
    assert sorted(name for names in applied for name in names) == ["0001_one.sql", "0002_two.sql"]


async def test_migration_that_fails_leaves_nothing(empty_database_url: str, migrations: Path) -> None:
    (migrations / "0003_three.sql").write_text("create table three (id int); select nonsense;")
    with pytest.raises(asyncpg.UndefinedColumnError):
        await migrate(empty_database_url, directory=migrations)
    connection = await asyncpg.connect(empty_database_url)
    assert await pending(connection, migrations) == ["0003_three.sql"]
    assert await connection.fetchval("select to_regclass('three')") is None
    await connection.close()


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda directory: (directory / "0001_one.sql").write_text("select 1;"), "was changed"),
        (
            lambda directory: (directory / "0001_one.sql").rename(directory / "0003_three.sql"),
            "another version made it",
        ),
    ],
)
async def test_migrations_refuse_a_database_of_other_files(
    empty_database_url: str, migrations: Path, damage: Callable[[Path], object], complaint: str
) -> None:
    await migrate(empty_database_url, directory=migrations)
    damage(migrations)
    with pytest.raises(MigrationError, match=complaint):
        await migrate(empty_database_url, directory=migrations)


@pytest.fixture
def old_version(migrations: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The migrations of the version before: those that are there now."""
    return Path(shutil.copytree(migrations, tmp_path_factory.mktemp("old") / "migrations"))


async def test_old_version_runs_beside_an_expanding_migration(
    empty_database_url: str, migrations: Path, old_version: Path
) -> None:
    (migrations / "0003_expand.sql").write_text("alter table one add column more text not null default '';")
    await migrate(empty_database_url, directory=migrations)
    assert await migrate(empty_database_url, directory=old_version) == []
    connection = await asyncpg.connect(empty_database_url)
    assert await pending(connection, old_version) == []
    await connection.close()


async def test_contracting_migration_is_refused_by_versions_without_its_needs(
    empty_database_url: str, migrations: Path, old_version: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (migrations / "0003_expand.sql").write_text("alter table one add column more text not null default '';")
    middle = Path(shutil.copytree(migrations, tmp_path_factory.mktemp("middle") / "migrations"))
    (migrations / "0004_contract.sql").write_text(
        "-- Nothing reads it any more.\n-- needs: 0003_expand.sql\nalter table one drop column name;"
    )
    await migrate(empty_database_url, directory=migrations)
    connection = await asyncpg.connect(empty_database_url)
    assert await pending(connection, middle) == []
    with pytest.raises(MigrationError, match=r"which needs 0003_expand\.sql: this version is too old"):
        await pending(connection, old_version)
    await connection.close()
    with pytest.raises(MigrationError, match="start a newer version"):
        await migrate(empty_database_url, directory=old_version)


async def test_migration_with_an_unknown_need_is_not_applied(empty_database_url: str, migrations: Path) -> None:
    (migrations / "0003_contract.sql").write_text("-- needs: 0009_typo.sql\ndrop table one;")
    with pytest.raises(MigrationError, match="not an earlier migration"):
        await migrate(empty_database_url, directory=migrations)
    connection = await asyncpg.connect(empty_database_url)
    assert await connection.fetchval("select to_regclass('one') is not null")
    await connection.close()


async def test_migration_that_waits_for_a_table_blocks_no_reader(
    empty_database_url: str, migrations: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate(empty_database_url, directory=migrations)
    (migrations / "0003_expand.sql").write_text("alter table one add column more text;")
    monkeypatch.setattr(migrate_module, "LOCK_SECONDS", 0.05)
    monkeypatch.setattr(migrate_module, "LOCK_PAUSE_SECONDS", 0.05)
    heard: list[str] = []
    holder, player = [await asyncpg.connect(empty_database_url) for _ in range(2)]
    async with holder.transaction():
        await holder.execute("lock table one in access share mode")
        migrating = asyncio.ensure_future(migrate(empty_database_url, directory=migrations, report=heard.append))
        while not heard:
            await asyncio.sleep(0.01)
        for _ in range(20):  # each waits no longer than the migration does at a time
            await player.fetch("select * from one")
        assert not migrating.done()
    assert await migrating == heard == ["0003_expand.sql"]
    for connection in (holder, player):
        await connection.close()


def dump(postgres: Postgres, url: str) -> list[str]:
    """pg_dump's schema as lines, without the migrations' own table and the lines that differ by run."""
    done = subprocess.run(
        [postgres.bin_dir / "pg_dump", "--schema-only", "--no-owner", "--exclude-table=schema_migration", url],
        check=True,
        capture_output=True,
        text=True,
    )
    return [line for line in done.stdout.splitlines() if line and not line.startswith(("\\restrict", "\\unrestrict"))]
