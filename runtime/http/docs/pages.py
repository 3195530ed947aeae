"""A surface's OpenAPI document at /api/v1/openapi.json, and a page to read and try it at /api/v1/docs.

On Core and the admin edge also what is on the event streams: an AsyncAPI document at /api/v1/asyncapi.json.
The page and all that it loads are in `static`; its Content-Security-Policy lets it ask nothing of any
other host. Both are made when first asked for, and kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
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
    "docs.html": "text/html; charset=utf-8",
    "docs.js": "text/javascript; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "swagger-ui.css": "text/css; charset=utf-8",
    "favicon.png": "image/png",
}
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


def mount(app: web.Application, surface: Surface, *, role_matrix: str = "any") -> None:
    """Adds the document and its page. role_matrix: the setting, which the admin edge's document follows."""

    @cache
    def encoded() -> bytes:
        return msgspec.json.encode(document(surface, role_matrix=role_matrix))

    app.router.add_get(f"{API}/openapi.json", _kept(encoded, "application/json"))
    if surface != "consumer":  # Whom events go to is the operator's matter.
        app.router.add_get(f"{API}/asyncapi.json", _kept(partial(_file, "asyncapi.json"), "application/json"))
    app.router.add_get(f"{API}/docs", _kept(partial(_file, "docs.html"), _TYPES["docs.html"]))
    for name, content_type in _TYPES.items():
        if name != "docs.html":
            app.router.add_get(f"{API}/docs/{name}", _kept(partial(_file, name), content_type))


@cache
def _file(name: str) -> bytes:
    return resources.files("runtime.http.docs").joinpath("static", name).read_bytes()


def _kept(read: Callable[[], bytes], content_type: str) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        body = read()
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = {**_HEADERS, "Content-Type": content_type, "ETag": tag}
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, headers=headers)

    return answer
