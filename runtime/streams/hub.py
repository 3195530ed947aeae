"""The consumer group `integrations`: delivers each event to its subscribers.

A message is acknowledged once its event was attempted or skipped at each integration. If the worker crashes, the event
is delivered again with the same id (`webhook-id`), by which receivers deduplicate. Events lost by the stream are found
in the rows (backfill.py).
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
from runtime.streams.consumer import Consumer, Message, Waiting
from runtime.streams.servers import Servers

BATCHES: Final = 512
"""Concurrent batches: more than can wait for one slow integration, so that it never blocks all of them."""

BATCH_MAX: Final = 64


class Hub:
    """Handles events by dispatching them to integrations."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._decoder = msgspec.json.Decoder(ReceivedEvent)

    async def handle(self, messages: list[Message]) -> set[str]:
        """Returns the ids of malformed messages once every delivery was attempted or skipped. Raises Waiting."""
        garbage: set[str] = set()
        events: dict[str, Event] = {}
        for message in messages:
            try:
                events[message.id] = self._decoder.decode(message.fields[b"e"])
            except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
                garbage.add(message.id)
        if again := await self._dispatcher.dispatch_all(events.values()):
            raise Waiting(garbage | {message_id for message_id, event in events.items() if event.id in again})
        return garbage


async def run(engine: Engine, stop: asyncio.Event) -> None:
    """Reads every shard's events until `stop`, then finishes running deliveries."""
    streams = INTEGRATIONS.streams(engine.settings.stream_shards)
    hub = Hub(engine.dispatcher)
    consumer = Consumer(
        Servers(engine.settings), INTEGRATIONS.name, streams, hub.handle, batch_max=BATCH_MAX, batches=BATCHES
    )
    try:
        await asyncio.gather(consumer.run(stop), backfill.run(engine, stop))
    finally:
        await engine.dispatcher.close()
