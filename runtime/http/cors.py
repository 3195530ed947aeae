"""Which pages of other origins may call the consumer edge (the Fetch standard's CORS protocol).

A preflight is answered for the pages of every tenant, since it cannot say whose it is about; the answer itself names
the page's origin only where that may read what is the tenant's, or of its campaign, at hand. What is of no tenant (a
token that has expired, an address over its rate, a document) may be read by the pages of all of them.

Credentials are bearer tokens, which a page sends itself. Cookies are never allowed, so that a page gets nothing that
its visitor did not give it, `CORS_ORIGINS=*` included.
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
"""How long a browser need not ask again. It may ask on for so long after an origin was taken off a list, and read
nothing of what it is answered."""

TENANT: Final = web.RequestKey("tenant", str)
"""Where a request keeps the tenant that it is about, once it is known that there is such."""

ORIGIN: Final = istr("Origin")
_ALLOW_ORIGIN: Final = istr("Access-Control-Allow-Origin")
_ASKED_METHOD: Final = istr("Access-Control-Request-Method")
_VARY: Final = istr("Vary")

_PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": ", ".join(METHODS),
    "Access-Control-Allow-Headers": ", ".join(REQUEST_HEADERS),
    "Access-Control-Max-Age": str(PREFLIGHT_SECONDS),
    "Vary": "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
}
_EXPOSED: Final = ", ".join(ANSWER_HEADERS)


class Cors:
    """The protocol, for all under /api/v1; what else is served says for itself who may read it."""

    def __init__(self, origins: Origins) -> None:
        self._origins = origins

    async def preflight(self, request: web.Request) -> web.Response | None:
        """The answer to a preflight; None for any other request. PERMISSION_DENIED FORBIDDEN for nobody's origin."""
        origin = request.headers.get(ORIGIN)
        if origin is None or _ASKED_METHOD not in request.headers or not request.path.startswith(API):
            return None
        if not await self._origins.may_ask(origin, request):
            raise Fault(Status.PERMISSION_DENIED, "FORBIDDEN", "pages of this origin may not ask here")
        return web.Response(headers={**_PREFLIGHT, _ALLOW_ORIGIN: self._named(origin)})

    async def mark(self, request: web.Request, response: web.StreamResponse) -> None:
        """Says on an answer whose pages may read it."""
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
                may = await self._origins.may_read(origin, _subject(tenant_id, path), request)
            else:
                may = await self._origins.may_ask(origin, request)
        except Fault:
            return  # Nobody is told more for want of an answer.
        if may:
            headers[_ALLOW_ORIGIN] = self._named(origin)
            headers["Access-Control-Expose-Headers"] = _EXPOSED

    def _named(self, origin: str) -> str:
        return "*" if self._origins.everybody else origin


def _subject(tenant_id: str, path: str) -> Subject:
    """The tenant, or its game or campaign that the path names."""
    match path[len(API) :].split("/"):
        case ["", "games", game_id, *_]:
            return Subject(tenant_id, game_id=game_id)
        case ["", "public", "campaigns", campaign_id, *_]:
            return Subject(tenant_id, campaign_id=campaign_id)
    return Subject(tenant_id)
