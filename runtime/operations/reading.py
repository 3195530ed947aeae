"""Reads resources: one by its id, optionally locked for a write, or many page by page.

A merchant's staff reads and writes the merchant's resources, and only reads the tenant's. Each statement enforces
this (`campaigns_of` of sql/schema.sql).
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import asyncpg

from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, forbidden, unknown
from runtime.wire.scope import Scoped, merchant_of, tenant_of

HIDDEN: Final = "****"
"""Replaces what staff may not read."""


class Source(Protocol):
    """The database, or one connection."""

    async def fetchrow(self, query: str, *args: Any) -> asyncpg.Record | None: ...


class IdRequest(Scoped, Protocol):
    @property
    def id(self) -> str: ...


class ListRequest(Protocol):
    @property
    def cursor(self) -> str: ...
    @property
    def limit(self) -> int: ...


async def one(engine: Engine, statement: str, request: IdRequest, kind: str) -> asyncpg.Record:
    """The row of the requested resource. NOT_FOUND UNKNOWN_<KIND>.

    statement: $1 tenant, $2 id, $3 the caller's merchant or '', $4 whether to write.
    """
    row = await engine.database.fetchrow(statement, tenant_of(request), request.id, merchant_of(request), False)
    if row is None:
        raise unknown(kind, request.id)
    return row


async def for_update(source: Source, statement: str, request: Scoped, kind: str, identifier: str) -> asyncpg.Record:
    """The row of a resource that is changed, or that gets a child; as `one`.

    NOT_FOUND UNKNOWN_<KIND>; PERMISSION_DENIED FORBIDDEN if it is the tenant's and the caller is a merchant's staff.
    """
    row = await source.fetchrow(statement, tenant_of(request), identifier, merchant_of(request), True)
    if row is None:
        raise await write_refusal(source, statement, request, kind, identifier)
    return row


async def write_refusal(source: Source, statement: str, request: Scoped, kind: str, identifier: str) -> Fault:
    """The refusal of a write: the resource is unknown to the caller, or read-only for the caller."""
    merchant_id = merchant_of(request)
    if merchant_id and await source.fetchrow(statement, tenant_of(request), identifier, merchant_id, False):
        return forbidden(kind, identifier)
    return unknown(kind, identifier)


async def page(
    engine: Engine,
    statement: str,
    request: ListRequest,
    *filters: Any,
    key: str | tuple[str, ...] = "id",
    replica: bool = False,
) -> tuple[list[asyncpg.Record], m.Pagination]:
    """(rows of the requested page, pagination with the next cursor).

    statement: its parameters are the filters, the tenant first, then the key to continue after (NULL: from the start)
    and the number of rows. Rows are ordered by `key`, one column or several, newest first. A cursor is valid only for
    the same statement and filters. replica: the read replica may serve it, some seconds old.
    """
    columns = (key,) if isinstance(key, str) else key
    query = (statement.partition("\n")[0], *filters)
    cursor = engine.cursors.read(request.cursor, request.limit, query=query)
    after = cursor.after or (None,) * len(columns)
    fetch = engine.database.read_rows if replica else engine.database.fetch
    rows = await fetch(statement, *filters, *after, cursor.fetch)
    return engine.cursors.write(rows, cursor.limit, key=lambda row: tuple(row[name] for name in columns), query=query)
