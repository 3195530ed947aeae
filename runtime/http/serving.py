"""Serves an application so that every response has the envelope, errors included.

Unknown routes, wrong methods, oversized bodies, bad Expect headers and requests that aiohttp's parser rejects never
reach a middleware. So `Runner` wraps the application's entry point and the protocol's error path instead, which also
costs the hot path less than a middleware. Serve every surface through `serve`.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from time import perf_counter
from typing import Final

import structlog
from aiohttp import web, web_response
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_urldispatcher import UrlMappingMatchInfo

from runtime import spans, trace
from runtime.errors import Fault, Status
from runtime.http import connections
from runtime.http.admission.local_rates import Gate
from runtime.http.cors import ORIGIN, Cors
from runtime.http.envelope import EXTRA_HEADERS, Handler, refusal, unexpected
from runtime.http.traffic import Traffic
from runtime.settings import Network

BODY_BYTES_MAX: Final = 256 * 1024

CONNECTIONS_MAX: Final = 4_096

RECEIVED_BYTES: Final = 32 * 1024
"""The receive buffer of each socket, which bounds the memory for data of all clients that send at once."""

LINGER_SECONDS: Final = 2.0
"""How long the body of a refused request is read and discarded, so that the client receives the refusal."""

KEEPALIVE_SECONDS: Final = 75.0
"""Longer than the idle time of common load balancers (60 s), so that they close first and lose no request."""

GOODBYE_SECONDS: Final = 3.0
"""How long a process that is replaced serves its idle connections: a request on its way to one would be lost."""

# The Server header: by default aiohttp would publish its own and Python's version.
web_response.SERVER_SOFTWARE = "tombola"  # type: ignore[attr-defined]

log = structlog.get_logger(__name__)


def make_app(*, body_bytes_max: int = BODY_BYTES_MAX) -> web.Application:
    """An application with a body size limit; serve it with `serve`."""
    return web.Application(client_max_size=body_bytes_max)


async def serve(
    app: web.Application,
    host: str,
    port: int,
    *,
    shutdown_seconds: float = 20.0,
    access_log_every: int = 0,
    sockets: Sequence[socket.socket] = (),
    gate: Gate | None = None,
    cors: Cors | None = None,
    connections_max: int = CONNECTIONS_MAX,
    proxies: Sequence[Network] = (),
    traffic: Traffic | None = None,
    short_path: bool = True,
) -> Runner:
    """Starts to listen. `await runner.cleanup()` stops accepting and lets requests finish within `shutdown_seconds`.

    Port 0 picks a free one: see `runner.addresses`. `sockets` are inherited ones for the port: on cleanup, connections
    then have GOODBYE_SECONDS to move to the process that inherits the sockets next. `access_log_every` logs one of so
    many requests (0: none) and every response of 500 and above except 503; aiohttp's own access log halves the
    throughput. `gate` refuses requests before any other work. `cors` applies the CORS rules. `connections_max` is the
    total limit; each address has a share of it, trusted `proxies` all of it. `traffic` counts the requests.
    `short_path`: see short_path.py.
    """
    runner = Runner(
        app,
        shutdown_seconds=shutdown_seconds,
        access_log_every=access_log_every,
        gate=gate,
        cors=cors,
        connections_max=connections_max,
        proxies=proxies,
        traffic=traffic,
        goodbye_seconds=min(GOODBYE_SECONDS, shutdown_seconds / 2) if sockets else 0.0,
        short_path=short_path,
    )
    await runner.setup()
    try:
        sites: list[web.BaseSite] = [web.SockSite(runner, one) for one in sockets]
        sites = sites or [web.TCPSite(runner, host, port)]
        for site in sites:
            await site.start()
            _bound_receiving(site)
    except BaseException:
        await runner.cleanup()
        raise
    return runner


def _bound_receiving(site: web.BaseSite) -> None:
    """Sets the receive buffer of the listener, which accepted connections inherit."""
    assert site._server is not None
    for listener in site._server.sockets:  # type: ignore[attr-defined]
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES)


class Runner(web.AppRunner):
    """aiohttp's runner with the envelope below the application."""

    __slots__ = (
        "_access_log_every",
        "_connections_max",
        "_cors",
        "_gate",
        "_goodbye_seconds",
        "_proxies",
        "_traffic",
    )

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
        traffic: Traffic | None = None,
        goodbye_seconds: float = 0.0,
        short_path: bool = True,
    ) -> None:
        super().__init__(
            app,
            access_log=None,
            read_bufsize=RECEIVED_BYTES // 2,
            auto_decompress=False,
            handler_cancellation=False,  # A client that disconnects must not interrupt a request half-way.
            keepalive_timeout=KEEPALIVE_SECONDS,
            lingering_time=LINGER_SECONDS,
            shutdown_timeout=shutdown_seconds,
            short_path=short_path,
        )
        self._access_log_every = access_log_every
        self._gate = gate
        self._cors = cors
        self._connections_max = connections_max
        self._proxies = proxies
        self._traffic = traffic
        self._goodbye_seconds = goodbye_seconds

    async def cleanup(self) -> None:
        for site in list(self.sites):
            await site.stop()
        if isinstance(self.server, connections.Server):
            await self.server.say_goodbye(self._goodbye_seconds)
        await super().cleanup()

    async def _make_server(self) -> web.Server:
        plain = await super()._make_server()
        return _Server(
            enveloped(
                spans.of_requests(direct(self._app, plain.request_handler)),
                access_log_every=self._access_log_every,
                gate=self._gate,
                cors=self._cors,
                traffic=self._traffic,
            ),
            request_factory=plain.request_factory,
            loop=plain._loop,
            most=self._connections_max,
            proxies=self._proxies,
            **plain._kwargs,
        )


