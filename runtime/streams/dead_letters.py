"""Dead letters: messages that were given up, on a stream of their own, with what is needed to put them back.

The letters of a shard are in `tombola:dead:{shard}`, the newest 10,000 of them.
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
"""Before the names of the message's own fields."""

SHOWN_CHARACTERS: Final = 120


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter: `id` is its own, `message_id` what it had in its stream."""

    id: str
    stream: str
    group: str
    message_id: str
    fields: dict[bytes, bytes]

    @classmethod
    def read(cls, id: bytes, stored: Mapping[bytes, bytes]) -> Letter:
        """The letter of an entry that `bury` appended."""
        named = {name: stored.get(name, b"").decode() for name in (b"stream", b"group", b"id")}
        fields = {name.removeprefix(FIELD): value for name, value in stored.items() if name.startswith(FIELD)}
        return cls(id.decode(), named[b"stream"], named[b"group"], named[b"id"], fields)

    def __str__(self) -> str:
        shown = " ".join(f"{_shown(name)}={_shown(value)}" for name, value in self.fields.items())
        return f"{self.id}  {self.stream}  {self.group}  {shown}"


def _shown(value: bytes) -> str:
    """For people, on one line: text as it is, and what no terminal should be sent as its escape."""
    text = value[:SHOWN_CHARACTERS].decode(errors="backslashreplace")
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def dead_stream(stream: str) -> str:
    """Where the dead letters of a stream's shard are: `tombola:dead:{shard}`, on the same node."""
    return "tombola:dead:" + stream[stream.index("{") :]


async def bury(client: Any, stream: str, group: str, id: str, fields: Mapping[bytes, bytes]) -> None:
    """Moves a message that `group` has read to the dead letters. Raises RedisError, OSError."""
    pipeline = client.pipeline(transaction=True)  # one slot: both or neither, on a cluster too
    stored = {b"stream": stream, b"group": group, b"id": id}
    named = {FIELD + name: value for name, value in fields.items()}
    pipeline.xadd(dead_stream(stream), {**stored, **named}, maxlen=LENGTH_MAX)
    pipeline.xack(stream, group, id)
    await pipeline.execute()


# -- what operators do to them -----------------------------------------------------------------

Act = Callable[[Any, str, Letter], Awaitable[None]]
"""Does something with one letter of the stream of dead letters."""


async def put_back(client: Any, dead: str, letter: Letter) -> None:
    """Appends the letter's message to its stream again, and deletes the letter: both or neither."""
    pipeline = client.pipeline(transaction=True)
    # A message without fields cannot be appended; it was none to begin with.
    if letter.fields:
        pipeline.xadd(letter.stream, letter.fields)
    pipeline.xdel(dead, letter.id)
    await pipeline.execute()


async def throw_away(client: Any, dead: str, letter: Letter) -> None:
    """Deletes the letter."""
    await client.xdel(dead, letter.id)


async def each_letter(settings: Settings, act: Act, group: str = "", id: str = "") -> int:
    """Does `act` to every dead letter of the group and id given ("": any); how many there were. RedisError, OSError."""
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
    # Read to the end that there was at the beginning: a replayed one that dies anew is not met again.
    last = [id for id, _ in await client.xrevrange(dead, count=1)]
    after = "-"
    while last and (page := await client.xrange(dead, after, last[0], count=PAGE)):
        for id, fields in page:
            yield Letter.read(id, fields)
        after = "(" + page[-1][0].decode()
