"""The gallery of themes, and a brand's colours and font on the pages around a game."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from runtime.http.pages.spoken import SAID
from runtime.rules.ui import themes
from tests.browser.test_catchers import PATIENCE_MS
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
STAGES: Final = {
    "wheel": ".wheel",
    "scratch": ".scratch",
    "eggs": ".egg",
    "gifts": ".field",
    "collection": ".album",
}
"""{game of the gallery: what is only there in it}"""
SPOKEN: Final = """async (language) => {
    const { WORDS } = await import(new URL("words.js", document.querySelector("script").src).href);
    return WORDS[language];
}"""
ALL_SPOKEN: Final = """async () => {
    const of = (path) => import(new URL(path, document.querySelector("script").src).href);
    const [{ WORDS }, { LANGUAGES, en }] = await Promise.all([of("words.js"), of("../tombola.js")]);
    return [LANGUAGES, Object.keys(en), WORDS];
}"""
FONT = "getComputedStyle(document.querySelector('tombola-game').shadowRoot.querySelector('.frame')).fontFamily"


async def gallery(visit: Visit) -> None:
    await visit.page.goto(f"{visit.stack.process.consumer_url}/themes")
    await visit.page.wait_for_selector(".looks[data-shown=wheel] .look:nth-child(6) button.main")


async def choose(visit: Visit, game: str) -> None:
    """Shows the themes on another game."""
    await visit.page.click(f"[data-game={game}]")
    await visit.page.wait_for_selector(f".looks[data-shown={game}] .look:nth-child(6) {STAGES[game]}")


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


async def test_the_gallery_plays_all_five_games_and_asks_nothing(visit: Visit) -> None:
    await gallery(visit)
    games = "(all) => all.map((one) => one.dataset.game)"
    assert await visit.page.locator("[data-game]").evaluate_all(games) == list(STAGES)
    look = visit.page.locator("[data-theme=ocean]")
    for game in STAGES:
        await choose(visit, game)
        await look.locator("button.main").click()
        if game == "eggs":
            await look.locator(".falls").first.wait_for()
            continue
        if game == "gifts":
            await look.locator(".picks button").first.click()
            for _ in range(2):
                await look.locator(".main:has-text('Go on')").click(timeout=PATIENCE_MS)
        await look.locator(".card[data-result=won]").wait_for(timeout=PATIENCE_MS)
        assert "Coffee" in await look.locator(".card").inner_text()
    assert await look.locator(".slots li:not(.none)").all_inner_texts() == ["☕\nCoffee\n1"]
    assert visit.api_calls() == ["GET themes.json"]


async def test_a_game_of_the_gallery_that_is_left_is_over(visit: Visit) -> None:
    await gallery(visit)
    await choose(visit, "eggs")
    await visit.page.click("[data-theme=paper] button.main")
    await visit.page.wait_for_selector("[data-theme=paper] .falls")
    left = await visit.page.query_selector("[data-theme=paper] .field.on")
    assert left is not None
    await choose(visit, "scratch")
    assert await left.evaluate("(field) => field.matches('.on') || Boolean(field.querySelector('.falls'))") is False


@pytest.mark.parametrize("language", ["de", "ar", "ja"])
async def test_the_gallery_speaks_the_browsers_language(browser: Browser, shop: Stack, language: str) -> None:
    async with visiting(browser, shop, **STILL, locale=language) as visit:
        await gallery(visit)
        assert await visit.page.inner_text("h1") == SAID[language].themes
        words = await visit.page.evaluate(SPOKEN, language)
        names = await visit.page.locator("[data-game]").all_inner_texts()
        assert names == [words[f"game_{game}"] for game in STAGES]
        assert set(await visit.page.locator(".look .frame h2").all_inner_texts()) == {words["game_wheel"]}
        frame = visit.page.locator(".look .frame").first
        assert await frame.get_attribute("dir") == ("rtl" if language == "ar" else "ltr")


async def test_what_is_not_there_and_the_gallery_are_told_in_each_of_the_languages(visit: Visit) -> None:
    base = visit.stack.process.consumer_url
    for language, said in SAID.items():
        direction = "rtl" if language == "ar" else "ltr"
        expected = {"/themes": said.themes, "/p/none": said.no_game, "/c/none": said.no_campaign}
        for path, told in expected.items():
            answer = await visit.page.request.get(base + path, headers={"Accept-Language": f"{language}-XX, en;q=0.5"})
            page = html.unescape(await answer.text())
            assert f'<html lang="{language}" dir="{direction}">' in page, (path, language)
            assert f">{told}</h1>" in page and f"<title>{told}</title>" in page, (path, language)
            assert (said.themes_lead in page) is (path == "/themes")
            assert answer.status == (200 if path == "/themes" else 404)
            assert "Accept-Language" in answer.headers["vary"], "a cache keeps them apart"


async def test_the_gallery_says_the_same_in_every_language_and_nothing_in_english(visit: Visit) -> None:
    await gallery(visit)
    languages, known, words = await visit.page.evaluate(ALL_SPOKEN)
    assert languages == list(SAID) == list(words)
    assert all(words[language].keys() == words["en"].keys() for language in languages)
    assert not words["en"].keys() & set(known), "a word of the widget's would be another one here"
    same = {
        (language, key) for language in languages[1:] for key in words["en"] if words[language][key] == words["en"][key]
    }
    assert same == set()
    assert all("{name}" in words[language]["copy_name"] for language in languages)


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
        for game in STAGES:
            await choose(visit, game)
            await look(visit, f"themes-{game}-{width}-{scheme}")
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
