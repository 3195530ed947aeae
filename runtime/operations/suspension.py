"""Suspension: a tenant, a merchant or a player that is suspended does nothing until it is restored.

Every operation that does something asks here first (Core does, by its row), but for those of actors: plays and
redeems go by what the game's actor reads anyway, claims by their own statement. What is under way is not undone, and
what was won is kept. Being suspended and restored raises the catalogue's version, so no play is decided by a memory.
"""

from __future__ import annotations

from typing import Final

import sql
from runtime.actors.engine import Engine
from runtime.errors import suspended
from runtime.wire.scope import Scoped, merchant_of, tenant_of

_SUSPENDED: Final = sql.load("tenancy")["suspended"]


async def refuse(engine: Engine, request: Scoped, player_id: str) -> None:
    """PERMISSION_DENIED SUSPENDED where the request's tenant, its merchant or the player ('' for none) is."""
    kind = await engine.database.fetchval(_SUSPENDED, tenant_of(request), merchant_of(request), player_id)
    if kind is not None:
        raise suspended(kind)
