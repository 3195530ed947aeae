import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

import sql
import sql.migrate as migrate_module
from ops.servers.postgres import Postgres
from runtime.stores.database import Database
from runtime.stores.heartbeat import Presence
from sql.migrate import LIVE_SECONDS, REMOVAL_LOCK_KEY, MigrationError, migrate, newest, pending
from tests.support.locks import blocked
from tests.support.resources import make_campaign, make_game, make_prize, play_once
from tests.support.stack import new_stack, settings_of

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
        (lambda folder: (folder / "0001_one.sql").rename(folder / "0003_three.sql"), "another version made it"),
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


async def test_old_version_runs_beside_expansion(empty_database_url: str, migrations: Path, old_version: Path) -> None:
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


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    directory = Path(shutil.copytree(sql.MIGRATIONS, tmp_path / "migrations"))
    (directory / "0002_expand.sql").write_text("ALTER TABLE plays ADD COLUMN since text NOT NULL DEFAULT '';")
    (directory / "0003_contract.sql").write_text("-- needs: 0002_expand.sql\nALTER TABLE plays DROP COLUMN since;")
    return directory


async def lives(database: Database, migration: str = "") -> Presence:
    presence = Presence()
    presence._migration = migration or presence._migration
    assert await presence.begin(database) == []
    return presence


async def silenced(database: Database, presence: Presence) -> None:
    change = "UPDATE processes SET seen_at = seen_at - make_interval(secs => $2) WHERE process_id = $1"
    await database.execute(change, presence.id, LIVE_SECONDS + 1)


async def has(database: Database, migration: str) -> bool:
    return bool(await database.fetchval("SELECT count(*) FROM schema_migration WHERE name = $1", migration))


async def test_contraction_is_refused_beside_processes_in_need(empty: Database, database_url: str, newer: Path) -> None:
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


def make_roles(postgres: Postgres) -> None:
    command = [str(postgres.bin_dir / "psql"), "-Xq", "-v", "ON_ERROR_STOP=1", "-d", postgres.url("empty"), "-f"]
    file = Path(__file__).parents[2] / "ops/database/roles.sql"
    passwords = {"TOMBOLA_OWNER_PASSWORD": "it's the owner's", "TOMBOLA_PASSWORD": "pw"}
    done = subprocess.run([*command, str(file)], capture_output=True, text=True, env=passwords)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def urls(postgres: Postgres, empty_database_url: str) -> Iterator[tuple[str, str]]:
    make_roles(postgres)
    at = f"127.0.0.1:{postgres.port}/empty"
    yield f"postgresql://tombola_owner:it%27s%20the%20owner%27s@{at}", f"postgresql://tombola:pw@{at}"
    for role in ("tombola", "tombola_owner"):
        postgres.psql(f"DROP OWNED BY {role} CASCADE", "empty")
        postgres.psql(f"DROP ROLE {role}", "empty")


async def test_service_works_as_a_role_that_may_change_no_table(
    postgres: Postgres, urls: tuple[str, str], valkey_url: str, valkey_flush: None
) -> None:
    owner, service = urls
    await migrate(owner)
    await asyncio.to_thread(make_roles, postgres)  # Again, beside tables.
    async with new_stack(settings_of(service, valkey_url)) as stack:
        campaign = await make_campaign(stack)
        prize_id = await make_prize(stack, stock={"total": 1})
        played = await play_once(stack, (await make_game(stack, campaign["id"], prize_id))["id"])
        assert played["rewards"][0]["prize_id"] == prize_id
        assert (await stack.admin("GET", f"/admin/campaigns/{campaign['id']}/analytics")).code == "OK"


@pytest.fixture
async def as_service(urls: tuple[str, str]) -> AsyncIterator[asyncpg.Connection]:
    await migrate(urls[0])
    connection = await asyncpg.connect(urls[1])
    yield connection
    await connection.close()


async def test_service_role_may_not_rewrite_the_audit_log(postgres: Postgres, as_service: asyncpg.Connection) -> None:
    async def rights() -> set[str]:
        query = "SELECT has_table_privilege('audit_entries', $1)"
        every = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE")
        return {right for right in every if await as_service.fetchval(query, right)}

    assert await rights() == {"SELECT", "INSERT"}
    await asyncio.to_thread(make_roles, postgres)  # Again, beside the table.
    assert await rights() == {"SELECT", "INSERT"}
    await as_service.execute(
        "INSERT INTO audit_entries (tenant_id, entry_id, actor, action, subject_type, subject_id)"
        " VALUES ('t', 'e', 'a', 'game.update', 'game', 'g')"
    )
    assert await as_service.fetchval("SELECT count(*) FROM audit_entries") == 1


async def test_service_role_reaches_nothing_else(as_service: asyncpg.Connection) -> None:
    assert not await as_service.fetchval("SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls FROM"
        " pg_roles WHERE rolname = current_user")  # fmt: skip
    for statement in (
        *("CREATE TABLE more (id int)", "CREATE TEMP TABLE more (id int)", "DROP TABLE plays"),
        *("ALTER TABLE plays ADD COLUMN more int", "TRUNCATE plays"),
        *("CREATE FUNCTION unix(text) RETURNS int LANGUAGE sql AS 'SELECT 1'", "COPY plays TO PROGRAM 'cat'"),
        *("SELECT pg_read_file('/etc/hostname')", "SET ROLE tombola_owner"),
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await as_service.execute(statement)
