"""A database with one of everything that a commit moves."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from runtime.stores.database import Database
from tests.support.commits import filled


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with filled(database_url) as database:
        yield database
