"""Every game from its beginning to its end by the keys alone: where one is can be seen, and what happens is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.browser.test_catchers import PATIENCE_MS, eggs, ended, gifts, reported
from tests.browser.test_collection import collection
from tests.support.browsing import SETTLE_MS, Visit, visiting
from tests.support.panels import said, shown
from tests.support.stack import Stack
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

FOCUSED: Final = "document.querySelector('tombola-game').shadowRoot.activeElement"
TABS: Final = 30
"""More than there is to be reached on a page."""

TOLD: Final = """() => {
    const listener = document.querySelector("tombola-game").shadowRoot.querySelector(".frame > .listen");
    window.heard = [];
    new MutationObserver(() => window.heard.push(listener.textContent)).observe(listener, { childList: true });
}"""
"""Notes what who listens is told."""

WAY: Final = """() => {
    const root = document.querySelector("tombola-game").shadowRoot;
    const egg = [...root.querySelectorAll(".field.on .falls")].at(-1);
    if (!egg) return 0;
    const [at, basket] = [egg, root.querySelector(".basket")].map((node) => node.getBoundingClientRect());
    const off = at.left + at.width / 2 - basket.left - basket.width / 2;
    return Math.abs(off) < basket.width / 4 ? 0 : Math.sign(off);
}"""
"""Where the egg that came first is from the basket: -1 left of it, 0 above it, 1 right of it."""


async def tab_to(visit: Visit, selector: str, key: str = "Tab") -> None:
    """Goes there by the key; it can be seen where one is."""
    seen = []
    for _ in range(TABS):
        await visit.page.keyboard.press(key)
        if await visit.page.evaluate(f"(selector) => {FOCUSED}?.matches(selector)", selector):
            assert await visit.page.evaluate(f"getComputedStyle({FOCUSED}).outlineStyle") == "solid", selector
            return
        seen.append(await visit.page.evaluate(f"{FOCUSED}?.className"))
    raise AssertionError(f"{selector} is not reached: {seen}")


async def heard(visit: Visit) -> str:
    """All that who listens was told so far."""
    return "\n".join(await visit.page.evaluate("window.heard"))


async def calm(visit: Visit) -> None:
    """Chooses the calm version, and begins."""
    await tab_to(visit, ".over button")
    await visit.page.keyboard.press("Space")
    assert await visit.page.evaluate(f"{FOCUSED}.getAttribute('aria-pressed')") == "true"
    await tab_to(visit, "button.main")
    await visit.page.keyboard.press("Enter")


async def test_an_egg_is_caught_by_the_keys_alone(fair: World, browser: Browser, shop: Stack) -> None:
    async with visiting(browser, shop) as visit:
        await visit.open(await eggs(fair, most=1, lives=9))
        await visit.page.evaluate(TOLD)
        await calm(visit)
        await visit.page.wait_for_selector(".field.on:focus-visible")
        assert await visit.page.evaluate(f"[{FOCUSED}.role, {FOCUSED}.ariaLabel.includes('←')]") == [
            "application",
            True,
        ]
        while await visit.page.locator(".field.on").count():
            if way := await visit.page.evaluate(WAY):
                await visit.page.keyboard.press("ArrowRight" if way > 0 else "ArrowLeft")
            await visit.page.evaluate("new Promise(requestAnimationFrame)")
        assert await ended(visit) == "won"
        assert await visit.page.evaluate(f"{FOCUSED}.className") == "main", "the focus is where the game goes on"
        assert "You won!" in await heard(visit) and "Fair mug" in await heard(visit)
    assert [play["score"] for play in await reported(fair)] == [1]


async def test_gifts_are_picked_by_the_keys_alone(fair: World, browser: Browser, shop: Stack) -> None:
    async with visiting(browser, shop) as visit:
        await visit.open(await gifts(fair, count=8, interval_ms=20))
        await visit.page.evaluate(TOLD)
        await calm(visit)
        await visit.page.wait_for_selector(".picks button >> nth=5")
        assert "6 / 8" in await heard(visit)
        await tab_to(visit, ".picks button[aria-label='A star']", "Shift+Tab")
        await visit.page.keyboard.press("Space")
        await tab_to(visit, "button.main")
        await visit.page.keyboard.press("Enter")
        await visit.page.wait_for_selector(".tally >> text=8 / 8")
        assert "8 / 8" in await heard(visit)
        await tab_to(visit, ".picks button", "Shift+Tab")
        await visit.page.keyboard.press("Enter")
        await tab_to(visit, "button.main")
        await visit.page.keyboard.press("Enter")
        assert await ended(visit) == "won" and "2 × Star" in await visit.result()
        assert await visit.page.evaluate(f"{FOCUSED}.className") == "main"
        assert "You won!" in await heard(visit) and "2 × Star" in await heard(visit)
    assert [play["payload"] for play in await reported(fair)] == [{"caught_items": ["item_5", "item_7"]}]


async def test_cards_are_drawn_and_a_rung_is_redeemed_by_the_keys_alone(
    fair: World, browser: Browser, shop: Stack
) -> None:
    async with visiting(browser, shop) as visit:
        await visit.open(await collection(fair))
        await visit.page.evaluate(TOLD)
        await tab_to(visit, "button.main")
        for count in (1, 2):
            await visit.page.wait_for_timeout(SETTLE_MS)  # It rests after a result.
            await visit.page.keyboard.press("Enter")
            await visit.page.wait_for_function(f"() => window.heard.join().split('You won!').length > {count}")
            assert await visit.page.evaluate(f"{FOCUSED}.className") == "main"
        assert "2 × maple" in await heard(visit)
        await tab_to(visit, "[data-panel=milestones]")
        await visit.page.keyboard.press("Enter")
        assert "Maple" in await shown(visit, "milestones") or "maple" in await shown(visit, "milestones")
        await tab_to(visit, "[data-act=redeem]")
        await visit.page.keyboard.press("Enter")
        await visit.page.wait_for_selector("dialog .notice:focus")
        assert await said(visit) == "Fair mug is yours!"
        await visit.page.wait_for_selector("[data-status=GRANTED]", timeout=PATIENCE_MS)
        await visit.page.keyboard.press("Escape")
        await visit.page.wait_for_selector("dialog", state="detached")
        assert await visit.page.evaluate(f"{FOCUSED}.dataset.panel") == "milestones", "and back to where one was"
        headers = {"Authorization": f"Bearer {await visit.guest_token()}"}
        (reward,) = (await shop.consumer("GET", "/rewards/me", headers=headers)).data["items"]
    assert reward["milestone_id"] and reward["name"] == "Fair mug"
    row = await fair.database.fetchrow("SELECT milestone_id FROM rewards WHERE reward_id = $1", reward["id"])
    assert row is not None and row["milestone_id"] == reward["milestone_id"]
