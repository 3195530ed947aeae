"""The outbox of delivery tasks, as the workers use it: lease tasks, record how attempts ended, in batches.

A lease is one conditional update and ends by Postgres's clock, so a worker that died is succeeded by
another, and one that was only slow finds at `record` that its lease is gone.
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
from runtime.actors.deliveries import tell_failed
from runtime.actors.engine import Engine
from runtime.actors.rewards import give_back, hold_returns
from runtime.errors import Fault
from runtime.metrics import FULFILLMENT_TASKS
from runtime.outgoing.providers import (
    ANSWER_CHARACTERS_MAX,
    ERROR_CHARACTERS_MAX,
    Awaiting,
    Delivered,
    Failed,
    Outcome,
    Stubbed,
)
from runtime.outgoing.schedule import delay_seconds
from runtime.streams.backoff import Backoff

log = structlog.get_logger(__name__)

_SQL: Final = sql.load("fulfillment")
_TAKE_CODE: Final = sql.load("rewards")["take_code"]

LEASE_SECONDS: Final = 60.0
"""Far more than an attempt takes (15 s): a worker that is only slow keeps its task."""

NOT_STORABLE: Final = Failed("the provider's outcome cannot be stored")

RECORD_MAX: Final = 256
GATHER_SECONDS: Final = 0.01
"""Outcomes that end so near to each other are recorded by one statement."""


@dataclass(frozen=True, slots=True)
class Leased:
    """A task that is ours until the lease ends. `row` has the columns of the statement `lease`."""

    tenant_id: str
    owner: str
    row: Any

    @property
    def task_id(self) -> str:
        return str(self.row["task_id"])


@dataclass(frozen=True, slots=True)
class PutBack:
    """No attempt was made: the lease is given up, to be taken again in `seconds`."""

    seconds: float


class Ended(NamedTuple):
    """An attempt that is over."""

    task: Leased
    outcome: Outcome | PutBack
    duration_ms: int = 0


class Recorded(NamedTuple):
    """An outcome as the statement `record` takes it, in its order."""

    task_id: str
    owner: str
    status: str
    error: str = ""
    external_id: str = ""
    delay_seconds: float = 0.0
    answer: str = ""
    duration_ms: int = 0


class Outbox:
    """The tasks, by way of one engine."""

    def __init__(self, engine: Engine, *, lease_seconds: float = LEASE_SECONDS) -> None:
        self._engine = engine
        self._database = engine.database
        self._lease_seconds = lease_seconds
        self._ended: list[Ended] = []
        self._recording: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    async def lease(self, tenant_id: str, task_ids: Sequence[str], rooms: Mapping[str, int]) -> list[Leased]:
        """Those of the tasks that are due and free. UNAVAILABLE where it is not known.

        rooms: of these prizes only so many; the others stay due, for `lease_due`.
        """
        # Of this call alone: a worker that leases the same task twice must not record for its former self.
        owner = ids.make("lease")
        rows = await self._database.fetch(
            _SQL["lease"], tenant_id, self._lease_seconds, list(task_ids), owner, list(rooms), list(rooms.values())
        )
        return [Leased(tenant_id, owner, row) for row in rows]

    async def lease_due(self, tenant_id: str, limit: int, rooms: Mapping[str, int]) -> list[Leased]:
        """Whichever of a tenant's tasks are due, of each prize the longest waiting first; other workers get others."""
        owner = ids.make("lease")
        places = (list(rooms), list(rooms.values()))

        async def work(connection: Any) -> list[Leased]:
            found = [row["task_id"] for row in await connection.fetch(_SQL["lock_due"], tenant_id, limit, *places)]
            if not found:
                return []
            rows = await connection.fetch(_SQL["lease"], tenant_id, self._lease_seconds, found, owner, [], [])
            return [Leased(tenant_id, owner, row) for row in rows]

        return await self._database.transaction(work)

    async def tenants_with_due(self) -> list[str]:
        """Tenants that have something to lease."""
        return [row["tenant_id"] for row in await self._database.fetch(_SQL["tenants_with_due"])]

    async def take_code(self, task: Leased) -> Any:
        """Gives the task's reward a code of its prize's pool: key_id and ciphertext. None where the pool is empty."""
        return await self._database.fetchrow(_TAKE_CODE, task.tenant_id, task.row["prize_id"], task.row["reward_id"])

    # -- outcomes ----------------------------------------------------------------------------

    def ended(self, task: Leased, outcome: Outcome | PutBack, duration_ms: int = 0) -> None:
        """Records an outcome, and how long the attempt took, together with those that end meanwhile."""
        self._ended.append(Ended(task, outcome, duration_ms))
        if self._recording is None or self._recording.done():
            self._recording = asyncio.create_task(self._record())

    async def flush(self) -> None:
        """Returns when every outcome is recorded, or was given up because the database is away."""
        self._stop.set()
        if self._recording is not None:
            await self._recording

    async def _record(self) -> None:
        pauses = Backoff()
        while self._ended:
            await asyncio.sleep(GATHER_SECONDS)
            tenant_id = self._ended[0].task.tenant_id
            batch = [one for one in self._ended if one.task.tenant_id == tenant_id][:RECORD_MAX]
            try:
                await self._settle(tenant_id, batch)
                pauses.reset()
            except (Fault, asyncpg.PostgresError) as error:
                log.warning("outcomes_wait", tasks=len(batch), error=str(error))
                # Kept: recorded late is right as long as the lease lasts, and another's attempt after it.
                if self._stop.is_set():
                    return
                await pauses.wait(self._stop)
                continue
            written = {id(one.task) for one in batch}
            self._ended = [one for one in self._ended if id(one.task) not in written]

    async def _settle(self, tenant_id: str, batch: list[Ended]) -> None:
        """Writes a batch. One that cannot be stored, as a plugin may give, is its own task's failure alone."""
        try:
            await self._write(tenant_id, batch)
        except Exception as error:
            if isinstance(error, Fault | asyncpg.PostgresError) and not isinstance(error, asyncpg.DataError):
                raise  # it says nothing of the outcomes: they wait
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
            rows = await self._database.transaction(partial(_record_given_up, tenant_id, columns, dead))
        else:
            rows = await self._database.fetch(_SQL["record"], tenant_id, *columns)
        for status, count in Counter(row["status"] for row in rows).items():
            if status != "put_back":
                FULFILLMENT_TASKS.labels(status).inc(count)
        await tell_failed(self._engine, tenant_id, [row["task_id"] for row in rows if row["status"] == "dead"])


