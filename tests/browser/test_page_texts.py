"""A campaign's own texts in the widget: around the game, after a result, and in the player's language."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.axe import violations
from tests.support.browsing import STILL, Visit, visiting
from tests.support.chromium import Browser
from tests.support.pages.looks import EVIL
from tests.support.resources import make_campaign
from tests.support.world import World

EXAMPLES: Final[list[list[str]]] = json.loads(Path("tests/support/pages/prose.json").read_text())
TEXTS: Final[dict[str, Any]] = {
    "title": {"en": "Spring fair", "ar": "معرض الربيع"},
    "intro": {"en": "Spin the wheel and **win** a [mug](https://brand.example).", "ar": "أدر العجلة و**اربح**."},
    "how": {"en": "1. Press the button.\n2. Wait.", "ar": "اضغط على الزر."},
    "lose": {"en": "Not this time: here is *10 %* off.", "ar": "حظ أوفر."},
    "thanks": {"en": "Thank you for playing.", "ar": "شكرًا لك."},
    "imprint": {"en": "Brand Ltd."},
}
AFTER: Final = {"label": {"en": "To the shop", "ar": "إلى المتجر"}, "url": "https://brand.example/shop", "share": True}


async def losing(fair: World, texts: dict[str, Any], after: dict[str, Any], **settings: Any) -> str:
    """A game of a campaign with a page, in which no play wins."""
    page = {"texts": texts, "after": after}
    world = World(fair.stack, (await make_campaign(fair.stack, settings={"page": page, **settings}))["id"])
    return await world.game({"type": "scratch_card", "reward_handler": "probability"}, {"prizes": []}, access="public")


async def frame(visit: Visit, selector: str) -> str:
    return " ".join((await visit.page.inner_text(f".frame {selector}")).split())


async def test_texts_are_shown_around_the_game_and_after_the_result(fair: World, visit: Visit) -> None:
    game_id = await losing(fair, TEXTS, AFTER)
    page = visit.page
    await visit.open(game_id)
    assert await frame(visit, "h1") == "Spring fair"
    assert await page.inner_text(".lead strong") == "win"
    assert await page.get_attribute(".lead a", "href") == "https://brand.example"
    await page.click(".how summary")
    assert await frame(visit, ".how ol") == "Press the button. Wait."
    await visit.play()
    assert "Not this time: here is 10 % off." in await visit.result()
    assert await frame(visit, ".card .quiet") == "Thank you for playing."
    assert await page.get_attribute(".next a", "href") == AFTER["url"]
    assert await page.inner_text(".next a") == "To the shop"
    await page.evaluate("navigator.share = async (shared) => { window.shared = shared; }")
    await page.click(".next button")
    assert await page.evaluate("window.shared.url === location.href")
    assert await violations(page) == []
    assert await page.get_attribute("footer a", "href") is not None, "the hosted page has the legal links"


@pytest.mark.parametrize("stays", [True, False])
async def test_redirect_waits_and_can_be_cancelled(fair: World, visit: Visit, stays: bool) -> None:
    shop = f"{fair.stack.process.consumer_url}/healthz"
    after = {"url": "https://brand.example/shop", "redirect_seconds": 1 if not stays else 2}
    game_id = await losing(fair, {}, after)
    page = visit.page
    await page.route("https://brand.example/shop", lambda route: route.fulfill(status=302, headers={"Location": shop}))
    await visit.open(game_id)
    await page.clock.install()
    await visit.play()
    await page.wait_for_selector(".leaving")
    if stays:
        await page.click(".leaving button")
        await page.clock.run_for(5_000)
        assert await page.query_selector(".leaving") is None
        assert f"/p/{game_id}" in page.url
    else:
        async with page.expect_request("https://brand.example/shop"):
            await page.clock.run_for(3_000)
    visit.wrong.clear()


async def test_texts_follow_the_language_from_right_to_left(fair: World, browser: Browser) -> None:
    game_id = await losing(fair, TEXTS, AFTER)
    phone = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}
    async with visiting(browser, fair.stack, locale="ar", **phone, **STILL) as visit:
        await visit.open(game_id)
        assert await frame(visit, "h1") == "معرض الربيع"
        await visit.play()
        assert "حظ أوفر" in await visit.result()
        assert await visit.page.evaluate("document.documentElement.scrollWidth") <= 390
        await visit.shot("own page 390 ar dark")


async def test_html_in_every_text_stays_text_in_the_widget(fair: World, visit: Visit) -> None:
    texts = {name: {"en": EVIL} for name in ("title", "intro", "how", "lose", "thanks", "terms")}
    after = {"label": {"en": EVIL}, "url": f"https://brand.example/{EVIL}", "share": True}
    game_id = await losing(fair, texts, after, theme={"logo": EVIL, "logo_alt": EVIL})
    await visit.open(game_id)
    await visit.play()
    assert await visit.page.inner_text(".card .prose >> nth=0") == EVIL
    assert await visit.page.evaluate("window.evil") is None
    assert await visit.page.query_selector(".next a, .logo") is None, "an invalid address is not used"


async def test_widget_renders_markdown_as_the_service_does(fair: World, visit: Visit) -> None:
    await visit.open(await losing(fair, {"title": "x"}, {}))
    version = await visit.page.evaluate(
        "performance.getEntriesByType('resource').map((one) => one.name).find((one) => one.endsWith('/page.js'))"
    )
    rendered = await visit.page.evaluate(
        """async ([address, texts]) => {
            const { Page } = await import(address);
            const shown = (intro) => new Page({ ui: { page: { texts: { intro } } } }, {}, "en").intro();
            return texts.map((text) => shown(text).innerHTML);
        }""",
        [version, [text for text, _ in EXAMPLES]],
    )
    plain = [html.replace(' target="_blank" rel="noopener"', "") for html in rendered]
    assert plain == [html for _, html in EXAMPLES]
