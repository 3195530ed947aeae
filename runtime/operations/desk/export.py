"""The export: everything that is held of a player, page by page, for who asks what that is.

Of the guests that became the player too: what of theirs did not move stays with their records. One after the other,
each kind by kind, so that every statement goes along an index of one player's rows.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.operations import audit
from runtime.operations.desk.erasure import all_of
from runtime.operations.desk.player_history import find
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("exporting")
KINDS: Final = tuple(_SQL)


class _Found(NamedTuple):
    """A row of a kind, and whose it is: the player's, or a guest's that became the player."""

    owner: str
    kind: str
    row: asyncpg.Record

    @property
    def place(self) -> tuple[str, str, Any]:
        """Where it stands in the whole export."""
        return self.owner, self.kind, self.row["key"]


async def export_player(engine: Engine, request: m.ExportPlayerRequest) -> m.ExportPlayerReply:
    """Everything that is held of a player, contacts whole, kind by kind; that it was asked for is in the audit log."""
    tenant_id = tenant_of(request)
    await find(engine.database, tenant_id, request.id)
    query = ("export of all", tenant_id, request.id)
    page = engine.cursors.read(request.cursor, request.limit, query=query)
    first, after = (request.id, KINDS[0]), None
    if page.after:
        owner, kind, after = page.after
        first = (str(owner), str(kind))
    guests = [one for one in await all_of(engine.database, tenant_id, request.id) if one != request.id]
    places = [(owner, kind) for owner in (request.id, *guests) for kind in KINDS]
    rows: list[_Found] = []
    for place in places[places.index(first) :]:
        missing = page.fetch - len(rows)
        if not missing:
            break
        owner, kind = place
        key = after if place == first else None
        rows += [
            _Found(owner, kind, row) for row in await engine.database.fetch(_SQL[kind], tenant_id, owner, key, missing)
        ]
    if not page.after:

        async def note(connection: asyncpg.Connection) -> None:
            await audit.record(connection, tenant_id, "player.export", request.id)

        await engine.database.transaction(note)
    rows, pagination = engine.cursors.write(rows, page.limit, key=lambda one: one.place, query=query)
    # A guest's scope, say, may be the player's too: so whose it is is part of the id.
    items = [
        m.ExportedItem(
            id=f"{kind} {row['key']}" if owner == request.id else f"{kind} {owner} {row['key']}",
            kind=kind,
            data=row["data"],
        )
        for owner, kind, row in rows
    ]
    return m.ExportPlayerReply(items=items, pagination=pagination)
