"""A campaign's states on its pages, and its games as the doors of a calendar."""

import time
from typing import Any, Final

import pytest

from tests.support.axe import violations
from tests.support.browsing import STILL, Visit, visiting
from tests.support.chromium import Browser
from tests.support.gallery import applied
from tests.support.world import World

PIXEL: Final = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
STATES: Final = {
    "announced": {"text": {"en": "The fair opens **soon**."}},
    "running": {"image": PIXEL},
    "claims_open": {"text": "Collect your *mug*."},
}


async def test_text_and_picture_of_the_state_are_shown_by_the_widget_and_the_page(fair: World, visit: Visit) -> None:
    game_id = await fair.wheel(await fair.prize(name="Mug"), access="public")
    page, now = visit.page, int(time.time())

    async def changed(**campaign: Any) -> None:
        body = {"settings": {"page": {"states": STATES}}, "start_date": 0, **campaign}
        assert (await fair.stack.admin("PUT", f"/admin/campaigns/{fair.campaign_id}", body)).http == 200
        await visit.open(game_id)

    await changed()
    assert await page.get_attribute(".state img", "src") == PIXEL and not await page.inner_text(".state")
    await changed(start_date=now + 86_400)
    assert await page.inner_text(".state strong") == "soon"
    await page.wait_for_selector("[role=timer]")
    await changed(start_date=now - 60, end_date=now - 30, redeem_until=now + 3_600)
    assert await page.inner_text(".state em") == "mug"
    assert "can be claimed until" in await page.inner_text(".card")
    assert await page.is_visible(".card >> text=My rewards")
    await fair.wheel(await fair.prize(name="Pen"), access="public")
    await page.goto(f"{fair.stack.process.consumer_url}/c/{fair.campaign_id}?tenant_id={fair.stack.tenant_id}")
    assert await page.inner_text(".state em") == "mug" and "can be claimed until" in await page.inner_text(".state")


@pytest.mark.parametrize("width", [390, 768, 1280])
async def test_calendar_opens_a_door_a_day(fair: World, browser: Browser, width: int) -> None:
    stack = fair.stack
    campaign_id = await applied(stack, "advent_calendar", days_ago=2)
    assert (await stack.admin("PUT", f"/admin/campaigns/{campaign_id}", {"status": "active"})).http == 200
    async with visiting(browser, stack, viewport={"width": width, "height": 900}, **STILL) as visit:
        page = visit.page
        await page.goto(f"{stack.process.consumer_url}/c/{campaign_id}?tenant_id={stack.tenant_id}")
        await page.wait_for_function("() => !/20../.test(document.querySelector('.doors').innerText)")
        doors = page.locator(".doors li")
        kinds = [await door.get_attribute("data-door") for door in await doors.all()]
        assert kinds == ["closed", "closed", "today", *["locked"] * 21]
        assert await page.locator(".doors .number").all_inner_texts() == [*map(str, range(1, 25))]
        assert "Ended" in await doors.nth(0).inner_text() and "Starts" in await doors.nth(3).inner_text()
        assert await violations(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        await visit.shot(f"calendar {width}")
        assert await page.locator(".doors a").count() == 1, "only an open door is a link"
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.getAttribute('aria-current')") == "date"
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".frame h1:has-text('Door 3')")
        await page.click("text=Advent calendar")
        await page.wait_for_selector(".doors")
