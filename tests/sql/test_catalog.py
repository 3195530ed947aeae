"""The catalogue's statements can all be prepared, and its guards hold against rivals."""

from __future__ import annotations

import asyncpg
import pytest

import sql

FILES = ("audit", "tenancy", "campaigns", "games", "prizes", "analytics")


@pytest.mark.parametrize("file", FILES)
async def test_statements_can_be_prepared(file: str, pool: asyncpg.Pool) -> None:
    async with pool.acquire() as connection:
        for query in sql.load(file).values():
            await connection.prepare(query)
