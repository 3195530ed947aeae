"""The connection between an edge and Core: HELLO from both sides, then length-prefixed frames.

The edge's first frame is the raw service token ("" for none).

It shares RPC_PORT with gRPC; the first byte distinguishes them (`runtime.rpc.server`). Compared with the same frames on
a grpclib stream, it does 2.2 times the calls/s with one call at a time, 2.4 with 8 and 1.2 with 64, at 0.3, 0.6 and 0.8
times the CPU (`./ops/bench --only calls-1-own --only calls-8-own --only calls-64-own`).
"""

from __future__ import annotations

import asyncio
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, cast

import msgspec

from runtime.errors import Fault, invalid
from runtime.rpc.frames import frames, too_large

HELLO: Final = b"TOMBOLA2"
"""Its first byte must differ from HTTP/2's preface (`PRI * HTTP/2.0`). The last byte is the protocol version."""

DEAD_SECONDS: Final = 15
"""A peer that has acknowledged nothing for this long is dead."""

_LENGTH: Final = struct.Struct(">I")


class SendQueue:
    """Rows to send, batched into frames: those of one iteration of the event loop, or of a pause, go together."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        """send: sends a frame. The queue is paused until `resume`."""
        self._send = send
        self._rows: dict[int, bytes] = {}
        self._paused = True
        self._due = False
        self._loop = asyncio.get_running_loop()

    def put(self, number: int, row: bytes) -> None:
        """Sends the row in one batch with the other rows of this iteration of the loop."""
        self._rows[number] = row
        if not (self._due or self._paused):
            self._due = True
            self._loop.call_soon(self._send_due)

    def withdraw(self, number: int) -> bool:
        """Removes a row. Returns whether it was still unsent."""
        return self._rows.pop(number, None) is not None

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self.flush()

    def flush(self) -> None:
        """Sends all queued rows."""
        rows, self._rows = self._rows, {}
        for frame in frames(rows.values()):
            self._send(frame)

    def _send_due(self) -> None:
        self._due = False
        if not self._paused:
            self.flush()


class FrameProtocol(asyncio.Protocol, ABC):
    """One end of a connection. Subclasses handle frames and the end of the other side."""

    frame_bytes_max: int
    """A longer frame is refused by its length prefix, without buffering it. May change between frames."""

    def __init__(self) -> None:
        self.queue = SendQueue(self._send)
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._greeted = False

    def greeted(self) -> None:
        """Called when the peer has sent HELLO. What this sends goes first. Nothing is sent before, so calls queued for
        a peer that never greets were certainly not executed."""

    @abstractmethod
    def frame_received(self, frame: bytes) -> None:
        """Handles a frame. Raises MsgspecError, ValueError or RecursionError if it is invalid."""

    def refused(self, fault: Fault) -> None:
        """Called when the peer sent an invalid frame; the connection is being closed."""

    def end_sending(self) -> None:
        """Sends all queued rows, then EOF."""
        if self._transport is not None and not self._transport.is_closing():
            self._flush()
            self._transport.write_eof()

    def close(self) -> None:
        """Closes the connection after sending all queued rows."""
        if self._transport is not None and not self._transport.is_closing():
            self._flush()
            self._transport.close()
        self.queue.pause()

    def _flush(self) -> None:
        if self._greeted:
            self.queue.flush()

    # -- callbacks of asyncio ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not derived from asyncio's
        notice_death(transport.get_extra_info("socket"))
        self._transport.write(HELLO)

    def connection_lost(self, error: Exception | None) -> None:
        self.queue.pause()

    def pause_writing(self) -> None:
        self.queue.pause()

    def resume_writing(self) -> None:
        if self._greeted and self._transport is not None and not self._transport.is_closing():
            self.queue.resume()

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        try:
            if not self._greeted and not self._read_hello():
                return
            start = 0
            while len(received) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(received, start)
                if length > self.frame_bytes_max:
                    raise too_large(self.frame_bytes_max)
                end = start + _LENGTH.size + length
                if len(received) < end:
                    break
                self.frame_received(bytes(memoryview(received)[start + _LENGTH.size : end]))
                start = end
            del received[:start]
        except Fault as fault:
            self._refuse(fault)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            self._refuse(invalid("", f"the frame cannot be decoded: {error}"))

    def _read_hello(self) -> bool:
        """Whether HELLO has arrived. INVALID_ARGUMENT for another protocol."""
        if not HELLO.startswith(self._received[: len(HELLO)]):
            raise invalid("", "the peer does not speak the protocol of edges and Core")
        self._greeted = len(self._received) >= len(HELLO)
        if self._greeted:
            del self._received[: len(HELLO)]
            self.greeted()
            self.queue.resume()
        return self._greeted

    def _refuse(self, fault: Fault) -> None:
        self._received.clear()
        self.refused(fault)
        self.close()

    def _send(self, frame: bytes) -> None:
        assert self._transport is not None
        self._transport.write(_LENGTH.pack(len(frame)) + frame)


def notice_death(connection: Any) -> None:
    """Enables TCP keepalive and the user timeout, so that the kernel detects a dead peer."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", DEAD_SECONDS // 3),
        ("TCP_KEEPINTVL", DEAD_SECONDS // 3),
        ("TCP_KEEPCNT", 2),
        ("TCP_USER_TIMEOUT", DEAD_SECONDS * 1000),
    ):
        if hasattr(socket, name):  # Not available on every system.
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
