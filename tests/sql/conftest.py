"""A database with one of everything that a commit moves, and a connection to one with what a module is about."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from runtime.actors import dispatcher as dispatching
from runtime.actors.dispatcher import Dispatcher
from runtime.stores.database import Database
from runtime.stores.keyring import Keyring
from tests.support.bare_rows import scene
from tests.support.commits import filled
from tests.support.dispatching import Receivers
from tests.support.locks import IN_NO_ORDER
from tests.support.outbox import Outbox
from tests.support.stack import settings_of


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with filled(database_url) as database:
        yield database


@pytest.fixture
async def empty(database_url: str) -> AsyncIterator[Database]:
    empty = Database(database_url, size=8, acquire_seconds=30, statement_seconds=30)
    await empty.start()
    yield empty
    await empty.close()


@pytest.fixture
async def connection(request: pytest.FixtureRequest, pool: asyncpg.Pool) -> AsyncIterator[asyncpg.Connection]:
    async with pool.acquire() as connection:
        await connection.execute(scene(getattr(request.module, "SCENE", "")) + IN_NO_ORDER)
        yield connection


@pytest.fixture
async def rival(pool: asyncpg.Pool) -> AsyncIterator[asyncpg.Connection]:
    async with pool.acquire() as rival:
        yield rival


@pytest.fixture
async def outbox(empty: Database, pool: asyncpg.Pool) -> Outbox:
    await pool.execute("""
        INSERT INTO tenants (tenant_id, name) VALUES ('t', 'T');
        INSERT INTO campaigns (tenant_id, campaign_id, merchant_id, name, status) VALUES
            ('t', 'camp', 'shop', 'C', 'active');
        INSERT INTO prizes (tenant_id, prize_id, campaign_id, name, type, channel) VALUES
            ('t', 'prize', 'camp', 'Mug', 'goods', 'webhook'), ('t', 'other', 'camp', 'Cup', 'goods', 'webhook'),
            ('t', 'by_hand', 'camp', 'Pot', 'goods', 'manual')""")
    return Outbox(empty)


@pytest.fixture
async def receivers(
    monkeypatch: pytest.MonkeyPatch, database: Database, database_url: str, valkey_url: str
) -> AsyncIterator[Receivers]:
    settings = settings_of(database_url, valkey_url)
    keyring = Keyring(settings.server_keys, settings.code_keys)
    receivers = Receivers(Dispatcher(settings, database, keyring), database)
    monkeypatch.setattr(dispatching, "integration_provider", {"plugin": receivers}.get)
    yield receivers
    await receivers.dispatcher.close()
