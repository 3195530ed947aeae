"""The scratch card: what lies under the foil is what was decided, and it is seen by scratching."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.browsing import Visit, visiting
from tests.support.stack import Stack
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

MAIN = "document.querySelector('tombola-game').shadowRoot.querySelector('.main')"
CARD = {"type": "scratch_card", "reward_handler": "probability"}


async def card(fair: World, *, wins: bool = True, **fields: Any) -> str:
    prizes = [{"prize_id": await fair.prize(name="Fair mug"), "probability": 1}] if wins else []
    return await fair.game(CARD, {"prizes": prizes}, access="public", ui={"items": [{"emoji": "⭐"}]}, **fields)


async def scratch(visit: Visit, share: float) -> None:
    """Rubs with the mouse over the upper part of the card."""
    box = await visit.page.locator(".scratch canvas").bounding_box()
    assert box is not None
    mouse, rows = visit.page.mouse, 6
    await mouse.move(box["x"] + 5, box["y"] + 5)
    await mouse.down()
    for row in range(rows):
        y = box["y"] + (row + 0.5) / rows * share * box["height"]
        await mouse.move(box["x"] + 4, y)
        await mouse.move(box["x"] + box["width"] - 4, y, steps=4)
    await mouse.up()


async def test_it_opens_by_scratching_and_not_before(fair: World, browser: Browser, shop: Stack) -> None:
    async with visiting(browser, shop) as visit:
        await visit.open(await card(fair))
        await visit.press()
        await visit.page.wait_for_selector(".main >> text=Scratch")
        await scratch(visit, 0.2)
        assert await visit.page.is_hidden(".card"), "too little is off"
        await scratch(visit, 1)
        assert "Fair mug" in await visit.result()
    assert len(await fair.plays()) == 1


async def test_touching_the_card_takes_it(fair: World, browser: Browser, shop: Stack) -> None:
    async with visiting(browser, shop) as visit:
        await visit.open(await card(fair))
        await scratch(visit, 1)
        await visit.page.wait_for_selector(".scratch .under :text('Fair mug')")
        await scratch(visit, 1)
        assert "Fair mug" in await visit.result()
    assert len(await fair.plays()) == 1


async def test_the_keyboard_scratches_too(fair: World, browser: Browser, shop: Stack) -> None:
    async with visiting(browser, shop) as visit:
        await visit.open(await card(fair))
        await visit.page.focus("button.main")
        await visit.page.keyboard.press("Enter")
        await visit.page.wait_for_selector(".main >> text=Scratch")
        said = []
        while await visit.page.is_hidden(".card") and len(said) < 4:
            await visit.page.keyboard.press("Space")
            said.append(await visit.page.inner_text("[role=status]"))
        assert "Fair mug" in await visit.result()
        assert any("percent" in one for one in said)


async def test_a_reload_before_it_was_scratched_shows_the_same_card(fair: World, browser: Browser, shop: Stack) -> None:
    async with visiting(browser, shop) as visit:
        await visit.open(await card(fair))
        await visit.press()
        await visit.page.wait_for_selector(".main >> text=Scratch")
        await visit.page.reload()
        await visit.page.wait_for_selector(".main >> text=Scratch")
        await scratch(visit, 1)
        assert "Fair mug" in await visit.result()
    assert len(await fair.plays()) == 1


async def test_a_loss_says_so(fair: World, visit: Visit) -> None:
    await visit.open(await card(fair, wins=False))
    await visit.press()
    assert await visit.kind() == "lost"
    assert "No prize" in await visit.page.inner_text(".scratch .under")


async def test_the_next_card_is_covered_again(fair: World, browser: Browser, shop: Stack) -> None:
    async with visiting(browser, shop) as visit:
        await visit.open(await card(fair))
        for _ in range(2):
            await visit.press()
            await visit.page.wait_for_selector(".main >> text=Scratch")
            assert await visit.page.is_hidden(".card")
            await scratch(visit, 1)
            await visit.result()
    assert len(await fair.plays()) == 2


async def test_one_press_too_many_takes_no_other_card(fair: World, browser: Browser, shop: Stack) -> None:
    async with visiting(browser, shop) as visit:
        await visit.open(await card(fair))
        await visit.press()
        await visit.page.wait_for_selector(".main >> text=Scratch")
        await visit.page.evaluate(f"for (let i = 0; i < 12; i++) {MAIN}.click()")
        await visit.result()
    assert len(await fair.plays()) == 1
