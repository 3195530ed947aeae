"""Serves the API documents of a surface, under /api/v1.

    openapi.json                         the OpenAPI document; the page at /api/v1/docs shows it
    asyncapi.json                        the event streams (Core and the admin edge)
    schemas/ui.json                      the JSON Schema of a game's `ui`; its themes are in themes.json
    schemas/games/{reward_handler}.json  the JSON Schema of a `handler_config`; schemas/games.json lists the handlers
    gallery.json                         campaign templates (the admin edge)

The docs page loads its files from `runtime/web`; its Content-Security-Policy forbids requests to other hosts.
Every document is read, hashed and compressed on the first request, then cached.
"""

from __future__ import annotations

from functools import cache, partial
from importlib import resources
from typing import Final

import msgspec
from aiohttp import web

from runtime import web as web_files
from runtime.http import gallery
from runtime.http.docs.document import Surface
from runtime.http.docs.openapi import document
from runtime.http.pages.static_documents import Document, built_once
from runtime.operations import API
from runtime.rules import REWARD_HANDLERS, ui
from runtime.rules.schemas import schema_of

_LOADED: Final = {
    "docs.js": "docs/docs.js",
    **{name: f"vendor/swagger-ui/{name}" for name in ("swagger-ui-bundle.js", "swagger-ui.css", "favicon.png")},
}
"""The files that the docs page loads, with their paths in `runtime/web`."""

_TYPES: Final = {
    "openapi.json": "application/json",
    "asyncapi.json": "application/json",
    "schemas/ui.json": "application/schema+json",
    "schemas/games.json": "application/json",
    "schemas/games/*.json": "application/schema+json",
    "themes.json": "application/json",
    "gallery.json": "application/json",
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
    "Cache-Control": "no-cache",  # Browsers revalidate by ETag, so a new version shows at once.
}


def mount(app: web.Application, surface: Surface, *, role_matrix: str = "any", header_fallback: bool = False) -> None:
    """Adds the routes. role_matrix, header_fallback: the settings, which change the edges' documents."""

    def openapi() -> Document:
        made = document(surface, role_matrix=role_matrix, header_fallback=header_fallback)
        return _document(msgspec.json.encode(made), "openapi.json")

    app.router.add_get(f"{API}/openapi.json", built_once(openapi))
    if surface != "consumer":  # Events are for operators, not for players.
        app.router.add_get(f"{API}/asyncapi.json", built_once(_asyncapi))
    app.router.add_get(f"{API}/schemas/ui.json", built_once(lambda: _document(ui.schema_text(), "schemas/ui.json")))
    app.router.add_get(f"{API}/themes.json", built_once(lambda: _document(ui.themes_text(), "themes.json")))
    if surface == "admin":
        app.router.add_get(f"{API}/gallery.json", built_once(_gallery))
    app.router.add_get(f"{API}/schemas/games.json", built_once(_handlers))
    app.router.add_get(f"{API}/schemas/games/{{name}}.json", _handler_schema)
    app.router.add_get(f"{API}/docs", built_once(partial(_file, "docs.html", "docs/docs.html")))
    for name, path in _LOADED.items():
        app.router.add_get(f"{API}/docs/{name}", built_once(partial(_file, name, path)))


def _gallery() -> Document:
    return _document(msgspec.json.encode({"campaigns": gallery.campaigns()}), "gallery.json")


def _handlers() -> Document:
    names = REWARD_HANDLERS.names()
    return _document(msgspec.json.encode({"reward_handlers": names}), "schemas/games.json")


async def _handler_schema(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    if name not in REWARD_HANDLERS.names():
        raise web.HTTPNotFound()
    return await _schema(name).answer(request)


@cache
def _schema(name: str) -> Document:
    return _document(msgspec.json.encode(schema_of(name)), "schemas/games/*.json")


@cache
def _asyncapi() -> Document:
    return _document(resources.files(__package__).joinpath("asyncapi.json").read_bytes(), "asyncapi.json")


@cache
def _file(name: str, path: str) -> Document:
    return _document(web_files.read(path), name)


def _document(body: bytes, name: str) -> Document:
    return Document.of(body, {**_HEADERS, "Content-Type": _TYPES[name]})
