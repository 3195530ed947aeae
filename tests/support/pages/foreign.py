from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from runtime.http.serving import make_app, serve
from tests.support.stack import Stack

ELEMENT: Final = (
    '<!doctype html><title>Shop</title><script type="module" src="{edge}/widget/v1/tombola.js"></script>'
    '<tombola-game game="{game}" tenant="{tenant}"></tombola-game>'
)
FRAME: Final = (
    '<!doctype html><title>Shop</title><iframe src="{edge}/p/{game}?tenant_id={tenant}" width=900 height=800></iframe>'
)


@asynccontextmanager
async def foreign_site(stack: Stack, game_id: str) -> AsyncIterator[str]:
    """The origin of a site whose policies allow itself and the edge: /shop has the element, /frame a frame."""
    edge = stack.process.consumer_url
    policies = {
        "/shop": f"script-src 'self' {edge}; connect-src {edge}; img-src https:; require-trusted-types-for 'script'",
        "/frame": f"frame-src {edge}",
    }
    bodies = {"/shop": ELEMENT, "/frame": FRAME}

    async def answer(request: web.Request) -> web.Response:
        body = bodies[request.path].format(edge=edge, game=game_id, tenant=stack.tenant_id)
        policy = f"default-src 'none'; base-uri 'none'; {policies[request.path]}"
        return web.Response(text=body, content_type="text/html", headers={"Content-Security-Policy": policy})

    app = make_app()
    for path in bodies:
        app.router.add_get(path, answer)
    runner = await serve(app, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
