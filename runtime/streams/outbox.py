"""The outbox of delivery tasks, for workers: leases tasks and records attempt outcomes in batches.

A lease is one conditional update and expires by Postgres's clock. So another worker replaces a crashed one, and a slow
worker learns at `record` that it has lost its lease.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import asyncpg
import structlog

import sql
from runtime import ids
from runtime.actors.deliveries import publish_failed
from runtime.actors.engine import Engine
from runtime.actors.rewards import give_back, lock_returns
from runtime.errors import Fault
from runtime.metrics import FULFILLMENT_TASKS
from runtime.outgoing.providers import (
    ANSWER_CHARACTERS_MAX,
    Awaiting,
    Delivered,
    Failed,
    Outcome,
    Stubbed,
    storable,
)
from runtime.outgoing.schedule import delay_seconds
from runtime.stores.database import Database, at
from runtime.stores.databases import everywhere
from runtime.streams.backoff import Backoff

log = structlog.get_logger(__name__)

_SQL: Final = sql.load("fulfillment")
_TAKE_CODE: Final = sql.load("rewards")["take_code"]

LEASE_SECONDS: Final = 60.0
"""Much longer than an attempt (15 s), so that a slow worker keeps its task."""

NOT_STORABLE: Final = Failed("the provider's outcome cannot be stored")

RECORD_MAX: Final = 256
GATHER_SECONDS: Final = 0.01
"""Outcomes within this time are recorded by one statement."""


@dataclass(frozen=True, slots=True)
class Leased:
    """A task leased by this worker. `row` has the columns of the statement `lease`."""

    tenant_id: str
    owner: str
    row: Any

    @property
    def task_id(self) -> str:
        return str(self.row["task_id"])


@dataclass(frozen=True, slots=True)
class PutBack:
    """No attempt was made: the lease is released and the task is due again in `seconds`."""

    seconds: float


class Ended(NamedTuple):
    """A finished attempt."""

    task: Leased
    outcome: Outcome | PutBack
    duration_ms: int = 0


class Recorded(NamedTuple):
    """An outcome in the parameter order of the statement `record`."""

    task_id: str
    owner: str
    status: str
    error: str = ""
    external_id: str = ""
    delay_seconds: float = 0.0
    answer: str = ""
    duration_ms: int = 0


class Outbox:
    """The tasks of one engine's database."""

    def __init__(self, engine: Engine, *, lease_seconds: float = LEASE_SECONDS) -> None:
        self._engine = engine
        self._database = engine.database
        self._lease_seconds = lease_seconds
        self._ended: dict[str, list[Ended]] = {}
        self._recording: dict[str, asyncio.Task[None]] = {}
        self._stop = asyncio.Event()

    async def lease(self, tenant_id: str, task_ids: Sequence[str], rooms: Mapping[str, int]) -> list[Leased]:
        """Leases those of the tasks that are due and not leased. StoreUnavailable: if `sent`, they may be leased.

        rooms: limits per prize; tasks beyond them stay due for `lease_due`.
        """
        # Unique per call: a worker that leases a task twice must not record an outcome for its first lease.
        owner = ids.make("lease")
        places = (list(rooms), list(rooms.values()))
        rows = await self._database.route(tenant_id).fetch(
            _SQL["lease"], tenant_id, self._lease_seconds, list(task_ids), owner, *places
        )
        return [Leased(tenant_id, owner, row) for row in rows]

    async def lease_due(self, tenant_id: str, limit: int, rooms: Mapping[str, int]) -> list[Leased]:
        """Leases a tenant's due tasks, oldest first for each prize. Concurrent workers get different tasks."""
        owner = ids.make("lease")
        places = (list(rooms), list(rooms.values()))

        async def work(connection: Any) -> list[Leased]:
            found = [row["task_id"] for row in await connection.fetch(_SQL["lock_due"], tenant_id, limit, *places)]
            if not found:
                return []
            rows = await connection.fetch(_SQL["lease"], tenant_id, self._lease_seconds, found, owner, [], [])
            return [Leased(tenant_id, owner, row) for row in rows]

        return await self._database.route(tenant_id).transaction(work)

    async def tenants_with_due(self) -> list[str]:
        """Tenants with due tasks."""
        return await self._database.tenants(_SQL["tenants_with_due"])

    async def due(self) -> int:
        """How many tasks of all tenants are due, at most 10,000 of each database that answers."""

        async def count(part: Database) -> int:
            return int(await part.fetchval(_SQL["due"]))

        found = await everywhere(self._database, count, seconds=self._database.statement_seconds)
        return sum(one for _, one in found if isinstance(one, int))

    async def take_code(self, task: Leased) -> Any:
        """Assigns a code of the prize's pool to the task's reward: key_id and ciphertext. None if the pool is empty, or
        the reward was revoked or moved otherwise since the lease.
        """
        about = (task.row["prize_id"], task.row["reward_id"], ["fulfilling"])
        return await self._database.route(task.tenant_id).fetchrow(_TAKE_CODE, task.tenant_id, *about)

    # -- outcomes ----------------------------------------------------------------------------

    def ended(self, task: Leased, outcome: Outcome | PutBack, duration_ms: int = 0) -> None:
        """Queues an outcome and its duration; concurrent ones of a tenant are recorded together."""
        self._ended.setdefault(task.tenant_id, []).append(Ended(task, outcome, duration_ms))
        if task.tenant_id not in self._recording:
            recording = at(task.tenant_id, self._record(task.tenant_id))
            self._recording[task.tenant_id] = asyncio.create_task(recording)

    async def flush(self) -> None:
        """Returns when every outcome is recorded, or dropped because its database is down."""
        self._stop.set()
        await asyncio.gather(*self._recording.values())

    async def _record(self, tenant_id: str) -> None:
        """Records a tenant's outcomes. One recorder per tenant: a database that is down delays only its own tenants."""
        ended, pauses = self._ended[tenant_id], Backoff()
        try:
            while ended:
                await asyncio.sleep(GATHER_SECONDS)
                batch = ended[:RECORD_MAX]
                try:
                    await self._settle(tenant_id, batch)
                except (Fault, asyncpg.PostgresError) as error:
                    log.warning("outcomes_wait", tenant_id=tenant_id, tasks=len(batch), error=str(error))
                    # Retry: recording late is correct while the lease lasts; afterwards the task is attempted again.
                    if self._stop.is_set():
                        return
                    await pauses.wait(self._stop)
                else:
                    pauses.reset()
                    del ended[: len(batch)]
        finally:
            # No await since the loop's last look at `ended`: an outcome queued in between would never be recorded.
            del self._ended[tenant_id], self._recording[tenant_id]

    async def _settle(self, tenant_id: str, batch: list[Ended]) -> None:
        """Writes a batch. An outcome that cannot be stored (from a plugin) fails only its own task."""
        try:
            await self._write(tenant_id, batch)
        except Exception as error:
            if isinstance(error, Fault | asyncpg.PostgresError) and not isinstance(error, asyncpg.DataError):
                raise  # Unrelated to the outcomes: retry them.
            if len(batch) > 1:
                for one in batch:
                    await self._settle(tenant_id, [one])
                return
            [(task, outcome, duration_ms)] = batch
            log.error("outcome_not_storable", task_id=task.task_id, channel=task.row["channel"], exc_info=error)
            if outcome != NOT_STORABLE:
                await self._settle(tenant_id, [Ended(task, NOT_STORABLE, duration_ms)])

    async def _write(self, tenant_id: str, batch: list[Ended]) -> None:
        places = [_recorded(one, self._engine.settings.callback_seconds) for one in batch]
        columns = [list(column) for column in zip(*places, strict=True)]
        dead = [one.task for one, place in zip(batch, places, strict=True) if place.status == "dead"]
        if dead:
            rows = await self._database.transaction(partial(_record_with_failed, tenant_id, columns, dead))
        else:
            rows = await self._database.fetch(_SQL["record"], tenant_id, *columns)
        for status, count in Counter(row["status"] for row in rows).items():
            if status != "put_back":
                FULFILLMENT_TASKS.labels(status).inc(count)
        await publish_failed(self._engine, tenant_id, [row["task_id"] for row in rows if row["status"] == "dead"])


