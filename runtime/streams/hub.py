"""The consumer group `integrations`: brings each event to everyone who subscribes to it.

A message is acknowledged when its event was attempted, or skipped, at each of them; an event whose
worker died is brought again, under the same id (`webhook-id`), which receivers know it by. What never came by
the stream is found in the rows (gaps.py).
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from runtime.actors.dispatcher import Dispatcher
from runtime.actors.engine import Engine
from runtime.events import Event, ReceivedEvent
from runtime.groups import INTEGRATIONS
from runtime.streams import backfill
from runtime.streams.consumer import Consumer, Message
from runtime.streams.servers import Servers

BATCHES: Final = 512
"""Batches under way: more than events can wait for one slow integration, so that it never fills them."""

BATCH_MAX: Final = 64


class Hub:
    """Handles events by telling integrations of them."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._decoder = msgspec.json.Decoder(ReceivedEvent)

    async def handle(self, messages: list[Message]) -> set[str]:
        """Returns when everyone was told, or skipped. The ids of messages that are no events."""
        garbage: set[str] = set()
        events: list[Event] = []
        for message in messages:
            try:
                events.append(self._decoder.decode(message.fields[b"e"]))
            except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
                garbage.add(message.id)
        await self._dispatcher.tell_all(events)
        return garbage


async def run(engine: Engine, stop: asyncio.Event) -> None:
    """Reads every shard's events until `stop`, and ends what was begun."""
    streams = INTEGRATIONS.streams(engine.settings.stream_shards)
    hub = Hub(engine.dispatcher)
    consumer = Consumer(
        Servers(engine.settings), INTEGRATIONS.name, streams, hub.handle, batch_max=BATCH_MAX, batches=BATCHES
    )
    try:
        await asyncio.gather(consumer.run(stop), backfill.run(engine, stop))
    finally:
        await engine.dispatcher.close()
