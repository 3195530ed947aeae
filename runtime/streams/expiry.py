"""The expiry sweep: writes down which rewards were not claimed in time. Runs beside the deliveries.

Nobody waits for it: a reward counts as expired from its time on, wherever it is read or claimed
(schema.sql, standing()). This writes it down, so that counts by status are right and what the reward
held can be won again. Any number of processes may do it at once.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import asyncpg
import structlog

import sql
from runtime.actors.engine import Engine
from runtime.actors.rewards import give_back, hold_returns
from runtime.background import attempt
from runtime.errors import Fault

_SQL: Final = sql.load("rewards")

EVERY_SECONDS: Final = 30.0
JOB: Final = "expiry"
"""The background job that it is, in logs and metrics."""
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
    """Expires all that is late, tenant by tenant; how many rewards that were. One that fails hinders no other."""
    counts: list[int] = []
    for tenant in await engine.database.fetch(_SQL["tenants_with_expired"]):
        await attempt(JOB, _expire_all_of(engine, tenant["tenant_id"], counts), tenant_id=tenant["tenant_id"])
    return sum(counts)


async def _expire_all_of(engine: Engine, tenant_id: str, counts: list[int]) -> None:
    while done := await _expire_some(engine, tenant_id):
        counts.append(done)


async def _expire_some(engine: Engine, tenant_id: str) -> int:
    """Expires a batch of a tenant's rewards, and returns what they held; how many that were."""

    async def work(connection: asyncpg.Connection) -> int:
        late = await connection.fetch(_SQL["late"], tenant_id, BATCH)
        reward_ids = [row["reward_id"] for row in late]
        await hold_returns(connection, tenant_id, reward_ids, [row["prize_id"] for row in late])
        rows = await connection.fetch(_SQL["expire"], tenant_id, reward_ids)
        await give_back(connection, tenant_id, [row["reward_id"] for row in rows])
        return len(rows)

    return await engine.database.transaction(work)
