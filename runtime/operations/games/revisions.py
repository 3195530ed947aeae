"""The revisions of a game, and who made them. To restore one, send its fields in an update."""

from __future__ import annotations

from typing import Final

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.operations import reading
from runtime.operations.checks import Checks
from runtime.operations.games.definitions import game_from_row
from runtime.operations.games.game_admin import COUNT_MAX
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("games")


async def list_game_revisions(engine: Engine, request: m.ListGameRevisionsRequest) -> m.ListGameRevisionsReply:
    """The game's revisions, newest first. `revision` selects a single one.

    To restore one, update the game with its fields and the current `revision`. NOT_FOUND UNKNOWN_GAME.
    """
    checks = Checks()
    checks.between("revision", request.revision, 0, COUNT_MAX)
    checks.raise_found()
    game = dict(await reading.one(engine, _SQL["get"], request, "game"))
    filters = (tenant_of(request), request.id, request.revision)
    rows, pagination = await reading.page(engine, _SQL["revisions"], request, *filters)
    items = [
        m.GameRevision(
            revision=row["revision"],
            made_at=row["made_at"],
            made_by=row["made_by"],
            game=game_from_row(game | {"revision": row["revision"], "definition": row["definition"]}),
        )
        for row in rows
    ]
    return m.ListGameRevisionsReply(items=items, pagination=pagination)
