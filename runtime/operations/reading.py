"""How things are read: one by its id, many page by page."""

from __future__ import annotations

from typing import Any, Protocol

import asyncpg

from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import unknown
from runtime.wire.scope import Scoped, tenant_of


class Asked(Scoped, Protocol):
    """A request for one thing."""

    @property
    def id(self) -> str: ...


class Listed(Protocol):
    """A request for a page of a list."""

    @property
    def cursor(self) -> str: ...
    @property
    def limit(self) -> int: ...


async def one(engine: Engine, statement: str, request: Asked, kind: str) -> asyncpg.Record:
    """The row of the tenant's thing that the request names. NOT_FOUND UNKNOWN_<KIND>.

    statement: $1 tenant, $2 id.
    """
    row = await engine.database.fetchrow(statement, tenant_of(request), request.id)
    if row is None:
        raise unknown(kind, request.id)
    return row


async def page(
    engine: Engine, statement: str, request: Listed, *filters: Any, key: str = "id"
) -> tuple[list[asyncpg.Record], m.Pagination]:
    """(the rows of the page that the request asks for, the way to the next).

    statement: takes the filters, the tenant first among them, then the key to go on after (NULL: from the
    start) and how many rows to read; its rows come by their `key`, an identifier, newest first. A cursor is of one
    statement and its filters.
    """
    query = (statement.partition("\n")[0], *filters)
    asked = engine.cursors.read(request.cursor, request.limit, query=query)
    rows = await engine.database.fetch(statement, *filters, asked.after_id, asked.fetch)
    return engine.cursors.write(rows, asked.limit, key=lambda row: str(row[key]), query=query)
