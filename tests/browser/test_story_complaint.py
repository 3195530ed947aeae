"""The second story: "I won and got nothing", from the complaint to the parcel, and who reads of it afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from tests.support.browsing import STILL
from tests.support.deliveries import working
from tests.support.guests import log_in
from tests.support.receiver import Got, Receiver, receiving
from tests.support.stack import TENANT, Stack
from tests.support.staff import Desk, at_desk
from tests.support.waiting import until
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

EMAIL = "vera.vexed@example.com"
SORRY = "sorry for the trouble"


@pytest.fixture(scope="module")
def house(counter: Stack) -> Stack:
    return counter


async def closed(got: Got) -> web.StreamResponse:
    """What a shop answers that takes nothing any more."""
    return web.Response(status=410, text="the shop is closed for stock-taking")


async def told_dead(stall: World, player: str) -> None:
    async def dead() -> bool:
        query = "SELECT status FROM tasks WHERE tenant_id = $1 AND player_id = $2"
        return bool(await stall.database.fetchval(query, TENANT, player) == "dead")

    await until(dead)


async def part(desk: Desk, title: str) -> str:
    """What is written in a section of the page."""
    heading = desk.page.get_by_role("heading", name=title, exact=True)
    return str(await desk.page.locator("section", has=heading).last.inner_text())


async def find(desk: Desk) -> None:
    """Support finds who wrote, by the address that the letter came from."""
    await desk.page.locator("nav.side a", has_text="Players").click()
    await desk.settled()
    await desk.page.fill("input[type=search]", EMAIL)
    await desk.until("document.querySelectorAll('tbody tr').length === 1")
    await desk.page.get_by_role("link", name="Vera Vexed").click()
    await desk.page.wait_for_selector("h1:text-is('Vera Vexed')")
    await desk.settled()


async def look_at_the_play(desk: Desk) -> None:
    await desk.press("Look", within="main")
    await desk.page.wait_for_selector("dialog .replay[data-tone=good]")
    told = await desk.page.inner_text("dialog")
    assert "it comes to the same" in told and "Decision path" in told and "Fair mug" in told
    assert await desk.page.locator("dialog ol.named li").count() > 0
    await desk.press("Close", within="dialog footer")


async def make_it_good(desk: Desk, stall: World, receiver: Receiver) -> None:
    """Tries the delivery again, now that the receiver is mended, and gives a turn for the trouble."""
    assert "HTTP 410: the shop is closed for stock-taking" in await part(desk, "Deliveries")
    assert "Failed" in await part(desk, "Rewards")
    await desk.press("Try again", within="main")
    await desk.press("Try again", within="dialog")
    await desk.page.wait_for_selector(".toast:has-text('One delivery is tried again.')")
    first, again = await receiver.next(), await receiver.next()
    assert again.json["id"] == first.json["id"] and again.json["data"]["prize"]["name"] == "Fair mug"

    async def delivered() -> bool:
        await desk.page.reload()
        await desk.settled()
        return "Delivered" in await part(desk, "Deliveries") and "Fulfilled" in await part(desk, "Rewards")

    await until(delivered)
    await desk.press("Give turns", within="main .head")
    await desk.page.get_by_label("Campaign", exact=True).select_option(stall.campaign_id)
    await desk.page.get_by_label("Reason", exact=True).fill(SORRY)
    await desk.press("Give turns", within="dialog footer")
    await desk.page.wait_for_selector(".toast:has-text('One turn is given')")


async def audited(desk: Desk, player: str) -> None:
    """The log tells of both: of the turn where the player's is asked for, of the delivery among what was done."""
    await desk.page.locator("main .head").get_by_role("button", name="Audit log").click()
    await desk.page.wait_for_url(f"**/audit?subject_id={player}")
    await desk.settled()
    await desk.page.get_by_role("button", name="player.grant_turns").first.click()
    await desk.page.wait_for_selector(f"dialog:has-text('{SORRY}')")
    assert "sue" in await desk.page.inner_text("dialog")
    await desk.press("Close", within="dialog")
    await desk.page.locator("nav.side a", has_text="Audit log").click()
    await desk.page.wait_for_selector("tbody tr:has-text('task')")
    assert "sue" in await desk.page.inner_text("tbody tr:has-text('task')")


async def test_a_player_who_got_nothing_gets_it_and_the_log_tells_who_saw_to_it(browser: Browser, stall: World) -> None:
    async with receiving() as receiver, working(stall.stack.engine, "deliveries"):
        receiver.replies = [closed]
        player = await log_in(stall.stack, contact=EMAIL)
        named = await stall.stack.consumer("PUT", "/players/me", {"display_name": "Vera Vexed"}, player=player)
        assert named.code == "OK"
        hook = {"channel": "webhook", "redemption_mode": "REDEMPTION_MODE_ON_WIN", "config": {"url": receiver.url}}
        mug = await stall.prize(name="Fair mug", total=3, fulfillment=hook)
        await stall.round(await stall.wheel(mug, name="Harvest wheel"), player)
        await told_dead(stall, player)
        async with at_desk(browser, stall.stack, **STILL) as desk:
            await desk.follow(desk.link("reward_manager", subject="sue"))
            await desk.settled()
            await find(desk)
            await look_at_the_play(desk)
            await desk.shot("story-complaint-player")
            await make_it_good(desk, stall, receiver)
            await audited(desk, player)
        # Who only reads sees the same, and is offered nothing to change; nor would it be taken.
        async with at_desk(browser, stall.stack, **STILL) as desk:
            await desk.follow(desk.link("designer", subject="otto"))
            await desk.settled()
            await find(desk)
            await look_at_the_play(desk)
            assert "Delivered" in await part(desk, "Deliveries")
            acts = await desk.page.locator("main").get_by_role("button").all_inner_texts()
            assert not {"Give turns", "Try again", "Revoke", "Fulfill", "Erase", "Suspend", "Take away"} & {*acts}
            await audited(desk, player)
            task = await stall.database.fetchval("SELECT task_id FROM tasks WHERE player_id = $1", player)
            for path, body in (
                (f"/admin/fulfillment/tasks/{task}/retry", {}),
                (f"/admin/players/{player}/turns", {"campaign_id": stall.campaign_id, "amount": 1, "reason": "x"}),
            ):
                assert (await stall.stack.admin("POST", path, body, roles=("designer",))).http == 403
            written = [one for one in desk.asked if not one.startswith("GET") and "/api/v1/" in one]
            assert [one for one in written if "/replay" not in one and "/auth/link" not in one] == []
