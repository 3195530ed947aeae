"""A connection between an edge and Core: HELLO from both sides, then frames, each with its length before it.

The edge's first frame is the service token that it shows, as it is ("" for none).

It comes in at RPC_PORT as gRPC does, and is told apart by its first byte (`runtime.rpc.server`). Measured beside
the same frames on a stream of grpclib's: 2.2 times the calls/s at one call at a time, 2.4 at 8 and 1.2 at 64, with
0.3, 0.6 and 0.8 times the CPU (`./ops/bench --only calls-1-own --only calls-8-own --only calls-64-own`).
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
"""Its first byte must not be that of HTTP/2's preface (`PRI * HTTP/2.0`). The last one counts the ways of framing."""

DEAD_SECONDS: Final = 15
"""A peer that has acknowledged nothing for so long is gone, though it said no goodbye."""

_LENGTH: Final = struct.Struct(">I")


class SendQueue:
    """Rows that wait for their frame: those of one iteration of the event loop go together, those of a pause too."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        """send: takes a frame. Paused until `resume`."""
        self._send = send
        self._rows: dict[int, bytes] = {}
        self._paused = True
        self._due = False
        self._loop = asyncio.get_running_loop()

    def put(self, number: int, row: bytes) -> None:
        """Sends the row with all that this iteration of the loop puts here."""
        self._rows[number] = row
        if not (self._due or self._paused):
            self._due = True
            self._loop.call_soon(self._send_due)

    def withdraw(self, number: int) -> bool:
        """Whether the row had surely not been sent; it will not be."""
        return self._rows.pop(number, None) is not None

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self.flush()

    def flush(self) -> None:
        """Sends what is here now."""
        rows, self._rows = self._rows, {}
        for frame in frames(rows.values()):
            self._send(frame)

    def _send_due(self) -> None:
        self._due = False
        if not self._paused:
            self.flush()


class FrameProtocol(asyncio.Protocol, ABC):
    """One end of a connection; what it does with a frame, and when the other end is done, its heirs say."""

    frame_bytes_max: int
    """A longer one is refused at its length: nothing of it is kept. It may change with each frame."""

    def __init__(self) -> None:
        self.queue = SendQueue(self._send)
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._greeted = False

    def greeted(self) -> None:
        """The other end has said HELLO. Only now is anything sent to it, and what this sends goes first: what waited
        for one that never does was surely not done."""

    @abstractmethod
    def frame_received(self, frame: bytes) -> None:
        """MsgspecError, ValueError or RecursionError where it is none."""

    def refused(self, fault: Fault) -> None:
        """The other end sent what is no frame; the connection is being closed."""

    def end_sending(self) -> None:
        """Sends what waits, and tells the other end that nothing more will come."""
        if self._transport is not None and not self._transport.is_closing():
            self._flush()
            self._transport.write_eof()

    def close(self) -> None:
        """Closes the connection, once it has sent what waits."""
        if self._transport is not None and not self._transport.is_closing():
            self._flush()
            self._transport.close()
        self.queue.pause()

    def _flush(self) -> None:
        if self._greeted:
            self.queue.flush()

    # -- what asyncio calls ------------------------------------------------------------------

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
        """Whether the other end has said it. INVALID_ARGUMENT where it speaks something else."""
        if not HELLO.startswith(self._received[: len(HELLO)]):
            raise invalid("", "this is no connection between an edge and Core")
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
    """Has the kernel ask whether the other end is there, whatever is under way."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", DEAD_SECONDS // 3),
        ("TCP_KEEPINTVL", DEAD_SECONDS // 3),
        ("TCP_KEEPCNT", 2),
        ("TCP_USER_TIMEOUT", DEAD_SECONDS * 1000),
    ):
        if hasattr(socket, name):  # Not every system has each.
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
