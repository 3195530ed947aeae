"""Everybody can play: nothing that axe finds on any view, in any colours; by keyboard, zoomed, and by ear."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.browser.test_pictures import demo_games, look
from tests.support.axe import violations
from tests.support.browsing import STILL, Visit, visiting
from tests.support.stack import Stack
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

PHONE: Final = {"viewport": {"width": 390, "height": 844}}
LOOKS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "light": ("light", {}),
    "dark": ("dark", {}),
    "brand": ("light", {"theme": {"primary": "#c8102e", "accent": "#00843d"}, "background": {"color": "#fff8e7"}}),
    "yellow on white": (
        "light",
        {"theme": {"primary": "#ffee00", "accent": "#ffffff"}, "background": {"color": "#ffffff"}},
    ),
    "black on navy": (
        "dark",
        {"theme": {"primary": "#000000", "accent": "#000080"}, "background": {"color": "#000080"}},
    ),
    "grey on grey": (
        "light",
        {"theme": {"primary": "#777777", "accent": "#7f7f7f"}, "background": {"color": "#808080"}},
    ),
}
"""{name: (colour scheme, `ui`)}: a player's choice or a brand's, and brands that chose badly."""


async def panels(visit: Visit) -> list[str]:
    return list(
        await visit.page.locator("[data-panel]:visible").evaluate_all("(all) => all.map((one) => one.dataset.panel)")
    )


async def views(visit: Visit, fair: World, ui: dict[str, Any]) -> dict[str, list[str]]:
    """What axe finds, by view."""
    found = {}
    segments = [{"label": "Mug", "emoji": "☕"}, {"label": "Tea", "emoji": "🍵"}, {"label": "Nothing"}]
    ui = {**ui, "wheel": {"segments": segments}, "description": "Turn it, and see."}
    prize_id = await fair.prize(name="Mug")
    rules = {"max_plays_per_day": 2}
    won = await fair.wheel(prize_id, access="public", ui=ui, rules=rules)
    lost = await fair.wheel(access="public", ui=ui, rules={"max_plays_per_day": 1})
    await visit.open(won)
    found["wheel"] = await violations(visit.page)
    await visit.press()
    assert await visit.kind() == "won"
    found["won"] = await violations(visit.page)
    for panel in await panels(visit):
        await visit.page.click(f"[data-panel={panel}]")
        await visit.page.wait_for_selector("dialog .panel > :not(.busy)")
        found[panel] = await violations(visit.page)
        await visit.page.keyboard.press("Escape")
    await visit.open(lost)
    await visit.press()
    assert await visit.kind() == "lost"
    found["lost"] = await violations(visit.page)
    await visit.page.reload()
    assert await visit.kind() == "refused"
    found["refused"] = await violations(visit.page)
    return found


@pytest.mark.parametrize("colours", LOOKS)
async def test_axe_finds_nothing_on_any_view_in_any_colours(
    fair: World, browser: Browser, shop: Stack, colours: str
) -> None:
    scheme, ui = LOOKS[colours]
    async with visiting(browser, shop, **STILL, **PHONE, color_scheme=scheme) as visit:
        found = await views(visit, fair, ui)
    assert {view: told for view, told in found.items() if told} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_on_the_list_nor_on_any_of_its_games(
    fair: World, browser: Browser, shop: Stack, scheme: str
) -> None:
    games = await demo_games(fair)
    async with visiting(browser, shop, **STILL, **PHONE, color_scheme=scheme) as visit:
        found = {}
        for shape, game_id in games.items():
            await visit.open(game_id)
            found[shape] = await violations(visit.page)
            for panel in await panels(visit):
                await visit.page.click(f"[data-panel={panel}]")
                await visit.page.wait_for_selector("dialog .panel > :not(.busy)")
                found[f"{shape} {panel}"] = await violations(visit.page)
                await visit.page.keyboard.press("Escape")
        await visit.page.goto(f"{shop.process.consumer_url}/c/{fair.campaign_id}")
        found["list"] = await violations(visit.page)
        await visit.page.goto(f"{shop.process.consumer_url}/p/game_nothing")
        visit.forgive("404")
        found["missing"] = await violations(visit.page)
    assert {view: told for view, told in found.items() if told} == {}


CONTRASTS: Final = """async (themes) => {
    const { Look, contrast, css, ink, rgb } = await import(document.querySelector("script").src);
    const lowest = (theme) => {
        const look = new Look(theme);
        const grounds = [look.ground, look.surface, look.glow];
        const pairs = [[ink(look.primary), look.primary], [ink(look.accent), look.accent]];
        for (const ink of [look.text, look.quiet, look.strong]) pairs.push(...grounds.map((ground) => [ink, ground]));
        return Math.min(...pairs.map(([ink, ground]) => {
            const told = (colour) => rgb(css(colour));
            return contrast(told(ink), told(ground));
        }));
    };
    return themes.map(lowest);
}"""


async def test_whatever_colours_a_brand_chose_all_that_is_written_can_be_read(fair: World, visit: Visit) -> None:
    """WCAG 2.2, 1.4.3: 4.5 to 1. As the browser shows them: in whole steps of 255."""
    drawn = random.Random(22)
    colours = [f"#{value:06x}" for value in (0, 0xFFFFFF, 0x777777, 0x808080, 0x737373, 0xFFEE00, 0x000080)]
    colours += [f"#{drawn.randrange(1 << 24):06x}" for _ in range(60)] + [
        f"#{v:02x}{v:02x}{v:02x}" for v in range(100, 140)
    ]
    themes = [
        {
            "theme": {"primary": drawn.choice(colours), "accent": drawn.choice(colours), "mode": mode},
            "background": {"color": ground},
        }
        for ground in colours
        for mode in ("light", "dark")
        for _ in range(4)
    ]
    await visit.open(await fair.wheel(await fair.prize(), access="public"))
    lowest = await visit.page.evaluate(CONTRASTS, themes)
    assert [(round(found, 2), theme) for found, theme in zip(lowest, themes, strict=True) if found < 4.5] == []


async def test_at_twice_its_size_on_a_narrow_phone_all_of_it_is_there(
    fair: World, browser: Browser, shop: Stack
) -> None:
    """320 CSS pixels wide, and that at 200 %, which halves the window. German has long words."""
    texts = {"won": "Herzlichen Glückwunsch zum Hauptgewinn!"}
    game_id = await fair.wheel(await fair.prize(), access="public", ui={"texts": texts}, rules={"max_plays_per_day": 2})
    for locale in ("de", "ja", "ar"):
        for name, size, zoom in (("320", {"width": 320, "height": 640}, 1), ("160", {"width": 160, "height": 320}, 2)):
            options = {"viewport": size, "device_scale_factor": zoom, "locale": locale}
            async with visiting(browser, shop, **STILL, **options) as visit:
                await visit.open(game_id)
                await look(visit, f"{locale}-{name}-ready")
                await visit.press()
                await visit.result()
                await look(visit, f"{locale}-{name}-won")
                for panel in await panels(visit):
                    await visit.page.click(f"[data-panel={panel}]")
                    await visit.page.wait_for_selector("dialog .panel > :not(.busy)")
                    await look(visit, f"{locale}-{name}-{panel}")
                    await visit.page.keyboard.press("Escape")


async def test_by_keyboard_alone_a_card_is_scratched_and_a_panel_read(fair: World, visit: Visit) -> None:
    focused = "document.querySelector('tombola-game').shadowRoot.activeElement"
    await visit.open(await fair.wheel(await fair.prize(name="Mug"), type="scratch_card", access="public"))
    seen = []
    for _ in range(12):
        await visit.page.keyboard.press("Tab")
        seen.append(await visit.page.evaluate(f"{focused}?.className ?? ''"))
        if seen[-1] == "main":
            break
    assert seen[-1] == "main", seen
    assert await visit.page.evaluate(f"getComputedStyle({focused}).outlineStyle") == "solid"
    await visit.page.keyboard.press("Enter")
    assert "Mug" in await visit.result()
    assert "Mug" in await visit.page.inner_text("[role=status]")
    await visit.page.keyboard.press("Tab")
    opened = await visit.page.evaluate(f"{focused}.dataset.panel")
    await visit.page.keyboard.press("Enter")
    await visit.page.wait_for_selector("dialog .panel > :not(.busy)")
    for _ in range(8):
        await visit.page.keyboard.press("Tab")
        inside = await visit.page.evaluate(f"!{focused} || Boolean({focused}.closest('dialog'))")
        assert inside, "the focus stays in what is open"
    await visit.page.keyboard.press("Escape")
    assert await visit.page.evaluate(f"{focused}.dataset.panel") == opened, "and comes back to where it was"
