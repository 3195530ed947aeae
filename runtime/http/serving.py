"""Serving: listens for an application such that every answer of it has the envelope, errors included.

Routes that do not exist, wrong methods, bodies that are too large, bad Expect headers and requests that
aiohttp's parser refuses never reach a middleware, so the envelope is put on below them: `Runner` wraps
the application's one entry point and the protocol's error path. That also costs the hot path less than
a middleware would. Serve every surface through `serve`.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Final

import structlog
from aiohttp import web, web_response
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_urldispatcher import UrlMappingMatchInfo

from runtime import trace
from runtime.errors import Fault, Status
from runtime.http import connections
from runtime.http.admission.local_rates import Gate
from runtime.http.cors import ORIGIN, Cors
from runtime.http.envelope import EXTRA_HEADERS, Handler, refusal, unexpected
from runtime.settings import Network

BODY_BYTES_MAX: Final = 256 * 1024

CONNECTIONS_MAX: Final = 4_096

RECEIVED_BYTES: Final = 32 * 1024
"""What a connection's socket holds of what has come: so much is taken out of it at a time, of all that send at once."""

LINGER_SECONDS: Final = 2.0
"""How long a refused body is read and dropped, so that its sender gets to see the refusal."""

KEEPALIVE_SECONDS: Final = 75.0
"""Longer than the idle time of common load balancers (60 s), so that they close first and lose no request."""

# aiohttp puts this into every answer: which Python and aiohttp these are is for nobody outside.
web_response.SERVER_SOFTWARE = "tombola"  # type: ignore[attr-defined]

log = structlog.get_logger(__name__)


def make_app(*, body_bytes_max: int = BODY_BYTES_MAX) -> web.Application:
    """An application whose bodies are bounded; serve it with `serve`."""
    return web.Application(client_max_size=body_bytes_max)


async def serve(
    app: web.Application,
    host: str,
    port: int,
    *,
    shutdown_seconds: float = 20.0,
    access_log_every: int = 0,
    reuse_port: bool = False,
    gate: Gate | None = None,
    cors: Cors | None = None,
    connections_max: int = CONNECTIONS_MAX,
    proxies: Sequence[Network] = (),
) -> Runner:
    """Listen; `await runner.cleanup()` stops accepting, lets requests end within `shutdown_seconds`, and exits.

    Port 0 takes a free one: `runner.addresses` says which. `access_log_every` logs one request in so
    many (0: none; answers of 500 and above always): aiohttp's own access log costs half the throughput.
    `gate` refuses requests before anything is done for them, `cors` says which pages may ask. `connections_max` is
    of all; an address has its share of them, `proxies` (trusted ones) all.
    """
    runner = Runner(
        app,
        shutdown_seconds=shutdown_seconds,
        access_log_every=access_log_every,
        gate=gate,
        cors=cors,
        connections_max=connections_max,
        proxies=proxies,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, reuse_port=reuse_port or None)
        await site.start()
        _bound_receiving(site)
    except BaseException:
        await runner.cleanup()
        raise
    return runner


def _bound_receiving(site: web.TCPSite) -> None:
    """Of every connection that is accepted from now on: they take the bound over from the listener."""
    assert site._server is not None
    for listener in site._server.sockets:  # type: ignore[attr-defined]
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES)


class Runner(web.AppRunner):
    """aiohttp's runner with the envelope below the application."""

    __slots__ = ("_access_log_every", "_connections_max", "_cors", "_gate", "_proxies")

    def __init__(
        self,
        app: web.Application,
        *,
        shutdown_seconds: float = 20.0,
        access_log_every: int = 0,
        gate: Gate | None = None,
        cors: Cors | None = None,
        connections_max: int = CONNECTIONS_MAX,
        proxies: Sequence[Network] = (),
    ) -> None:
        super().__init__(
            app,
            access_log=None,
            read_bufsize=RECEIVED_BYTES // 2,
            auto_decompress=False,
            handler_cancellation=False,  # A client that hangs up must not undo half of what it asked for.
            keepalive_timeout=KEEPALIVE_SECONDS,
            lingering_time=LINGER_SECONDS,
            shutdown_timeout=shutdown_seconds,
        )
        self._access_log_every = access_log_every
        self._gate = gate
        self._cors = cors
        self._connections_max = connections_max
        self._proxies = proxies

    async def _make_server(self) -> web.Server:
        plain = await super()._make_server()
        return _Server(
            enveloped(
                direct(self._app, plain.request_handler),
                access_log_every=self._access_log_every,
                gate=self._gate,
                cors=self._cors,
            ),
            request_factory=plain.request_factory,
            loop=plain._loop,
            most=self._connections_max,
            proxies=self._proxies,
            **plain._kwargs,
        )


def direct(app: web.Application, otherwise: Handler) -> Handler:
    """Finds the handler of a path that ends in `/{id}/{name}`, as those of start and play do, in one look.

    aiohttp goes through all prefixes of a path, and tries the expression of each of their routes: 4 of the 90 us that
    an edge takes for a play. `otherwise` is its way, for every other request, and for an id that is not a plain word.
    """
    found_so = {(route.method, *_around_id(route)): route for route in app.router.routes()}
    # Where a path of the same length says another word in the id's place, aiohttp knows which comes first.
    words = {(before, name) for _, before, word, name in found_so if word != "{id}"}
    routes = {
        (method, before, name): route
        for (method, before, word, name), route in found_so.items()
        if word == "{id}" and "{" not in before + name and (before, name) not in words
    }

    async def answer(request: web.Request) -> web.StreamResponse:
        head, _, name = request.raw_path.rpartition("/")
        before, _, named = head.rpartition("/")
        route = routes.get((request.method, before, name))
        if route is None or not (named.isascii() and named.isidentifier()) or "Expect" in request.headers:
            return await otherwise(request)
        found = request._match_info = UrlMappingMatchInfo({"id": named}, route)
        found.add_app(app)
        found.freeze()
        return await route.handler(request)

    return answer


