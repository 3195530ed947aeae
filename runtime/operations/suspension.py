"""Suspension: a suspended tenant, merchant or player cannot do anything until it is restored.

Core checks it before every write, by the operation's row, except for actors: plays and redeems use the state that the
game's actor reads anyway, and claims check it in their own statement. Work in progress is not undone, and rewards are
kept. Suspending and restoring raise the catalogue's version, so that no play is decided from a stale cache.
"""

from __future__ import annotations

from typing import Final

import sql
from runtime.actors.engine import Engine
from runtime.errors import suspended
from runtime.wire.scope import Scoped, merchant_of, tenant_of

_SUSPENDED: Final = sql.load("tenancy")["suspended"]


async def refuse(engine: Engine, request: Scoped, player_id: str) -> None:
    """PERMISSION_DENIED SUSPENDED if the request's tenant, its merchant or the player ('' for none) is suspended."""
    kind = await engine.database.fetchval(_SUSPENDED, tenant_of(request), merchant_of(request), player_id)
    if kind is not None:
        raise suspended(kind)
