"""The consumer loop of every group: Redis Streams consumer groups, at least once, with takeover and dead letters.

    consumer = Consumer(Servers(settings), "deliveries", [task_stream(shard) for shard in range(4)], handle)
    await consumer.run(stop)

`handle(messages)` processes the messages and returns the ids of those that failed; the others are acknowledged
afterwards. The life of a message:

    read (XREADGROUP) -> handled -> XACK
                      -> failed: retried here after a pause; the fifth failure is final
                      -> this process dies: another takes it over (XAUTOCLAIM) after the idle time
                      -> five deliveries failed, here or elsewhere: dead letter, XACK

A handler that raises UNAVAILABLE (the database is down) makes its messages wait, without counting an attempt; with
Waiting only some of them. After any other exception the messages are handled one by one, so that a poison message fails
alone.

The loop has its own clients (servers.py): a blocking read would stall the shared pipeline of the request path. Each
XREADGROUP reads one stream, so that it goes to that stream's node of a cluster.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog
from prometheus_client import Counter, Gauge
from redis.exceptions import ReadOnlyError, ResponseError

from runtime import ids
from runtime.errors import Fault, Status
from runtime.stores.ephemeral import SLOT_MIGRATING
from runtime.stores.pipeline import CLIENT_ERRORS
from runtime.stores.publisher import OUTSIDE
from runtime.streams.backoff import FIRST_SECONDS, Backoff, stopped_within
from runtime.streams.dead_letters import dead_letter
from runtime.streams.servers import BLOCK_MS, Servers

TRIES: Final = 5
"""Attempts of a message, over all processes, before it becomes a dead letter."""

CLAIM_IDLE_MS: Final = 60_000
"""A message unacknowledged for this long is taken over: live consumers renew their claims every quarter of it."""

CLAIM_SECONDS: Final = 5.0
MEASURE_SECONDS: Final = 5.0
CONSUMER_IDLE_MS: Final = 3_600_000
"""A consumer without activity for this long and without messages is deleted: its process has ended."""

OUTCOMES: Final = ("handled", "failed", "dead", "taken")
MESSAGES: Final = Counter(
    "tombola_stream_messages", f"Messages by outcome: {', '.join(OUTCOMES)}.", ["group", "outcome"]
)
LABELS: Final = ("group", "stream")
LAG: Final = Gauge("tombola_stream_lag", "Messages that the group has not read yet.", LABELS)
PENDING: Final = Gauge("tombola_stream_pending", "Messages read and not acknowledged yet.", LABELS)
OLDEST: Final = Gauge(
    "tombola_stream_oldest_seconds",
    "How long ago this process read the oldest message that it has not finished; 0: none.",
    LABELS,
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `deliveries` includes this one; `fields` are as appended."""

    stream: str
    id: str
    fields: dict[bytes, bytes]
    deliveries: int = 1


class Waiting(Fault):
    """Only messages `message_ids` of the batch wait for a store and are to be handled again."""

    def __init__(self, message_ids: set[str]) -> None:
        super().__init__(Status.UNAVAILABLE, "STORE_UNAVAILABLE", "the database of some messages is away")
        self.message_ids = message_ids


Handle = Callable[[list[Message]], Awaitable[set[str]]]
"""Processes messages of one stream; returns the ids of those that failed."""


def consumer_name() -> str:
    """A name unique among all processes, past and future."""
    return f"{socket.gethostname()[:40]}-{os.getpid()}-{ids.make('c')[-8:]}"


class Consumer:
    """A member of a consumer group that reads `streams` until it is stopped.

    batch_max: messages per `handle` call. batches: concurrent calls per stream. With 1, messages are handled in order,
    except those that failed or were taken over. With more, order is not kept, but a slow message does not block others.
    """

    def __init__(
        self,
        servers: Servers,
        group: str,
        streams: Sequence[str],
        handle: Handle,
        *,
        name: str = "",
        batch_max: int = 128,
        batches: int = 1,
        block_ms: int = BLOCK_MS,
        claim_idle_ms: int = CLAIM_IDLE_MS,
        claim_seconds: float = CLAIM_SECONDS,
        backoff_seconds: float = FIRST_SECONDS,
    ) -> None:
        self.name = name or consumer_name()
        self.group = group
        self.streams = list(streams)
        self._servers = servers
        self._handle = handle
        self._batch_max = batch_max
        self._batches = batches
        self._block_ms = block_ms
        self._claim_idle_ms = claim_idle_ms
        self._claim_seconds = claim_seconds
        self._backoff_seconds = backoff_seconds
        for outcome in OUTCOMES:
            MESSAGES.labels(group, outcome)  # A series that first appears with an event cannot be alerted on.

    async def run(self, stop: asyncio.Event) -> None:
        """Reads until `stop`, finishes the messages it has read, and leaves the group. Survives any server error."""
        await asyncio.gather(*[_Shard(self, stream, stop).run() for stream in self.streams])


