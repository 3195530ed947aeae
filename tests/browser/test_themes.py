"""The gallery of themes, and a brand's colours and font on the pages around a game."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from runtime.rules.ui import themes
from tests.browser.test_pictures import SCREENS, SIZES, demo_games, look
from tests.support.browsing import STILL, Visit, visiting
from tests.support.stack import Stack
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

COLOURS = """[...document.querySelectorAll(".look .game")].map(({shadowRoot}) =>
    getComputedStyle(shadowRoot.querySelector(".main")).getPropertyValue("--t-primary"))"""
GROUND = "getComputedStyle(document.body).backgroundColor"
FONT = "getComputedStyle(document.querySelector('tombola-game').shadowRoot.querySelector('.frame')).fontFamily"


async def gallery(visit: Visit) -> None:
    await visit.page.goto(f"{visit.stack.process.consumer_url}/themes")
    await visit.page.wait_for_selector(".looks[data-shown=wheel] .look:nth-child(6) button.main")


async def test_the_gallery_shows_every_theme_on_a_widget_that_asks_nothing(visit: Visit) -> None:
    await gallery(visit)
    assert await visit.page.locator(".look").evaluate_all("looks => looks.map(look => look.dataset.theme)") == sorted(
        themes()
    )
    expected = [
        "rgb({} {} {})".format(*bytes.fromhex(theme["theme"]["primary"][1:])) for _, theme in sorted(themes().items())
    ]
    assert await visit.page.evaluate(COLOURS) == expected
    assert visit.api_calls() == ["GET themes.json"]
    await visit.page.click("[data-theme=ocean] button.main")
    await visit.page.wait_for_selector("[data-theme=ocean] .card[data-result=won] >> text=Coffee")
    await visit.page.click("[data-game=scratch]")
    await visit.page.wait_for_selector(".looks[data-shown=scratch] [data-theme=paper] canvas")
    assert visit.api_calls() == ["GET themes.json"]


async def test_the_name_of_a_theme_is_copied(browser: Browser, shop: Stack) -> None:
    async with visiting(browser, shop, **STILL, permissions=["clipboard-read", "clipboard-write"]) as visit:
        await gallery(visit)
        await visit.page.click("[data-theme=midnight] header button")
        await visit.page.wait_for_selector("[data-theme=midnight] header button:has-text('Copied')")
        assert await visit.page.evaluate("navigator.clipboard.readText()") == "midnight"


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
async def test_the_gallery_and_the_pages_of_a_brand_fit_their_screens(
    fair: World, browser: Browser, shop: Stack, width: int, scheme: str
) -> None:
    games = await demo_games(fair)
    base, campaign = shop.process.consumer_url, f"/admin/campaigns/{fair.campaign_id}"
    size = {"width": width, "height": SIZES[width]}
    told = "Play each of our games once a day, from the first of October until the last leaf has fallen."
    async with visiting(browser, shop, **STILL, viewport=size, color_scheme=scheme) as visit:
        await gallery(visit)
        await look(visit, f"themes-{width}-{scheme}")
        for name in ("ocean", "midnight"):
            await shop.admin("PUT", campaign, {"settings": {"theme": {"preset": name}, "description": told}})
            await visit.page.goto(f"{base}/c/{fair.campaign_id}?{name}")
            await visit.page.wait_for_function(
                f"document.querySelector('style').textContent.includes('{colour(name)}')"
            )
            await look(visit, f"brand-campaign-{name}-{width}-{scheme}")
            await fair.looks(games["spin_wheel"], {"theme": {"preset": name}})
            await shop.admin("PUT", f"/admin/games/{games['spin_wheel']}", {"name": f"Wheel of the {name}"})
            await visit.open(games["spin_wheel"], look=name)
            await look(visit, f"brand-game-{name}-{width}-{scheme}")


def colour(name: str) -> str:
    return str(themes()[name]["theme"]["primary"])


async def styled(fair: World, visit: Visit, **settings: Any) -> str:
    """The campaign's page with these settings; its inline style."""
    await fair.stack.admin("PUT", f"/admin/campaigns/{fair.campaign_id}", {"settings": settings})
    await visit.page.goto(f"{visit.stack.process.consumer_url}/c/{fair.campaign_id}")
    return await visit.page.inner_text("style") or await visit.page.evaluate(
        "document.querySelector('style').textContent"
    )


async def test_a_campaigns_page_takes_its_brands_colours_and_font(fair: World, visit: Visit) -> None:
    theme = {"primary": "#0b5c8a", "font": "Brand Sans, sans-serif", "mode": "dark"}
    await styled(fair, visit, theme=theme, background={"color": "#20304a"})
    assert (await visit.page.evaluate("getComputedStyle(document.documentElement).fontFamily")).startswith(
        '"Brand Sans", sans-serif'
    )
    assert await visit.page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    lightness = re.match(r"oklch\(([\d.]+)", await visit.page.evaluate(GROUND))
    assert lightness and float(lightness[1]) <= 0.26
    assert await visit.page.get_attribute("meta[name=theme-color]", "content") == "#0b5c8a"


async def test_what_is_no_colour_or_font_changes_no_page(fair: World, visit: Visit) -> None:
    """Settings of before there was a schema may hold anything."""
    evil = 'x;}body{display:none}</style><script>window.evil=1</script>"'
    settings = {"theme": {"primary": evil, "font": evil, "mode": evil}, "background": {"color": evil}}
    await fair.database.execute("UPDATE campaigns SET settings = $2 WHERE campaign_id = $1", fair.campaign_id, settings)
    await visit.page.goto(f"{visit.stack.process.consumer_url}/c/{fair.campaign_id}")
    assert await visit.page.is_visible("h1") and await visit.page.evaluate("window.evil") is None
    assert "display:none" not in await visit.page.evaluate("document.querySelector('style').textContent")


@pytest.mark.parametrize(
    ("font", "used"),
    [
        ("Georgia, 'Brand Serif', serif", True),
        ("url(https://evil.example/a.woff)", False),
        ("x; color: red", False),
        ("expression(alert(1))", False),
        ("{}", False),
    ],
)
async def test_a_themes_font_is_names_alone(fair: World, visit: Visit, font: str, used: bool) -> None:
    ui = {"theme": {"font": font}}
    await visit.open(await fair.wheel(await fair.prize(name="Mug"), access="public", ui=ui))
    await visit.page.evaluate("document.documentElement.style.fontFamily = 'monospace'")  # Nothing is inherited.
    assert (await visit.page.evaluate(FONT)).startswith("Georgia") is used
    assert not any("evil" in one for one in visit.asked)
