"""The demo's five games, as a player finds them: each is played, fits its screen, and what is written stays text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.test_catchers import HAND, PATIENCE_MS
from tests.browser.test_pictures import SCREENS, SIZES, demo_games, look
from tests.browser.test_safety import EVIL, evil_ui
from tests.support.browsing import STILL, Visit, visiting
from tests.support.stack import Stack
from tests.support.world import COLLECTION, EGGS, GIFTS, World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

ONE_LIFE = {"theme": {"primary": "#c2410c", "accent": "#facc15"}, "catcher": {"lives": 1}}

TOLD_MORE = """(before) =>
    document.querySelector("tombola-game").shadowRoot.querySelector(".tally").innerText !== before"""


async def finish(visit: Visit) -> str:
    """Plays what began to its end: catches nothing, or picks the first of each turn."""
    while True:
        await visit.page.wait_for_selector(".card[data-result]:not([hidden]), .picks button", timeout=PATIENCE_MS)
        if await visit.page.is_visible(".card[data-result]"):
            return await visit.kind()
        before = await visit.page.inner_text(".tally")
        await visit.page.click(".picks button >> nth=0")
        await visit.page.click("button.main")
        await visit.page.wait_for_function(TOLD_MORE, arg=before)


async def test_all_five_of_the_campaigns_page_can_be_played(fair: World, browser: Browser, shop: Stack) -> None:
    await demo_games(fair)
    async with visiting(browser, shop, **STILL) as visit:
        await visit.page.goto(f"{shop.process.consumer_url}/c/{fair.campaign_id}")
        games = await visit.page.locator(".games a").evaluate_all("links => links.map(link => link.href)")
        assert len(games) == 5
        for address in games:
            await visit.page.goto(address)
            await visit.ready()
            await visit.page.evaluate(HAND, [False, 0])
            await visit.press()
            assert await finish(visit) in ("won", "lost")
    assert len(await fair.plays()) == 5


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
async def test_catchers_and_collections_fit_their_screen(
    fair: World, browser: Browser, shop: Stack, width: int, scheme: str
) -> None:
    games = await demo_games(fair)
    await fair.looks(games["egg_catcher"], ONE_LIFE)
    size = {"width": width, "height": SIZES[width]}
    async with visiting(browser, shop, **STILL, viewport=size, color_scheme=scheme) as visit:
        for shape in ("egg_catcher", "gift_catcher", "collection"):
            await visit.open(games[shape])
            await visit.page.evaluate(HAND, [False, 0])
            await look(visit, f"{shape}-ready-{width}-{scheme}")
            await visit.press()
            if shape != "collection":
                await visit.page.wait_for_selector(".falls, .picks")
                await look(visit, f"{shape}-played-{width}-{scheme}")
            await finish(visit)
            await look(visit, f"{shape}-shown-{width}-{scheme}")


@pytest.mark.parametrize("size", [(320, 360, 2), (3840, 2160, 1), (800, 360, 1)], ids=["zoomed", "huge", "wide"])
async def test_catchers_and_collections_fit_however_large(
    fair: World, browser: Browser, shop: Stack, size: tuple[int, int, int]
) -> None:
    games = await demo_games(fair)
    width, height, zoom = size
    async with visiting(
        browser, shop, **STILL, viewport={"width": width, "height": height}, device_scale_factor=zoom
    ) as visit:
        for shape in ("egg_catcher", "gift_catcher", "collection"):
            await visit.open(games[shape])
            await look(visit, f"{shape}-ready-{width}x{height}")
        await visit.press()
        await visit.result()
        await look(visit, f"collection-shown-{width}x{height}")


async def test_whatever_is_written_into_a_game_stays_text(fair: World, visit: Visit) -> None:
    prize_id = await fair.prize(name=EVIL)
    ui: dict[str, Any] = {
        **evil_ui("javascript:window.evil=1", prize_id),
        "egg": {"emoji": EVIL, "image": "javascript:window.evil=1"},
        "catcher": {"emoji": EVIL, "lives": 1},
        "items": [{"item": "maple", "type": "maple", "label": EVIL, "emoji": EVIL}],
    }
    rung = {"name": EVIL, "currency": "maple", "threshold": 1, "prize_id": prize_id}
    made = {
        "eggs": await fair.game(
            EGGS,
            {
                "tiers": [{"min": 0, "max": 99, "prize_group": "all"}],
                "prize_groups": {"all": [{"prize_id": prize_id, "probability": 1}]},
            },
            access="public",
            ui=ui,
        ),
        "gifts": await fair.game(
            GIFTS,
            {
                "drops": [{"type": "maple", "prize_id": prize_id, "frequency": 1, "max_catchable": 9}],
                "total_items": 2,
                "interval_ms": 1,
            },
            access="public",
            ui=ui,
        ),
        "collection": await fair.game(
            COLLECTION,
            {"items": [{"item": "maple", "weight": 1, "quantity": 2, "slot_index": 0}]},
            access="public",
            ui=ui,
            milestones={"mode": "cumulative_unlock", "auto_grant": True, "rungs": [rung]},
        ),
    }
    for game_id in made.values():
        await visit.open(game_id)
        await visit.page.evaluate(HAND, [False, 0])
        await visit.press()
        assert await finish(visit) == "won"
        assert "<script>window.evil=1</script>" in await visit.page.inner_text(".stage")
        assert await visit.page.evaluate("window.evil") is None
    home = visit.stack.process.consumer_url
    assert [one for one in visit.asked if f" {home}/" not in one] == []
