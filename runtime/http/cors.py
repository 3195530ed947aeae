"""Which pages of other origins may call the consumer edge (the Fetch standard's CORS protocol)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import aiohttp_cors
from aiohttp import web

REQUEST_HEADERS: Final = (
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "traceparent",
    "X-Tenant-Id",
    "X-Merchant-Id",
    "X-Player-Id",
    "X-Roles",
)
ANSWER_HEADERS: Final = ("Idempotency-Replayed", "RateLimit", "RateLimit-Policy", "Retry-After")
PREFLIGHT_SECONDS: Final = 3_600


def allow_origins(app: web.Application, origins: Iterable[str]) -> None:
    """Let pages of these origins (`*`: of all) call every route that the application has by now.

    Credentials are bearer tokens, which a page sends itself; cookies are never allowed, so `*` gives
    a page nothing that its visitor did not give it. No origins: no CORS headers at all.
    """
    options = aiohttp_cors.ResourceOptions(  # type: ignore[no-untyped-call]
        allow_credentials=False,
        expose_headers=ANSWER_HEADERS,
        allow_headers=REQUEST_HEADERS,
        max_age=PREFLIGHT_SECONDS,
    )
    defaults = dict.fromkeys(origins, options)
    if not defaults:
        return
    cors = aiohttp_cors.setup(app, defaults=defaults)
    for route in list(app.router.routes()):
        if route.method != "HEAD":  # Each GET brings a HEAD, which CORS takes together with it.
            cors.add(route)
