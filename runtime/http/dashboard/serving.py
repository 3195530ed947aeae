"""The dashboard's page and files, served from memory.

    /dashboard, /dashboard/...             the page; what it shows is its address' to say
    /dashboard-files/{version}/...         the files of `web/built/dashboard`; `version` is a hash of all of them

The page holds no data: all that it shows it asks of the API, with the token of who signed in. Its policy lets it run
our files and ask us, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from aiohttp import web

from runtime.http.login.sign_in import DASHBOARD
from runtime.http.pages.files import ASK_AGAIN, FOREVER, document, version_of
from runtime.http.pages.static_documents import Document
from runtime.web import read_all

FILES: Final = "/dashboard-files"
ENTRY: Final = "main.js"
STYLES: Final = ("pico.css", "style.css")
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFE: Final = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


@dataclass(frozen=True, slots=True)
class Files:
    """What is served: the files by path below the version, as they are for good and for now, and the page."""

    version: str
    documents: dict[str, Document]
    current: dict[str, Document]
    page: Document


@cache
def files() -> Files:
    """All of them, read, hashed and compressed."""
    bodies = read_all("built/dashboard")
    version = version_of(bodies)
    return Files(
        version,
        {path: document(path, body, FOREVER, _SAFE) for path, body in bodies.items()},
        {path: document(path, body, ASK_AGAIN, _SAFE) for path, body in bodies.items()},
        _page(version),
    )


def mount(app: web.Application) -> None:
    """Adds the page and its files."""
    app.router.add_get(DASHBOARD, _dashboard)
    app.router.add_get(DASHBOARD + "/{rest:.*}", _dashboard)
    app.router.add_get(FILES + "/{version:[0-9a-f]{16}}/{path:.+}", _file)


async def _dashboard(request: web.Request) -> web.Response:
    return files().page.answer(request)


async def _file(request: web.Request) -> web.Response:
    found = files()
    asked = found.documents if request.match_info["version"] == found.version else found.current
    file = asked.get(request.match_info["path"])
    if file is None:
        raise web.HTTPNotFound()
    return file.answer(request)


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
        "Cache-Control": ASK_AGAIN,
        "Content-Security-Policy": POLICY,
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    return Document.of(html.encode(), headers, codings=("br", "gzip"))
