"""CORS on the consumer edge (Fetch standard): which pages of other origins may call it.

A preflight does not name a tenant, so it accepts the origins of every tenant. The response itself allows an origin
only if it is registered for the request's tenant or campaign. A response without a tenant (an expired token, a rate
limit, a document) is readable from every registered origin.

Credentials are bearer tokens, which pages send explicitly. Cookies are never allowed, so even with `CORS_ORIGINS=*` a
page gains no access that its visitor did not give it.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web
from multidict import istr

from runtime.errors import Fault, Status
from runtime.http.admission.origins import Origins, Subject
from runtime.operations import API

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
METHODS: Final = ("GET", "HEAD", "POST", "PUT")
PREFLIGHT_SECONDS: Final = 3_600
"""How long a browser caches a preflight. After an origin is removed, its pages may keep sending requests for this
long, but cannot read the responses."""

TENANT: Final = web.RequestKey("tenant", str)
"""The request key of its tenant, set once the tenant is known to exist."""

ORIGIN: Final = istr("Origin")
_ALLOW_ORIGIN: Final = istr("Access-Control-Allow-Origin")
_REQUEST_METHOD: Final = istr("Access-Control-Request-Method")
_VARY: Final = istr("Vary")

_PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": ", ".join(METHODS),
    "Access-Control-Allow-Headers": ", ".join(REQUEST_HEADERS),
    "Access-Control-Max-Age": str(PREFLIGHT_SECONDS),
    "Vary": "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
}
_EXPOSED: Final = ", ".join(ANSWER_HEADERS)


class Cors:
    """Applies CORS to all routes under /api/v1. Other routes set their own headers."""

    def __init__(self, origins: Origins) -> None:
        self._origins = origins

    async def preflight(self, request: web.Request) -> web.Response | None:
        """The response to a preflight; None for other requests. FORBIDDEN for an origin that no tenant registered."""
        origin = request.headers.get(ORIGIN)
        if origin is None or _REQUEST_METHOD not in request.headers or not request.path.startswith(API):
            return None
        if not await self._origins.may_call(origin, request):
            message = "this origin is not allowed: add it to the origins of the tenant or campaign"
            raise Fault(Status.PERMISSION_DENIED, "FORBIDDEN", message)
        return web.Response(headers={**_PREFLIGHT, _ALLOW_ORIGIN: self._allowed(origin)})

    async def add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        """Adds the CORS headers to a response."""
        headers, path = response.headers, request.path
        if response.prepared or _ALLOW_ORIGIN in headers or not path.startswith(API):
            return
        headers[_VARY] = f"{headers[_VARY]}, Origin" if _VARY in headers else "Origin"
        origin = request.headers.get(ORIGIN)
        if origin is None or origin.partition("://")[2] == request.headers.get("Host"):
            return
        tenant_id = request.get(TENANT, "")
        try:
            if tenant_id:
                allowed = await self._origins.may_read(origin, _subject(tenant_id, path), request)
            else:
                allowed = await self._origins.may_call(origin, request)
        except Fault:
            return  # If the check fails, the origin is not allowed.
        if allowed:
            headers[_ALLOW_ORIGIN] = self._allowed(origin)
            headers["Access-Control-Expose-Headers"] = _EXPOSED

    def _allowed(self, origin: str) -> str:
        return "*" if self._origins.allows_all else origin


def _subject(tenant_id: str, path: str) -> Subject:
    """The tenant, or the campaign in the path, or the part of one."""
    match path[len(API) :].split("/"):
        case ["", "games" | "quests" | "leaderboards" | "draws", part_id, *_]:
            return Subject(tenant_id, part_id=part_id)
        case ["", "campaigns", campaign_id, *_] | ["", "public", "campaigns", campaign_id, *_]:
            return Subject(tenant_id, campaign_id=campaign_id)
    return Subject(tenant_id)
