"""The page behind the link to unsubscribe in a message (RFC 8058).

GET asks, since mail servers open links to scan them. POST unsubscribes: from the page's button, or in one click by the
player's mail program.
"""

from __future__ import annotations

from html import escape
from typing import Final

from aiohttp import web

from runtime import messages as m
from runtime.errors import Fault, Status
from runtime.http.edge import Edge
from runtime.http.pages.hosted import HEADERS, language_of, policy_of, styles_of, whole_page
from runtime.operations.campaigns.message_samples import UNSUBSCRIBE
from runtime.rules.mail import built_in
from runtime.wire import codec

PATH: Final = "/unsubscribe"
_INVALID: Final = (Status.UNAUTHENTICATED, Status.INVALID_ARGUMENT, Status.NOT_FOUND)


def mount(app: web.Application, edge: Edge) -> None:
    """Adds the page."""

    async def ask(request: web.Request) -> web.Response:
        texts = built_in()[language_of(request.headers.get("Accept-Language", ""))]
        button = f'<form method="post"><button class="play">{escape(texts["unsubscribe"])}</button></form>'
        return _page(request, texts["question"], button)

    async def end(request: web.Request) -> web.Response:
        texts = built_in()[language_of(request.headers.get("Accept-Language", ""))]
        try:
            scope = await edge.checked_scope(request, None)
            fields = {name: request.query.get(name, "") for name in ("player_id", "kind", "token")}
            message, _ = codec.read(UNSUBSCRIBE.request, fields)
            message.scope = m.Scope(tenant_id=scope.tenant_id)
            await edge.lookups.call(UNSUBSCRIBE, message, request)
        except Fault as fault:
            if fault.status not in _INVALID:
                raise
            return _page(request, texts["invalid"], status=400)
        return _page(request, texts["done"])

    app.router.add_get(PATH, ask)
    app.router.add_post(PATH, end)


def _page(request: web.Request, title: str, body: str = "", status: int = 200) -> web.Response:
    language = language_of(request.headers.get("Accept-Language", ""))
    main = f'<main class="state">\n<h1 class="missing">{escape(title)}</h1>\n{body}</main>'
    page = whole_page(title=title, body=main, language=language).encode()
    policy = policy_of((), styles_of(page), "'self'")
    headers = {**HEADERS, "Cache-Control": "no-store", "X-Robots-Tag": "noindex", "Content-Security-Policy": policy}
    return web.Response(body=page, status=status, headers=headers)
