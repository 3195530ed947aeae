"""The export: everything that is held of a player, page by page, for who asks what that is."""

from __future__ import annotations

from typing import Final

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.operations import audit
from runtime.operations.desk.records import find
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("exporting")
KINDS: Final = tuple(_SQL)


async def export_player(engine: Engine, request: m.ExportPlayerRequest) -> m.ExportPlayerReply:
    """Everything that is held of a player, contacts whole, kind by kind; that it was asked for is in the audit log."""
    tenant_id = tenant_of(request)
    await find(engine.database, tenant_id, request.id)
    query = ("export", tenant_id, request.id)
    page = engine.cursors.read(request.cursor, request.limit, query=query)
    kind, after = page.after or (KINDS[0], None)
    rows: list[tuple[str, asyncpg.Record]] = []
    for name in KINDS[KINDS.index(str(kind)) :]:
        missing = page.fetch - len(rows)
        if not missing:
            break
        key = after if name == kind else None
        rows += [(name, row) for row in await engine.database.fetch(_SQL[name], tenant_id, request.id, key, missing)]
    if not page.after:

        async def note(connection: asyncpg.Connection) -> None:
            await audit.record(connection, tenant_id, "player.export", request.id)

        await engine.database.transaction(note)
    rows, pagination = engine.cursors.write(rows, page.limit, key=lambda one: (one[0], one[1]["key"]), query=query)
    items = [m.ExportedItem(id=f"{name} {row['key']}", kind=name, data=row["data"]) for name, row in rows]
    return m.ExportPlayerReply(items=items, pagination=pagination)
