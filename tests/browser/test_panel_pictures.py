"""Pictures of every panel, to be looked at: nothing cut, nothing overlapping, at any width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.test_pictures import OVERFLOW, SCREENS, SIZES
from tests.support.browsing import STILL, Visit, visiting
from tests.support.leaderboards import make_board
from tests.support.milestones import block
from tests.support.panels import open_as, panel, shown
from tests.support.quests import open_quest
from tests.support.stack import Stack
from tests.support.waiting import until
from tests.support.world import COLLECTION, World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

PANELS = ("prizes", "rewards", "milestones", "quests", "ranking", "wallet", "history", "fair")
NAMES = ("Ada", "Bertrand Archibald von Hohenlohe-Ingelfingen", "Chloé", "達也", "سارة", "Eve", "Fay", "Gus", "Ida")
CUT = """() => [...document.querySelector("tombola-game").shadowRoot.querySelectorAll("dialog *")]
    .filter((one) => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 1)
    .filter((one) => !one.closest(".listen") && getComputedStyle(one).display !== "inline")
    .map((one) => `${one.className}: ${one.textContent.slice(0, 40)}`)"""


async def busy_fair(fair: World) -> str:
    """The id of a game around which there is something in every panel, for ann."""
    cup = await fair.prize(name="Cider voucher", codes=["CIDER-0001"], fulfillment={"channel": "voucher_code"})
    on_claim = {"redemption_mode": "on_claim", "channel": "none"}
    mug = await fair.prize(name="Fair mug", fulfillment=on_claim, expires_after_days=30)
    gone = await fair.prize(name="Golden pumpkin", total=1)
    wide = await fair.prize(name="Donaudampfschifffahrtsgesellschaftskapitänsmütze", fulfillment=on_claim)
    rungs = [
        {"id": f"r{n}", "name": name, "currency": currency, "threshold": threshold, "prize_id": prize_id}
        for n, (name, currency, threshold, prize_id) in enumerate(
            [
                ("First leaves", "maple", 2, cup),
                ("A whole bunch", "maple", 4, mug),
                ("The Donaudampfschifffahrtsgesellschaft's album", "oak", 900, wide),
                ("Gold", "maple", 50, gone),
            ]
        )
    ]
    config = {
        "items": [
            {"item": "maple", "weight": 0.9, "quantity": 2, "slot_index": 0},
            {"item": "oak", "weight": 0.1, "quantity": 1, "slot_index": 1},
        ]
    }
    ui = {
        "theme": {"primary": "#c2410c", "accent": "#facc15"},
        "background": {"color": "#fff7ed", "emoji": "🍂"},
        "items": [{"item": "maple", "emoji": "🍁"}, {"item": "oak", "emoji": "🌰"}],
        "prizes": [
            {"prize_id": cup, "emoji": "🍺"},
            {"prize_id": mug, "emoji": "☕"},
            {"prize_id": wide, "emoji": "🧢"},
        ],
    }
    game_id = await fair.game(
        COLLECTION,
        config,
        name="Leaf album",
        access="public",
        ui=ui,
        milestones=block(*rungs, auto_grant=False),
        rules={"max_plays_per_day": 12},
    )
    soon = {"type": "weekly", "turns": 1, "name": "Bring a friend", "description": "Show your code at the stall."}
    await open_quest(
        fair.stack, fair.campaign_id, type="daily", name="Visit the stall", description="Drop in once a day."
    )
    await open_quest(fair.stack, fair.campaign_id, **soon, end_date=4_000_000_000)
    rank_prizes = [{"from_rank": 1, "to_rank": 3, "prize_id": mug}]
    board = await make_board(fair.stack, fair.campaign_id, name="Keenest players", metric="plays", prizes=rank_prizes)
    await make_board(fair.stack, fair.campaign_id, name="Winners", metric="wins")
    for n, name in enumerate(NAMES):
        await fair.stack.consumer("PUT", "/players/me", {"display_name": name}, player=f"p{n}")
        for _ in range(max(1, 4 - n)):
            await fair.round(game_id, f"p{n}")
    for _ in range(6):
        await fair.round(game_id, "ann")
    for rung in ("r0", "r1"):
        assert (await fair.redeem(game_id, rung)).code == "OK"

    async def ranked() -> bool:
        answer = await fair.stack.consumer("GET", f"/leaderboards/{board['id']}/rankings", player="ann")
        return len(answer.data["items"]) == len(NAMES) + 1

    await until(ranked)
    return game_id


async def look(visit: Visit, name: str) -> None:
    """Takes the picture; nothing in the dialog is wider than its place."""
    assert await visit.page.evaluate(OVERFLOW) <= 0, name
    assert await visit.page.evaluate(CUT) == [], name
    window, dialog = visit.page.viewport_size, visit.page.locator("dialog")
    if await dialog.count():
        box = await dialog.bounding_box()
        assert window and box and box["y"] >= 0 and box["y"] + box["height"] <= window["height"] + 1, name
    await visit.shot(name, whole=name.startswith("panels"))


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
async def test_every_panel_fits_its_screen(fair: World, browser: Browser, shop: Stack, width: int, scheme: str) -> None:
    game_id = await busy_fair(fair)
    options: dict[str, Any] = {"viewport": {"width": width, "height": SIZES[width]}, "color_scheme": scheme}
    async with visiting(browser, shop, **STILL, **options) as visit:
        await open_as(visit, game_id, "ann")
        await visit.play()
        await look(visit, f"panels-around-{width}-{scheme}")
        for name in PANELS:
            await panel(visit, name)
            if name == "rewards":
                await visit.page.click("dialog >> text=QR code")
                await visit.page.wait_for_selector(".qr svg")
            if name == "wallet":
                await visit.page.wait_for_selector("[data-entry]")
            if name == "fair":
                await visit.page.click("dialog button:has-text('Check it now')")
                await visit.page.wait_for_selector(".steps li")
            await look(visit, f"panel-{name}-{width}-{scheme}")
            await visit.page.keyboard.press("Escape")


async def test_what_is_empty_refused_or_large_fits_too(fair: World, browser: Browser, shop: Stack) -> None:
    game_id = await busy_fair(fair)
    async with visiting(browser, shop, **STILL, viewport={"width": 390, "height": 780}) as visit:
        await visit.open(game_id)
        for name in ("rewards", "milestones", "wallet", "history", "fair"):
            await panel(visit, name)
            await look(visit, f"panel-{name}-nobody")
            await visit.page.keyboard.press("Escape")
        await panel(visit, "quests")
        for _ in range(2):
            await visit.page.click("dialog [data-act=quest] >> nth=0")
            await visit.page.wait_for_selector("dialog .chip[data-kind=good]")
        await look(visit, "panel-quests-done")
        await visit.page.keyboard.press("Escape")
        await panel(visit, "quests")
        await look(visit, "panel-quests-done-before")
        await visit.page.keyboard.press("Escape")
        late = await open_quest(fair.stack, fair.campaign_id, type="daily", name="Bring your mug")
        await panel(visit, "quests")
        headers = {"Authorization": f"Bearer {await visit.guest_token()}"}
        await fair.stack.consumer("POST", f"/quests/{late}/complete", {}, headers=headers)
        await visit.page.click("dialog [data-act=quest] >> nth=0")
        await visit.page.wait_for_selector("dialog .refusal")
        await look(visit, "panel-quests-refused")
        visit.forgive("409")
    sizes = {"zoomed": (640, 720, 2), "huge": (3840, 2160, 1), "low": (800, 360, 1)}
    for label, (width, height, zoom) in sizes.items():
        size = {"width": width // zoom, "height": height // zoom}
        async with visiting(browser, shop, **STILL, viewport=size, device_scale_factor=zoom) as visit:
            await open_as(visit, game_id, "ann")
            for name in ("rewards", "milestones", "quests", "ranking", "wallet"):
                await panel(visit, name)
                await look(visit, f"panel-{name}-{label}")
                await visit.page.keyboard.press("Escape")
            await panel(visit, "history")
            await visit.page.click("dialog [data-play] button >> nth=0")
            await shown(visit, "fair")
            await look(visit, f"panel-earlier-{label}")
