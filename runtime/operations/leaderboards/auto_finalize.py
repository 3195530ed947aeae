"""Finalizes boards automatically after their end."""

from __future__ import annotations

from typing import Final

import sql
from runtime import messages as m
from runtime import trace
from runtime.actors.engine import Engine
from runtime.background import attempt
from runtime.operations.leaderboards.finalize import finalize_leaderboard
from runtime.stores import cache_version
from runtime.stores.database import chosen

_SQL: Final = sql.load("leaderboards")

EVERY_SECONDS: Final = 20.0
"""The interval of the job: a board is finalized within a minute of its end."""

JOB: Final = "ending"

ACTOR: Final = "tombola"


async def finalize_all(engine: Engine) -> None:
    """Finalizes every board that is past its end, and resumes those with unpaid prizes.

    Several processes may run it at once; each board is finalized once. One board's failure does not block the others.
    """
    trace.actor.set(ACTOR)
    for tenant_id in await engine.database.tenants(_SQL["tenants_with_ending"]):
        with chosen(tenant_id):
            for board in await engine.database.fetch(_SQL["ending"], tenant_id):
                await _finalize(engine, tenant_id, board["board_id"])


async def _finalize(engine: Engine, tenant_id: str, board_id: str) -> None:
    request = m.GetLeaderboardRequest(scope=m.Scope(tenant_id=tenant_id), id=board_id)
    finalizing = finalize_leaderboard(engine, request, due_only=True)
    if await attempt(JOB, finalizing, tenant_id=tenant_id, board_id=board_id):
        cache_version.changed(engine.ephemeral, tenant_id)
