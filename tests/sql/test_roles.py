"""ops/database/roles.sql: one role makes the tables, the other only reads and writes rows; and that is enough."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from ops.servers.postgres import Postgres
from sql.migrate import migrate
from tests.support.resources import make_campaign, make_game, make_prize, play_once
from tests.support.stack import new_stack, settings_of

ROLES = Path(__file__).parents[2] / "ops/database/roles.sql"
PASSWORDS = {"TOMBOLA_OWNER_PASSWORD": "it's the owner's", "TOMBOLA_PASSWORD": "pw"}


def make_roles(postgres: Postgres) -> None:
    command = [str(postgres.bin_dir / "psql"), "-Xq", "-v", "ON_ERROR_STOP=1", "-d", postgres.url("empty"), "-f"]
    done = subprocess.run([*command, str(ROLES)], capture_output=True, text=True, env=PASSWORDS)
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
        game = await make_game(stack, campaign["id"], prize_id)
        played = await play_once(stack, game["id"])
        assert played["rewards"][0]["prize_id"] == prize_id
        answer = await stack.admin("GET", f"/admin/campaigns/{campaign['id']}/analytics")
        assert answer.code == "OK"


@pytest.fixture
async def service(urls: tuple[str, str]) -> AsyncIterator[asyncpg.Connection]:
    await migrate(urls[0])
    connection = await asyncpg.connect(urls[1])
    yield connection
    await connection.close()


async def test_service_role_may_not_rewrite_the_audit_log(postgres: Postgres, service: asyncpg.Connection) -> None:
    async def rights() -> set[str]:
        query = "SELECT has_table_privilege('audit_entries', $1)"
        every = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE")
        return {right for right in every if await service.fetchval(query, right)}

    assert await rights() == {"SELECT", "INSERT"}
    await asyncio.to_thread(make_roles, postgres)  # Again, beside the table.
    assert await rights() == {"SELECT", "INSERT"}
    await service.execute(
        "INSERT INTO audit_entries (tenant_id, entry_id, actor, action, subject_type, subject_id)"
        " VALUES ('t', 'e', 'a', 'game.update', 'game', 'g')"
    )
    assert await service.fetchval("SELECT count(*) FROM audit_entries") == 1


async def test_service_role_reaches_nothing_else(service: asyncpg.Connection) -> None:
    assert not await service.fetchval("SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls FROM"
        " pg_roles WHERE rolname = current_user")  # fmt: skip
    for statement in (
        *("CREATE TABLE more (id int)", "CREATE TEMP TABLE more (id int)", "DROP TABLE plays"),
        *("ALTER TABLE plays ADD COLUMN more int", "TRUNCATE plays"),
        *("CREATE FUNCTION unix(text) RETURNS int LANGUAGE sql AS 'SELECT 1'", "COPY plays TO PROGRAM 'cat'"),
        *("SELECT pg_read_file('/etc/hostname')", "SET ROLE tombola_owner"),
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await service.execute(statement)
