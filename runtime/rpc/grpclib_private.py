"""Functions that need grpclib's private members. All such uses are in this module, and grpclib is pinned."""

from __future__ import annotations

import struct
from typing import Any

from grpclib.protocol import H2Protocol
from grpclib.server import Server, Stream

from runtime.errors import Fault, Status, invalid
from runtime.rpc import MESSAGE_BYTES_MAX
from runtime.rpc.frames import too_large

_PREFIX = struct.Struct(">?I")


class LastCall:
    """Tracks when the last call on a connection began."""

    def __init__(self, protocol: H2Protocol, now: float) -> None:
        self._protocol = protocol
        self._at = now
        self._stream_id = 0

    def idle_seconds(self, now: float) -> float:
        """The seconds since a new call was last observed. Call this regularly: it compares with the previous check."""
        newest = self._protocol.connection._connection.highest_inbound_stream_id
        if newest != self._stream_id:
            self._stream_id, self._at = newest, now
        return now - self._at

    def say_goodbye(self) -> None:
        """Closes the connection with HTTP/2's GOAWAY: the client opens another for its next call."""
        connection = self._protocol.connection
        connection._connection.close_connection()
        connection.flush()
        self._protocol.processor.close("idle")


def make_protocol(server: Server) -> H2Protocol:
    """A gRPC protocol for a connection that our own listener accepted; `Server.start` supports only its own."""
    protocol: H2Protocol = server._protocol_factory()
    return protocol


async def receive(stream: Stream[Any, Any]) -> bytes | None:
    """A message's bytes, or None after the last. INVALID_ARGUMENT for one that is too large by its prefix, before
    more than a window of it is received: `Stream.recv_message` has no limit and reads any declared length, up to 4 GiB.
    """
    raw = stream._stream
    try:
        prefix = await raw.recv_data(_PREFIX.size)
        if not prefix:
            return None
        compressed, length = _PREFIX.unpack(prefix)
        if compressed:
            message = "compressed messages are not supported"
            raise Fault(Status.INVALID_ARGUMENT, "ENCODING_UNSUPPORTED", message, http_status=415)
        if length > MESSAGE_BYTES_MAX:
            raise too_large()
        return await raw.recv_data(length)
    except AssertionError:  # grpclib's error for a truncated message.
        raise invalid("", "the message is truncated") from None
