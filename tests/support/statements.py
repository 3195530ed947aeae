from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import asyncpg
from asyncpg.pool import PoolConnectionProxy

import sql


async def ask(
    connection: asyncpg.Connection | PoolConnectionProxy, name: str, *arguments: Any
) -> list[tuple[Any, ...]]:
    file, _, statement = name.partition(".")
    return [tuple(row) for row in await connection.fetch(sql.load(file)[statement], *arguments)]


async def ask_of_t(
    connection: asyncpg.Connection | PoolConnectionProxy, name: str, *arguments: Any
) -> list[tuple[Any, ...]]:
    return await ask(connection, name, "t", *arguments)


async def rows(connection: asyncpg.Connection, table: str, columns: str) -> list[tuple[Any, ...]]:
    shown = f"SELECT * FROM (SELECT {columns} FROM {table}) AS shown ORDER BY shown"
    return [tuple(row) for row in await connection.fetch(shown)]


@asynccontextmanager
async def undone(connection: asyncpg.Connection) -> AsyncIterator[None]:
    """A transaction that is rolled back: one now(), and nothing of it stays."""
    trial = connection.transaction()
    await trial.start()
    try:
        yield
    finally:
        await trial.rollback()


class Writes(Protocol):
    """The part of a connection, a pool or `Database` that `insert` needs."""

    async def execute(self, query: str, /, *args: Any) -> Any: ...


async def insert(on: Writes, table: str, **columns: Any) -> None:
    numbers = ", ".join(f"${n}" for n in range(1, len(columns) + 1))
    await on.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({numbers})", *columns.values())


async def first_of_t(connection: asyncpg.Connection | PoolConnectionProxy, name: str, *arguments: Any) -> list[Any]:
    return [row[0] for row in await ask_of_t(connection, name, *arguments)]
