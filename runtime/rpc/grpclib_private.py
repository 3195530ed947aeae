"""What grpclib does not offer, by its private members: all that are used are used here (grpclib is pinned)."""

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
    """When the last call over a connection began."""

    def __init__(self, protocol: H2Protocol, now: float) -> None:
        self._protocol = protocol
        self._at = now
        self._stream_id = 0

    def idle_seconds(self, now: float) -> float:
        """For how long none has begun, `now` being a little later than when this was last asked."""
        newest = self._protocol.connection._connection.highest_inbound_stream_id
        if newest != self._stream_id:
            self._stream_id, self._at = newest, now
        return now - self._at

    def say_goodbye(self) -> None:
        """Ends the connection as HTTP/2 does (GOAWAY): the client opens another for its next call."""
        connection = self._protocol.connection
        connection._connection.close_connection()
        connection.flush()
        self._protocol.processor.close("idle")


def make_protocol(server: Server) -> H2Protocol:
    """What speaks gRPC on a connection that another listener accepted: `Server.start` listens by itself alone."""
    protocol: H2Protocol = server._protocol_factory()
    return protocol


async def receive(stream: Stream[Any, Any]) -> bytes | None:
    """A message's bytes, or None after the last. RESOURCE_EXHAUSTED for one that says it is too large, before
    more than its window is here: `Stream.recv_message` reads any length that the five bytes in front say (up to
    4 GiB), and asks nobody.
    """
    raw = stream._stream
    try:
        prefix = await raw.recv_data(_PREFIX.size)
        if not prefix:
            return None
        compressed, length = _PREFIX.unpack(prefix)
        if compressed:
            raise Fault(Status.UNIMPLEMENTED, "ENCODING_UNSUPPORTED", "compressed messages are not taken")
        if length > MESSAGE_BYTES_MAX:
            raise too_large()
        return await raw.recv_data(length)
    except AssertionError:  # grpclib's word for it.
        raise invalid("", "the message is cut short") from None
