"""Dead letters: messages that failed for good, on a separate stream, with the data needed to replay them.

`tombola:dead:{shard}` holds the newest 10,000 dead letters of a shard.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from runtime.groups import event_stream
from runtime.settings import Settings
from runtime.streams.servers import Servers

LENGTH_MAX: Final = 10_000
PAGE: Final = 100

FIELD: Final = b"field:"
"""The prefix of the message's own field names."""

SHOWN_CHARACTERS: Final = 120


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter. `message_id`: the id of the message in its original stream."""

    id: str
    stream: str
    group: str
    message_id: str
    fields: dict[bytes, bytes]

    @classmethod
    def read(cls, id: bytes, stored: Mapping[bytes, bytes]) -> Letter:
        """Parses an entry appended by `dead_letter`."""
        named = {name: stored.get(name, b"").decode() for name in (b"stream", b"group", b"id")}
        fields = {name.removeprefix(FIELD): value for name, value in stored.items() if name.startswith(FIELD)}
        return cls(id.decode(), named[b"stream"], named[b"group"], named[b"id"], fields)

    def __str__(self) -> str:
        shown = " ".join(f"{_shown(name)}={_shown(value)}" for name, value in self.fields.items())
        return f"{self.id}  {self.stream}  {self.group}  {shown}"


def _shown(value: bytes) -> str:
    """Printable text on one line: control characters are escaped, since they could act on the terminal."""
    text = value[:SHOWN_CHARACTERS].decode(errors="backslashreplace")
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def dead_stream(stream: str) -> str:
    """The dead-letter stream of a stream's shard, `tombola:dead:{shard}`, on the same node."""
    return "tombola:dead:" + stream[stream.index("{") :]


async def dead_letter(client: Any, stream: str, group: str, id: str, fields: Mapping[bytes, bytes]) -> None:
    """Moves a message that `group` has read to the dead letters. Raises RedisError, OSError."""
    pipeline = client.pipeline(transaction=True)  # Atomic; one slot, so it works on a cluster too.
    stored = {b"stream": stream, b"group": group, b"id": id}
    named = {FIELD + name: value for name, value in fields.items()}
    pipeline.xadd(dead_stream(stream), {**stored, **named}, maxlen=LENGTH_MAX)
    pipeline.xack(stream, group, id)
    await pipeline.execute()


# -- operator actions ------------------------------------------------------------------------

Act = Callable[[Any, str, Letter], Awaitable[None]]
"""An action on one letter of a dead-letter stream."""


async def replay(client: Any, dead: str, letter: Letter) -> None:
    """Replays a letter: appends its message to its stream and deletes the letter, atomically."""
    pipeline = client.pipeline(transaction=True)
    # A message without fields cannot be appended, and never was one.
    if letter.fields:
        pipeline.xadd(letter.stream, letter.fields)
    pipeline.xdel(dead, letter.id)
    await pipeline.execute()


async def discard(client: Any, dead: str, letter: Letter) -> None:
    """Deletes the letter."""
    await client.xdel(dead, letter.id)


async def each_letter(settings: Settings, act: Act, group: str = "", id: str = "") -> int:
    """Applies `act` to every dead letter of the group and id ("": any). Returns how many. RedisError, OSError."""
    servers, count = Servers(settings), 0
    for shard in range(settings.stream_shards):
        dead = dead_stream(event_stream(shard))
        client = await servers.client(dead)
        try:
            async for letter in _letters(client, dead):
                if group in ("", letter.group) and id in ("", letter.id):
                    await act(client, dead, letter)
                    count += 1
        finally:
            await client.aclose()
    return count


async def _letters(client: Any, dead: str) -> AsyncIterator[Letter]:
    # Stop at the initial end: a replayed message that fails again is not read twice.
    last = [id for id, _ in await client.xrevrange(dead, count=1)]
    after = "-"
    while last and (page := await client.xrange(dead, after, last[0], count=PAGE)):
        for id, fields in page:
            yield Letter.read(id, fields)
        after = "(" + page[-1][0].decode()