def direct(app: web.Application, otherwise: Handler) -> Handler:
    """Routes paths that end in `/{id}/{name}`, such as start and play, by one dictionary lookup.

    aiohttp tries the regular expression of each route under every prefix of the path: 4 of the 90 us that an edge needs
    for a play. `otherwise` is aiohttp's router, for other requests and for ids that are not plain words.
    """
    routes_by_path = {(route.method, *_around_id(route)): route for route in app.router.routes()}
    # If another path has a fixed word in place of the id, aiohttp decides which route comes first.
    words = {(before, name) for _, before, word, name in routes_by_path if word != "{id}"}
    routes = {
        (method, before, name): route
        for (method, before, word, name), route in routes_by_path.items()
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
    """Splits a route's path into (the beginning, the second last segment, the last segment)."""
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
        """The response to a request that the parser rejects, or to an error outside the application."""
        if request.transport is None or request.writer.output_size > 0:
            raise ConnectionError("the client hung up, or has part of an answer already")
        trace.begin(request.headers.get("traceparent", ""))
        if isinstance(exc, HttpProcessingError):
            response = refusal(_malformed())
        else:
            response = unexpected(exc or RuntimeError(message or f"aiohttp answered {status}"))
        response.force_close()
        return response


def enveloped(
    handler: Handler,
    *,
    access_log_every: int = 0,
    gate: Gate | None = None,
    cors: Cors | None = None,
    traffic: Traffic | None = None,
) -> Handler:
    """Wraps the application's entry point so that every exception becomes a response in the envelope."""
    seen = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        began = perf_counter()
        trace.begin(request.headers.get("traceparent", ""))
        try:
            if gate is not None and (admitting := gate(request)) is not None:
                await admitting
            expect = request.headers.get("Expect")
            if expect is not None:
                _check_expect(request, expect)
            preflight = await cors.preflight(request) if cors is not None and request.method == "OPTIONS" else None
            response = await handler(request) if preflight is None else preflight
        except Fault as fault:
            response = refusal(fault, headers=request.get(EXTRA_HEADERS))
            if fault.http in (408, 413):
                response.force_close()
            if traffic is not None and fault.http == 429:
                traffic.limited(fault)
        except web.HTTPException as exc:
            response = _from_http(exc)
        except web.RequestPayloadError:
            response = refusal(_malformed())
            response.force_close()
        except ConnectionError as exc:
            # Otherwise aiohttp would treat it as a client disconnect, and send no response.
            if request.transport is None:
                raise
            response = unexpected(exc)
        except Exception as exc:
            response = unexpected(exc)
        if cors is not None and (ORIGIN in request.headers or request.method != "POST"):
            await cors.add_headers(request, response)
        if traffic is not None:
            traffic.count(request, response.status, perf_counter() - began)
        # An overload refuses thousands a second: a line for each would add to it.
        failed = response.status >= 500 and response.status != 503
        if access_log_every or failed:
            nonlocal seen
            seen += 1
            if failed or seen % access_log_every == 0:
                _log_access(request, response)
        return response

    return answer


def _check_expect(request: web.Request, expect: str) -> None:
    if expect.lower() != "100-continue":
        raise Fault(
            Status.INVALID_ARGUMENT, "EXPECTATION_FAILED", "only Expect: 100-continue is supported", http_status=417
        )


def _from_http(exc: web.HTTPException) -> web.StreamResponse:
    """The response to an aiohttp error, in the envelope. A redirect is raised again: aiohttp sends it."""
    if exc.status < 400:
        raise exc
    if isinstance(exc, web.HTTPNotFound):
        return refusal(Fault(Status.NOT_FOUND, "UNKNOWN_ROUTE", "the path does not exist"))
    if isinstance(exc, web.HTTPMethodNotAllowed):
        allow = ",".join(sorted(exc.allowed_methods))
        return refusal(
            Fault(
                Status.UNIMPLEMENTED,
                "METHOD_NOT_ALLOWED",
                f"{exc.method} is not allowed: use a method in the Allow header",
                http_status=405,
            ),
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
"""(status, reason) of refusals by libraries, by HTTP status."""


def _malformed() -> Fault:
    return Fault(Status.INVALID_ARGUMENT, "MALFORMED_REQUEST", "the request is not valid HTTP")


def _log_access(request: web.Request, response: web.StreamResponse) -> None:
    log.info(
        "request",
        method=request.method,
        path=request.path,
        http_status=response.status,
        trace_id=trace.current.get(),
    )
