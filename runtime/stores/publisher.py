"""The publisher: appends events and task ids to their streams.

Publishing is best effort and off the request's path: messages are queued on the shared pipeline after the commit,
and those lost with the store are counted there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from zlib import crc32

import msgspec

from runtime.events import Event
from runtime.groups import event_stream, task_stream
from runtime.stores.ephemeral import Ephemeral

TRIM_SECONDS: Final = 600.0

OUTSIDE: Final = b"outside"
"""A message with this field is only for readers outside the service (an event emitted by an admin)."""


class Publisher:
    """Queues events and task ids onto their streams: `shards` of each, one tenant always on the same shard.

    The hash tag keeps a shard's stream, consumer groups and dead letters on one cluster node.
    """

    def __init__(self, ephemeral: Ephemeral, *, shards: int, length_max: int) -> None:
        self._ephemeral = ephemeral
        self._shards = shards
        self._event_streams = [event_stream(shard) for shard in range(shards)]
        self._task_streams = [task_stream(shard) for shard in range(shards)]
        self._length_max = length_max
        self._encoder = msgspec.json.Encoder()

    def events(self, events: Iterable[Event]) -> None:
        """Appends each event to its tenant's event stream, field `e`, as JSON."""
        for event in events:
            stream = self._event_streams[shard_of(event.tenant_id, self._shards)]
            self._append(stream, b"e", self._encoder.encode(event))

    def outside(self, event: Event) -> None:
        """Appends an event only for readers outside the service; our own groups skip it."""
        stream = self._event_streams[shard_of(event.tenant_id, self._shards)]
        self._append(stream, b"e", self._encoder.encode(event), OUTSIDE, b"1")

    def tasks(self, tenant_id: str, task_ids: Iterable[str]) -> None:
        """Appends task ids to the deliveries stream, field `t`, as `tenant_id task_id`: the fast path of the outbox."""
        stream = self._task_streams[shard_of(tenant_id, self._shards)]
        for task_id in task_ids:
            self._append(stream, b"t", f"{tenant_id} {task_id}".encode())

    def trim(self, now: float, hours: int) -> None:
        """Deletes older events from the streams. The backfill delivers those our own groups had not read."""
        oldest_ms = int((now - hours * 3600) * 1000)
        for stream in self._event_streams:
            self._ephemeral.post("XTRIM", stream, "MINID", oldest_ms)

    def _append(self, stream: str, *fields: bytes) -> None:
        self._ephemeral.post("XADD", stream, "MAXLEN", "~", self._length_max, "*", *fields)


def shard_of(tenant_id: str, shards: int) -> int:
    """The shard of a tenant's messages."""
    return crc32(tenant_id.encode()) % shards
