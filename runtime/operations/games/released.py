"""A game's prizes with a release: at most RELEASED_MAX, since loading the game computes the schedule of each."""

from __future__ import annotations

from typing import Final

import asyncpg

import sql
from runtime.errors import invalid
from runtime.operations.checks import Checks
from runtime.operations.games.definitions import Definition, prizes_named

_SQL: Final = sql.load("prizes")

RELEASED_MAX: Final = 200


async def check(connection: asyncpg.Connection, checks: Checks, tenant_id: str, definition: Definition) -> None:
    """Adds a problem if the game would have too many prizes with a release."""
    if problem := await _problem(connection, tenant_id, definition):
        checks.problem("handler_config", problem)


async def refuse(connection: asyncpg.Connection, tenant_id: str, prize_id: str) -> None:
    """INVALID_ARGUMENT if the release just given to this prize is one too many of an active game."""
    for row in await connection.fetch(_SQL["games_that_may_name"], tenant_id, prize_id):
        if prize_id in {named for _, named in prizes_named(row["definition"])} and (
            problem := await _problem(connection, tenant_id, row["definition"])
        ):
            raise invalid("release", f"{problem}: {row['definition']['name']!r} has as many already")


async def _problem(connection: asyncpg.Connection, tenant_id: str, definition: Definition) -> str:
    named = sorted({prize_id for _, prize_id in prizes_named(definition)})
    count = await connection.fetchval(_SQL["count_released"], tenant_id, named)
    return f"a game can have at most {RELEASED_MAX} prizes with a release" if count > RELEASED_MAX else ""
