"""The consumer loop of every group: Redis Streams consumer groups, at least once, with takeover and dead letters.

    consumer = Consumer(Servers(settings), "deliveries", [task_stream(shard) for shard in range(4)], handle)
    await consumer.run(stop)

`handle(messages)` has its effect and returns the ids of the messages that failed; the others are
acknowledged, after the effect. What becomes of a message:

    read (XREADGROUP) -> handled -> XACK
                      -> failed: tried again here, after a pause; the fifth failure is its last
                      -> this process dies: taken over (XAUTOCLAIM) by another once it is idle for long
                      -> five deliveries failed, here or elsewhere: dead letter, XACK

A handler that raises UNAVAILABLE (the database is away) says nothing of its messages: they wait, and
nothing is counted. One that raises anything else has its messages handled one by one, so that a poison
message fails alone.

The clients are the loop's own (servers.py): a blocking read would hold up the shared pipeline of the request path. One
stream per XREADGROUP, so that each goes to its own node of a cluster.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog
from prometheus_client import Counter, Gauge
from redis.exceptions import ResponseError

from runtime import ids
from runtime.errors import Fault, Status
from runtime.stores.ephemeral import ON_ITS_WAY
from runtime.stores.pipeline import AWAY
from runtime.stores.publisher import OUTSIDE
from runtime.streams.backoff import FIRST_SECONDS, Backoff, stopped_within
from runtime.streams.dead_letters import bury
from runtime.streams.servers import BLOCK_MS, Servers

TRIES: Final = 5
"""Deliveries of a message, over all processes, before it is a dead letter."""

CLAIM_IDLE_MS: Final = 60_000
"""A message unacknowledged for this long was its consumer's last: longer than any handler takes."""

CLAIM_SECONDS: Final = 5.0
MEASURE_SECONDS: Final = 5.0
CONSUMER_IDLE_MS: Final = 3_600_000
"""A consumer that did nothing for this long and holds nothing is forgotten: its process is gone."""

