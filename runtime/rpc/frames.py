"""What flows between an edge and Core: frames, each a batch of calls or of answers, in MessagePack.

A gRPC call for each request costs ten times the request itself in HTTP/2 headers and protobuf, both of them
in Python. So an edge keeps one connection open to each Core process (`runtime.rpc.connection`), and what one
iteration of the event loop asks goes in one frame, straight from and into the message classes. Answers come in any
order, by number. This is between the processes of one release and in no proto: others use game.v1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Self

import msgspec

from runtime.errors import Fault, Status, invalid
from runtime.operations import Operation
from runtime.rpc import MESSAGE_BYTES_MAX, Carried, made_fault
from runtime.wire.schema import memo

FRAME_BYTES: Final = 64 * 1024
"""A frame is closed at this size: a row that is larger travels alone."""

ROW_BYTES_MAX: Final = MESSAGE_BYTES_MAX - 8
"""Of a call, so that its frame is within MESSAGE_BYTES_MAX."""

CALLS_MAX: Final = 4_096
"""Of a frame: more than FRAME_BYTES hold, and so than any edge of ours sends."""

ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of an answer: a page of a hundred games, each with all that a body may hold, is half of it."""

GOODBYE: Final = -1
"""The number of the answer that nobody asked for: the edge shall end the connection, since Core is stopping,
or, where the answer is a fault, since what came was no frame."""

_encode: Final = msgspec.msgpack.Encoder().encode
_NOTHING: Final = msgspec.Raw(b"\xc0")


class Call(msgspec.Struct, array_like=True):
    """A request on its way to Core. `traceparent` is W3C's; `actor` is an admin's subject, or empty."""

    number: int
    operation: str
    request: msgspec.Raw
    traceparent: str = ""
    actor: str = ""

    def row(self) -> bytes:
        """RESOURCE_EXHAUSTED where it exceeds what Core takes."""
        row = _encode(self)
        if len(row) > ROW_BYTES_MAX:
            raise too_large()
        return row

    def message(self, operation: Operation) -> Any:
        """The request. INVALID_ARGUMENT where it is none."""
        try:
            return _decoder(operation.request)(self.request)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise invalid("", f"the message cannot be decoded: {error}") from None


class Answer(msgspec.Struct, array_like=True):
    """What became of a call: its reply, or a fault. replayed: the reply is that of an earlier request."""

    number: int
    reply: msgspec.Raw = _NOTHING
    status: int = 0
    message: str = ""
    fault: Carried | None = None
    replayed: bool = False

    @classmethod
    def refusal(cls, number: int, fault: Fault) -> Self:
        return cls(number, _NOTHING, fault.status, fault.message, Carried.of(fault))

    def row(self) -> bytes:
        return _encode(self)

    def result(self, operation: Operation) -> Any:
        """The operation's reply. Raises the Fault that Core raised."""
        if self.fault is not None:
            raise made_fault(Status(self.status), self.message, self.fault)
        return _decoder(operation.reply)(self.reply)


def body(message: Any) -> msgspec.Raw:
    """A message's fields. INVALID_ARGUMENT where one holds what cannot be sent (half a surrogate pair)."""
    try:
        return msgspec.Raw(_encode(message))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise invalid("", f"the message cannot be encoded: {error}") from None


def too_large(bytes_max: int = MESSAGE_BYTES_MAX) -> Fault:
    return Fault(
        Status.RESOURCE_EXHAUSTED,
        "MESSAGE_TOO_LARGE",
        f"the message exceeds {bytes_max} bytes",
        limit_bytes=bytes_max,
    )


@memo
def _decoder(message: Any) -> Callable[[msgspec.Raw], Any]:
    decode: Callable[[msgspec.Raw], Any] = msgspec.msgpack.Decoder(message).decode
    return decode


_calls_of: Final[Callable[[bytes], list[Call]]] = msgspec.msgpack.Decoder(list[Call]).decode
answers_of: Final[Callable[[bytes], list[Answer]]] = msgspec.msgpack.Decoder(list[Answer]).decode


def calls_of(frame: bytes) -> list[Call]:
    """A frame's calls. INVALID_ARGUMENT, before any of them is made, where there are too many to be ours."""
    if _rows_in(frame) > CALLS_MAX:
        raise invalid("", f"a frame holds at most {CALLS_MAX} calls")
    return _calls_of(frame)


def _rows_in(frame: bytes) -> int:
    """How many elements the array that begins here says to have; 0 for a short one, or for none at all."""
    size = {0xDC: 2, 0xDD: 4}.get(frame[0], 0) if frame else 0
    return int.from_bytes(frame[1 : 1 + size], "big")


def frames(rows: Iterable[bytes]) -> Iterator[bytes]:
    """The rows in as few frames as hold them."""
    batch: list[msgspec.Raw] = []
    size = 0
    for row in rows:
        if batch and size + len(row) > FRAME_BYTES:
            yield _encode(batch)
            batch, size = [], 0
        batch.append(msgspec.Raw(row))
        size += len(row)
    if batch:
        yield _encode(batch)