class _Shard:
    """A consumer at one of its streams."""

    def __init__(self, consumer: Consumer, stream: str, stop: asyncio.Event) -> None:
        self._consumer = consumer
        self._stream = stream
        self._stop = stop
        self._client: Any = None
        self._following = asyncio.Lock()
        self._under_way: set[asyncio.Task[None]] = set()
        self._in_progress: dict[str, float] = {}  # When each message was read, by time.monotonic.
        self._lost_track = False

    async def run(self) -> None:
        if not await self._connect():
            return
        helpers = [
            asyncio.create_task(self._repeat(self._take_over, self._consumer._claim_seconds)),
            asyncio.create_task(self._repeat(self._refresh_claims, self._consumer._claim_idle_ms / 4000)),
            asyncio.create_task(self._repeat(self._measure, MEASURE_SECONDS)),
        ]
        try:
            await self._keep_reading()
        finally:
            # Do not cancel: an interrupted command leaves the connection in an unknown state.
            await asyncio.gather(*helpers)
            while self._under_way:
                await asyncio.gather(*self._under_way)
            await self._leave()
            await self._disconnect()

    async def _connect(self) -> bool:
        """Connects to the stream's server. False if stopped first."""
        pauses = Backoff(self._consumer._backoff_seconds)
        while not self._stop.is_set():
            try:
                found = await self._consumer._servers.client(self._stream)
            except CLIENT_ERRORS as error:
                log.warning("stream_away", stream=self._stream, error=f"{type(error).__name__}: {error}")
                await pauses.wait(self._stop)
            else:
                await self._disconnect()
                self._client = found
                return True
        return False

    async def _follow(self, lost: Any, error: BaseException) -> None:
        """Reconnects to the stream's current server, unless the failed client `lost` has been replaced already."""
        # A server that a failover made a replica keeps its connections: the name points to another one by now.
        if not self._consumer._servers.may_move and not isinstance(error, ReadOnlyError):
            return
        async with self._following:
            if self._client is lost:
                await self._connect()

    async def _disconnect(self) -> None:
        if self._client is not None:
            with suppress(*CLIENT_ERRORS):
                await self._client.aclose()

    async def _keep_reading(self) -> None:
        pauses = Backoff(self._consumer._backoff_seconds)
        while not self._stop.is_set():
            client = self._client
            try:
                if self._lost_track:
                    await self._read_again()
                    self._lost_track = False
                await self._read(">")
                pauses.reset()
            except CLIENT_ERRORS as error:
                # NOGROUP: the first start, or a server that was flushed.
                if not str(error).startswith("NOGROUP") or not await self._make_group():
                    log.warning("stream_away", stream=self._stream, error=f"{type(error).__name__}: {error}")
                    self._lost_track = True
                    await pauses.wait(self._stop)
                    await self._follow(client, error)

    async def _read(self, after: str) -> str:
        """Reads once. Returns the last message's id, or empty if none. `>`: messages not read by any consumer."""
        await self._room()  # Even when stopping: running batches end by themselves, and the stop waits for them anyway.
        if self._stop.is_set():
            return ""
        reply = await self._client.xreadgroup(
            self._consumer.group,
            self._consumer.name,
            {self._stream: after},
            count=self._consumer._batch_max,
            block=self._consumer._block_ms if after == ">" else None,
        )
        messages = [Message(self._stream, id.decode(), fields) for _, entries in reply or () for id, fields in entries]
        # A message that has been trimmed has no fields: nothing is left to handle.
        if fresh := [message for message in messages if message.fields and message.id not in self._in_progress]:
            self._start(fresh)
        return messages[-1].id if messages else ""

    async def _read_again(self) -> None:
        """After a lost connection: reads messages assigned to us by a reply that was lost."""
        last = "0"
        while last:
            last = await self._read(last)

    async def _make_group(self) -> bool:
        """Creates the group at the stream's beginning. Returns whether it exists now."""
        try:
            await self._client.xgroup_create(self._stream, self._consumer.group, id="0", mkstream=True)
        except CLIENT_ERRORS as error:
            return str(error).startswith("BUSYGROUP")  # Another member has created it.
        return True

    async def _room(self) -> None:
        """Returns when another batch may start."""
        # A finished task may still be in the set until its callback runs; waiting for it would return at once.
        while len(busy := [task for task in self._under_way if not task.done()]) >= self._consumer._batches:
            await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)

    def _start(self, messages: list[Message]) -> None:
        self._in_progress |= dict.fromkeys([message.id for message in messages], time.monotonic())
        task = asyncio.create_task(self._work(messages))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    # -- handling ----------------------------------------------------------------------------

    async def _work(self, messages: list[Message]) -> None:
        """Handles messages until each is handled, dead, or left to other members because of a stop."""
        message_ids = {message.id for message in messages}
        pauses = Backoff(self._consumer._backoff_seconds)
        try:
            done = [message for message in messages if OUTSIDE in message.fields]
            messages = [message for message in messages if OUTSIDE not in message.fields]
            while True:
                if messages:
                    # Retry failed messages one by one, so that a poison message does not fail the others.
                    again = messages[0].deliveries > 1
                    failed = await (self._try_each(messages) if again else self._try(messages))
                    done += [message for message in messages if message.id not in failed]
                    messages = [message for message in messages if message.id in failed]
                if done:
                    await self._acknowledge(done)
                    done = []
                if not messages:
                    return
                MESSAGES.labels(self._consumer.group, "failed").inc(len(messages))
                for message in [one for one in messages if one.deliveries >= TRIES]:
                    await self._bury(message)
                messages = [replace(one, deliveries=one.deliveries + 1) for one in messages if one.deliveries < TRIES]
                if not messages:
                    return
                await pauses.wait(self._stop)
                if self._stop.is_set():
                    return  # They stay unacknowledged; another member takes them over.
        except _Stopped:
            pass
        finally:
            for message_id in message_ids:
                self._in_progress.pop(message_id, None)

    async def _try(self, messages: list[Message]) -> set[str]:
        """Calls the handler. Returns the ids of failed messages. Waits while the handler's dependencies are down."""
        pauses = Backoff(self._consumer._backoff_seconds)
        while True:
            try:
                return await self._consumer._handle(messages)
            except Exception as error:
                if not _away(error):
                    log.warning("handler_failed", group=self._consumer.group, messages=len(messages), exc_info=error)
                    return {messages[0].id} if len(messages) == 1 else await self._try_each(messages)
                if isinstance(error, Waiting):
                    messages = [message for message in messages if message.id in error.message_ids]
                log.warning("handler_waits", group=self._consumer.group, error=str(error))
                await pauses.wait(self._stop)
                if self._stop.is_set():
                    raise _Stopped from None

    async def _try_each(self, messages: list[Message]) -> set[str]:
        return set().union(*[await self._try([message]) for message in messages])

    async def _acknowledge(self, messages: list[Message]) -> None:
        await self._retry(lambda: self._client.xack(self._stream, self._consumer.group, *[m.id for m in messages]))
        MESSAGES.labels(self._consumer.group, "handled").inc(len(messages))

    async def _bury(self, message: Message) -> None:
        """Moves a message to the dead letters."""
        group = self._consumer.group
        await self._retry(lambda: dead_letter(self._client, self._stream, group, message.id, message.fields))
        MESSAGES.labels(group, "dead").inc()
        log.error("dead_letter", stream=self._stream, group=group, id=message.id)

    async def _retry(self, command: Callable[[], Awaitable[Any]]) -> None:
        """Repeats a command until the server accepts it. After a stop, one failure leaves it to takeover."""
        pauses = Backoff(self._consumer._backoff_seconds)
        while True:
            client = self._client
            try:
                await command()
                return
            except CLIENT_ERRORS as error:
                if isinstance(error, ResponseError) and not isinstance(error, (*SLOT_MIGRATING, ReadOnlyError)):
                    if not str(error).startswith("NOGROUP"):
                        log.warning("stream_write_failed", stream=self._stream, error=str(error))
                    return  # The stream was flushed: nothing is left to acknowledge.
                if self._stop.is_set():
                    raise _Stopped from None
                await pauses.wait(self._stop)
                # Reconnect here: the reading loop may be waiting for this very batch.
                await self._follow(client, error)

    # -- takeover --------------------------------------------------------------------------------

    async def _take_over(self) -> None:
        """Claims messages read by members that have died, and deletes idle members."""
        start: Any = "0-0"
        while True:
            await self._room()
            start, entries, *_ = await self._client.xautoclaim(
                self._stream,
                self._consumer.group,
                self._consumer.name,
                min_idle_time=self._consumer._claim_idle_ms,
                start_id=start,
                count=self._consumer._batch_max,
            )
            taken = [(id.decode(), fields) for id, fields in entries if id is not None and fields is not None]
            await self._start_taken([(id, fields) for id, fields in taken if id not in self._in_progress])
            if start == b"0-0" or self._stop.is_set():
                break
        for consumer in await self._client.xinfo_consumers(self._stream, self._consumer.group):
            idle = consumer["idle"] > CONSUMER_IDLE_MS and consumer["pending"] == 0
            if idle and consumer["name"] != self._consumer.name.encode():
                await self._client.xgroup_delconsumer(self._stream, self._consumer.group, consumer["name"])

    async def _start_taken(self, taken: list[tuple[str, dict[bytes, bytes]]]) -> None:
        if not taken:
            return
        MESSAGES.labels(self._consumer.group, "taken").inc(len(taken))
        log.info("taken_over", stream=self._stream, group=self._consumer.group, messages=len(taken))
        (first_id, _), (last_id, _) = taken[0], taken[-1]
        pending = await self._client.xpending_range(
            self._stream,
            self._consumer.group,
            min=first_id,
            max=last_id,
            count=len(taken),
            consumername=self._consumer.name,
        )
        counts = {row["message_id"].decode(): int(row["times_delivered"]) for row in pending}
        messages = [Message(self._stream, id, fields, counts.get(id, 1)) for id, fields in taken]
        for message in [one for one in messages if one.deliveries > TRIES]:
            # It may have crashed each of its consumers: do not try it again.
            await self._bury(message)
        if messages := [one for one in messages if one.deliveries <= TRIES]:
            self._start(messages)

    async def _refresh_claims(self) -> None:
        """Resets the idle time of waiting messages, so that others do not take them over. Counts no delivery."""
        waiting = list(self._in_progress)
        for first in range(0, len(waiting), 1000):
            await self._client.xclaim(
                self._stream, self._consumer.group, self._consumer.name, 0, waiting[first : first + 1000], justid=True
            )

    async def _measure(self) -> None:
        # Not the message's own age: in a backlog, messages are old when they are read.
        now = time.monotonic()
        OLDEST.labels(self._consumer.group, self._stream).set(now - min(self._in_progress.values(), default=now))
        for group in await self._client.xinfo_groups(self._stream):
            if group["name"] == self._consumer.group.encode():
                PENDING.labels(self._consumer.group, self._stream).set(group["pending"])
                if group.get("lag") is not None:  # None: the server cannot count them.
                    LAG.labels(self._consumer.group, self._stream).set(group["lag"])

    async def _repeat(self, work: Callable[[], Awaitable[None]], seconds: float) -> None:
        while not await stopped_within(self._stop, seconds * random.uniform(0.5, 1.0)):
            client = self._client
            try:
                await work()
            except _Stopped:
                return
            except CLIENT_ERRORS as error:
                # The reading loop logs it and waits; on NOGROUP it creates the group.
                if isinstance(error, ReadOnlyError):  # The reading loop may be waiting for a batch.
                    await self._follow(client, error)

    async def _leave(self) -> None:
        """Leaves the group unless it still has pending messages, which would be deleted with it."""
        with suppress(*CLIENT_ERRORS):
            for consumer in await self._client.xinfo_consumers(self._stream, self._consumer.group):
                if consumer["name"] == self._consumer.name.encode() and consumer["pending"] == 0:
                    await self._client.xgroup_delconsumer(self._stream, self._consumer.group, self._consumer.name)


class _Stopped(Exception):
    """Stopped while the server was down: unacknowledged messages are left to another member."""


def _away(error: Exception) -> bool:
    return isinstance(error, Fault) and error.status is Status.UNAVAILABLE
