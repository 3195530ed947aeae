"""The widget's files: plain ES modules, served to pages of any origin.

    /widget/{version}/...         every file; `version` is a hash of all of them, so files there never change
    /widget/{version}/tombola.js  the element, with its imports; games, panels and languages are separate files,
                                  loaded on demand
    /widget/v1/tombola.js         the stable entry for pages: it loads the current version
    /widget/v1/tombola.d.ts       the element's TypeScript declarations
    /widget/v1/integrity.json     the current version's URL and hash, for pages that use subresource integrity

Files import each other by relative URLs, so all files that a page loads are of one version. A request for another
version, from a page opened before an update or during a rolling one, is redirected to the file of this version. The
redirected module then loads matching files from its new URL, its own entry included, and a play in progress continues
(the versions share `rounds` in widget/play.js).
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
    "Access-Control-Allow-Origin": "*",  # Browsers load modules with CORS, and these files are public.
    "Cross-Origin-Resource-Policy": "cross-origin",
}
FOREVER: Final = "public, max-age=31536000, immutable"
REVALIDATE: Final = "no-cache"


@dataclass(frozen=True, slots=True)
class Files:
    """The served files by path below the version. styles: the hosted pages' inline styles."""

    version: str
    documents: dict[str, Document]
    declared: Document
    entry: Document
    integrity: str
    styles: str

    def address(self, path: str) -> str:
        """The permanent URL of a file."""
        return f"/widget/{self.version}/{path}"

    def integrity_info(self) -> dict[str, str]:
        """The element's hash, its URL, and the URL of the stable entry."""
        return {"src": self.address(ENTRY), "integrity": self.integrity, "latest": ENTRY_PATH}


@cache
def files() -> Files:
    """Reads and hashes all files."""
    bodies = read_all("built/widget")
    version = version_of(bodies)
    styles = bodies.pop(_STYLES).decode()
    return Files(
        version=version,
        documents={path: document(path, body, FOREVER, _HEADERS) for path, body in bodies.items()},
        declared=document(_DECLARED, bodies[_DECLARED], REVALIDATE, _HEADERS),
        entry=document(ENTRY, f'export * from "../{version}/{ENTRY}";\n'.encode(), REVALIDATE, _HEADERS),
        integrity="sha384-" + base64.b64encode(hashlib.sha384(bodies[ENTRY]).digest()).decode(),
        styles=styles,
    )


def version_of(bodies: Mapping[str, bytes]) -> str:
    """A hash of all files: 16 hex digits."""
    digest = hashlib.sha256()
    for path, body in sorted(bodies.items()):
        digest.update(f"{path}\0{len(body)}\0".encode() + body)
    return digest.hexdigest()[:16]


def mount(app: web.Application) -> None:
    """Adds the routes. Their own headers allow every origin."""
    app.router.add_get("/widget/v1/integrity.json", _integrity)
    app.router.add_get(ENTRY_PATH, _entry)
    app.router.add_get(f"/widget/{_DECLARED}", _declared)
    app.router.add_get("/widget/{version:[0-9a-f]{16}}/{path:.+}", _file)


async def _entry(request: web.Request) -> web.Response:
    return await files().entry.answer(request)


async def _declared(request: web.Request) -> web.Response:
    return await files().declared.answer(request)


async def _integrity(request: web.Request) -> web.Response:
    integrity_info = msgspec.json.encode(files().integrity_info())
    return await document("integrity.json", integrity_info, REVALIDATE, _HEADERS).answer(request)


async def _file(request: web.Request) -> web.Response:
    found, path = files(), request.match_info["path"]
    if path not in found.documents:
        raise web.HTTPNotFound()
    if request.match_info["version"] != found.version:
        return web.Response(
            status=307, headers={**_HEADERS, "Cache-Control": "no-store", "Location": found.address(path)}
        )
    return await found.documents[path].answer(request)


def document(path: str, body: bytes, caching: str, headers: Mapping[str, str]) -> Document:
    """A file as a document; the extension determines its type."""
    kind = _TYPES[path[path.rindex(".") :]]
    headers = {**headers, "Content-Type": kind, "Cache-Control": caching}
    return Document.of(body, headers, codings=("br", "gzip"))
