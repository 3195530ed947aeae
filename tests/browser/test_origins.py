"""A page of another origin, under a strict policy: it has the game where it may, by element and by frame, else not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from runtime.http.serving import make_app, serve
from tests.support.browsing import STILL, visiting
from tests.support.stack import TENANT, Stack
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

ELEMENT = (
    '<!doctype html><title>Shop</title><script type="module" src="{edge}/widget/v1/tombola.js"></script>'
    '<tombola-game game="{game}" tenant="{tenant}"></tombola-game>'
)
FRAME = (
    '<!doctype html><title>Shop</title><iframe src="{edge}/p/{game}?tenant_id={tenant}" width=900 height=800></iframe>'
)


@asynccontextmanager
async def foreign_page(edge: str, game_id: str) -> AsyncIterator[str]:
    """The origin of a site whose policies know itself and the edge alone: /shop has the element, /frame a frame."""
    policies = {
        "/shop": f"script-src 'self' {edge}; connect-src {edge}; img-src https:; require-trusted-types-for 'script'",
        "/frame": f"frame-src {edge}",
    }
    bodies = {"/shop": ELEMENT, "/frame": FRAME}

    async def answer(request: web.Request) -> web.Response:
        body = bodies[request.path].format(edge=edge, game=game_id, tenant=TENANT)
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


async def allow(fair: World, *origins: str) -> None:
    changed = await fair.stack.admin("PUT", f"/admin/campaigns/{fair.campaign_id}", {"origins": list(origins)})
    assert changed.data["origins"] == list(origins)


async def test_an_allowed_page_under_a_strict_policy_has_the_game(fair: World, browser: Browser, shop: Stack) -> None:
    game_id = await fair.wheel(await fair.prize(name="Mug"), access="public")
    async with visiting(browser, shop, **STILL) as visit:
        async with foreign_page(shop.process.consumer_url, game_id) as origin:
            await allow(fair, origin)
            await visit.page.goto(f"{origin}/shop")
            await visit.ready()
            await visit.press()
            assert "Mug" in await visit.result()
            await visit.page.click("[data-panel=login]")
            await visit.page.wait_for_selector("dialog #login-field")
            cookies = await visit.page.context.cookies()
            assert cookies == []


async def test_a_page_that_is_not_allowed_gets_no_game_and_says_so(fair: World, browser: Browser, shop: Stack) -> None:
    game_id = await fair.wheel(await fair.prize(name="Mug"), access="public")
    async with visiting(browser, shop, **STILL) as visit:
        async with foreign_page(shop.process.consumer_url, game_id) as origin:
            await allow(fair, "https://*.brand.example")
            await visit.page.goto(f"{origin}/shop")
            assert await visit.kind() == "refused"
            assert (
                await visit.page.inner_text("tombola-game .card h3") == "No answer came. Your play is kept: try again."
            )
        assert await fair.plays() == []
        visit.forgive("CORS policy", "ERR_FAILED", "403")


async def test_an_allowed_page_frames_the_hosted_page(fair: World, browser: Browser, shop: Stack) -> None:
    game_id = await fair.wheel(await fair.prize(name="Mug"), access="public")
    async with visiting(browser, shop, **STILL) as visit:
        async with foreign_page(shop.process.consumer_url, game_id) as origin:
            await allow(fair, origin)
            await visit.page.goto(f"{origin}/frame")
            framed = visit.page.frame_locator("iframe")
            await framed.locator("button.main").click()
            await framed.locator(".card[data-result=won]").wait_for()
        assert len(await fair.plays()) == 1


async def test_a_page_that_is_not_allowed_frames_nothing(fair: World, browser: Browser, shop: Stack) -> None:
    game_id = await fair.wheel(await fair.prize(name="Mug"), access="public")
    async with visiting(browser, shop, **STILL) as visit:
        async with foreign_page(shop.process.consumer_url, game_id) as origin:
            async with visit.page.expect_event("console", lambda said: "frame-ancestors" in said.text):
                await visit.page.goto(f"{origin}/frame")
            frame = visit.page.frames[1]
            await frame.wait_for_load_state()
            assert await frame.locator("tombola-game").count() == 0
        visit.forgive("frame-ancestors")
