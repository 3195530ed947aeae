from typing import Final

from tests.support.browsing import Visit
from tests.support.pages.games import CARD, FOCUSED, ROOT, eggs, ended, gifts, reported
from tests.support.panels import shown
from tests.support.world import World

TABS_MAX: Final = 30

NOTE: Final = f"""() => {{
    const listener = {ROOT}.querySelector(".frame > .listen");
    window.heard = [];
    new MutationObserver(() => window.heard.push(listener.textContent)).observe(listener, {{ childList: true }});
}}"""

WAY: Final = f"""() => {{
    const egg = [...{ROOT}.querySelectorAll(".field.on .falls")].at(-1);
    if (!egg) return 0;
    const [at, basket] = [egg, {ROOT}.querySelector(".basket")].map((node) => node.getBoundingClientRect());
    const off = at.left + at.width / 2 - basket.left - basket.width / 2;
    return Math.abs(off) < basket.width / 4 ? 0 : Math.sign(off);
}}"""


async def tab_to(visit: Visit, selector: str, key: str = "Tab") -> None:
    seen = []
    for _ in range(TABS_MAX):
        await visit.page.keyboard.press(key)
        if await visit.page.evaluate(f"(selector) => {FOCUSED}?.matches(selector)", selector):
            assert await visit.page.evaluate(f"getComputedStyle({FOCUSED}).outlineStyle") == "solid", selector
            return
        seen.append(await visit.page.evaluate(f"{FOCUSED}?.className"))
    raise AssertionError(f"{selector} is not reached: {seen}")


async def press(visit: Visit, selector: str, key: str = "Enter", by: str = "Tab") -> None:
    await tab_to(visit, selector, by)
    await visit.page.keyboard.press(key)


async def heard(visit: Visit) -> str:
    return "\n".join(await visit.page.evaluate("window.heard"))


async def begin_calmly(visit: Visit) -> None:
    await visit.page.evaluate(NOTE)
    await press(visit, ".over button", "Space")
    assert await visit.page.evaluate(f"{FOCUSED}.getAttribute('aria-pressed')") == "true"
    await press(visit, "button.main")


async def test_egg_is_caught_by_the_keys_alone(fair: World, moving: Visit) -> None:
    await moving.open(await eggs(fair, most=1, lives=9))
    await begin_calmly(moving)
    await moving.page.wait_for_selector(".field.on:focus-visible")
    assert await moving.page.evaluate(f"[{FOCUSED}.role, {FOCUSED}.ariaLabel.includes('←')]") == ["application", True]
    while await moving.page.locator(".field.on").count():
        if way := await moving.page.evaluate(WAY):
            await moving.page.keyboard.press("ArrowRight" if way > 0 else "ArrowLeft")
        await moving.page.evaluate("new Promise(requestAnimationFrame)")
    assert await ended(moving) == "won"
    assert await moving.page.evaluate(f"{FOCUSED}.className") == "main", "the focus is where the game goes on"
    assert "You won!" in await heard(moving) and "Fair mug" in await heard(moving)
    assert [play["score"] for play in await reported(fair)] == [1]


async def test_gifts_are_picked_by_the_keys_alone_and_not_before_they_would_fall(fair: World, moving: Visit) -> None:
    await moving.open(await gifts(fair, count=8, interval_ms=100))
    began = await moving.page.evaluate("performance.now()")
    await begin_calmly(moving)
    await moving.page.wait_for_selector(".picks button >> nth=5")
    assert await moving.page.evaluate("performance.now()") - began > 5 * 100
    assert await moving.page.locator(".falls").count() == 0
    assert "6 / 8" in await heard(moving)
    await press(moving, ".picks button[aria-label='A star']", "Space", "Shift+Tab")
    await moving.page.keyboard.press("Shift+Tab")
    await moving.page.keyboard.press("Space")
    await moving.page.keyboard.press("Space")  # A second press puts it back.
    assert await moving.page.inner_text(".tally") == "1 caught\n6 / 8"
    await press(moving, "button.main")
    await moving.page.wait_for_selector(".tally >> text=8 / 8")
    assert "8 / 8" in await heard(moving)
    await press(moving, ".picks button", by="Shift+Tab")
    await press(moving, "button.main")
    assert await ended(moving) == "won" and "2 × Star" in await moving.result()
    assert await moving.page.evaluate(f"{FOCUSED}.className") == "main"
    assert "You won!" in await heard(moving) and "2 × Star" in await heard(moving)
    assert [play["payload"] for play in await reported(fair)] == [{"caught_items": ["item_5", "item_7"]}]


async def test_games_are_played_and_a_reward_claimed_by_keys(fair: World, visit: Visit, moving: Visit) -> None:
    on_claim = {"redemption_mode": "on_claim", "channel": "none"}
    await visit.open(await fair.wheel(await fair.prize(name="Mug", fulfillment=on_claim), access="public"))
    await press(visit, "button.main")
    assert await visit.kind() == "won"
    assert await visit.page.evaluate(f"{FOCUSED}.className") == "main", "the focus stays"
    text = await visit.page.inner_text("[role=status]")
    assert "You won" in text and "Mug" in text
    await press(visit, "[data-panel=rewards]")
    await shown(visit, "rewards")
    for _ in range(8):
        await visit.page.keyboard.press("Tab")
        assert await visit.page.evaluate(f"!{FOCUSED} || Boolean({FOCUSED}.closest('dialog'))"), "the dialog keeps it"
    await press(visit, "[data-act=claim]")
    await visit.page.wait_for_selector("[data-status=FULFILLED]")
    assert await visit.page.evaluate(f"{FOCUSED}.dataset.status") == "FULFILLED", "the focus is on the result"
    await visit.page.keyboard.press("Escape")
    assert await visit.page.evaluate(f"{FOCUSED}.dataset.panel") == "rewards", "the focus is back"
    # A scratch card tells its progress.
    odds = {"prizes": [{"prize_id": await fair.prize(name="Fair mug"), "probability": 1}]}
    await moving.open(await fair.game(CARD, odds, access="public"))
    await press(moving, "button.main")
    await moving.page.wait_for_selector(".main >> text=Scratch")
    said = []
    while await moving.page.is_hidden(".card") and len(said) < 4:
        await moving.page.keyboard.press("Space")
        said.append(await moving.page.inner_text("[role=status]"))
    assert "Fair mug" in await moving.result()
    assert any("% scratched" in one for one in said)
