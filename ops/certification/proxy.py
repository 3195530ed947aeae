"""A TCP proxy between two processes, which delays, holds and cuts their traffic.

A partition holds the bytes, as TCP does over a network that loses every packet: they arrive once it heals.
A cut resets connections. A half-open connection is one that the other end has forgotten: it carries nothing, and
neither end is notified.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

CHUNK_BYTES: Final = 1 << 16
_RESET: Final = struct.pack("ii", 1, 0)


@dataclass(eq=False)
class _Pair:
    """A connection and its counterpart to the target. forgotten: it is half open."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    forgotten: bool = False


@dataclass
class Proxy:
    """Listens on `port` of 127.0.0.1 and forwards to `target_port`.

    delay_seconds: delay of each byte, in both directions. accepting: whether new connections are accepted.
    delayed_bytes, held_bytes, cuts, forgotten, refused: what each fault affected since the start.
    """

    target_port: int
    port: int = 0
    delay_seconds: float = 0.0
    accepting: bool = True
    delayed_bytes: int = 0
    held_bytes: int = 0
    cuts: int = 0
    forgotten: int = 0
    refused: int = 0
    _flowing: asyncio.Event = field(default_factory=asyncio.Event)
    _pairs: set[_Pair] = field(default_factory=set)
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self) -> None:
        self._flowing.set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Ends every connection and stops listening."""
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def connections(self) -> int:
        return sum(not pair.forgotten for pair in self._pairs)

    # -- faults ----------------------------------------------------------------------------------

    def partition(self) -> None:
        """Holds everything in both directions; new connections are accepted but carry nothing."""
        self._flowing.clear()

    def heal(self) -> None:
        """Forwards everything again, at once."""
        self.delay_seconds, self.accepting = 0.0, True
        self._flowing.set()

    def cut(self) -> None:
        """Resets every connection at both ends."""
        pairs, self._pairs = self._pairs, set()
        self.cuts += len(pairs)
        for pair in pairs:
            for end in (pair.client, pair.server):
                _reset(end)

    def half_open(self) -> None:
        """Makes every connection half open; new ones work."""
        for pair in self._pairs:
            self.forgotten += not pair.forgotten
            pair.forgotten = True

    # -- forwarding ------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        if not self.accepting:
            self.refused += 1
            _reset(client)
            return
        try:
            from_server, server = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            _reset(client)
            return
        pair = _Pair(client, server)
        self._pairs.add(pair)
        for source, sink in ((reader, server), (from_server, client)):
            task = asyncio.ensure_future(self._carry(pair, source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, pair: _Pair, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        due = 0.0
        try:
            while chunk := await source.read(CHUNK_BYTES):
                if not self._flowing.is_set():
                    self.held_bytes += len(chunk)
                    await self._flowing.wait()
                if pair.forgotten:
                    continue
                if self.delay_seconds:
                    self.delayed_bytes += len(chunk)
                # Never before an earlier chunk, even if the delay has become shorter.
                due = max(due, loop.time() + self.delay_seconds)
                if due > loop.time():
                    loop.call_at(due, _write, sink, chunk)
                else:
                    _write(sink, chunk)
                    await sink.drain()
            await self._flowing.wait()
            if not pair.forgotten:
                loop.call_at(max(due, loop.time()), sink.close)
        except OSError:
            if not pair.forgotten:
                _reset(sink)  # Pass the reset on to the other end.
        finally:
            if not pair.forgotten:
                self._pairs.discard(pair)


def _write(sink: asyncio.StreamWriter, chunk: bytes) -> None:
    if not sink.is_closing():  # A cut may have closed it.
        sink.write(chunk)


def _reset(end: asyncio.StreamWriter) -> None:
    """Closes a connection with a reset."""
    plain = end.get_extra_info("socket")
    if plain is not None and plain.fileno() >= 0:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    end.transport.abort()


@asynccontextmanager
async def between(*target_ports: int) -> AsyncIterator[Sequence[Proxy]]:
    """A proxy in front of each of these ports, for the length of the block."""
    proxies = [Proxy(port) for port in target_ports]
    try:
        for proxy in proxies:
            await proxy.start()
        yield proxies
    finally:
        for proxy in proxies:
            await proxy.stop()
