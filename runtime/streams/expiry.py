"""What time ends: rewards that were not claimed, deliveries whose callback did not come. Beside the deliveries.

Nobody waits for it. A reward counts as expired from its time on, wherever it is read or claimed
(schema.sql, standing()); this writes it down, so that counts by status are right and what the reward
held can be won again. A delivery that awaits its callback longer than CALLBACK_SECONDS, or its prize's own
`callback_seconds`, is DEAD and its reward FAILED, as after a last attempt: an operator may retry it, and where
the callback comes after all, it is believed as long as there is a unit left. Any number of processes may do
both at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import asyncpg
import structlog

import sql
from runtime.actors.deliveries import tell_failed
from runtime.actors.engine import Engine
from runtime.actors.rewards import give_back, hold_returns
from runtime.background import attempt
from runtime.errors import Fault
from runtime.metrics import FULFILLMENT_TASKS

_SQL: Final = sql.load("rewards")
_TASKS: Final = sql.load("fulfillment")

EVERY_SECONDS: Final = 30.0
JOB: Final = "expiry"
"""The background job that it is, in logs and metrics."""
BATCH: Final = 500
"""Rewards of one statement: their rows are locked while it runs."""

NO_CALLBACK: Final = "its callback did not come in time"

log = structlog.get_logger(__name__)


async def run(engine: Engine, stop: asyncio.Event, *, every_seconds: float = EVERY_SECONDS) -> None:
    """Ends what is late, again and again, until `stop` is set. A database that is away is waited for."""
    while not stop.is_set():
        for work in (expire, give_up_awaited):
            try:
                await work(engine)
            except (Fault, asyncpg.PostgresError) as error:
                log.warning("expiry_failed", error=str(error))
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), every_seconds)


async def expire(engine: Engine) -> int:
    """Expires all that is late, tenant by tenant; how many rewards that were."""
    return await _each_tenant(engine, _SQL["tenants_with_expired"], _expire_some)


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


async def give_up_awaited(engine: Engine) -> int:
    """Gives up every delivery whose callback did not come in time, tenant by tenant; how many that were."""
    return await _each_tenant(engine, _TASKS["tenants_with_overdue"], _give_up_some)


async def _give_up_some(engine: Engine, tenant_id: str) -> int:
    """Gives up a batch of a tenant's deliveries, and returns what their rewards held; how many that were."""

    async def work(connection: asyncpg.Connection) -> list[asyncpg.Record]:
        overdue = await connection.fetch(_TASKS["overdue"], tenant_id, BATCH)
        task_ids, reward_ids, prize_ids = (
            [row[name] for row in overdue] for name in ("task_id", "reward_id", "prize_id")
        )
        await hold_returns(connection, tenant_id, reward_ids, prize_ids)
        rows = await connection.fetch(_TASKS["give_up_overdue"], tenant_id, task_ids, reward_ids, NO_CALLBACK)
        await give_back(connection, tenant_id, [row["given_up"] for row in rows if row["given_up"] is not None])
        return rows

    rows = await engine.database.transaction(work)
    FULFILLMENT_TASKS.labels("dead").inc(len(rows))
    await tell_failed(engine, tenant_id, [row["task_id"] for row in rows])
    for row in rows:
        log.warning("callback_overdue", tenant_id=tenant_id, task_id=row["task_id"], prize_id=row["prize_id"])
    return len(rows)


async def _each_tenant(engine: Engine, tenants: str, some: Callable[[Engine, str], Awaitable[int]]) -> int:
    """Does `some` for each tenant until nothing is left; how much that was. One that fails hinders no other."""
    counts: list[int] = []

    async def all_of(tenant_id: str) -> None:
        while done := await some(engine, tenant_id):
            counts.append(done)

    for tenant in await engine.database.fetch(tenants):
        await attempt(JOB, all_of(tenant["tenant_id"]), tenant_id=tenant["tenant_id"])
    return sum(counts)
