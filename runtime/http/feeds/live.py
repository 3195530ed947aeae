"""What happens now, told to who watches: server-sent events, every few seconds.

    GET /admin/live  ->  text/event-stream

Core is asked once for all who watch the same tenant, or merchant, and only while somebody does. The token is in the
Authorization header, as everywhere, so no address has one; it is looked at with every event, and the stream ends when
it does. A watcher that reads too slowly gets the newest, and not what it missed.
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
"""How often Core is asked, and everybody told."""

STOCK_EVERY: Final = 20
"""What takes longest, prizes and their stock, is asked for every so many times."""

STREAMS_MAX: Final = 6
"""Of one subject at once: tabs that somebody has open."""
OF_TENANT_MAX: Final = 60
"""Of all of a tenant's subjects, its API tokens among them."""
OF_EDGE_SHARE: Final = 2
"""One in so many of an edge's connections may be a stream: the others are for requests."""

END: Final = b"event: end\ndata: {}\n\n"
"""The last that is told: who watches may not any more."""

_Key = tuple[str, str]
_show: Final = codec.view(m.GetLiveReply, "number")
_encode: Final = msgspec.json.Encoder().encode

log = structlog.get_logger(__name__)


class _Feed:
    """What is known of a tenant or merchant, for all who watch it."""

    def __init__(self, edge: Edge, scope: m.Scope) -> None:
        self._edge = edge
        self._scope = scope
        self._stock = m.GetLiveReply()  # what is asked for with stock, as it was last
        self._turned = asyncio.Event()
        self.watchers = 0
        self.frame = b""
        self.task = asyncio.create_task(self._go())

    async def next(self) -> bytes:
        """What there is to tell after the next look."""
        await self._turned.wait()
        return self.frame

    async def _go(self) -> None:
        looks = 0
        while True:
            stock = looks % STOCK_EVERY == 0
            looks += 1  # Whatever becomes of it: what could not be read in time is not asked for every time.
            try:
                await self._look(stock=stock)
            except Exception as error:  # Whatever it is: those who watch would wait for the next look for ever.
                refused = isinstance(error, Fault) and error.status is Status.PERMISSION_DENIED  # Suspended.
                self.frame = END if refused else b"event: away\ndata: {}\n\n"
                log.warning("live_not_read", tenant_id=self._scope.tenant_id, why=str(error))
            turned, self._turned = self._turned, asyncio.Event()
            turned.set()
            await asyncio.sleep(EVERY_SECONDS)

    async def _look(self, *, stock: bool) -> None:
        reply: m.GetLiveReply = await self._edge.caller.call(GET_LIVE, m.GetLiveRequest(scope=self._scope, stock=stock))
        if stock:
            self._stock = reply
        reply.prizes = self._stock.prizes
        reply.cost_a_day, reply.costs_a_day = self._stock.cost_a_day, self._stock.costs_a_day
        reply.budgets, reply.low_prizes = self._stock.budgets, self._stock.low_prizes
        self.frame = b"event: live\ndata: %b\n\n" % _encode(_show(reply))


class Live:
    """The feeds of an admin edge. `close` when it shuts down, which ends every stream."""

    def __init__(self, edge: Edge, scope: Callable[[web.Request], m.Scope]) -> None:
        self._edge = edge
        self._scope = scope
        self._feeds: dict[_Key, _Feed] = {}
        self._streams: Counter[_Key] = Counter()
        self._of_tenant: Counter[str] = Counter()
        self._handlers: set[asyncio.Task[None]] = set()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Tells what happens until who asks leaves, or may not any more."""
        identity = await self._edge.auth.identify(request)
        assert identity is not None
        scope, owner = self._scope(request), (identity.tenant_id, identity.subject)
        for taken, most, of in (
            (self._streams[owner], STREAMS_MAX, "one subject"),
            (self._of_tenant[identity.tenant_id], OF_TENANT_MAX, "a tenant"),
            (self._of_tenant.total(), self._edge.settings.connections_max // OF_EDGE_SHARE, "all tenants"),
        ):
            if taken >= most:
                told = f"{most} streams of {of} are open; close one, or ask again later"
                raise Fault(
                    Status.RESOURCE_EXHAUSTED, "RATE_LIMITED", told, retry_after_seconds=EVERY_SECONDS, policy="live"
                )
        # No await since the look: two that come at once would both find the last place.
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
            telling = asyncio.create_task(self._tell(request, response, scope))
            self._handlers.add(telling)
            try:
                with suppress(ConnectionError, asyncio.CancelledError):
                    await telling
            finally:
                self._handlers.discard(telling)
                telling.cancel()
            return response
        finally:
            # In-place: what is at nothing goes.
            self._streams -= Counter([owner])
            self._of_tenant -= Counter([identity.tenant_id])

    async def _tell(self, request: web.Request, response: web.StreamResponse, scope: m.Scope) -> None:
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
                if not await self._may_go_on(request):
                    frame = END
        finally:
            feed.watchers -= 1
            if not feed.watchers:
                feed.task.cancel()
                del self._feeds[key]

    async def _may_go_on(self, request: web.Request) -> bool:
        try:
            identity: Identity | None = await self._edge.auth.identify(request)
        except Fault:
            return False
        return identity is not None

    async def close(self, _: web.Application) -> None:
        """Ends every stream: who watched comes again, to another edge."""
        for handler in self._handlers:
            handler.cancel()
