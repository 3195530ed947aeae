"""The widget's files: plain ES modules, served to pages of any origin.

    /widget/{version}/...         every file; `version` is a hash of all of them, so nothing there ever changes
    /widget/{version}/tombola.js  the element, with the modules that it imports; games, panels and languages are
                                  files of their own, loaded when they are needed
    /widget/v1/tombola.js         the entry that pages name: it loads the one of the day
    /widget/v1/tombola.d.ts       what the element offers a page, for TypeScript
    /widget/v1/integrity.json     the address and hash of that one, for pages that hold what they load to one

Files import each other by relative addresses, so what was loaded from one version stays in it. A page that was
opened before an update, or while processes of both versions answer, is sent on to the file of this version where it
asks for one of another: a module's address is where it came from, so that it loads what fits it, an entry of its own
with it, and the play that is under way goes on (what they share: `rounds` in widget/play.js).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import msgspec
from aiohttp import web

from runtime.http.pages.static_documents import Document
from runtime.web import read_all

ENTRY: Final = "tombola.js"
ENTRY_PATH: Final = f"/widget/v1/{ENTRY}"
_DECLARED: Final = "v1/tombola.d.ts"
_STYLES: Final = "page.css"
_TYPES: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".ts": "application/typescript; charset=utf-8",
}
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Access-Control-Allow-Origin": "*",  # Modules are asked for by CORS; these are everybody's.
    "Cross-Origin-Resource-Policy": "cross-origin",
}
FOREVER: Final = "public, max-age=31536000, immutable"
ASK_AGAIN: Final = "no-cache"


@dataclass(frozen=True, slots=True)
class Files:
    """What is served, by path below the version. styles: the hosted pages' own, which stand in them."""

    version: str
    documents: dict[str, Document]
    declared: Document
    entry: Document
    integrity: str
    styles: str

    def address(self, path: str) -> str:
        """Where a file is, for good."""
        return f"/widget/{self.version}/{path}"

    def told(self) -> dict[str, str]:
        """The element's hash, and the address that always has what it is of."""
        return {"src": self.address(ENTRY), "integrity": self.integrity, "latest": ENTRY_PATH}


@cache
def files() -> Files:
    """All of them, read, hashed and compressed."""
    bodies = read_all("built/widget")
    version = version_of(bodies)
    styles = bodies.pop(_STYLES).decode()
    return Files(
        version=version,
        documents={path: document(path, body, FOREVER, _HEADERS) for path, body in bodies.items()},
        declared=document(_DECLARED, bodies[_DECLARED], ASK_AGAIN, _HEADERS),
        entry=document(ENTRY, f'export * from "../{version}/{ENTRY}";\n'.encode(), ASK_AGAIN, _HEADERS),
        integrity="sha384-" + base64.b64encode(hashlib.sha384(bodies[ENTRY]).digest()).decode(),
        styles=styles,
    )


def version_of(bodies: Mapping[str, bytes]) -> str:
    """16 hex digits that are others as soon as anything of the files is."""
    digest = hashlib.sha256()
    for path, body in sorted(bodies.items()):
        digest.update(f"{path}\0{len(body)}\0".encode() + body)
    return digest.hexdigest()[:16]


def mount(app: web.Application) -> None:
    """Adds the files. After CORS is set up: their own headers let every origin read them."""
    app.router.add_get("/widget/v1/integrity.json", _integrity)
    app.router.add_get(ENTRY_PATH, _entry)
    app.router.add_get(f"/widget/{_DECLARED}", _declared)
    app.router.add_get("/widget/{version:[0-9a-f]{16}}/{path:.+}", _file)


async def _entry(request: web.Request) -> web.Response:
    return files().entry.answer(request)


async def _declared(request: web.Request) -> web.Response:
    return files().declared.answer(request)


async def _integrity(request: web.Request) -> web.Response:
    told = msgspec.json.encode(files().told())
    return document("integrity.json", told, ASK_AGAIN, _HEADERS).answer(request)


async def _file(request: web.Request) -> web.Response:
    found, path = files(), request.match_info["path"]
    if path not in found.documents:
        raise web.HTTPNotFound()
    if request.match_info["version"] != found.version:
        return web.Response(
            status=307, headers={**_HEADERS, "Cache-Control": "no-store", "Location": found.address(path)}
        )
    return found.documents[path].answer(request)


def document(path: str, body: bytes, caching: str, headers: Mapping[str, str]) -> Document:
    """A page's file as it is served; its name says its type."""
    kind = _TYPES[path[path.rindex(".") :]]
    headers = {**headers, "Content-Type": kind, "Cache-Control": caching}
    return Document.of(body, headers, codings=("br", "gzip"))