async def _record_with_failed(
    tenant_id: str, columns: list[list[Any]], dead: list[Leased], connection: asyncpg.Connection
) -> list[Any]:
    """Records outcomes including dead ones, and returns the stock and codes of their rewards."""
    reward_ids, prize_ids = ([task.row[name] for task in dead] for name in ("reward_id", "prize_id"))
    await lock_returns(connection, tenant_id, reward_ids, prize_ids)
    rows: list[Any] = await connection.fetch(_SQL["record"], tenant_id, *columns)
    await give_back(
        connection, tenant_id, [row["failed_reward_id"] for row in rows if row["failed_reward_id"] is not None]
    )
    return rows


def _recorded(ended: Ended, callback_seconds: float) -> Recorded:
    task, outcome, duration_ms = ended
    if isinstance(outcome, PutBack):
        return Recorded(task.task_id, task.owner, "put_back", delay_seconds=outcome.seconds)
    if isinstance(outcome, Stubbed):
        outcome = Failed("this channel's provider is a stub")
    answer = storable(outcome.answer, ANSWER_CHARACTERS_MAX)
    recorded = Recorded(task.task_id, task.owner, "delivered", answer=answer, duration_ms=duration_ms)
    if isinstance(outcome, Delivered):
        return recorded._replace(external_id=storable(outcome.external_id))
    if isinstance(outcome, Awaiting):
        seconds = callback_seconds if outcome.seconds is None else outcome.seconds
        return recorded._replace(status="awaiting", external_id=storable(outcome.external_id), delay_seconds=seconds)
    # Include the start of the response: lists of deliveries and the failure event show nothing else of it.
    error, delay = storable(f"{outcome.error}: {outcome.answer}" if outcome.answer else outcome.error), None
    if not outcome.final:
        delay = delay_seconds(task.row["attempts"], outcome.retry_after_seconds)
    if delay is None:
        return recorded._replace(status="dead", error=error)
    return recorded._replace(status="retry", error=error, delay_seconds=delay)
