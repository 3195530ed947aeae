"""The tutorial "Your first campaign", step by step; with TOMBOLA_PICTURES=1 it leaves the page's pictures."""

import re
from pathlib import Path
from typing import Final

from tests.support.browsing import STILL, visiting
from tests.support.chromium import Browser
from tests.support.staff import Desk

PAGE: Final = (Path(__file__).parents[3] / "docs/tutorials/first-campaign.md").read_text()
PRESSED: Final = re.findall(r"\*\*(.+?)\*\*", PAGE)


async def test_first_campaign_of_the_tutorial_is_live_and_won(browser: Browser, desk: Desk) -> None:
    page, pressed = desk.page, iter(PRESSED)
    await page.set_viewport_size({"width": 1100, "height": 700})

    async def press(within: str) -> None:
        await page.locator(within).locator("button:visible, a:visible").get_by_text(next(pressed)).first.click()

    await desk.enter("designer")
    await press("nav.side")
    await desk.settled()
    await press("main")
    await page.locator("main button:visible").nth(2).wait_for()
    await desk.settled()
    await desk.shot("tutorial-gallery", whole=False)
    await press("main")
    await page.get_by_label(next(pressed), exact=True).fill("Spring at the market")
    await page.get_by_label(next(pressed)).fill("Europe/Berlin")
    await desk.shot("tutorial-start", whole=False)
    await press("dialog")
    await page.wait_for_selector("h1:text-is('Spring at the market')")
    await desk.settled()
    await desk.shot("tutorial-draft", whole=False)
    await press("main")
    await page.wait_for_selector("dialog")
    await press("dialog")
    await page.wait_for_selector("main .head .status:has-text('Active')")
    await desk.settled()
    await desk.shot("tutorial-live", whole=False)
    link = str(await page.locator("section:has(pre) a").first.get_attribute("href"))
    async with visiting(browser, desk.stack, **STILL) as visit:
        await visit.page.set_viewport_size({"width": 390, "height": 760})
        await visit.page.goto(link)
        await visit.ready()
        await visit.press()
        assert await visit.result()
        await visit.shot("tutorial-play", whole=False)
