"""Dead letters: messages that were given up, on a stream of their own, with what is needed to put them back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

LENGTH_MAX: Final = 10_000

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
