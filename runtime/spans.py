"""OpenTelemetry spans of requests, operations and commits, sent by OTLP/HTTP. Needs the extra `otel`.

Without OTLP_ENDPOINT no handler or caller is wrapped, so a request costs the same as before. The trace id of a span is
the request's own (trace.py), so a reply's `trace_id` finds its trace.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from importlib.util import find_spec
from typing import Any, Final, Protocol

from aiohttp import web

from runtime import trace
from runtime.errors import Fault

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

SHUTDOWN_SECONDS: Final = 2.0

_tracer: Any = None
"""The OpenTelemetry tracer; None: off. Wrappers keep their own: a process may serve until its spans are sent."""


class Caller(Protocol):
    async def call(self, operation: Any, request: Any) -> Any: ...


def is_available() -> bool:
    """Whether the extra `otel` is installed."""
    return bool(find_spec("opentelemetry")) and bool(find_spec("opentelemetry.sdk"))


@asynccontextmanager
async def exporting(endpoint: str, share: float) -> AsyncIterator[None]:
    """Sends a share of the traces to an OTLP/HTTP collector, such as http://collector:4318; "": off.

    A trace that arrives sampled stays so. The exporter has its own thread and a bounded queue: an absent collector
    delays nothing.
    """
    if not endpoint:
        yield
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    class TraceIds(RandomIdGenerator):
        def generate_trace_id(self) -> int:
            return int(trace.current.get() or "0", 16) or super().generate_trace_id()

    global _tracer
    before = _tracer
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(share)),
        resource=Resource.create({"service.name": "tombola"}),
        id_generator=TraceIds(),
    )
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=SHUTDOWN_SECONDS)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    _tracer = provider.get_tracer("tombola")
    try:
        yield
    finally:
        _tracer = before
        await asyncio.to_thread(provider.shutdown)


def of_requests(handler: Handler) -> Handler:
    """The handler, in a span per request if spans are on."""
    if (tracer := _tracer) is None:
        return handler

    async def traced(request: web.Request) -> web.StreamResponse:
        with _span(tracer, request.method, "SERVER", {"http.request.method": request.method}) as span:
            try:
                response = await handler(request)
                span.set_attribute("http.response.status_code", response.status)
            except Fault as fault:
                span.set_attribute("http.response.status_code", fault.http)
                raise
            finally:
                found = request._match_info
                if found is not None and found.http_exception is None and found.route.resource is not None:
                    span.update_name(f"{request.method} {found.route.resource.canonical}")
            return response

    return traced


class _Traced:
    def __init__(self, tracer: Any, caller: Caller, kind: str) -> None:
        self._tracer = tracer
        self._caller = caller
        self._kind = kind

    async def call(self, operation: Any, request: Any) -> Any:
        with _span(self._tracer, operation.name, self._kind, {}):
            return await self._caller.call(operation, request)


def of_calls(caller: Caller, *, remote: bool = False) -> Caller:
    """The caller, with a span per call if spans are on. remote: it calls Core in another process."""
    return caller if _tracer is None else _Traced(_tracer, caller, "CLIENT" if remote else "SERVER")


def of_commit(plays: int) -> AbstractContextManager[Any]:
    """The span of a commit, in the trace of the request that woke the actor."""
    return nullcontext() if _tracer is None else _span(_tracer, "commit", "CLIENT", {"tombola.plays": plays})


@contextmanager
def _span(tracer: Any, name: str, kind: str, attributes: dict[str, Any]) -> Iterator[Any]:
    """A span below the current one. Inside, `trace.parent()` names it."""
    from opentelemetry.trace import SpanKind, StatusCode

    span = tracer.start_span(name, _context(), SpanKind[kind], attributes)
    own = span.get_span_context()
    before = trace.caller.set(f"{own.span_id:016x}-{own.trace_flags:02x}")
    try:
        yield span
    except BaseException as error:
        if not isinstance(error, Fault) or error.http >= 500:
            span.set_status(StatusCode.ERROR, type(error).__name__)
        if isinstance(error, Fault):
            span.set_attribute("tombola.reason", error.reason)
        raise
    finally:
        trace.caller.reset(before)
        span.end()


def _context() -> Any:
    """The context of the current trace: below its last span, or at its root."""
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    span_id, _, flags = trace.caller.get().partition("-")
    if not span_id:
        return Context()
    parent = SpanContext(int(trace.current.get(), 16), int(span_id, 16), True, TraceFlags(int(flags, 16)))
    return set_span_in_context(NonRecordingSpan(parent), Context())