MESSAGES: Final = Counter(
    "tombola_stream_messages", "Messages by what became of them: handled, failed, dead, taken.", ["group", "outcome"]
)
LAG: Final = Gauge("tombola_stream_lag", "Messages that the group has not read yet.", ["group", "stream"])
PENDING: Final = Gauge("tombola_stream_pending", "Messages read and not acknowledged yet.", ["group", "stream"])

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `deliveries` counts this one; `fields` are as they were appended."""

    stream: str
    id: str
    fields: dict[bytes, bytes]
    deliveries: int = 1


Handle = Callable[[list[Message]], Awaitable[set[str]]]
"""Has the effect of the messages (of one stream); the ids of those that failed."""


def consumer_name() -> str:
    """A name that no other process, before or after, has."""
    return f"{socket.gethostname()[:40]}-{os.getpid()}-{ids.make('c')[-8:]}"


class Consumer:
    """One member of a consumer group, reading `streams` until it is stopped.

    batch_max: messages of one `handle` call. batches: calls of one stream that may be under way at
    once; with 1 a stream's messages are handled in their order, but for those that failed or were
    taken over. With more, order is given up so that one slow message holds up no other.
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

    async def run(self, stop: asyncio.Event) -> None:
        """Reads until `stop`, finishes what it has read, and leaves the group. Survives whatever the server does."""
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
        self._holding: set[str] = set()
        self._lost_track = False

    async def run(self) -> None:
        if not await self._connect():
            return
        beside = [
            asyncio.create_task(self._repeat(self._take_over, self._consumer._claim_seconds)),
            asyncio.create_task(self._repeat(self._keep_held, self._consumer._claim_idle_ms / 4000)),
            asyncio.create_task(self._repeat(self._measure, MEASURE_SECONDS)),
        ]
        try:
            await self._keep_reading()
        finally:
            # Not cancelled: a command cut off under way leaves its connection, and us, in doubt.
            await asyncio.gather(*beside)
            while self._under_way:
                await asyncio.gather(*self._under_way)
            await self._leave()
            await self._disconnect()

    async def _connect(self) -> bool:
        """Finds the stream's server; False where a stop came first."""
        pauses = Backoff(self._consumer._backoff_seconds)
        while not self._stop.is_set():
            try:
                found = await self._consumer._servers.client(self._stream)
            except AWAY as error:
                log.warning("stream_away", stream=self._stream, error=f"{type(error).__name__}: {error}")
                await pauses.wait(self._stop)
            else:
                await self._disconnect()
                self._client = found
                return True
        return False

    async def _follow(self, lost: Any) -> None:
        """Finds the stream where it is now, unless that was done since this client was found wanting."""
        if not self._consumer._servers.may_move:
            return
        async with self._following:
            if self._client is lost:
                await self._connect()

    async def _disconnect(self) -> None:
        if self._client is not None:
            with suppress(*AWAY):
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
            except AWAY as error:
                # Also the first start, and a server that lost everything (FLUSHALL).
                if not str(error).startswith("NOGROUP") or not await self._make_group():
                    log.warning("stream_away", stream=self._stream, error=f"{type(error).__name__}: {error}")
                    self._lost_track = True
                    await pauses.wait(self._stop)
                    await self._follow(client)

    async def _read(self, after: str) -> str:
        """One read; the id of the last message, empty where there was none. `>`: what nobody read yet."""
        await self._room()  # with the stop set too: what is under way ends by itself, and the stop waits for it anyway
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
        # A message that was trimmed away meanwhile has no fields: there is nothing left to handle.
        if fresh := [message for message in messages if message.fields and message.id not in self._holding]:
            self._start(fresh)
        return messages[-1].id if messages else ""

    async def _read_again(self) -> None:
        """After a lost connection: messages that were ours already when the answer with them was lost."""
        last = "0"
        while last:
            last = await self._read(last)

    async def _make_group(self) -> bool:
        """Makes the group, from the stream's beginning; whether there is one now."""
        try:
            await self._client.xgroup_create(self._stream, self._consumer.group, id="0", mkstream=True)
        except AWAY as error:
            return str(error).startswith("BUSYGROUP")  # another member was first
        return True

    async def _room(self) -> None:
        """Returns when fewer batches are under way than may be."""
        # A task that is done may still be in the set, its callback being due: waiting for it would not wait.
        while len(busy := [task for task in self._under_way if not task.done()]) >= self._consumer._batches:
            await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)

    def _start(self, messages: list[Message]) -> None:
        self._holding.update(message.id for message in messages)
        task = asyncio.create_task(self._work(messages))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    # -- handling ----------------------------------------------------------------------------

    async def _work(self, messages: list[Message]) -> None:
        """Handles messages until each is handled, dead, or left to others because of a stop."""
        held = {message.id for message in messages}
        pauses = Backoff(self._consumer._backoff_seconds)
        try:
            done = [message for message in messages if OUTSIDE in message.fields]
            messages = [message for message in messages if OUTSIDE not in message.fields]
            while True:
                if messages:
                    # What failed once is tried one by one: a poison message is no neighbour's.
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
                    return  # They stay unacknowledged: another member takes them over.
        except _Left:
            pass
        finally:
            self._holding -= held

    async def _try(self, messages: list[Message]) -> set[str]:
        """Hands messages over; the ids of those that failed. Waits while what the handler needs is away."""
        pauses = Backoff(self._consumer._backoff_seconds)
        while True:
            try:
                return await self._consumer._handle(messages)
            except Exception as error:
                if not _away(error):
                    log.warning("handler_failed", group=self._consumer.group, messages=len(messages), exc_info=error)
                    if len(messages) == 1:
                        return {messages[0].id}
                    return await self._try_each(messages)
                log.warning("handler_waits", group=self._consumer.group, error=str(error))
                await pauses.wait(self._stop)
                if self._stop.is_set():
                    raise _Left from None

    async def _try_each(self, messages: list[Message]) -> set[str]:
        return set().union(*[await self._try([message]) for message in messages])

    async def _acknowledge(self, messages: list[Message]) -> None:
        await self._insist(lambda: self._client.xack(self._stream, self._consumer.group, *[m.id for m in messages]))
        MESSAGES.labels(self._consumer.group, "handled").inc(len(messages))

    async def _bury(self, message: Message) -> None:
        """Moves a message to the dead letters."""
        group = self._consumer.group
        await self._insist(lambda: bury(self._client, self._stream, group, message.id, message.fields))
        MESSAGES.labels(group, "dead").inc()
        log.error("dead_letter", stream=self._stream, group=group, id=message.id)

    async def _insist(self, command: Callable[[], Awaitable[Any]]) -> None:
        """Until the server has taken it; a stop gives it one more chance, and leaves it to the takeover."""
        pauses = Backoff(self._consumer._backoff_seconds)
        while True:
            client = self._client
            try:
                await command()
                return
            except AWAY as error:
                if isinstance(error, ResponseError) and not isinstance(error, ON_ITS_WAY):
                    if not str(error).startswith("NOGROUP"):
                        log.warning("stream_write_failed", stream=self._stream, error=str(error))
                    return  # flushed: there is nothing left to acknowledge
            if self._stop.is_set():
                raise _Left
            await pauses.wait(self._stop)
            # Not left to the reading, which may wait for this very batch.
            await self._follow(client)

    # -- what others left --------------------------------------------------------------------

    async def _take_over(self) -> None:
        """Claims what a member that is gone had read, and forgets members that are long gone."""
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
            await self._start_taken([(id, fields) for id, fields in taken if id not in self._holding])
            if start == b"0-0" or self._stop.is_set():
                break
        for consumer in await self._client.xinfo_consumers(self._stream, self._consumer.group):
            gone = consumer["idle"] > CONSUMER_IDLE_MS and consumer["pending"] == 0
            if gone and consumer["name"] != self._consumer.name.encode():
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
            # It may have killed each of its consumers: it is not tried once more.
            await self._bury(message)
        if messages := [one for one in messages if one.deliveries <= TRIES]:
            self._start(messages)

    async def _keep_held(self) -> None:
        """Says that what waits here for a database that is away is not abandoned; it counts no delivery."""
        held = list(self._holding)
        for first in range(0, len(held), 1000):
            await self._client.xclaim(
                self._stream, self._consumer.group, self._consumer.name, 0, held[first : first + 1000], justid=True
            )

    async def _measure(self) -> None:
        for group in await self._client.xinfo_groups(self._stream):
            if group["name"] == self._consumer.group.encode():
                PENDING.labels(self._consumer.group, self._stream).set(group["pending"])
                if group.get("lag") is not None:  # not before Redis 7
                    LAG.labels(self._consumer.group, self._stream).set(group["lag"])

    async def _repeat(self, work: Callable[[], Awaitable[None]], seconds: float) -> None:
        while not await stopped_within(self._stop, seconds * random.uniform(0.5, 1.0)):
            try:
                await work()
            except _Left:
                return
            except AWAY:
                pass  # the reading loop reports it and waits; NOGROUP: it makes the group

    async def _leave(self) -> None:
        """Leaves the group, unless messages would go with the name."""
        with suppress(*AWAY):
            for consumer in await self._client.xinfo_consumers(self._stream, self._consumer.group):
                if consumer["name"] == self._consumer.name.encode() and consumer["pending"] == 0:
                    await self._client.xgroup_delconsumer(self._stream, self._consumer.group, self._consumer.name)


class _Left(Exception):
    """A stop came while the server was away: what is unacknowledged is left to another member."""


def _away(error: Exception) -> bool:
    return isinstance(error, Fault) and error.status is Status.UNAVAILABLE
