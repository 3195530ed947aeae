"""The short path: answers a plain POST without aiohttp's request loop, stream writer and response stages.

aiohttp parses each request and owns the connection. It also wakes a task per connection, which starts a task per
request, which sends the response in several steps. Here the request's task starts as soon as the request is parsed, and
sends head and body in one write: 0.92 of the CPU of a play.

Only for a request that needs nothing else: a keep-alive POST of HTTP/1.1 whose whole body arrived with its head, on an
idle connection whose client reads its responses. Everything else takes aiohttp's way: pipelined requests, chunked and
late bodies, Expect, upgrades, HTTP/1.0 and closing connections. Both run the same handler with a `web.Request`, since
making one takes under 1 us.

This relies on private attributes of aiohttp, whose version is pinned; tests/unit/http/test_short_path.py fails if
they change. `SHORT_PATH=off` turns it off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web, web_response
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import HttpVersion11, RawRequestMessage, StreamWriter
from aiohttp.http_writer import _serialize_headers
from multidict import istr

_EXPECT: Final = istr("Expect")
_LENGTH: Final = istr("Content-Length")
_DATE: Final = istr("Date")
_SERVER: Final = istr("Server")
_CONNECTION: Final = istr("Connection")


class ShortPath(web.RequestHandler):
    """A connection with the short path. short_path: whether it is on.

    aiohttp's loop (`start`) sleeps until its `_waiter` is set; without a `_waiter`, parsed requests are only queued. So
    the waiter is taken while a request is parsed and answered, and given back afterwards.
    """

    __slots__ = ("_answering", "_short_path")

    def __init__(self, *args: Any, short_path: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._short_path = short_path
        self._answering: asyncio.Task[None] | None = None  # The event loop keeps only weak references.

    def data_received(self, data: bytes) -> None:
        waiter = self._waiter
        if not self._short_path or waiter is None or waiter.done():
            super().data_received(data)
            return
        self._waiter = None
        super().data_received(data)
        if len(self._messages) == 1 and self._is_plain(*self._messages[0]):
            self._begin(waiter)
        else:
            self._give_back(waiter)

    def _is_plain(self, message: Any, body: Any) -> bool:
        return (
            type(message) is RawRequestMessage
            and message.method == "POST"
            and message.version == HttpVersion11
            and not (message.should_close or message.chunked or message.upgrade or _EXPECT in message.headers)
            and body.is_eof()
            and not (self._close or self._force_close or self._paused)
        )

    def _begin(self, waiter: asyncio.Future[None]) -> None:
        """Takes the queued request and starts its task, as `start` would."""
        assert self._parser is not None and self._manager is not None and self._task_handler is not None
        assert self._request_factory is not None and self._request_handler is not None
        message, body = self._messages.popleft()
        self._parser.message_consumed()
        self._manager.requests_count += 1
        writer = StreamWriter(self, self._loop)
        assert isinstance(message, RawRequestMessage)
        request = self._request_factory(message, body, self, writer, self._task_handler)
        self._answering = self._loop.create_task(self._answer(request, self._request_handler, waiter))

    async def _answer(
        self, request: web.BaseRequest, handler: Callable[..., Any], waiter: asyncio.Future[None]
    ) -> None:
        closes = True
        try:
            response, lost = await self._handle_request(request, None, handler)
            closes = lost or not response.keep_alive
        except ConnectionError:
            pass  # The client has hung up.
        finally:
            request._task = None  # type: ignore[assignment]  # As in `start`: otherwise an error makes a cycle.
            self._answering = None
            if closes:
                self._close = True
            else:
                self._keep_alive()
            self._give_back(waiter)

    async def shutdown(self, timeout: float | None = 15.0) -> None:  # noqa: ASYNC109  (aiohttp's)
        """Cancels a request that outlasts the drain: aiohttp cancels only its own task, which waits for this one."""
        await super().shutdown(timeout)
        if self._answering is not None:
            self._answering.cancel()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Sends a response of bytes in one write, and any other as aiohttp does."""
        transport = self.transport
        if self._answering is None or transport is None or self._paused or not _is_bytes(resp):
            return await super().finish_response(request, resp, start_time)
        headers = resp.headers
        headers[_LENGTH] = str(len(resp.body))  # type: ignore[attr-defined]
        headers[_DATE] = rfc822_formatted_time()
        headers[_SERVER] = web_response.SERVER_SOFTWARE  # type: ignore[attr-defined]
        if resp.keep_alive is None:
            resp._keep_alive = request.keep_alive  # False once the server says goodbye (connections.py).
        if not resp.keep_alive:
            headers[_CONNECTION] = "close"
        head = _serialize_headers(f"HTTP/1.1 {resp.status} {resp.reason}", headers)
        transport.write(head + resp.body)  # type: ignore[attr-defined]
        return resp, False

    def _give_back(self, waiter: asyncio.Future[None]) -> None:
        """Lets `start` go on: with the requests queued meanwhile, or to its end if the connection closes."""
        if self._close or self._force_close:
            waiter.cancel()
            if self.transport is not None:
                self.transport.close()
            return
        self._waiter = waiter
        if self._messages and not waiter.done():
            waiter.set_result(None)

    def _keep_alive(self) -> None:
        """Restarts the timer of an idle connection."""
        self._next_keepalive_close_time = self._loop.time() + self.keepalive_timeout
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(self._next_keepalive_close_time, self._process_keepalive)


def _is_bytes(response: web.StreamResponse) -> bool:
    """Whether a response is only a status, headers and bytes."""
    return (
        type(response) is web.Response
        and type(response.body) is bytes
        and not (response.prepared or response.compression or response._cookies)
    )
