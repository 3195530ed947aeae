"""The envelope `{code, message, trace_id, data}` of every response of every surface, errors included."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
import structlog
from aiohttp import web
from multidict import CIMultiDict

from runtime import trace
from runtime.errors import Fault, Status

log = structlog.get_logger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

EXTRA_HEADERS: Final = web.RequestKey("extra_headers", dict[str, str])
"""The request key of `extra_headers`."""

_HEADERS: Final = CIMultiDict(
    {
        "Content-Type": "application/json",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",  # Responses are private or short-lived: no proxy may cache them.
    }
)
"""A multidict: aiohttp copies it in a third of the time of a dict."""

_encode: Final = msgspec.json.Encoder().encode


def ok(data: Any, *, headers: Mapping[str, str] | None = None, http_status: int = 200) -> web.Response:
    """`data` in the envelope with code OK. Bytes are sent as already encoded JSON."""
    encoded = data if type(data) is bytes else _encode(data)
    body = b'{"code":"OK","message":"","trace_id":"%b","data":%b}' % (trace.current.get().encode(), encoded)
    return _response(body, http_status, headers)


def refusal(fault: Fault, *, headers: Mapping[str, str] | None = None) -> web.Response:
    """A fault in the envelope, with Retry-After (whole seconds, at least 1) if it has one."""
    body = _encode(
        {"code": fault.status.name, "message": fault.message, "trace_id": trace.current.get(), "data": fault.data}
    )
    response = _response(body, fault.http, headers)
    if fault.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(max(1, math.ceil(fault.retry_after_seconds)))
    return response


def unexpected(exc: BaseException) -> web.Response:
    """The response to an unexpected error. The details go to the log under the trace id, never to the client."""
    log.error("unexpected_error", trace_id=trace.current.get(), exc_info=exc)
    return refusal(Fault(Status.INTERNAL, "INTERNAL", "an internal error, logged under this trace id"))


def extra_headers(request: web.Request) -> dict[str, str]:
    """Headers to add to a refusal of this request, such as RateLimit. Fill them in before raising."""
    found = request.get(EXTRA_HEADERS)
    if found is None:
        found = request[EXTRA_HEADERS] = {}
    return found


def _response(body: bytes, http_status: int, headers: Mapping[str, str] | None) -> web.Response:
    response = web.Response(body=body, status=http_status, headers=_HEADERS)
    if headers:
        response.headers.update(headers)
    return response
