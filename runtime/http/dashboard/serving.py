"""Serves the dashboard's page and files from memory.

    /dashboard, /dashboard/...             the page; its script shows the view of the path
    /dashboard-files/{version}/...         the files of `web/built/dashboard`; `version` is a hash of all of them

The page contains no data: it reads everything from the API with the user's token. Its Content-Security-Policy allows
only scripts from, and requests to, this server.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from aiohttp import web

from runtime.http.login.sign_in import DASHBOARD
from runtime.http.pages.files import FOREVER, REVALIDATE, document, version_of
from runtime.http.pages.static_documents import Document
from runtime.web import read_all

FILES: Final = "/dashboard-files"
ENTRY: Final = "main.js"
STYLES: Final = ("pico.css", "style.css")
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:;"
    " font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFE: Final = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


@dataclass(frozen=True, slots=True)
class Files:
    """The page, and the files by path: cached forever (`documents`) or revalidated (`current`)."""

    version: str
    documents: dict[str, Document]
    current: dict[str, Document]
    page: Document


@cache
def files() -> Files:
    """Reads and hashes all files."""
    bodies = read_all("built/dashboard")
    version = version_of(bodies)
    return Files(
        version,
        {path: document(path, body, FOREVER, _SAFE) for path, body in bodies.items()},
        {path: document(path, body, REVALIDATE, _SAFE) for path, body in bodies.items()},
        _page(version),
    )


def mount(app: web.Application) -> None:
    """Adds the page and its files."""
    app.router.add_get(DASHBOARD, _dashboard)
    app.router.add_get(DASHBOARD + "/{rest:.*}", _dashboard)
    app.router.add_get(FILES + "/{version:[0-9a-f]{16}}/{path:.+}", _file)


async def _dashboard(request: web.Request) -> web.Response:
    return await files().page.answer(request)


async def _file(request: web.Request) -> web.Response:
    found = files()
    documents = found.documents if request.match_info["version"] == found.version else found.current
    file = documents.get(request.match_info["path"])
    if file is None:
        raise web.HTTPNotFound()
    return await file.answer(request)


def _page(version: str) -> Document:
    base = f"{FILES}/{version}"
    styles = "".join(f'<link rel="stylesheet" href="{base}/{name}">\n' for name in STYLES)
    html = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Tombola</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="robots" content="noindex">\n'
        f'<link rel="icon" href="{base}/icon.svg">\n{styles}'
        f'<script type="module" src="{base}/{ENTRY}"></script>\n</head>\n'
        '<body>\n<div id="app"></div>\n<noscript>The dashboard needs JavaScript.</noscript>\n</body>\n</html>\n'
    )
    headers = {
        **_SAFE,
        "Content-Type": "text/html; charset=utf-8",
        "Cache-Control": REVALIDATE,
        "Content-Security-Policy": POLICY,
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    return Document.of(html.encode(), headers, codings=("br", "gzip"))
