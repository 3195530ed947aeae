"""The consumer group `deliveries`: delivers rewards to their receivers.

    stream (fast path) --.
                         +--> lease (one conditional update) --> attempt --> record
    sweep (all due) -----'

A message is acknowledged once its task is leased: from then on the row is authoritative, and a crashed worker's
lease expires. The sweep finds tasks lost by the stream, and retries.

Receivers do not block each other: attempts run concurrently, with a limit per host, and only as many tasks are leased
as can soon be attempted (runtime/streams/receivers.py). A leased task without a slot is put back for a short time;
others are left to the sweep. Each tenant may occupy half of the places that the
others leave free.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from typing import Final

import asyncpg
import structlog
from prometheus_client import Gauge

from runtime.actors.engine import Engine
from runtime.actors.rewards import open_code
from runtime.errors import Fault
from runtime.groups import DELIVERIES
from runtime.outgoing.bodies import delivery_body
from runtime.outgoing.connector import Connector
from runtime.outgoing.providers import CHANNEL_PROVIDERS, Delivered, DeliveryRequest, Failed, Outcome, attempted
from runtime.outgoing.schedule import SCHEDULE_SECONDS
from runtime.outgoing.signing import callback_token
from runtime.outgoing.vault import VaultError, opened, prize_context, vault_of
from runtime.stores.database import at
from runtime.streams import expiry
from runtime.streams.backoff import stopped_within
from runtime.streams.consumer import Consumer, Message
from runtime.streams.outbox import Leased, Outbox, PutBack
from runtime.streams.receivers import ATTEMPTS_MAX, PUT_BACK_SECONDS, STUCK_SECONDS, Receiver, Receivers
from runtime.streams.servers import Servers

BATCHES: Final = 4
"""Concurrent lease batches, so that the next tasks are ready when attempts end."""

OPENED_MAX: Final = 1024
"""Decrypted receiver secrets in the cache."""

SWEEP_SECONDS: Final = 1.0
SWEEP_BATCH: Final = 256
SWEEP_BATCH_MIN: Final = 64
"""A tenant's sweep waits for this many places. A sweep that leased as many tasks in all is repeated at once."""

MEASURE_SECONDS: Final = 5.0
LEASES_MAX: Final = len(SCHEDULE_SECONDS) + 4
"""A task leased more often than it can fail has crashed its workers: it is not attempted again."""

DUE: Final = Gauge("tombola_tasks_due", "Delivery tasks that are due and not leased, at most 10000 of each database.")

log = structlog.get_logger(__name__)


class Deliveries:
    """One worker. `handle` and `sweep` lease tasks; attempts run until `finish`."""

    def __init__(self, engine: Engine, connector: Connector, outbox: Outbox) -> None:
        self._engine = engine
        self._connector = connector
        self._outbox = outbox
        self._callback_base = engine.settings.callback_url
        # A changed secret has a different ciphertext, so cached plaintexts stay valid.
        self._opened = lru_cache(maxsize=OPENED_MAX)(vault_of(engine.settings.code_keys).open_secret)
        self._under_way: set[asyncio.Task[None]] = set()
        self._places = Counter[str]()  # By tenant: occupied by attempts, or reserved for leases in progress.
        self._stuck = set[str]()  # Waited without success, until one of their attempts ends.
        self._ended = asyncio.Event()
        self._receivers = Receivers()

    async def handle(self, messages: list[Message]) -> set[str]:
        """Leases the messages' tasks and starts their attempts. Returns the ids of malformed messages."""
        garbage: set[str] = set()
        named: dict[str, list[str]] = {}
        for message in messages:
            words = message.fields.get(b"t", b"").decode("utf-8", "replace").split(" ")
            if len(words) != 2 or not all(words) or "\0" in words[0] + words[1]:
                garbage.add(message.id)
            else:
                named.setdefault(words[0], []).append(words[1])
        for tenant_id, task_ids in named.items():
            async with self._room(tenant_id, len(task_ids), len(task_ids)) as room:
                if room:
                    rooms = self._receivers.rooms(tenant_id)
                    self._begin(await self._outbox.lease(tenant_id, task_ids[:room], rooms))
        return garbage

    async def sweep(self) -> int:
        """Leases up to SWEEP_BATCH due tasks of each tenant and starts their attempts. Returns how many it leased."""
        count = 0
        for tenant_id in await self._outbox.tenants_with_due():
            async with self._room(tenant_id, SWEEP_BATCH_MIN, SWEEP_BATCH) as room:
                if room:
                    leased = await self._outbox.lease_due(tenant_id, room, self._receivers.rooms(tenant_id))
                    self._begin(leased)
                    count += len(leased)
        return count

    async def keep_sweeping(self, stop: asyncio.Event, every_seconds: float = SWEEP_SECONDS) -> None:
        """Sweeps until `stop`. Waits while the database is down."""
        while not await stopped_within(stop, every_seconds):
            try:
                while await self.sweep() >= SWEEP_BATCH_MIN and not stop.is_set():
                    pass
            except (Fault, asyncpg.PostgresError) as error:
                log.warning("sweep_failed", error=str(error))

    async def keep_measuring(self, stop: asyncio.Event) -> None:
        """Counts the due tasks until `stop`."""
        while not await stopped_within(stop, MEASURE_SECONDS):
            try:
                DUE.set(await self._outbox.due())
            except (Fault, asyncpg.PostgresError) as error:
                log.warning("due_tasks_not_counted", error=str(error))

    async def finish(self) -> None:
        """Returns when no attempt is running and every outcome is recorded."""
        while self._under_way:
            await asyncio.wait(self._under_way)
        await self._outbox.flush()

    # -- attempts ----------------------------------------------------------------------------

    @asynccontextmanager
    async def _room(self, tenant_id: str, enough: int, most: int) -> AsyncIterator[int]:
        """Reserves up to `most` places and yields how many: no task is leased before it can be attempted.

        Waits up to STUCK_SECONDS for `enough` places, and not again before one of the tenant's attempts ends:
        otherwise a tenant whose receivers hang would delay the others.
        """
        try:
            async with asyncio.timeout(0 if tenant_id in self._stuck else STUCK_SECONDS):
                while self._free(tenant_id) < enough:
                    self._ended.clear()
                    await self._ended.wait()
        except TimeoutError:
            self._stuck.add(tenant_id)
        room = max(0, min(most, self._free(tenant_id)))
        self._places[tenant_id] += room
        try:
            yield room
        finally:
            self._release(tenant_id, room)

    def _free(self, tenant_id: str) -> int:
        return (ATTEMPTS_MAX - self._places.total() - self._places[tenant_id]) // 2

    def _release(self, tenant_id: str, places: int) -> None:
        self._places[tenant_id] -= places
        if not self._places[tenant_id]:
            del self._places[tenant_id]
        self._ended.set()

    def _begin(self, tasks: list[Leased]) -> None:
        for task in tasks:
            receiver = self._receivers.of(task.tenant_id, task.row)
            receiver.tasks += 1  # Count now, not at the attempt: the next lease depends on it.
            self._places[task.tenant_id] += 1
            running = asyncio.create_task(self._attempt(task, receiver))
            self._under_way.add(running)
            running.add_done_callback(partial(self._end, task.tenant_id))

    def _end(self, tenant_id: str, running: asyncio.Task[None]) -> None:
        self._under_way.discard(running)
        self._stuck.discard(tenant_id)
        self._release(tenant_id, 1)

    async def _attempt(self, task: Leased, receiver: Receiver) -> None:
        try:
            if not await receiver.enter():
                self._outbox.ended(task, PutBack(PUT_BACK_SECONDS))
                return
            began = time.monotonic()
            try:
                outcome = await self._deliver(task)
            except Fault as error:
                outcome = Failed(error.message)
            except Exception as error:
                log.error("provider_failed", channel=task.row["channel"], task_id=task.task_id, exc_info=error)
                outcome = Failed(f"the provider failed: {type(error).__name__}")
            finally:
                seconds = time.monotonic() - began
                receiver.leave(seconds)
            self._outbox.ended(task, outcome, round(seconds * 1000))
        finally:
            receiver.tasks -= 1

    async def _deliver(self, task: Leased) -> Outcome:
        if task.row["attempts"] > LEASES_MAX:
            return Failed("its workers crashed repeatedly", final=True)
        if task.row["is_erased"]:
            # The receiver could not send the prize, but would confirm the request.
            return Failed("the player was erased, and the answers to the claim form with it", final=True)
        if task.row["channel"] == "voucher_code":
            return await self._give_code(task)
        provider = CHANNEL_PROVIDERS.get(task.row["channel"])
        if provider is None:
            return Failed(f"no provider delivers through channel {task.row['channel']!r}")
        context = prize_context(task.tenant_id, task.row["prize_id"])
        try:
            secrets, config = opened(task.row["channel_config"], lambda sealed: self._opened(sealed, context))
        except VaultError as error:
            return Failed(f"the secret cannot be decrypted: {error}")
        now = int(self._engine.clock.now())
        token = callback_token(secrets[0], task.tenant_id, task.task_id) if secrets else ""
        body = delivery_body(task.tenant_id, task.row, self._callback_base, token)
        request = DeliveryRequest(
            id=task.task_id, config=config, secrets=secrets, unix_seconds=now, body=body, tenant_id=task.tenant_id
        )
        return await attempted(provider, self._connector, request)

    async def _give_code(self, task: Leased) -> Outcome:
        """Delivers a code that its owner can read. CODE_UNAVAILABLE if no key decrypts it."""
        code = await self._outbox.take_code(task)
        if code is None:
            return Failed("no code is left in the prize's pool")
        open_code(self._engine, task.tenant_id, code, task.row["reward_id"], task.row["prize_id"])
        return Delivered()


async def run(engine: Engine, stop: asyncio.Event) -> None:
    """Delivers until `stop`, then finishes running attempts. Also runs the expiry (expiry.py)."""
    connector = Connector(engine.settings.outbound_allow_cidrs)
    work = Deliveries(engine, connector, Outbox(engine))
    streams = DELIVERIES.streams(engine.settings.stream_shards)
    try:
        await asyncio.gather(
            Consumer(Servers(engine.settings), DELIVERIES.name, streams, work.handle, batches=BATCHES).run(stop),
            work.keep_measuring(stop),
            *(at(part, work.keep_sweeping(stop)) for part in engine.database.parts),
            *(at(part, expiry.run(engine, stop)) for part in engine.database.parts),
        )
        await work.finish()
    finally:
        await connector.close()