async def _record_given_up(
    tenant_id: str, columns: list[list[Any]], dead: list[Leased], connection: asyncpg.Connection
) -> list[Any]:
    """Records outcomes of which some are dead: what their rewards held can be won again."""
    reward_ids, prize_ids = ([task.row[name] for task in dead] for name in ("reward_id", "prize_id"))
    await hold_returns(connection, tenant_id, reward_ids, prize_ids)
    rows: list[Any] = await connection.fetch(_SQL["record"], tenant_id, *columns)
    await give_back(connection, tenant_id, [row["given_up"] for row in rows if row["given_up"] is not None])
    return rows


def _recorded(ended: Ended, callback_seconds: float) -> Recorded:
    task, outcome, duration_ms = ended
    if isinstance(outcome, PutBack):
        return Recorded(task.task_id, task.owner, "put_back", delay_seconds=outcome.seconds)
    if isinstance(outcome, Stubbed):
        outcome = Failed("a stub stands in for this channel's provider")
    answer = storable(outcome.answer, ANSWER_CHARACTERS_MAX)
    recorded = Recorded(task.task_id, task.owner, "delivered", answer=answer, duration_ms=duration_ms)
    if isinstance(outcome, Delivered):
        return recorded._replace(external_id=storable(outcome.external_id))
    if isinstance(outcome, Awaiting):
        seconds = callback_seconds if outcome.seconds is None else outcome.seconds
        return recorded._replace(status="awaiting", external_id=storable(outcome.external_id), delay_seconds=seconds)
    # With how the answer began: a list of deliveries, and who is told that one failed, have nothing else of it.
    error, delay = storable(f"{outcome.error}: {outcome.answer}" if outcome.answer else outcome.error), None
    if not outcome.final:
        delay = delay_seconds(task.row["attempts"], outcome.retry_after_seconds)
    if delay is None:
        return recorded._replace(status="dead", error=error)
    return recorded._replace(status="retry", error=error, delay_seconds=delay)


def storable(text: object, most: int = ERROR_CHARACTERS_MAX) -> str:
    """A text that came from outside, as Postgres can store it; a plugin's may be anything."""
    return str(text).replace("\0", "").encode("utf-8", "replace").decode()[:most]
