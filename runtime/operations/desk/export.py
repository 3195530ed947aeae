"""The export: the data stored about a player, in pages, to answer a subject access request.

Includes the guests merged into the player, since data that did not move stays with their records. The export of a
merged guest is that of its player. Exports one record at a time, kind by kind, so that each statement scans an index of
one player's rows.

Not exported: keyed hashes of contacts, idempotency keys, counts of wrong codes, tickets in open draws, the days counted
for a campaign's figures, the players that the player invited, the delivery log of integrations other than messages, and
events in streams.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.operations import audit
from runtime.operations.desk.erasure import with_merged
from runtime.operations.desk.player_history import find
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("exporting")
KINDS: Final = tuple(_SQL)


class _Row(NamedTuple):
    """A row with its kind and its owner: the player, or a guest merged into it."""

    owner: str
    kind: str
    row: asyncpg.Record

    @property
    def place(self) -> tuple[str, str, Any]:
        return self.owner, self.kind, self.row["key"]


async def export_player(engine: Engine, request: m.ExportPlayerRequest) -> m.ExportPlayerReply:
    """Exports the data stored about a player, with unmasked contacts. Recorded in the audit log."""
    tenant_id = tenant_of(request)
    await find(engine.database, tenant_id, request.id)
    query = ("export of all", tenant_id, request.id)
    page = engine.cursors.read(request.cursor, request.limit, query=query)
    player_id, *guests = await with_merged(engine.database, tenant_id, request.id)
    first, after = (player_id, KINDS[0]), None
    if page.after:
        owner, kind, after = page.after
        first = (str(owner), str(kind))
    places = [(owner, kind) for owner in (player_id, *guests) for kind in KINDS]
    rows: list[_Row] = []
    for place in places[places.index(first) :]:
        remaining = page.fetch - len(rows)
        if not remaining:
            break
        owner, kind = place
        key = after if place == first else None
        rows += [
            _Row(owner, kind, row) for row in await engine.database.fetch(_SQL[kind], tenant_id, owner, key, remaining)
        ]
    if not page.after:

        async def record_export(connection: asyncpg.Connection) -> None:
            await audit.record(connection, tenant_id, "player.export", player_id)

        await engine.database.transaction(record_export)
    rows, pagination = engine.cursors.write(rows, page.limit, key=lambda one: one.place, query=query)
    # A guest and the player may have the same key, such as a wallet's scope. So a guest's id is part of the item's id.
    items = [
        m.ExportedItem(
            id=f"{kind} {row['key']}" if owner == player_id else f"{kind} {owner} {row['key']}",
            kind=kind,
            data=row["data"],
        )
        for owner, kind, row in rows
    ]
    return m.ExportPlayerReply(items=items, pagination=pagination)
