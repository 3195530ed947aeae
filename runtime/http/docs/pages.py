"""A surface's OpenAPI document at /api/v1/openapi.json, and a page to read and try it at /api/v1/docs.

On Core and the admin edge also what is on the event streams: an AsyncAPI document at /api/v1/asyncapi.json.
The page and all that it loads are in `static`; its Content-Security-Policy lets it ask nothing of any
other host. All of it is read, hashed and compressed when it is first asked for, and kept: after that an answer
is a look-up.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from typing import Final

import msgspec
from aiohttp import web

from runtime.http.docs.document import Surface
from runtime.http.docs.openapi import document
from runtime.http.envelope import Handler
from runtime.operations import API

_TYPES: Final = {
    "openapi.json": "application/json",
    "asyncapi.json": "application/json",
    "docs.html": "text/html; charset=utf-8",
    "docs.js": "text/javascript; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "swagger-ui.css": "text/css; charset=utf-8",
    "favicon.png": "image/png",
}
_LOADED: Final = ("docs.js", "swagger-ui-bundle.js", "swagger-ui.css", "favicon.png")
"""What the page loads."""

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # Kept, and asked for again by its ETag: a new version shows at once.
}


@dataclass(frozen=True, slots=True)
class Variant:
    """One representation of a document, with its headers."""

    body: bytes
    headers: dict[str, str]
    headers_unchanged: dict[str, str]

    @classmethod
    def of(cls, body: bytes, headers: dict[str, str], encoding: dict[str, str]) -> Variant:
        return cls(body, {**headers, **encoding}, headers)  # A 304 has no body to be encoded.

    def answer(self, request: web.Request) -> web.Response:
        known = request.headers.get("If-None-Match", "")
        if self.headers["ETag"] in (tag.strip().removeprefix("W/") for tag in known.split(",")) or known == "*":
            return web.Response(status=304, headers=self.headers_unchanged)
        return web.Response(body=self.body, headers=self.headers)


@dataclass(frozen=True, slots=True)
class Document:
    """A document as it is, and by gzip, where that is shorter."""

    plain: Variant
    gzipped: Variant | None

    @classmethod
    def of(cls, body: bytes, content_type: str) -> Document:
        headers = {**_HEADERS, "Content-Type": content_type, "Vary": "Accept-Encoding"}
        tag = hashlib.sha256(body).hexdigest()[:32]
        plain = Variant.of(body, {**headers, "ETag": f'"{tag}"'}, {})
        shorter = gzip.compress(body, mtime=0)
        if len(shorter) >= len(body):
            return cls(plain, None)
        # A tag of its own: RFC 9110, 8.8.3.3. Caches tell representations apart by it.
        return cls(plain, Variant.of(shorter, {**headers, "ETag": f'"{tag}-gzip"'}, {"Content-Encoding": "gzip"}))

    def answer(self, request: web.Request) -> web.Response:
        if self.gzipped is not None and takes_gzip(request.headers.get("Accept-Encoding", "")):
            return self.gzipped.answer(request)
        return self.plain.answer(request)


def takes_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding (RFC 9110, 12.5.3) has gzip, by its name or by `*`, at a quality that is not 0."""
    qualities: dict[str, str] = {}
    for one in accepted.lower().split(","):
        coding, _, weight = one.partition(";")
        qualities[coding.strip()] = weight.strip().removeprefix("q=") or "1"
    quality = qualities.get("gzip", qualities.get("*", "0"))
    return quality.strip("0.") != ""


def mount(app: web.Application, surface: Surface, *, role_matrix: str = "any", header_fallback: bool = False) -> None:
    """Adds the document and its page. role_matrix, header_fallback: the settings, which the edges' documents follow."""

    def openapi() -> Document:
        made = document(surface, role_matrix=role_matrix, header_fallback=header_fallback)
        return Document.of(msgspec.json.encode(made), _TYPES["openapi.json"])

    app.router.add_get(f"{API}/openapi.json", _kept(openapi))
    if surface != "consumer":  # Whom events go to is the operator's matter.
        app.router.add_get(f"{API}/asyncapi.json", _kept(partial(_file, "asyncapi.json")))
    app.router.add_get(f"{API}/docs", _kept(partial(_file, "docs.html")))
    for name in _LOADED:
        app.router.add_get(f"{API}/docs/{name}", _kept(partial(_file, name)))


@cache
def _file(name: str) -> Document:
    body = resources.files("runtime.http.docs").joinpath("static", name).read_bytes()
    return Document.of(body, _TYPES[name])


def _kept(make: Callable[[], Document]) -> Handler:
    kept: Document | None = None

    async def answer(request: web.Request) -> web.Response:
        nonlocal kept
        if kept is None:
            kept = await asyncio.to_thread(make)  # Up to 0.2 s of work: not where players wait for the loop.
        return kept.answer(request)

    return answer
