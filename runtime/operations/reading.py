"""How things are read, and held to be written: one by its id, many page by page.

Staff of a merchant meets that merchant's things, and reads what is the tenant's: a condition of each statement
(`campaigns_of` of sql/schema.sql).
"""

from __future__ import annotations

from typing import Any, Protocol

import asyncpg

from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, forbidden, unknown
from runtime.wire.scope import Scoped, merchant_of, tenant_of


class Source(Protocol):
    """The database, or a connection of it."""

    async def fetchrow(self, query: str, *args: Any) -> asyncpg.Record | None:
        """The statement's first row."""
        ...


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
    """The row of the thing that the request names. NOT_FOUND UNKNOWN_<KIND>.

    statement: $1 tenant, $2 id, $3 the merchant whose staff asks, $4 whether to write.
    """
    row = await engine.database.fetchrow(statement, tenant_of(request), request.id, merchant_of(request), False)
    if row is None:
        raise unknown(kind, request.id)
    return row


async def to_write(source: Source, statement: str, request: Scoped, kind: str, identifier: str) -> asyncpg.Record:
    """The row of the thing that is changed, or that something is put under; as `one`.

    NOT_FOUND UNKNOWN_<KIND>; PERMISSION_DENIED FORBIDDEN where it is the tenant's, and a merchant's staff asks.
    """
    row = await source.fetchrow(statement, tenant_of(request), identifier, merchant_of(request), True)
    if row is None:
        raise await not_to_write(source, statement, request, kind, identifier)
    return row


async def not_to_write(source: Source, statement: str, request: Scoped, kind: str, identifier: str) -> Fault:
    """Why a thing that may not be written may not: it is unknown to who asks, or only to be read."""
    merchant_id = merchant_of(request)
    if merchant_id and await source.fetchrow(statement, tenant_of(request), identifier, merchant_id, False):
        return forbidden(kind, identifier)
    return unknown(kind, identifier)


async def page(
    engine: Engine, statement: str, request: Listed, *filters: Any, key: str | tuple[str, ...] = "id"
) -> tuple[list[asyncpg.Record], m.Pagination]:
    """(the rows of the page that the request asks for, the way to the next).

    statement: takes the filters, the tenant first among them, then the key to go on after (NULL: from the
    start) and how many rows to read; its rows come by their `key`, one column or several, newest first. A cursor is of
    one statement and its filters.
    """
    columns = (key,) if isinstance(key, str) else key
    query = (statement.partition("\n")[0], *filters)
    asked = engine.cursors.read(request.cursor, request.limit, query=query)
    after = asked.after or (None,) * len(columns)
    rows = await engine.database.fetch(statement, *filters, *after, asked.fetch)
    return engine.cursors.write(rows, asked.limit, key=lambda row: tuple(row[name] for name in columns), query=query)
