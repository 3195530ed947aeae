"""Asking the named statements themselves."""

from __future__ import annotations

from typing import Any

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
