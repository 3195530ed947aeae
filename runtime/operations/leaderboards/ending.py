"""Boards that are past their end, finalized without anybody asking: contract.md, "Campaign life"."""

from __future__ import annotations

from typing import Final

import sql
from runtime import messages as m
from runtime import trace
from runtime.actors.engine import Engine
from runtime.background import attempt
from runtime.operations.leaderboards.finalize import finalize_leaderboard
from runtime.stores import cache_version

_SQL: Final = sql.load("leaderboards")

EVERY_SECONDS: Final = 20.0
"""How often it is looked for them: a board is finalized within a minute of its end."""

JOB: Final = "ending"
"""The background job that it is, in logs and metrics."""

ACTOR: Final = "tombola"
"""Who has finalized them, in the audit log."""


async def finalize_all(engine: Engine) -> None:
    """Finalizes every board that is past its end, and goes on with those that still owe prizes.

    Any number of processes may do it at once: what is finalized is finalized once. One that fails hinders no other.
    """
    trace.actor.set(ACTOR)
    for tenant in await engine.database.fetch(_SQL["tenants_with_ending"]):
        for board in await engine.database.fetch(_SQL["ending"], tenant["tenant_id"]):
            await _finalize(engine, tenant["tenant_id"], board["board_id"])


async def _finalize(engine: Engine, tenant_id: str, board_id: str) -> None:
    request = m.GetLeaderboardRequest(scope=m.Scope(tenant_id=tenant_id), id=board_id)
    if await attempt(JOB, finalize_leaderboard(engine, request), tenant_id=tenant_id, board_id=board_id):
        cache_version.changed(engine.ephemeral, tenant_id)
