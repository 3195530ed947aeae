"""Live figures as server-sent events, every few seconds.

    GET /admin/live  ->  text/event-stream

All streams of one tenant or merchant share one poll of Core, which runs only while there is a stream. The token is in
the Authorization header, never in the URL. It is checked before each event, and the stream ends when it expires. A
client that reads too slowly skips to the newest event.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec
import structlog
from aiohttp import web

from runtime import messages as m
from runtime.errors import Fault, Status
from runtime.http.auth.identity import Identity
from runtime.http.edge import Edge
from runtime.operations.reporting.live import GET_LIVE
from runtime.wire import codec

EVERY_SECONDS: Final = 3.0
"""The interval of polls and events."""

STOCK_EVERY: Final = 20
"""Prizes and stock, the slowest part, are read on every STOCK_EVERY-th poll."""

STREAMS_MAX: Final = 6
"""The concurrent streams of one subject, such as browser tabs."""
OF_TENANT_MAX: Final = 60
"""The concurrent streams of all of a tenant's subjects, API tokens included."""
OF_EDGE_SHARE: Final = 2
"""Streams may use 1/OF_EDGE_SHARE of a process's connections: the rest are for requests."""

END: Final = b"event: end\ndata: {}\n\n"
"""The last event: the token is no longer valid."""

_Key = tuple[str, str]
_show: Final = codec.view(m.GetLiveReply, "number")
_encode: Final = msgspec.json.Encoder().encode

log = structlog.get_logger(__name__)


class _Feed:
    """The live figures of a tenant or merchant, shared by all its streams."""

    def __init__(self, edge: Edge, scope: m.Scope) -> None:
        self._edge = edge
        self._scope = scope
        self._stock = m.GetLiveReply()  # the last reply that included stock
        self._polled = asyncio.Event()
        self.watchers = 0
        self.frame = b""
        self.task = asyncio.create_task(self._go())

    async def next(self) -> bytes:
        """Waits for the next poll and returns its event."""
        await self._polled.wait()
        return self.frame

    async def _go(self) -> None:
        polls = 0
        while True:
            stock = polls % STOCK_EVERY == 0
            polls += 1  # Also if the poll fails: otherwise a stock query that times out would repeat on every poll.
            try:
                await self._poll(stock=stock)
            except Exception as error:  # Otherwise the task would end, and all streams would wait forever.
                refused = isinstance(error, Fault) and error.status is Status.PERMISSION_DENIED  # Suspended.
                self.frame = END if refused else b"event: away\ndata: {}\n\n"
                log.warning("live_not_read", tenant_id=self._scope.tenant_id, why=str(error))
            polled, self._polled = self._polled, asyncio.Event()
            polled.set()
            await asyncio.sleep(EVERY_SECONDS)

    async def _poll(self, *, stock: bool) -> None:
        reply: m.GetLiveReply = await self._edge.caller.call(GET_LIVE, m.GetLiveRequest(scope=self._scope, stock=stock))
        if stock:
            self._stock = reply
        reply.prizes = self._stock.prizes
        reply.cost_a_day, reply.costs_a_day = self._stock.cost_a_day, self._stock.costs_a_day
        reply.budgets, reply.low_prizes = self._stock.budgets, self._stock.low_prizes
        self.frame = b"event: live\ndata: %b\n\n" % _encode(_show(reply))


class Live:
    """The live streams of an admin edge. `close` ends them at shutdown."""

    def __init__(self, edge: Edge, scope: Callable[[web.Request], m.Scope]) -> None:
        self._edge = edge
        self._scope = scope
        self._feeds: dict[_Key, _Feed] = {}
        self._streams: Counter[_Key] = Counter()
        self._of_tenant: Counter[str] = Counter()
        self._handlers: set[asyncio.Task[None]] = set()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Streams events until the client disconnects or its token is no longer valid."""
        identity = await self._edge.auth.identify(request)
        assert identity is not None
        scope, owner, settings = self._scope(request), (identity.tenant_id, identity.subject), self._edge.settings
        for taken, most, of in (
            (self._streams[owner], STREAMS_MAX, "one subject"),
            (self._of_tenant[identity.tenant_id], OF_TENANT_MAX, "a tenant"),
            (self._of_tenant.total(), settings.connections_max // settings.processes // OF_EDGE_SHARE, "all tenants"),
        ):
            if taken >= most:
                message = f"{most} streams of {of} are open, the maximum; close one or try again later"
                raise Fault(
                    Status.RESOURCE_EXHAUSTED, "RATE_LIMITED", message, retry_after_seconds=EVERY_SECONDS, policy="live"
                )
        # No await since the check: two concurrent requests would both take the last place.
        self._streams[owner] += 1
        self._of_tenant[identity.tenant_id] += 1
        try:
            response = web.StreamResponse(
                headers={
                    "Content-Type": "text/event-stream",
                    "Cache-Control": "no-store",
                    "X-Content-Type-Options": "nosniff",
                    "X-Accel-Buffering": "no",
                }
            )
            await response.prepare(request)
            stream = asyncio.create_task(self._stream(request, response, scope))
            self._handlers.add(stream)
            try:
                with suppress(ConnectionError, asyncio.CancelledError):
                    await stream
            finally:
                self._handlers.discard(stream)
                stream.cancel()
            return response
        finally:
            # In-place subtraction also drops entries at zero.
            self._streams -= Counter([owner])
            self._of_tenant -= Counter([identity.tenant_id])

    async def _stream(self, request: web.Request, response: web.StreamResponse, scope: m.Scope) -> None:
        key = (scope.tenant_id, scope.merchant_id)
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = _Feed(self._edge, scope)
        feed.watchers += 1
        try:
            frame = feed.frame or await feed.next()
            while request.transport is not None and not request.transport.is_closing():
                await response.write(frame)
                if frame is END:
                    return
                frame = await feed.next()
                if not await self._is_authenticated(request):
                    frame = END
        finally:
            feed.watchers -= 1
            if not feed.watchers:
                feed.task.cancel()
                del self._feeds[key]

    async def _is_authenticated(self, request: web.Request) -> bool:
        try:
            identity: Identity | None = await self._edge.auth.identify(request)
        except Fault:
            return False
        return identity is not None

    async def close(self, _: web.Application) -> None:
        """Ends every stream: clients reconnect to another edge."""
        for handler in self._handlers:
            handler.cancel()
