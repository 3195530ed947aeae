"""The first story: from a tenant that has nothing to a player who won, by clicks alone."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from ops.servers.base import free_port
from tests.support.browsing import STILL, Visit, visiting
from tests.support.guests import log_in
from tests.support.invariants import check
from tests.support.stack import TENANT, Stack, new_stack, settings_of
from tests.support.staff import Desk, at_desk
from tests.support.waiting import until
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser, Route

pytestmark = pytest.mark.asyncio(loop_scope="session")

PICTURE = "https://pictures.example/mug.svg"
MUG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><circle cx="4" cy="4" r="4" fill="teal"/></svg>'
FORM = ".designer form"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def empty(make_database: Callable[[], str], valkey_url: str) -> AsyncIterator[Stack]:
    """A service where nothing was ever made; its links lead to its own players' pages."""
    port = free_port()
    own = {"consumer_port": port, "consumer_base_url": f"http://127.0.0.1:{port}"}
    settings = settings_of(make_database(), valkey_url, default_tenant=TENANT, role_matrix="strict", **own)
    async with new_stack(settings, counting_seconds=0.5) as stack:
        yield stack
        await check(stack.database)


async def follow(desk: Desk, name: str, within: str = "main") -> None:
    """Presses a link of this name, and waits for the page that it leads to."""
    await desk.page.locator(within).locator("a", has_text=name).first.click()
    await desk.settled()


async def make_prize(desk: Desk, name: str, value: str, total: str) -> None:
    await desk.page.get_by_label("Name", exact=True).fill(name)
    await desk.page.get_by_label("Value", exact=True).fill(value)
    await desk.page.locator("main form [name='stock.total']").fill(total)
    await desk.page.locator("main form [name=image_url]").fill(PICTURE)
    await desk.press("Make prize", within="main")
    await desk.page.wait_for_selector(f"h1:text-is('{name}')")
    await desk.settled()


async def drawn(route: Route) -> None:
    await route.fulfill(body=MUG, content_type="image/svg+xml")


async def won(browser: Browser, stack: Stack, link: str) -> str:
    """What a player reads who opens the link and plays."""
    async with visiting(browser, stack, **STILL) as visit:
        await visit.page.route("https://pictures.example/**", drawn)
        await visit.page.goto(link)
        await visit.page.get_by_role("link", name="Harvest wheel").click()
        await visit.ready()
        await visit.press()
        told = await visit.result()
        await visit.shot("story-launch-won")
        assert await visit.kind() == "won"
        assert await shows_picture(visit)
        return told


async def shows_picture(visit: Visit) -> bool:
    script = "[...document.querySelector('tombola-game').shadowRoot.querySelectorAll('img')].map((one) => one.src)"
    return PICTURE in await visit.page.evaluate(script)


async def test_a_designer_goes_from_nothing_to_a_player_who_won_by_clicks_alone(browser: Browser, empty: Stack) -> None:
    async with at_desk(browser, empty, **STILL) as desk:
        page = desk.page
        await desk.enter("designer")
        await page.wait_for_selector("main .empty:has-text('No campaign is running')")
        await desk.shot("story-launch-home-empty")
        # A campaign, from Home itself.
        await follow(desk, "New campaign")
        await page.wait_for_selector("dialog form")
        await page.get_by_label("Name", exact=True).fill("Harvest days")
        await page.get_by_label("Time zone").fill("Europe/Berlin")
        await page.get_by_label("Ends").fill("2041-12-24T20:00")
        await desk.press("Make campaign", within="dialog")
        await page.wait_for_selector("h1:text-is('Harvest days')")
        await desk.settled()
        assert "No game is active" in await page.inner_text(".checks [data-tone=bad]")
        # What it has not, it leads to: prizes first.
        await follow(desk, "New prize")
        await make_prize(desk, "Fair mug", "8", "20")
        assert await page.locator("main form [name=campaign_id]").input_value() != ""
        await follow(desk, "Campaigns", within="nav.side")
        await follow(desk, "Harvest days")
        await follow(desk, "New game")
        await page.get_by_label("Name", exact=True).fill("Harvest wheel")
        await desk.press("Make game", within="main")
        await page.wait_for_selector("h1:text-is('Harvest wheel')")
        await desk.settled()
        # The designer: odds; a prize that is missing is made in a tab of its own, and nothing typed is lost.
        form = page.locator(FORM)
        for _ in range(2):
            await form.get_by_role("button", name="Add to prizes").click()
        await form.locator("[name='handler_config.prizes[0].prize_id']").select_option(label="Fair mug")
        await form.locator("[name='handler_config.prizes[0].probability']").fill("0.75")
        await form.locator("[name='handler_config.prizes[1].probability']").fill("0.25")
        async with page.expect_popup() as opened:
            await form.get_by_role("link", name="New prize").first.click()
        other = Desk(await opened.value, empty, desk.wrong, desk.asked)
        await other.settled()
        await make_prize(other, "Hay ride", "30", "4")
        await other.page.close()
        await page.bring_to_front()
        await page.evaluate("dispatchEvent(new Event('focus'))")
        second = form.locator("[name='handler_config.prizes[1].prize_id']")
        await second.locator("option", has_text="Hay ride").wait_for(state="attached")
        await second.select_option(label="Hay ride")
        await form.locator("[name=access]").select_option(label="Everybody")
        await form.locator("[name='ui.theme.preset']").select_option("forest")
        await page.wait_for_selector(".odds tbody tr:has-text('Hay ride')")
        await desk.press("Save", within=".designer")
        await page.wait_for_selector(".toast:has-text('Saved.')")
        # A test play, in the players' own widget.
        await page.locator(".preview tombola-game").get_by_role("button", name="Spin the wheel").click()
        await page.locator(".preview tombola-game .card[data-result=won]").wait_for()
        await desk.shot("story-launch-designer")
        # Live: the game, then the campaign, after the check has nothing against it.
        await desk.press("Activate", within="main .head")
        await desk.press("Activate", within="dialog")
        await page.wait_for_selector("main .head .status:has-text('Active')")
        await page.locator(FORM).locator("[name='rules.max_plays_per_day']").fill("3")
        await desk.press("Save", within=".designer")  # Over the revision that activating made.
        await desk.until("document.querySelectorAll('.problem').length === 0")
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
        link = str(await put.locator("a").first.get_attribute("href"))
        # A player follows the link, and wins.
        told = await won(browser, empty, link)
        assert re.search("Fair mug|Hay ride", told)
        # And Home tells of it.
        await follow(desk, "Home", within="nav.side")

        async def seen() -> bool:
            await page.reload()
            await desk.settled()
            row = page.locator("section tr", has_text="Harvest days")
            return bool(await row.count()) and (await row.locator("td.number").all_inner_texts())[0] == "1"

        await until(seen)
        await desk.shot("story-launch-home")
    await helped(browser, empty)


async def helped(browser: Browser, stack: Stack) -> None:
    """The second story, where the first has led: a player writes that the wheel was not fair, and is answered."""
    [game] = (await stack.admin("GET", "/admin/games")).data["items"]
    world = World(stack, game["campaign_id"])
    player = await log_in(stack, contact="vera.vexed@example.com")
    [reward] = (await world.round(game["id"], player)).data["rewards"]
    async with at_desk(browser, stack, **STILL) as desk:
        await desk.enter("reward_manager")
        await follow(desk, "Players", within="nav.side")
        await desk.page.fill("input[type=search]", "Vera.Vexed@example.com")
        await desk.until("document.querySelectorAll('tbody tr').length === 1")
        await desk.page.locator("tbody tr a").first.click()
        await desk.page.wait_for_selector("main .head")
        await desk.settled()
        assert player in desk.page.url and reward["name"] in await desk.page.inner_text("main")
        # How it was decided, and that it is decided so again.
        await desk.press("Look", within="main")
        await desk.page.wait_for_selector("dialog .replay[data-tone=good]")
        assert reward["name"] in await desk.page.inner_text("dialog")
        await desk.press("Close", within="dialog footer")
        await desk.press("Give turns", within="main .head")
        await desk.page.get_by_label("Campaign", exact=True).select_option(label="Harvest days")
        await desk.page.get_by_label("Reason", exact=True).fill("for the patience")
        await desk.press("Give turns", within="dialog footer")
        await desk.page.wait_for_selector(".toast:has-text('One turn is given')")
        await desk.page.locator("main .head").get_by_role("button", name="Audit log").click()
        await desk.page.get_by_role("button", name="player.grant_turns").first.click()
        await desk.page.wait_for_selector("dialog:has-text('for the patience')")
