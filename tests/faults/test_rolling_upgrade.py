import secrets
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from sql.locks import LOCK_ORDER
from sql.migrate import LIVE_SECONDS, MigrationError, migrate
from tests.support import invariants
from tests.support.load import load
from tests.support.processes import ROOT, CoreProcess, make_wheel
from tests.support.stack import TENANT

EXPAND = "".join(f"ALTER TABLE {table} ADD COLUMN added_later text NOT NULL DEFAULT '';\n" for table in LOCK_ORDER)
"""A column more of whatever is written, in the order in which everybody takes locks."""

CONTRACT = "-- needs: 0002_expand.sql\nALTER TABLE plays DROP COLUMN added_later;\n"


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    for room in ("runtime", "sql"):
        shutil.copytree(ROOT / room, tmp_path / "newer" / room, symlinks=True)
    (tmp_path / "newer/sql/migrations/0002_expand.sql").write_text(EXPAND)
    return tmp_path / "newer"


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest.mark.timeout(300)
@pytest.mark.fault(
    "Rolling upgrade",
    size="2 schema versions, load on both",
    figure="1 play a key, refusals are 503 or a lost connection",
)
async def test_old_version_plays_beside_the_new_one_until_it_is_outdated(
    database_url: str, valkey_url: str, valkey_flush: None, tmp_path: Path, newer: Path, connection: asyncpg.Connection
) -> None:
    keys = {name: f"1:{secrets.token_hex(32)}" for name in ("SERVER_KEYS", "CODE_KEYS")}
    one, other = [CoreProcess(database_url, valkey_url, tmp_path / f"{nth}.log", **keys) for nth in range(2)]
    migrations = newer / "sql/migrations"
    try:
        one.directory = newer
        with pytest.raises(AssertionError, match=r"lacks 0002_expand\.sql; run `tombola migrate` first"):
            await one.start()
        one.directory = ROOT
        await one.start()
        await other.start()
        games = [await make_wheel(core, connection, total=0) for core in (one, other)]
        async with (
            load(one.url, TENANT, games[0], players=1) as here,
            load(other.url, TENANT, games[1], players=1) as there,
        ):

            async def both_play() -> None:
                for playing in (here, there):
                    await playing.plays(20)

            await both_play()
            assert await migrate(database_url, directory=migrations) == ["0002_expand.sql"]
            await both_play()
            assert await one.end(signal.SIGTERM) == 0
            one.directory = newer
            await one.start()
            await both_play()
            # The old version is started beside the new schema too: a crash in the middle of the upgrade.
            await other.end(signal.SIGKILL)
            await other.start()
            await both_play()
            assert await other.end(signal.SIGTERM) == 0
            other.directory = newer
            await other.start()
            await both_play()
            left = CoreProcess(database_url, valkey_url, tmp_path / "left.log", **keys)
            await left.start()
            try:
                (migrations / "0003_contract.sql").write_text(CONTRACT)
                with pytest.raises(MigrationError, match=r"some lack it: [12] of 0001_initial\.sql"):
                    await migrate(database_url, directory=migrations)
                left.send(signal.SIGSTOP)
                await connection.execute(
                    "UPDATE processes SET seen_at = seen_at - make_interval(secs => $1)"
                    " WHERE migration = '0001_initial.sql'",
                    LIVE_SECONDS,
                )
                assert await migrate(database_url, directory=migrations) == ["0003_contract.sql"]
                left.send(signal.SIGCONT)
                why = "the database has 0003_contract.sql, which needs 0002_expand.sql: this version is too old"
                assert why in await left.failure()
                with pytest.raises(AssertionError, match=why):
                    await left.start()
            finally:
                await left.end(signal.SIGKILL)
            await both_play()
        for playing in (here, there):
            await playing.check(connection)
            assert {status for status, _ in playing.refusals} <= {0, 503}
        await invariants.check(connection)
    finally:
        for core in (one, other):
            await core.end(signal.SIGKILL)
