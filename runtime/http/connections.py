"""The connections of a server: how many there may be, and what one may leave undone.

aiohttp gives a connection that says nothing, or half a request, as long as one that is idle between two, and one
whose client reads no answer for ever. Here each has its time, what clients leave unread is bounded in bytes too, and
whoever holds many idle connections loses some of them to those who have none.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, cast

from aiohttp import web

from runtime.http.admission.client_address import EVERYBODY, Client, peer_client
from runtime.settings import Network

HEAD_SECONDS: Final = 10.0
"""What a request's head may take: from the connection's first moment, or from the head's first byte."""

UNREAD_SECONDS: Final = 30.0
"""For how long a client may leave an answer unread that is more than the sockets hold, and longer by its size:"""

UNREAD_BYTES_PER_SECOND: Final = 16 * 1024
"""What the slowest clients take of an answer. Fewer would hold it in memory for the price of a byte now and then."""

UNREAD_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of all answers together that clients have yet to take, in a process."""

SWEEP_SECONDS: Final = 1.0

SHARES: Final = 4
"""An address may have one in so many of all connections."""

NETWORK_SHARES: Final = 2
"""And a network, of which IPv4 has none."""

FILES_SPARE: Final = 256
"""What a process opens beside connections: stores, logs, other listeners."""

_BODY: Final = b'{"code":"UNAVAILABLE","message":"too many connections","trace_id":"","data":{"reason":"OVERLOADED"}}'
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


class Protocol(web.RequestHandler):
    """A connection that knows since when it owes the rest of a head, and until when the reading of an answer."""

    __slots__ = ("head_since", "unread_until")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.head_since = self._loop.time()
        self.unread_until = 0.0

    @property
    def idle(self) -> bool:
        """Whether it waits for a request of which nothing has come."""
        return self._waiter is not None and not self.head_since

    def data_received(self, data: bytes) -> None:
        before = self._request_count
        super().data_received(data)
        if self._request_count != before:
            self.head_since = 0.0
        elif not self.head_since and self._waiter is not None:
            self.head_since = self._loop.time()  # The first bytes of a head whose end has not come with them.

    def resume_reading(self, resume_parser: bool = True) -> None:
        # aiohttp resumes at the end of every body: it parses nothing again, and tells the transport twice. 2 of 90 us.
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def pause_writing(self) -> None:
        super().pause_writing()
        if isinstance(self._manager, Server):
            self._manager.leaves_unread(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self.unread_until = 0.0
        if isinstance(self._manager, Server):
            self._manager.has_read(self)


class Server(web.Server):
    """Bounds its connections, and ends those that owe something for too long."""

    def __init__(self, *args: Any, most: int, proxies: Sequence[Network], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        files = _files_allowed(most + FILES_SPARE)
        if files <= FILES_SPARE:
            raise RuntimeError(f"this process may open {files} files: raise its limit (ulimit -n) above {FILES_SPARE}")
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
        if self._has_its_share(peer) or (len(self._peers) >= self._most and not self._make_room(peer)):
            transport.write(_FULL)
            handler.force_close()
            return
        self._peers[handler] = peer
        self._of.update(filter(None, peer))

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._unread.pop(handler, None)
        self._leave(handler)

    def leaves_unread(self, handler: web.RequestHandler) -> None:
        """Counts what a client has yet to take. Beyond what all may leave, the address that leaves most loses its
        connections, the first one first.
        """
        assert handler.transport is not None
        self._unread[handler] = handler.transport.get_write_buffer_size()
        while sum(self._unread.values()) > UNREAD_BYTES_MAX:
            left: Counter[str] = Counter()
            for one, unread in self._unread.items():
                left[self._widest(one)] += unread
            most, _ = left.most_common(1)[0]
            victim = next(one for one in self._unread if self._widest(one) == most)
            del self._unread[victim]
            if victim.transport is not None:
                victim.transport.abort()

    def has_read(self, handler: web.RequestHandler) -> None:
        """Its client has taken all but a little."""
        self._unread.pop(handler, None)

    def _widest(self, handler: web.RequestHandler) -> str:
        """The network that a connection is of, or else its address; "" for a proxy's."""
        peer = self._peers.get(handler, EVERYBODY)
        return peer.network or peer.address

    def _has_its_share(self, peer: Client) -> bool:
        shares = ((peer.address, SHARES), (peer.network, NETWORK_SHARES))
        return any(self._of[name] >= max(1, self._most // part) for name, part in shares if name)

    def _make_room(self, peer: Client) -> bool:
        """Ends the oldest idle connection of the address, or network, that has most, unless that is `peer`'s own."""
        greediest = next((one for one, _ in self._of.most_common(1)), "")
        if not greediest or greediest in peer:
            return False
        idle = (one for one, of in self._peers.items() if greediest in of and cast(Protocol, one).idle)
        victim = next(idle, None)
        if victim is None:
            return False
        self._leave(victim)
        victim.force_close()
        return True

    def _leave(self, handler: web.RequestHandler) -> None:
        for name in filter(None, self._peers.pop(handler, EVERYBODY)):
            self._of[name] -= 1
            if not self._of[name]:
                del self._of[name]

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109  (aiohttp's)
        self._sweeping.cancel()
        await super().shutdown(timeout)

    def _sweep(self) -> None:
        now = self._loop.time()
        for handler, transport in list(self._connections.items()):
            protocol = cast(Protocol, handler)
            if protocol.head_since and now - protocol.head_since > HEAD_SECONDS:
                protocol.force_close()
            elif _unread_too_long(protocol, transport, now):
                transport.abort()
        self._sweeping = self._loop.call_later(SWEEP_SECONDS, self._sweep)


def _unread_too_long(protocol: Protocol, transport: asyncio.Transport, now: float) -> bool:
    unread = transport.get_write_buffer_size()
    if not unread:
        protocol.unread_until = 0.0
    elif not protocol.unread_until:
        protocol.unread_until = now + UNREAD_SECONDS + unread / UNREAD_BYTES_PER_SECOND
    return 0.0 < protocol.unread_until < now


def _files_allowed(wanted: int) -> int:
    """How many files this process may have open, once it has asked for as many as it wants."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft
