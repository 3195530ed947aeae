"""The consumer group `deliveries`: delivers rewards to their receivers, task by task.

    stream (fast path) --.
                         +--> lease (one conditional update) --> attempt --> record
    sweep (truth) -------'

A message is acknowledged once its task is leased: from then on the row answers for it, and a worker
that dies leaves a lease that runs out. The sweep finds whatever the stream lost, and retries.

No receiver holds up another: attempts run beside each other, a bounded number to one host, and no more
tasks are leased than can soon be attempted (runtime/streams/receivers.py). One that was leased and gets no
place is put back for a moment; one that was not is left to the sweep.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Final

import asyncpg
import structlog

from runtime.actors.engine import Engine
from runtime.actors.rewards import open_code
from runtime.errors import Fault
from runtime.groups import DELIVERIES
from runtime.outgoing.bodies import delivery_body
from runtime.outgoing.connector import Connector
from runtime.outgoing.providers import CHANNEL_PROVIDERS, Delivered, DeliveryRequest, Failed, Outcome
from runtime.outgoing.schedule import SCHEDULE_SECONDS
from runtime.outgoing.signing import callback_token
from runtime.outgoing.vault import VaultError, opened, prize_context, vault_of
from runtime.streams import expiry
from runtime.streams.backoff import stopped_within
from runtime.streams.consumer import Consumer, Message
from runtime.streams.outbox import Leased, Outbox, PutBack
from runtime.streams.receivers import ATTEMPTS_MAX, PUT_BACK_SECONDS, Receiver, Receivers
from runtime.streams.servers import Servers

BATCHES: Final = 4
"""Leases under way: the next ones are ready when there is room for their attempts."""

OPENED_MAX: Final = 1024
"""Receivers' secrets that are kept open."""

SWEEP_SECONDS: Final = 1.0
SWEEP_BATCH: Final = 256
LEASES_MAX: Final = len(SCHEDULE_SECONDS) + 4
"""A task that was leased more often than it can fail has killed its workers: it is not tried once more."""

log = structlog.get_logger(__name__)


class Deliveries:
    """One worker. `handle` and `sweep` lease; attempts run until `finish`."""

    def __init__(self, engine: Engine, connector: Connector, outbox: Outbox) -> None:
        self._engine = engine
        self._connector = connector
        self._outbox = outbox
        self._callback_base = engine.settings.callback_url
        # What is sealed is another text after each change, so what was opened stays right.
        self._opened = lru_cache(maxsize=OPENED_MAX)(vault_of(engine.settings.code_keys).open_secret)
        self._under_way: set[asyncio.Task[None]] = set()
        self._promised = 0  # room for what is being leased now
        self._turn = asyncio.Lock()
        self._ended = asyncio.Event()
        self._receivers = Receivers()

    async def handle(self, messages: list[Message]) -> set[str]:
        """Leases the tasks that these messages name, and begins their attempts. The ids of garbage."""
        garbage: set[str] = set()
        named: dict[str, list[str]] = {}
        for message in messages:
            words = message.fields.get(b"t", b"").decode("utf-8", "replace").split(" ")
            if len(words) != 2 or not all(words) or "\0" in words[0] + words[1]:
                garbage.add(message.id)
            else:
                named.setdefault(words[0], []).append(words[1])
        for tenant_id, task_ids in named.items():
            async with self._room(len(task_ids)):
                self._begin(await self._outbox.lease(tenant_id, task_ids, self._receivers.rooms(tenant_id)))
        return garbage

    async def sweep(self) -> int:
        """Leases what is due, tenant by tenant; how many tasks that were."""
        count = 0
        for tenant_id in await self._outbox.tenants_with_due():
            async with self._room(SWEEP_BATCH):
                leased = await self._outbox.lease_due(tenant_id, SWEEP_BATCH, self._receivers.rooms(tenant_id))
                self._begin(leased)
            count += len(leased)
        return count

    async def keep_sweeping(self, stop: asyncio.Event, every_seconds: float = SWEEP_SECONDS) -> None:
        """Sweeps until `stop`; a database that is away is waited for."""
        while not await stopped_within(stop, every_seconds):
            try:
                while await self.sweep() >= SWEEP_BATCH and not stop.is_set():
                    pass
            except (Fault, asyncpg.PostgresError) as error:
                log.warning("sweep_failed", error=str(error))

    async def finish(self) -> None:
        """Returns when no attempt is under way and every outcome is recorded."""
        while self._under_way:
            await asyncio.wait(self._under_way)
        await self._outbox.flush()

    # -- attempts ----------------------------------------------------------------------------

    @asynccontextmanager
    async def _room(self, wanted: int) -> AsyncIterator[None]:
        """Entered when so many attempts may begin: nothing is leased before it can be attempted."""
        async with self._turn:
            while (count := len(self._under_way) + self._promised) and count + wanted > ATTEMPTS_MAX:
                self._ended.clear()
                await self._ended.wait()
            self._promised += wanted
        try:
            yield
        finally:
            self._promised -= wanted
            self._ended.set()

    def _begin(self, tasks: list[Leased]) -> None:
        for task in tasks:
            receiver = self._receivers.of(task.tenant_id, task.row)
            receiver.tasks += 1  # now, not when the attempt begins: the next lease asks for room
            running = asyncio.create_task(self._attempt(task, receiver))
            self._under_way.add(running)
            running.add_done_callback(self._end)

    def _end(self, running: asyncio.Task[None]) -> None:
        self._under_way.discard(running)
        self._ended.set()

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
            return Failed("its workers ended before it did, again and again", final=True)
        if task.row["channel"] == "voucher_code":
            return await self._give_code(task)
        provider = CHANNEL_PROVIDERS.get(task.row["channel"])
        if provider is None:
            return Failed(f"no provider delivers through channel {task.row['channel']!r}")
        context = prize_context(task.tenant_id, task.row["prize_id"])
        try:
            secrets, config = opened(task.row["channel_config"], lambda sealed: self._opened(sealed, context))
        except VaultError as error:
            return Failed(f"the secret cannot be opened: {error}")
        now = int(self._engine.clock.now())
        token = callback_token(secrets[0], task.tenant_id, task.task_id) if secrets else ""
        body = delivery_body(task.tenant_id, task.row, self._callback_base, token)
        return await provider(
            self._connector,
            DeliveryRequest(
                id=task.task_id,
                config=config,
                secrets=secrets,
                unix_seconds=now,
                body=body,
                tenant_id=task.tenant_id,
            ),
        )

    async def _give_code(self, task: Leased) -> Outcome:
        """Delivers a code: one that its owner can be shown. CODE_UNAVAILABLE where no key opens it."""
        code = await self._outbox.take_code(task)
        if code is None:
            return Failed("no code is left in the prize's pool")
        open_code(self._engine, task.tenant_id, code, task.row["reward_id"], task.row["prize_id"])
        return Delivered()


async def run(engine: Engine, stop: asyncio.Event) -> None:
    """Delivers until `stop`, then ends what was begun. Also writes down what time ends (expiry.py)."""
    connector = Connector(engine.settings.outbound_allow_cidrs)
    work = Deliveries(engine, connector, Outbox(engine))
    streams = DELIVERIES.streams(engine.settings.stream_shards)
    try:
        await asyncio.gather(
            Consumer(Servers(engine.settings), DELIVERIES.name, streams, work.handle, batches=BATCHES).run(stop),
            work.keep_sweeping(stop),
            expiry.run(engine, stop),
        )
        await work.finish()
    finally:
        await connector.close()
