"""What operators write stays text, and a page with a strict policy of its own can have the game."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from runtime.http.serving import make_app, serve
from tests.support.browsing import STILL, Visit, visiting
from tests.support.leaderboards import make_board
from tests.support.milestones import block
from tests.support.panels import open_as, panel
from tests.support.quests import open_quest
from tests.support.stack import TENANT, Stack
from tests.support.waiting import until
from tests.support.world import COLLECTION, World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVIL = "\"'><img src=x onerror=window.evil=1><script>window.evil=1</script>{{evil}}${evil}</title>"
ADDRESSES = (
    "javascript:window.evil=1",
    "http://127.0.0.1:1/x.png",
    "data:text/html,<script>window.evil=1</script>",
    "//evil.example/x.png",
    EVIL,
)
FOREIGN = (
    '<!doctype html><title>Shop</title><script type="module" src="{edge}/widget/v1/tombola.js"></script>'
    '<tombola-game game="{game}" tenant="{tenant}"></tombola-game>'
)


def evil_ui(address: str, prize_id: str) -> dict[str, Any]:
    return {
        "description": EVIL,
        "picture": {"image": address, "emoji": EVIL},
        "theme": {"primary": EVIL, "accent": "url(javascript:window.evil=1)", "radius": EVIL, "mode": EVIL},
        "background": {"color": EVIL, "image": address, "emoji": EVIL},
        "texts": {"spin": EVIL, "won": EVIL, "__proto__": EVIL, "constructor": EVIL},
        "wheel": {
            "segments": [
                {"label": EVIL, "image": address, "emoji": EVIL, "color": EVIL, "prize_id": prize_id},
                {"label": EVIL, "emoji": EVIL},
            ]
        },
        "items": [{"emoji": EVIL, "image": address, "prize_id": prize_id}],
        "prizes": {"one": {"image": address, "emoji": EVIL, "prize_id": prize_id}},
    }


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("kind", ["spin_wheel", "scratch_card"])
async def test_whatever_is_written_stays_text(fair: World, visit: Visit, kind: str, address: str) -> None:
    await fair.stack.admin("PUT", f"/admin/campaigns/{fair.campaign_id}", {"name": EVIL})
    prize_id = await fair.prize(name=EVIL)
    ui = evil_ui(address, prize_id)
    game_id = await fair.wheel(prize_id, type=kind, name=EVIL, access="public", ui=ui)
    await visit.open(game_id)
    await visit.press()
    assert "<script>window.evil=1</script>" in await visit.result()
    for name in ("prizes", "fair"):
        await panel(visit, name)
        await visit.page.keyboard.press("Escape")
    assert await visit.page.evaluate("window.evil") is None
    assert await visit.page.title() == f"{EVIL} · {EVIL}"
    home = visit.stack.process.consumer_url
    assert [one for one in visit.asked if f" {home}/" not in one] == []
    await visit.page.goto(f"{home}/c/{fair.campaign_id}")
    assert EVIL in await visit.page.inner_text("h1") and await visit.page.evaluate("window.evil") is None


async def test_whatever_is_written_around_a_game_stays_text(fair: World, visit: Visit) -> None:
    """Names of quests, boards, rungs, currencies, prizes and players, and codes, in every panel."""
    on_claim = {"redemption_mode": "on_claim", "channel": "voucher_code"}
    code = EVIL.replace(" ", "/")
    prize_id = await fair.prize(name=EVIL, codes=[code], fulfillment=on_claim)
    currency = EVIL[:60]
    rung = {"id": "one", "name": EVIL, "currency": currency, "threshold": 2, "prize_id": prize_id}
    game_id = await fair.game(
        COLLECTION,
        {"items": [{"item": currency, "weight": 1, "quantity": 2, "slot_index": 0}]},
        name=EVIL,
        access="public",
        milestones=block(rung, auto_grant=False),
        ui=evil_ui("javascript:window.evil=1", prize_id),
    )
    await open_quest(fair.stack, fair.campaign_id, name=EVIL, description=EVIL)
    prizes = [{"from_rank": 1, "to_rank": 2, "prize_id": prize_id}]
    board = await make_board(fair.stack, fair.campaign_id, name=EVIL, metric="plays", prizes=prizes)
    renamed = await fair.stack.consumer("PUT", "/players/me", {"display_name": EVIL[:100]}, player="ann")
    assert renamed.code == "OK", renamed
    await fair.round(game_id, "ann")
    assert (await fair.redeem(game_id, "one")).code == "OK"

    async def ranked() -> bool:
        return bool((await fair.stack.core("GET", f"/leaderboards/{board['id']}/rankings")).data["items"])

    await until(ranked)
    await open_as(visit, game_id, "ann")
    for name in ("prizes", "rewards", "milestones", "quests", "ranking", "wallet", "history", "fair"):
        written = await panel(visit, name)
        if name == "rewards":
            await visit.page.click("dialog >> text=Claim")
            await visit.page.wait_for_selector("dialog code")
            assert await visit.page.inner_text("dialog code") == code
            await visit.page.click("dialog >> text=QR code")
            await visit.page.wait_for_selector(".qr svg")
        if name == "quests":
            await visit.page.click("dialog [data-act=quest]")
            await visit.page.wait_for_selector("dialog .chip[data-kind=good]")
        if name != "fair":
            assert "<img src=x onerror=" in written, name
        await visit.page.keyboard.press("Escape")
    assert await visit.page.evaluate("window.evil") is None
    shadow = "document.querySelector('tombola-game').shadowRoot"
    assert await visit.page.evaluate(f"{shadow}.querySelectorAll('script, img, [onerror]').length") == 0
    home = visit.stack.process.consumer_url
    assert [one for one in visit.asked if f" {home}/" not in one] == []


async def test_the_hosted_page_tells_previews_what_it_is(fair: World, shop: Stack) -> None:
    picture = "https://brand.example/a.png?x=1&y=2"
    ui = {"picture": {"image": picture}, "background": {"image": "https://brand.example/b.png"}}
    game_id = await fair.wheel(await fair.prize(name="Mug"), name="Wheel & deal", ui=ui)
    async with shop.http.get(f"{shop.process.consumer_url}/p/{game_id}") as answer:
        page, policy = await answer.text(), answer.headers["Content-Security-Policy"]
    assert 'property="og:title" content="Wheel &amp; deal · Autumn Fair"' in page
    assert 'property="og:site_name" content="Autumn Fair"' in page
    assert 'property="og:description" content="Mug"' in page
    assert "<title>Wheel &amp; deal · Autumn Fair</title>" in page
    assert 'property="og:image" content="https://brand.example/a.png?x=1&amp;y=2"' in page
    assert 'name="description" content="Mug"' in page
    assert "unsafe" not in policy and "script-src 'self';" in policy and "style=" not in page


async def test_the_pages_are_framed_by_who_the_campaign_names(fair: World, shop: Stack) -> None:
    game_id = await fair.wheel(await fair.prize())
    brand = "https://*.brand.example"
    await fair.stack.admin("PUT", f"/admin/campaigns/{fair.campaign_id}", {"origins": [brand]})
    for path in (f"/p/{game_id}", f"/c/{fair.campaign_id}"):
        async with shop.http.get(shop.process.consumer_url + path) as answer:
            assert answer.headers["Content-Security-Policy"].endswith(f"frame-ancestors 'self' {brand}")


@asynccontextmanager
async def foreign_page(edge: str, game_id: str) -> AsyncIterator[str]:
    """The address of a page of another origin, under a policy that knows itself and the edge alone."""
    policy = (
        f"default-src 'none'; script-src 'self' {edge}; connect-src {edge}; img-src https: data:; base-uri 'none';"
        " require-trusted-types-for 'script'"
    )
    body = FOREIGN.format(edge=edge, game=game_id, tenant=TENANT)

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=body, content_type="text/html", headers={"Content-Security-Policy": policy})

    app = make_app()
    app.router.add_get("/shop", answer)
    runner = await serve(app, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/shop"
    finally:
        await runner.cleanup()


async def test_a_page_of_another_origin_under_a_strict_policy_has_the_game(
    fair: World, browser: Browser, shop: Stack
) -> None:
    game_id = await fair.wheel(await fair.prize(name="Mug"), access="public")
    async with visiting(browser, shop, **STILL) as visit:
        async with foreign_page(shop.process.consumer_url, game_id) as address:
            origin = address.removesuffix("/shop")
            changed = await fair.stack.admin("PUT", f"/admin/campaigns/{fair.campaign_id}", {"origins": [origin]})
            assert changed.data["origins"] == [origin]
            await visit.page.goto(address)
            await visit.ready()
            await visit.press()
            assert "Mug" in await visit.result()
            cookies = await visit.page.context.cookies()
            assert cookies == []
