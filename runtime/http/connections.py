"""Limits on a server's connections: their number, slow requests and unread responses.

aiohttp gives a connection that sends nothing, or half a request, the full keep-alive time, and waits forever for a
client that does not read its response. Here each has a deadline, and unread responses are also limited in bytes. When
the server is full, the address with the most connections loses an idle one to a newcomer.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http_parser import RawRequestMessage

from runtime.http.admission.client_address import UNCOUNTED, Client, peer_client
from runtime.http.short_path import ShortPath
from runtime.settings import Network

HEAD_SECONDS: Final = 10.0
"""The time limit for a request's head, from the start of the connection or from the head's first byte."""

UNREAD_SECONDS: Final = 30.0
"""How long a client may leave a response unread, plus one second per UNREAD_BYTES_PER_SECOND of unread bytes."""

UNREAD_BYTES_PER_SECOND: Final = 16 * 1024
"""The slowest read rate allowed. Otherwise a client could keep a response in memory by reading a byte now and then."""

UNREAD_BYTES_MAX: Final = 64 * 1024 * 1024
"""The limit of all unread responses in a process."""

SWEEP_SECONDS: Final = 1.0

GOODBYE_POLL_SECONDS: Final = 0.02

SHARES: Final = 4
"""An address may have 1/SHARES of all connections."""

NETWORK_SHARES: Final = 2
"""A network (IPv6 only) may have 1/NETWORK_SHARES of all connections."""

FILES_SPARE: Final = 256
"""File descriptors reserved for stores, logs and other listeners."""

_BODY: Final = b'{"code":"UNAVAILABLE","message":"too many connections","trace_id":"","data":{"reason":"OVERLOADED"}}'
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


class Protocol(ShortPath):
    """A connection that records when its current head began, and the deadline for reading its response."""

    __slots__ = ("head_since", "unread_until")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.head_since = self._loop.time()
        self.unread_until = 0.0

    @property
    def idle(self) -> bool:
        """Whether it waits for a request and has received nothing of it."""
        return self._waiter is not None and not self.head_since

    def data_received(self, data: bytes) -> None:
        before = self._request_count
        super().data_received(data)
        if self._request_count != before:
            self.head_since = 0.0
        elif not self.head_since and self._waiter is not None:
            self.head_since = self._loop.time()  # The first bytes of an incomplete head.

    def resume_reading(self, resume_parser: bool = True) -> None:
        # aiohttp resumes after every body even if it did not pause. Skipping that saves 2 of 90 us.
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def pause_writing(self) -> None:
        super().pause_writing()
        if isinstance(self._manager, Server):
            self._manager.record_unread(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self.unread_until = 0.0
        if isinstance(self._manager, Server):
            self._manager.clear_unread(self)


class Server(web.Server):
    """Limits the number of connections, and closes those that miss a deadline."""

    def __init__(self, *args: Any, most: int, proxies: Sequence[Network], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        files = _files_allowed(most + FILES_SPARE)
        if files <= FILES_SPARE:
            raise RuntimeError(f"the limit of open files is {files}: raise it (ulimit -n) above {FILES_SPARE}")
        self._most = min(most, files - FILES_SPARE)
        self._proxies = frozenset(proxies)
        self._of: Counter[str] = Counter()
        self._peers: dict[web.RequestHandler, Client] = {}
        self._unread: dict[web.RequestHandler, int] = {}
        self._sweeping = self._loop.call_later(SWEEP_SECONDS, self._sweep)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        name = transport.get_extra_info("peername")
        peer = peer_client(name[0] if isinstance(name, tuple) else "", self._proxies)
        if self._has_full_share(peer) or (len(self._peers) >= self._most and not self._make_room(peer)):
            transport.write(_FULL)
            handler.force_close()
            return
        self._peers[handler] = peer
        self._of.update(filter(None, peer))

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._unread.pop(handler, None)
        self._leave(handler)

    def record_unread(self, handler: web.RequestHandler) -> None:
        """Records a client's unread bytes. Above the limit of all clients, aborts connections of the address or
        network with the most unread bytes, oldest first.
        """
        assert handler.transport is not None
        self._unread[handler] = handler.transport.get_write_buffer_size()
        while sum(self._unread.values()) > UNREAD_BYTES_MAX:
            unread_by_client: Counter[str] = Counter()
            for one, unread in self._unread.items():
                unread_by_client[self._network_or_address(one)] += unread
            most, _ = unread_by_client.most_common(1)[0]
            victim = next(one for one in self._unread if self._network_or_address(one) == most)
            del self._unread[victim]
            if victim.transport is not None:
                victim.transport.abort()

    def clear_unread(self, handler: web.RequestHandler) -> None:
        """Records that the client has read all but a little."""
        self._unread.pop(handler, None)

    def _network_or_address(self, handler: web.RequestHandler) -> str:
        """A connection's network, or else its address; "" for a proxy's."""
        peer = self._peers.get(handler, UNCOUNTED)
        return peer.network or peer.address

    def _has_full_share(self, peer: Client) -> bool:
        shares = ((peer.address, SHARES), (peer.network, NETWORK_SHARES))
        return any(self._of[name] >= max(1, self._most // part) for name, part in shares if name)

    def _make_room(self, peer: Client) -> bool:
        """Closes the oldest idle connection of the address or network with the most, unless that is `peer`'s own."""
        largest = next((one for one, _ in self._of.most_common(1)), "")
        if not largest or largest in peer:
            return False
        idle = (one for one, of in self._peers.items() if largest in of and cast(Protocol, one).idle)
        victim = next(idle, None)
        if victim is None:
            return False
        self._leave(victim)
        victim.force_close()
        return True

    def _leave(self, handler: web.RequestHandler) -> None:
        for name in filter(None, self._peers.pop(handler, UNCOUNTED)):
            self._of[name] -= 1
            if not self._of[name]:
                del self._of[name]

    async def say_goodbye(self, seconds: float) -> None:
        """Ends keep-alive: each connection closes after its next response, which announces that. Waits up to `seconds`
        for it.

        Closing a connection without announcement loses a request that is on its way.
        """
        self._made_request = self.request_factory
        self.request_factory = self._last_request
        for handler in self._connections:
            handler._request_factory = self._last_request
            if handler._current_request is not None:
                handler._current_request._message = _closing(handler._current_request._message)
        ends = self._loop.time() + seconds
        while self._connections and self._loop.time() < ends:  # noqa: ASYNC110  (aiohttp signals no end)
            await asyncio.sleep(GOODBYE_POLL_SECONDS)

    def _last_request(self, message: RawRequestMessage, *rest: Any) -> web.BaseRequest:
        return self._made_request(_closing(message), *rest)

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109  (aiohttp's)
        self._sweeping.cancel()
        await super().shutdown(timeout)

    def _sweep(self) -> None:
        """Closes connections that do not send a request's head in time, and those that do not read their response."""
        now = self._loop.time()
        for handler, transport in list(self._connections.items()):
            protocol = cast(Protocol, handler)
            if protocol.head_since and now - protocol.head_since > HEAD_SECONDS:
                protocol.force_close()
            elif _unread_too_long(protocol, transport, now):
                transport.abort()
        self._sweeping = self._loop.call_later(SWEEP_SECONDS, self._sweep)


def _closing(message: RawRequestMessage) -> RawRequestMessage:
    """The request as if it asked to close the connection."""
    return message._replace(should_close=True)


def _unread_too_long(protocol: Protocol, transport: asyncio.Transport, now: float) -> bool:
    unread = transport.get_write_buffer_size()
    if not unread:
        protocol.unread_until = 0.0
    elif not protocol.unread_until:
        protocol.unread_until = now + UNREAD_SECONDS + unread / UNREAD_BYTES_PER_SECOND
    return 0.0 < protocol.unread_until < now


def _files_allowed(wanted: int) -> int:
    """Raises the limit of open files towards `wanted`, and returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft
