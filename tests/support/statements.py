"""Asking the named statements themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import asyncpg
from asyncpg.pool import PoolConnectionProxy

import sql


async def ask(
    connection: asyncpg.Connection | PoolConnectionProxy, name: str, *arguments: Any
) -> list[tuple[Any, ...]]:
    """What `file.statement` answers."""
    file, _, statement = name.partition(".")
    return [tuple(row) for row in await connection.fetch(sql.load(file)[statement], *arguments)]


async def ask_of_t(
    connection: asyncpg.Connection | PoolConnectionProxy, name: str, *arguments: Any
) -> list[tuple[Any, ...]]:
    """What it answers of the tenant `t`."""
    return await ask(connection, name, "t", *arguments)


async def rows(connection: asyncpg.Connection, table: str, columns: str) -> list[tuple[Any, ...]]:
    """These columns of a table's rows, in their order."""
    shown = f"SELECT * FROM (SELECT {columns} FROM {table}) AS shown ORDER BY shown"
    return [tuple(row) for row in await connection.fetch(shown)]


async def wrong_answers(
    connection: asyncpg.Connection, file: str, cases: Iterable[tuple[str, tuple[Any, ...], str]]
) -> list[str]:
    """The cases of a file's statements, of the tenant `t`, whose rows do not begin with the expected values."""
    faults = []
    for name, asked, expected in cases:
        found = " ".join(str(row[0]) for row in await ask_of_t(connection, f"{file}.{name}", *asked))
        if found != expected:
            faults.append(f"{name}{asked}: {found}, not {expected}")
    return faults


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
    """A row with these columns."""
    numbers = ", ".join(f"${n}" for n in range(1, len(columns) + 1))
    await on.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({numbers})", *columns.values())


async def first_of_t(connection: asyncpg.Connection | PoolConnectionProxy, name: str, *arguments: Any) -> list[Any]:
    """The first value of each row that it answers of the tenant `t`."""
    return [row[0] for row in await ask_of_t(connection, name, *arguments)]
