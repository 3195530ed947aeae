"""Expiry of unclaimed rewards and of deliveries without a callback. Runs alongside the deliveries.

Nothing waits for it. A reward counts as expired from its expiry time on, wherever it is read or claimed (schema.sql,
reward_status()). This job writes the status, so that counts are right and the reserved stock is available again. A
delivery that waits for its callback longer than CALLBACK_SECONDS, or its prize's own `callback_seconds`, becomes DEAD
and its reward FAILED, as after the last attempt. An operator may retry it; a late callback is still accepted while a
unit is left. One process at a time runs each (runtime/stores/leases.py). A second one is harmless: every move is a
conditional update.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

import asyncpg
import structlog

import sql
from runtime.actors.deliveries import publish_failed
from runtime.actors.engine import Engine
from runtime.actors.rewards import give_back, lock_returns
from runtime.background import attempt
from runtime.errors import Fault
from runtime.metrics import FULFILLMENT_TASKS
from runtime.stores.database import at

_SQL: Final = sql.load("rewards")
_TASKS: Final = sql.load("fulfillment")

EVERY_SECONDS: Final = 30.0
JOB: Final = "expiry"
CALLBACKS_JOB: Final = "overdue callbacks"
"""The jobs' names in leases. Failures of both are logged and counted as JOB."""
BATCH: Final = 500
"""Rewards per statement; their rows are locked while it runs."""

NO_CALLBACK: Final = "no callback arrived in time"

log = structlog.get_logger(__name__)


async def run(engine: Engine, stop: asyncio.Event, *, every_seconds: float = EVERY_SECONDS) -> None:
    """Expires rewards and callbacks of the chosen database periodically until `stop`. Waits while it is down."""
    while not stop.is_set():
        for name, work in ((JOB, expire), (CALLBACKS_JOB, give_up_awaited)):
            try:
                await engine.leases.run(name, partial(work, engine))
            except (Fault, asyncpg.PostgresError) as error:
                log.warning("expiry_failed", error=str(error))
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), every_seconds)


async def expire(engine: Engine) -> int:
    """Expires overdue rewards, tenant by tenant. Returns how many."""
    return await _each_tenant(engine, _SQL["tenants_with_expired"], _expire_some)


async def _expire_some(engine: Engine, tenant_id: str) -> int:
    """Expires a batch of a tenant's rewards and returns their stock and codes. Returns how many."""

    async def work(connection: asyncpg.Connection) -> int:
        late = await connection.fetch(_SQL["overdue"], tenant_id, BATCH)
        reward_ids = [row["reward_id"] for row in late]
        await lock_returns(connection, tenant_id, reward_ids, [row["prize_id"] for row in late])
        rows = await connection.fetch(_SQL["expire"], tenant_id, reward_ids)
        await give_back(connection, tenant_id, [row["reward_id"] for row in rows])
        return len(rows)

    return await engine.database.transaction(work)


async def give_up_awaited(engine: Engine) -> int:
    """Marks deliveries with an overdue callback as dead, tenant by tenant. Returns how many."""
    return await _each_tenant(engine, _TASKS["tenants_with_overdue"], _fail_overdue_batch)


async def _fail_overdue_batch(engine: Engine, tenant_id: str) -> int:
    """Marks a batch of a tenant's deliveries as dead and returns their stock and codes. Returns how many."""

    async def work(connection: asyncpg.Connection) -> list[asyncpg.Record]:
        overdue = await connection.fetch(_TASKS["overdue"], tenant_id, BATCH)
        task_ids, reward_ids, prize_ids = (
            [row[name] for row in overdue] for name in ("task_id", "reward_id", "prize_id")
        )
        await lock_returns(connection, tenant_id, reward_ids, prize_ids)
        rows = await connection.fetch(_TASKS["fail_overdue"], tenant_id, task_ids, reward_ids, NO_CALLBACK)
        await give_back(
            connection, tenant_id, [row["failed_reward_id"] for row in rows if row["failed_reward_id"] is not None]
        )
        return rows

    rows = await engine.database.transaction(work)
    FULFILLMENT_TASKS.labels("dead").inc(len(rows))
    await publish_failed(engine, tenant_id, [row["task_id"] for row in rows])
    for row in rows:
        log.warning("callback_overdue", tenant_id=tenant_id, task_id=row["task_id"], prize_id=row["prize_id"])
    return len(rows)


async def _each_tenant(engine: Engine, tenants: str, some: Callable[[Engine, str], Awaitable[int]]) -> int:
    """Runs `some` for each tenant until nothing is left. Returns the total. Failures affect one tenant only."""
    counts: list[int] = []

    async def all_of(tenant_id: str) -> None:
        while done := await some(engine, tenant_id):
            counts.append(done)

    for tenant_id in await engine.database.tenants(tenants):
        await attempt(JOB, at(tenant_id, all_of(tenant_id)), tenant_id=tenant_id)
    return sum(counts)
