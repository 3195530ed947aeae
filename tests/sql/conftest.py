"""A database with one of everything that a commit moves, and a connection to one with what a module is about."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from runtime.stores.database import Database
from tests.support.commits import filled
from tests.support.locks import IN_NO_ORDER


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with filled(database_url) as database:
        yield database


@pytest.fixture
async def connection(request: pytest.FixtureRequest, pool: asyncpg.Pool) -> AsyncIterator[asyncpg.Connection]:
    """With the rows of the module's `SCENE`, each table read in no order."""
    async with pool.acquire() as connection:
        await connection.execute(getattr(request.module, "SCENE", "") + IN_NO_ORDER)
        yield connection
