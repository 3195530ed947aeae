"""Pictures of every view, to be looked at: nothing cut, nothing overlapping, at any width."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ops import demo
from tests.support.browsing import STILL, Visit, visiting
from tests.support.stack import Stack
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

SIZES = {320: 640, 768: 1024, 1440: 900}
SCREENS = (
    [(width, scheme) for width in SIZES for scheme in ("light", "dark")]
    if os.environ.get("TOMBOLA_TEST_PICTURES") == "all"
    else [(320, "light"), (768, "dark"), (1440, "light")]
)
"""Of every picture: its window's width, and the colours that the browser asks for. All of them take the longest."""

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


async def demo_games(fair: World) -> dict[str, str]:
    """The games of the demo, in this campaign: {shape: id}."""
    prizes = {}
    for spec in demo.prize_specs():
        total = spec.pop("stock", {}).get("total", 0)
        prizes[spec["name"]] = await fair.prize(total=total, **spec)
    made = {}
    for shape, spec in demo.game_specs(fair.campaign_id, prizes).items():
        made[shape] = str((await fair.stack.admin("POST", "/admin/games", spec)).data["id"])
    return made


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
async def test_every_view_fits_its_screen(fair: World, browser: Browser, shop: Stack, width: int, scheme: str) -> None:
    games = await demo_games(fair)
    size = {"width": width, "height": SIZES[width]}
    async with visiting(browser, shop, **STILL, viewport=size, color_scheme=scheme) as visit:
        for shape in ("spin_wheel", "scratch"):
            await visit.open(games[shape])
            await look(visit, f"{shape}-ready-{width}-{scheme}")
            await visit.press()
            await visit.result()
            await look(visit, f"{shape}-shown-{width}-{scheme}")
        for panel in ("prizes", "fair"):
            await visit.page.click(f"[data-panel={panel}]")
            await visit.page.wait_for_selector("dialog .panel > :not(.busy)")
            if panel == "fair":
                await visit.page.click("dialog button:has-text('Check it now')")
                await visit.page.wait_for_selector(".steps li")
            await look(visit, f"{panel}-{width}-{scheme}")
            await visit.page.keyboard.press("Escape")
        await visit.page.goto(f"{shop.process.consumer_url}/c/{fair.campaign_id}")
        await look(visit, f"campaign-{width}-{scheme}")


async def test_every_view_fits_however_large_it_is_written(fair: World, browser: Browser, shop: Stack) -> None:
    """At 200 % in a narrow window; on a screen of 3840 by 2160; with long names; and while the wheel turns."""
    games = await demo_games(fair)
    long = "Donaudampfschifffahrtsgesellschaftskapitän und seine Mannschaft"
    prize_id = await fair.prize(name=long)
    segments = [{"label": long, "prize_id": prize_id}, {"label": "Nothing", "color": "#ffffff"}, {"label": long}]
    ui = {
        "wheel": {"segments": segments},
        "theme": {"primary": "#ffee00", "accent": "#00e5ff"},
        "description": long * 3,
    }
    wordy = await fair.wheel(prize_id, name=long, access="public", ui=ui)
    sizes = {"zoomed": (640, 720, 2), "huge": (3840, 2160, 1), "wide": (800, 360, 1)}
    for name, (width, height, zoom) in sizes.items():
        size = {"width": width // zoom, "height": height // zoom}
        async with visiting(browser, shop, **STILL, viewport=size, device_scale_factor=zoom) as visit:
            for game, game_id in {"wheel": games["spin_wheel"], "scratch": games["scratch"], "wordy": wordy}.items():
                await visit.open(game_id)
                await look(visit, f"{game}-{name}-ready")
                await visit.press()
                await visit.result()
                await look(visit, f"{game}-{name}-shown")
    async with visiting(browser, shop, viewport={"width": 420, "height": 800}) as visit:
        await visit.open(games["spin_wheel"])
        async with visit.page.expect_response("**/play"):
            await visit.press()
        await look(visit, "wheel-turning")
        await visit.result()
        await visit.open(wordy)
        await visit.press()
        await visit.result()
        await look(visit, "wheel-won-with-confetti")


async def look(visit: Visit, name: str) -> None:
    """Takes the picture; the page is no wider than its window."""
    assert await visit.page.evaluate(OVERFLOW) <= 0, name
    await visit.shot(name)