def _around_id(route: web.AbstractRoute) -> tuple[str, str, str]:
    """(what stands before the last but one word of a route's path, that word, the last)."""
    head, _, name = (route.resource.canonical if route.resource is not None else "").rpartition("/")
    before, _, word = head.rpartition("/")
    return before, word, name


class _Server(connections.Server):
    def __call__(self) -> web.RequestHandler:
        return _Protocol(self, loop=self._loop, **self._kwargs)


class _Protocol(connections.Protocol):
    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to a request that the parser refused, or to an error outside the application."""
        if request.transport is None or request.writer.output_size > 0:
            raise ConnectionError("the client hung up, or has part of an answer already")
        trace.current.set(trace_id_of(request.headers))
        if isinstance(exc, HttpProcessingError):
            response = refusal(_malformed())
        else:
            response = unexpected(exc or RuntimeError(message or f"aiohttp answered {status}"))
        response.force_close()
        return response


def trace_id_of(headers: Mapping[str, str]) -> str:
    """The trace id of `traceparent` (W3C Trace Context, level 1 and later versions), or a new one: 32 hex digits."""
    traceparent = headers.get("traceparent")
    return (traceparent is not None and trace.read(traceparent)) or trace.new()


def enveloped(
    handler: Handler, *, access_log_every: int = 0, gate: Gate | None = None, cors: Cors | None = None
) -> Handler:
    """The application's entry point, such that whatever is raised in it becomes an answer in the envelope."""
    seen = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        trace.current.set(trace_id_of(request.headers))
        try:
            if gate is not None:
                gate(request)
            expect = request.headers.get("Expect")
            if expect is not None:
                _check_expect(request, expect)
            asked = await cors.preflight(request) if cors is not None and request.method == "OPTIONS" else None
            response = await handler(request) if asked is None else asked
        except Fault as fault:
            response = refusal(fault, headers=request.get(EXTRA_HEADERS))
            if fault.http in (408, 413):
                response.force_close()
        except web.HTTPException as exc:
            response = _from_http(exc)
        except web.RequestPayloadError:
            response = refusal(_malformed())
            response.force_close()
        except ConnectionError as exc:
            # Let out, aiohttp would take it for a client that hung up, and answer nothing.
            if request.transport is None:
                raise
            response = unexpected(exc)
        except Exception as exc:
            response = unexpected(exc)
        if cors is not None and (ORIGIN in request.headers or request.method != "POST"):
            await cors.mark(request, response)
        if access_log_every or response.status >= 500:
            nonlocal seen
            seen += 1
            if response.status >= 500 or seen % access_log_every == 0:
                _log_access(request, response)
        return response

    return answer


def _check_expect(request: web.Request, expect: str) -> None:
    if expect.lower() != "100-continue":
        raise Fault(
            Status.INVALID_ARGUMENT, "EXPECTATION_FAILED", "only Expect: 100-continue is known", http_status=417
        )


def _from_http(exc: web.HTTPException) -> web.StreamResponse:
    """What aiohttp itself refuses, in the envelope; redirects stay what they are."""
    if exc.status < 400:
        raise exc
    if isinstance(exc, web.HTTPNotFound):
        return refusal(Fault(Status.NOT_FOUND, "UNKNOWN_ROUTE", "there is no such route"))
    if isinstance(exc, web.HTTPMethodNotAllowed):
        allow = ",".join(sorted(exc.allowed_methods))
        return refusal(
            Fault(Status.UNIMPLEMENTED, "METHOD_NOT_ALLOWED", f"{exc.method} is not allowed here", http_status=405),
            headers={"Allow": allow},
        )
    if isinstance(exc, web.HTTPRequestEntityTooLarge):
        response = refusal(Fault(Status.INVALID_ARGUMENT, "BODY_TOO_LARGE", "the body is too large", http_status=413))
        response.force_close()
        return response
    if exc.status >= 500:
        return unexpected(exc)
    status, reason = _HTTP_REFUSALS.get(exc.status, (Status.INVALID_ARGUMENT, "BAD_REQUEST"))
    return refusal(Fault(status, reason, exc.reason, http_status=exc.status))


_HTTP_REFUSALS: Final = {
    401: (Status.UNAUTHENTICATED, "TOKEN_INVALID"),
    403: (Status.PERMISSION_DENIED, "FORBIDDEN"),
}
"""(status, reason) for refusals of libraries below us, such as a CORS preflight of a strange origin."""


def _malformed() -> Fault:
    return Fault(Status.INVALID_ARGUMENT, "MALFORMED_REQUEST", "the HTTP request cannot be understood")


def _log_access(request: web.Request, response: web.StreamResponse) -> None:
    log.info(
        "request",
        method=request.method,
        path=request.path,
        http_status=response.status,
        trace_id=trace.current.get(),
    )
