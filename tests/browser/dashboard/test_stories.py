"""Two stories by clicks alone: a launch from nothing to a player who won, and a complaint to its parcel."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest
from aiohttp import web

from runtime.operations.campaigns import analytics
from tests.support.browsing import STILL, visiting
from tests.support.deliveries import working
from tests.support.guests import log_in
from tests.support.pages.forms import field
from tests.support.pages.games import ROOT
from tests.support.receiver import Got, Receiver, receiving
from tests.support.stack import Stack
from tests.support.staff import Desk, at_desk
from tests.support.waiting import until
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser, Route

pytestmark = pytest.mark.asyncio(loop_scope="session")

PICTURE: Final = "https://pictures.example/mug.svg"
MUG: Final = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><circle cx="4" cy="4" r="4" fill="teal"/></svg>'


async def follow(desk: Desk, name: str, within: str = "main") -> None:
    await desk.page.locator(within).locator("a", has_text=name).first.click()
    await desk.settled()


async def make_prize(desk: Desk, name: str, value: str, total: str) -> None:
    for named, text in {"name": name, "value": value, "stock.total": total, "image_url": PICTURE}.items():
        await field(desk, named).fill(text)
    await desk.press("Make prize", within="main")
    await desk.page.wait_for_selector(f"h1:text-is('{name}')")
    await desk.settled()


async def win(browser: Browser, stack: Stack, link: str) -> str:
    async def drawn(route: Route) -> None:
        await route.fulfill(body=MUG, content_type="image/svg+xml")

    async with visiting(browser, stack, **STILL) as visit:
        await visit.page.route("https://pictures.example/**", drawn)
        await visit.page.goto(link)
        await visit.ready()
        assert await visit.page.inner_text("h1") == "Harvest wheel", "the campaign's page opens its only game"
        await visit.press()
        told = await visit.result()
        await visit.shot("story-launch-won")
        assert await visit.kind() == "won"
        assert PICTURE in await visit.page.evaluate(f"[...{ROOT}.querySelectorAll('img')].map((one) => one.src)")
        return told


async def test_designer_launches_a_campaign_that_a_player_wins(browser: Browser, desk: Desk) -> None:
    page = desk.page
    await desk.enter("designer")
    await page.wait_for_selector("main .empty:has-text('No campaign is running')")
    await follow(desk, "New campaign")
    await page.wait_for_selector("dialog form")
    await page.get_by_label("Name", exact=True).fill("Harvest days")
    await page.get_by_label("Time zone").fill("Europe/Berlin")
    await page.get_by_label("Begins").fill("2021-12-01T08:00")
    await page.get_by_label("Ends").fill("2041-12-24T20:00")
    await desk.press("Make campaign", within="dialog")
    assert await desk.told() == "Harvest days is made, as a draft."
    await page.wait_for_selector("h1:text-is('Harvest days')")
    await desk.settled()
    [made] = (await desk.stack.admin("GET", "/admin/campaigns")).data["items"]
    assert (made["start_date"], made["timezone"]) == (1638342000, "Europe/Berlin")
    assert "No game is active" in await page.inner_text(".checks [data-tone=bad]")
    await follow(desk, "New prize")
    await make_prize(desk, "Fair mug", "8", "20")
    assert await field(desk, "campaign_id").input_value() != ""
    await follow(desk, "Campaigns", within="nav.side")
    await follow(desk, "Harvest days")
    await follow(desk, "New game")
    await page.get_by_label("Name", exact=True).fill("Harvest wheel")
    await desk.press("Make game", within="main")
    await page.wait_for_selector("h1:text-is('Harvest wheel')")
    await desk.settled()
    # A missing prize is made in another tab, and nothing typed is lost.
    form = page.locator(".designer form")
    for _ in range(2):
        await form.get_by_role("button", name="Add to prizes").click()
    await field(desk, "handler_config.prizes[0].prize_id").select_option(label="Fair mug")
    await field(desk, "handler_config.prizes[0].probability").fill("75")
    await field(desk, "handler_config.prizes[1].probability").fill("25")
    async with page.expect_popup() as opened:
        await form.get_by_role("link", name="New prize").first.click()
    other = Desk(await opened.value, desk.stack, desk.wrong, desk.asked)
    await other.settled()
    await make_prize(other, "Hay ride", "30", "4")
    await other.page.close()
    await page.bring_to_front()
    await page.evaluate("dispatchEvent(new Event('focus'))")
    second = field(desk, "handler_config.prizes[1].prize_id")
    await second.locator("option", has_text="Hay ride").wait_for(state="attached")
    await second.select_option(label="Hay ride")
    await form.locator("[name=access]").select_option(label="Everybody")
    await form.locator("[name='ui.theme.preset']").select_option("forest")
    await page.wait_for_selector(".odds tbody tr:has-text('Hay ride')")
    await desk.press("Save", within=".designer")
    await page.wait_for_selector(".toast:has-text('Saved.')")
    preview = page.locator(".preview tombola-game")
    await preview.get_by_role("button", name="Spin the wheel").wait_for()

    async def tried() -> bool:
        if await preview.locator(".card[data-result=won]").is_visible():
            return True
        await preview.locator("button.main").click()  # A save draws the preview anew, which forgets a press.
        return False

    await until(tried)
    await desk.shot("story-launch-designer")
    await desk.press("Activate", within="main .head")
    await desk.press("Activate", within="dialog")
    await page.wait_for_selector("main .head .status:has-text('Active')")
    await form.locator("[name='rules.max_plays_per_day']").fill("3")
    await desk.press("Save", within=".designer")  # Over the revision that activating made.
    await page.wait_for_selector(".under:has-text('revision 4')")
    await follow(desk, "Harvest days")
    await page.wait_for_selector(".checks:has-text('One game is active')")
    assert await page.locator(".checks [data-tone=bad]").count() == 0
    assert "Fair mug has stock: 20 left" in await page.inner_text(".checks")
    await desk.press("Activate", within="main .head")
    await desk.press("Activate", within="dialog")
    await page.wait_for_selector("main .head .status:has-text('Active')")
    put = page.locator("section", has=page.get_by_role("heading", name="Put it in front of players"))
    assert "<tombola-game" in await put.locator("pre").inner_text()
    told = await win(browser, desk.stack, str(await put.locator("a").first.get_attribute("href")))
    assert re.search("Fair mug|Hay ride", told)
    await follow(desk, "Home", within="nav.side")

    async def seen() -> bool:
        await analytics.count_all(desk.stack.engine)
        await page.reload()
        await desk.settled()
        row = page.locator("section tr", has_text="Harvest days")
        return bool(await row.count()) and (await row.locator("td.number").all_inner_texts())[0] == "1"

    await until(seen)
    await desk.shot("story-launch-home")
    await World(desk.stack, made["id"]).check()


# -- a complaint -----------------------------------------------------------------------------

EMAIL: Final = "vera.vexed@example.com"
SORRY: Final = "sorry for the trouble"


async def closed(got: Got) -> web.StreamResponse:
    return web.Response(status=410, text="the shop is closed for stock-taking")


async def part(desk: Desk, title: str) -> str:
    heading = desk.page.get_by_role("heading", name=title, exact=True)
    return str(await desk.page.locator("section", has=heading).last.inner_text())


async def find_player(desk: Desk) -> None:
    await follow(desk, "Players", within="nav.side")
    await desk.page.fill("input[type=search]", EMAIL)
    await desk.page.wait_for_url("**q=vera**")
    await desk.until("document.querySelectorAll('tbody tr').length === 1")
    await desk.page.get_by_role("link", name="Vera Vexed").click()
    await desk.page.wait_for_selector("h1:text-is('Vera Vexed')")
    await desk.settled()
    assert EMAIL not in await desk.page.content() and "v***@example.com" in await desk.page.inner_text("main")


async def replay_the_play(desk: Desk) -> None:
    await desk.press("Look", within="main")
    await desk.page.wait_for_selector("dialog .replay[data-tone=good]")
    told = await desk.page.inner_text("dialog")
    assert "it comes to the same" in told and "Decision path" in told and "Fair mug" in told
    assert await desk.page.locator("dialog ol.named li").count() > 0
    await desk.press("Close", within="dialog footer")


async def make_it_good(desk: Desk, fair: World, receiver: Receiver) -> None:
    """Retries the delivery once the receiver works, and gives a turn."""
    assert "HTTP 410: the shop is closed for stock-taking" in await part(desk, "Deliveries")
    assert "Failed" in await part(desk, "Rewards")
    for told in ("It failed again: HTTP 410", "It is delivered."):
        await desk.press("Try again", within="main")
        await desk.press("Try again", within="dialog")
        await desk.page.wait_for_selector(f".toast:has-text('{told}')")
        if "failed" in told:  # So is one that is tried again among several.
            await desk.to(f"/rewards?contact={EMAIL}")
            await desk.page.get_by_label("Choose Fair mug").check()
            await desk.press("Deliver 1 again", within="main .head")
            await desk.press("Try again", within="dialog")
            await desk.page.wait_for_selector(f"tbody small:has-text('{told}')")
            await desk.page.go_back()
            await desk.settled()
    first, *_, again = [await receiver.next() for _ in range(4)]
    assert again.json["id"] == first.json["id"] and again.json["data"]["prize"]["name"] == "Fair mug"

    async def delivered() -> bool:
        await desk.page.reload()
        await desk.settled()
        return "Delivered" in await part(desk, "Deliveries") and "Fulfilled" in await part(desk, "Rewards")

    await until(delivered)
    await desk.press("Give turns", within="main .head")
    await desk.page.get_by_label("Campaign", exact=True).select_option(fair.campaign_id)
    await desk.page.get_by_label("Reason", exact=True).fill(SORRY)
    await desk.press("Give turns", within="dialog footer")
    await desk.page.wait_for_selector(".toast:has-text('One turn is given: 1 left now.')")


async def read_the_log(desk: Desk, player: str) -> None:
    log = await part(desk, "Audit log")
    assert "player.grant_turns" in log and "task.retry" in log and log.count("sue") == 4
    await desk.press("Filter entries", within="main")
    await desk.page.wait_for_url(f"**/audit?player_id={player}")
    await desk.settled()
    await desk.page.get_by_role("button", name="player.grant_turns").first.click()
    await desk.page.wait_for_selector(f"dialog:has-text('{SORRY}')")
    assert "sue" in await desk.page.inner_text("dialog")
    await desk.press("Close", within="dialog")
    await desk.page.locator("nav.side a", has_text="Audit log").click()
    await desk.page.wait_for_selector("tbody tr:has-text('task')")
    assert "sue" in await desk.page.inner_text("tbody tr:has-text('task')")


async def test_complaint_about_a_missing_prize_ends_in_its_delivery_and_an_audit_entry(
    browser: Browser, fair: World
) -> None:
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
            await find_player(desk)
            await replay_the_play(desk)
            await desk.shot("story-complaint-player")
            await make_it_good(desk, fair, receiver)
            await read_the_log(desk, player)
        # A designer sees the same and changes nothing.
        async with at_desk(browser, stack, **STILL) as desk:
            await desk.follow(desk.link("designer", subject="otto"))
            await desk.settled()
            await find_player(desk)
            await replay_the_play(desk)
            assert "Delivered" in await part(desk, "Deliveries")
            acts = await desk.page.locator("main").get_by_role("button").all_inner_texts()
            assert not {
                "Give turns",
                "Try again",
                "Revoke",
                "Mark as delivered",
                "Show code",
                "Erase",
                "Suspend",
                "Take away",
            } & {*acts}
            await read_the_log(desk, player)
            row = await fair.database.fetchrow(task, stack.tenant_id, player)
            assert row is not None
            turn = {"campaign_id": fair.campaign_id, "amount": 1, "reason": "x"}
            for path, body in (
                (f"/admin/fulfillment/tasks/{row['task_id']}/retry", {}),
                (f"/admin/players/{player}/turns", turn),
            ):
                assert (await stack.admin("POST", path, body, roles=("designer",))).http == 403
            written = [one for one in desk.asked if not one.startswith("GET") and "/api/v1/" in one]
            assert [one for one in written if "/replay" not in one and "/auth/link" not in one] == []
