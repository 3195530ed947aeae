"""The expiry sweep: writes down which rewards were not claimed in time. Runs beside the deliveries.

Nobody waits for it: a reward counts as expired from its time on, wherever it is read or claimed
(schema.sql, standing()). This writes it down, so that counts by status are right. Any number of
processes may do it at once.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import asyncpg
import structlog

import sql
from runtime.actors.engine import Engine
from runtime.errors import Fault

_SQL: Final = sql.load("rewards")

EVERY_SECONDS: Final = 30.0
BATCH: Final = 500
"""Rewards of one statement: their rows are locked while it runs."""

log = structlog.get_logger(__name__)


async def run(engine: Engine, stop: asyncio.Event, *, every_seconds: float = EVERY_SECONDS) -> None:
    """Expires what is late, again and again, until `stop` is set. A database that is away is waited for."""
    while not stop.is_set():
        try:
            await expire(engine)
        except (Fault, asyncpg.PostgresError) as error:
            log.warning("expiry_failed", error=str(error))
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), every_seconds)


async def expire(engine: Engine) -> int:
    """Expires everything that is late, tenant by tenant; how many rewards that were."""
    count = 0
    for tenant in await engine.database.fetch(_SQL["tenants_with_expired"]):
        while done := len(await engine.database.fetch(_SQL["expire"], tenant["tenant_id"], BATCH)):
            count += done
            if done < BATCH:
                break
    return count
