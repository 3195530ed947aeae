"""The frames between an edge and Core: batches of calls or answers, in MessagePack.

A gRPC call per request would cost ten times the request itself, in HTTP/2 headers and protobuf, both in Python. So an
edge has one connection to each Core process (`runtime.rpc.connection`), and sends the calls of one iteration of the
event loop in one frame, encoded directly from the message classes. Answers arrive in any order, by number. The format
is internal to one release and not part of the proto: other clients use game.v1.
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
"""The target size of a frame. A larger row gets a frame of its own."""

ROW_BYTES_MAX: Final = MESSAGE_BYTES_MAX - 8
"""The maximum size of a call, so that its frame is within MESSAGE_BYTES_MAX."""

CALLS_MAX: Final = 4_096
"""The maximum number of calls in a frame: more than fit into FRAME_BYTES, so an edge never sends more."""

ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
"""The maximum size of an answer: twice a page of a hundred games of the maximum size."""

GOODBYE: Final = -1
"""The number of an unsolicited answer that tells the edge to end the connection: Core is stopping or, if the answer is
a fault, the edge sent an invalid frame."""

_encode: Final = msgspec.msgpack.Encoder().encode
_NOTHING: Final = msgspec.Raw(b"\xc0")


class Call(msgspec.Struct, array_like=True):
    """A request to Core. `traceparent` is W3C's; `actor` is the staff subject, or empty."""

    number: int
    operation: str
    request: msgspec.Raw
    traceparent: str = ""
    actor: str = ""

    def row(self) -> bytes:
        """The encoded call. INVALID_ARGUMENT if it is too large."""
        row = _encode(self)
        if len(row) > ROW_BYTES_MAX:
            raise too_large()
        return row

    def message(self, operation: Operation) -> Any:
        """The decoded request. INVALID_ARGUMENT if it is malformed."""
        try:
            return _decoder(operation.request)(self.request)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise invalid("", f"the message cannot be decoded: {error}") from None


class Answer(msgspec.Struct, array_like=True):
    """The outcome of a call: a reply or a fault. replayed: the reply is a stored one."""

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
    """An encoded message. INVALID_ARGUMENT if a value cannot be encoded, such as an unpaired surrogate."""
    try:
        return msgspec.Raw(_encode(message))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise invalid("", f"the message cannot be encoded: {error}") from None


def too_large(bytes_max: int = MESSAGE_BYTES_MAX) -> Fault:
    return Fault(
        Status.INVALID_ARGUMENT,
        "MESSAGE_TOO_LARGE",
        f"the message exceeds {bytes_max} bytes",
        http_status=413,
        limit_bytes=bytes_max,
    )


@memo
def _decoder(message: Any) -> Callable[[msgspec.Raw], Any]:
    decode: Callable[[msgspec.Raw], Any] = msgspec.msgpack.Decoder(message).decode
    return decode


_calls_of: Final[Callable[[bytes], list[Call]]] = msgspec.msgpack.Decoder(list[Call]).decode
answers_of: Final[Callable[[bytes], list[Answer]]] = msgspec.msgpack.Decoder(list[Answer]).decode


def calls_of(frame: bytes) -> list[Call]:
    """A frame's calls. INVALID_ARGUMENT, before decoding them, if there are more than CALLS_MAX."""
    if _rows_in(frame) > CALLS_MAX:
        raise invalid("", f"a frame holds at most {CALLS_MAX} calls")
    return _calls_of(frame)


def _rows_in(frame: bytes) -> int:
    """The number of elements in the header of a MessagePack array; 0 for a short array, or for another type."""
    size = {0xDC: 2, 0xDD: 4}.get(frame[0], 0) if frame else 0
    return int.from_bytes(frame[1 : 1 + size], "big")


def frames(rows: Iterable[bytes]) -> Iterator[bytes]:
    """Packs rows into frames of up to FRAME_BYTES."""
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
