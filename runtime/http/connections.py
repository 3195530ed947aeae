"""The connections of a server: how many there may be, and what one may leave undone.

aiohttp gives a connection that says nothing, or half a request, as long as one that is idle between two, and one
whose client reads no answer for ever. Here each has its time, and nobody can take all the connections there are.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, cast

from aiohttp import web

from runtime.http.admission.client_address import peer_bucket
from runtime.settings import Network

HEAD_SECONDS: Final = 10.0
"""What a request's head may take: from the connection's first moment, or from the head's first byte."""

UNREAD_SECONDS: Final = 30.0
"""For how long a client may take nothing of an answer that is more than the sockets hold."""

SWEEP_SECONDS: Final = 1.0

SHARES: Final = 4
"""An address may have one in so many of all connections."""

FILES_SPARE: Final = 256
"""What a process opens beside connections: stores, logs, other listeners."""

_BODY: Final = b'{"code":"UNAVAILABLE","message":"too many connections","trace_id":"","data":{"reason":"OVERLOADED"}}'
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


class Protocol(web.RequestHandler):
    """A connection that knows since when it owes the rest of a head, and the reading of an answer."""

    __slots__ = ("head_since", "unread", "unread_since")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.head_since = self._loop.time()
        self.unread = 0
        self.unread_since = 0.0

    def data_received(self, data: bytes) -> None:
        before = self._request_count
        super().data_received(data)
        if self._request_count != before:
            self.head_since = 0.0
        elif not self.head_since and self._waiter is not None:
            self.head_since = self._loop.time()  # The first bytes of a head whose end has not come with them.


class Server(web.Server):
    """Bounds its connections, and ends those that owe something for too long."""

    def __init__(self, *args: Any, most: int, proxies: Sequence[Network], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._most = min(most, _files_allowed(most + FILES_SPARE) - FILES_SPARE)
        self._proxies = proxies
        self._of: Counter[str] = Counter()
        self._peers: dict[web.RequestHandler, str] = {}
        self._sweeping = self._loop.call_later(SWEEP_SECONDS, self._sweep)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        name = transport.get_extra_info("peername")
        peer = peer_bucket(name[0] if isinstance(name, tuple) else "", self._proxies)
        if len(self._peers) >= self._most or (peer and self._of[peer] >= max(1, self._most // SHARES)):
            transport.write(_FULL)
            handler.force_close()
            return
        self._peers[handler] = peer
        self._of[peer] += 1

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        peer = self._peers.pop(handler, None)
        if peer is not None:
            self._of[peer] -= 1
            if not self._of[peer]:
                del self._of[peer]

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
    unread, before = transport.get_write_buffer_size(), protocol.unread
    protocol.unread = unread
    if not unread or unread < before or not before:
        protocol.unread_since = now
        return False
    return now - protocol.unread_since > UNREAD_SECONDS


def _files_allowed(wanted: int) -> int:
    """How many files this process may have open, once it has asked for as many as it wants."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft
