"""Stories by clicks alone: the tutorial "Your first campaign", step by step, and a complaint until its parcel.

With TOMBOLA_PICTURES=1 they leave the pages' pictures.
"""

import re
from pathlib import Path
from typing import Final

from aiohttp import web

from tests.support.browsing import STILL, visiting
from tests.support.chromium import Browser
from tests.support.deliveries import working
from tests.support.guests import log_in
from tests.support.receiver import Got, Receiver, receiving
from tests.support.staff import Desk, at_desk
from tests.support.waiting import until
from tests.support.world import World

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


EMAIL: Final = "vera.vexed@example.com"


async def closed(got: Got) -> web.StreamResponse:
    return web.Response(status=410, text="the shop is closed for stock-taking")


async def part(desk: Desk, title: str) -> str:
    heading = desk.page.get_by_role("heading", name=title, exact=True)
    return str(await desk.page.locator("section", has=heading).last.inner_text())


async def replay_the_play(desk: Desk) -> None:
    await desk.press("View details", within="main")
    await desk.page.wait_for_selector("dialog .replay[data-tone=good]")
    text = await desk.page.inner_text("dialog")
    assert "the replay gives the same result" in text and "Decision path" in text and "Fair mug" in text
    assert await desk.page.locator("dialog ol.named li").count() > 0
    await desk.press("Close", within="dialog footer")


async def make_it_good(desk: Desk, receiver: Receiver) -> None:
    assert "HTTP 410: the shop is closed for stock-taking" in await part(desk, "Deliveries")
    assert "Failed" in await part(desk, "Rewards")
    for toast in ("Delivery failed again: HTTP 410", "Delivered"):
        await desk.press("Retry", within="main")
        await desk.press("Retry", within="dialog")
        await desk.page.wait_for_selector(f".toast:has-text('{toast}')")
        if "failed" in toast:  # So is one that is tried again among several.
            await desk.to(f"/rewards?contact={EMAIL}")
            await desk.page.get_by_label("Select Fair mug").check()
            await desk.press("Retry 1", within="main .head")
            await desk.press("Retry", within="dialog")
            await desk.page.wait_for_selector(f"tbody small:has-text('{toast}')")
            await desk.page.go_back()
            await desk.settled()
    first, *_, again = [await receiver.next() for _ in range(4)]
    assert again.json["id"] == first.json["id"] and again.json["data"]["prize"]["name"] == "Fair mug"

    async def delivered() -> bool:
        await desk.page.reload()
        await desk.settled()
        return "Delivered" in await part(desk, "Deliveries") and "Fulfilled" in await part(desk, "Rewards")

    await until(delivered)


async def read_the_log(desk: Desk, player: str) -> None:
    await desk.page.locator("section", has_text="task.retry").first.wait_for()
    assert (await part(desk, "Audit log")).count("sue") == 3
    await desk.press("Filter entries", within="main")
    await desk.page.wait_for_url(f"**/audit?player_id={player}")


async def test_complaint_about_a_missing_prize_ends_in_its_delivery(browser: Browser, fair: World) -> None:
    stack = fair.stack
    async with receiving() as receiver, working(stack.engine, "deliveries"):
        receiver.replies = [closed] * 3
        player = await log_in(stack, contact=EMAIL)
        named = await stack.consumer("PUT", "/players/me", {"display_name": "Vera Vexed"}, player=player)
        assert named.code == "OK"
        hook = {"channel": "webhook", "redemption_mode": "REDEMPTION_MODE_ON_WIN", "config": {"url": receiver.url}}
        mug = await fair.prize(name="Fair mug", total=3, fulfillment=hook)
        await fair.round(await fair.wheel(mug, name="Harvest wheel"), player)
        task = "SELECT task_id, status FROM tasks WHERE tenant_id = $1 AND player_id = $2"

        async def dead() -> bool:
            row = await fair.database.fetchrow(task, stack.tenant_id, player)
            return row is not None and row["status"] == "dead"

        await until(dead)
        async with at_desk(browser, stack, **STILL) as desk:
            await desk.follow(desk.link("reward_manager", subject="sue"))
            await desk.settled()
            await desk.to(f"/players/{player}")
            await replay_the_play(desk)
            await desk.shot("story-complaint-player")
            await make_it_good(desk, receiver)
            await read_the_log(desk, player)
