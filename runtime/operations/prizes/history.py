"""What cannot change of a prize that was won."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.game.state import POINTS, TURNS
from runtime.operations import catalog
from runtime.stores.rankings import COUNT_SECONDS

_SQL: Final = sql.load("prizes")


async def refuse_recounted(connection: asyncpg.Connection, tenant_id: str, before: Any, prize: m.Prize) -> None:
    """HAS_HISTORY if the costs of earlier wins would change. A currency that is missing can still be set."""
    retyped = prize.type != before["type"] and not {POINTS, TURNS}.isdisjoint((prize.type, before["type"]))
    changed = "type" if retyped else "currency" if before["currency"] not in ("", prize.currency) else ""
    if changed and await connection.fetchval(_SQL["has_history"], tenant_id, before["id"]):
        why = "it was won, or a game with it was played"
        raise catalog.has_history("prize", before["name"], changed, why, instead="create another prize")


async def refuse_redelivered(connection: asyncpg.Connection, tenant_id: str, before: Any, channel: str) -> None:
    """HAS_HISTORY if players would get a reserved code and another delivery, or one code for several units."""
    if before["channel"] == channel or "voucher_code" not in (before["channel"], channel):
        return
    about = (tenant_id, before["id"])
    if await connection.fetchval(_SQL["has_codes_or_units_to_deliver"], *about, timeout=COUNT_SECONDS):
        why = "undelivered rewards have a code or several units"
        instead = "deliver or revoke them first, or create another prize"
        raise catalog.has_history("prize", before["name"], "fulfillment.channel", why, instead=instead)
