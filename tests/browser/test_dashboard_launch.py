"""The dashboard's campaigns: put in front of players, seen over time, and held to what they may cost."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runtime.operations.budget_alerts import thresholds
from tests.browser.conftest import PLAY
from tests.browser.test_dashboard import EVIL, look
from tests.support.axe import violations
from tests.support.browsing import STILL
from tests.support.pages.qr import scanned
from tests.support.quests import open_quest
from tests.support.stack import TENANT
from tests.support.staff import Desk, at_desk
from tests.support.world import EGGS, World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

SCREENS = ((375, "light"), (768, "dark"), (1440, "light"))
PUT = "section:has(h2:text-is('Put it in front of players'))"


# -- in front of players ---------------------------------------------------------------------


async def test_the_link_the_snippet_and_the_qr_code_lead_to_what_is_on_the_page(
    browser: Browser, stall: World, tmp_path: Path
) -> None:
    pytest.importorskip("zxingcpp")
    game_id = await stall.wheel(await stall.prize(), name="Harvest wheel")
    await stall.game({"type": "scratch_card", "reward_handler": "probability"}, {"prizes": []}, status="draft")
    shown = {
        f"/campaigns/{stall.campaign_id}": f"{PLAY}/c/{stall.campaign_id}",
        f"/games/{game_id}": f"{PLAY}/p/{game_id}",
    }
    async with at_desk(browser, stall.stack, **STILL, permissions=["clipboard-read", "clipboard-write"]) as desk:
        await desk.enter("designer")
        for path, link in shown.items():
            await desk.to(path)
            part = desk.page.locator(PUT)
            assert await part.locator("a").get_attribute("href") == link
            snippet = f'{PLAY}/widget/v1/tombola.js"></script>\n<tombola-game game="{game_id}"></tombola-game>'
            for name, copied in (("Copy The link", link), ("Copy The snippet", snippet)):
                await part.get_by_role("button", name=name).click()
                await part.get_by_role("button", name=name, exact=False).get_by_text("Copied").wait_for()
                assert (await desk.page.evaluate("navigator.clipboard.readText()")).endswith(copied)
            await part.locator("img").wait_for()
            assert await scanned(desk.page, await part.locator("img").screenshot()) == [link]
        for kind in ("SVG", "PNG"):
            async with desk.page.expect_download() as saved:
                await part.get_by_role("button", name=f"Save as {kind}").click()
            file = tmp_path / (await saved.value).suggested_filename
            await (await saved.value).save_as(file)
            assert file.name == f"Harvest-wheel.{kind.lower()}"
        assert await scanned(desk.page, file.read_bytes()) == [link]


async def test_what_is_no_public_page_yet_or_has_no_origin_says_so(desk: Desk, stall: World) -> None:
    await desk.enter("designer", path=f"/campaigns/{stall.campaign_id}")
    part = desk.page.locator(PUT)
    assert "Once a game is active" in await part.inner_text() and "No origins are named" in await part.inner_text()
    change = {"status": "draft", "origins": ["https://brand.example"]}
    assert (await desk.stack.admin("PUT", f"/admin/campaigns/{stall.campaign_id}", change)).code == "OK"
    await desk.to(f"/campaigns/{stall.campaign_id}")
    text = await part.inner_text()
    assert "It is a draft: nobody sees it yet." in text and "Pages of https://brand.example" in text


async def test_where_nobody_has_said_where_players_are_it_says_what_to_set(desk: Desk, stall: World) -> None:
    async def unsaid(route: object) -> None:
        answer = await route.fetch()  # type: ignore[attr-defined]
        told = await answer.json()
        told["data"]["consumer_url"] = ""
        await route.fulfill(response=answer, json=told)  # type: ignore[attr-defined]

    await desk.page.route("**/admin/me", unsaid)
    await desk.enter("designer", path=f"/campaigns/{stall.campaign_id}")
    assert "CONSUMER_BASE_URL=" in await desk.page.locator(PUT).inner_text()
    assert await desk.page.locator(f"{PUT} a").count() == 0


async def test_players_of_another_tenant_than_the_default_are_named_in_link_and_snippet(
    desk: Desk, stall: World
) -> None:
    async def moved(route: object) -> None:
        answer = await route.fetch()  # type: ignore[attr-defined]
        told = await answer.json()
        told["data"]["default_tenant"] = "tenant_else"
        await route.fulfill(response=answer, json=told)  # type: ignore[attr-defined]

    game_id = await stall.wheel(await stall.prize())
    await desk.page.route("**/admin/me", moved)
    await desk.enter("designer", path=f"/games/{game_id}")
    part = desk.page.locator(PUT)
    assert await part.locator("a").get_attribute("href") == f"{PLAY}/p/{game_id}?tenant_id={TENANT}"
    assert f'<tombola-game game="{game_id}" tenant="{TENANT}">' in await part.inner_text()


async def test_on_plain_http_what_is_to_be_copied_is_selected_and_copied(desk: Desk, stall: World) -> None:
    await desk.page.add_init_script("delete Navigator.prototype.clipboard")
    await desk.enter("designer", path=f"/campaigns/{stall.campaign_id}")
    await desk.page.locator(PUT).get_by_role("button", name="Copy The link").click()
    await desk.page.locator(PUT).get_by_text("Copied", exact=True).wait_for()
    assert await desk.page.evaluate("getSelection().toString()") == f"{PLAY}/c/{stall.campaign_id}"


# -- over time -------------------------------------------------------------------------------


async def test_campaigns_are_seen_over_time_under_the_same_filter(desk: Desk, stall: World) -> None:
    now, day = int(time.time()), 86_400
    made = {
        "Past": (now - 40 * day, now - 20 * day, "ended"),
        "Now": (now - 10 * day, now + 10 * day, "active"),
        "Open": (0, 0, "paused"),
        "Far": (now - 10 * day, now + 4_000 * day, "draft"),
    }
    for name, (start, end, status) in made.items():
        body = {"name": f"Timed {name}", "start_date": start, "end_date": end, "status": status}
        answer = await desk.stack.admin("POST", "/admin/campaigns", {**body, "timezone": "Europe/Berlin"})
        assert answer.code == "OK", answer.envelope
    await desk.enter("designer", path="/campaigns?q=Timed")
    await desk.press("Timeline")
    await desk.page.wait_for_url("**view=timeline**")
    assert "q=Timed" in desk.page.url and sorted(await desk.rows()) == sorted(f"Timed {name}" for name in made)
    line = (await box(desk, ".timeline li i"))["x"]
    bars = {}
    for name in made:
        bars[name] = await box(desk, f".timeline li:has-text('Timed {name}') a")
    ends = {name: one["x"] + one["width"] for name, one in bars.items()}
    assert bars["Past"]["x"] < ends["Past"] < bars["Now"]["x"] < line < ends["Now"] < ends["Far"]
    assert abs(bars["Far"]["x"] - bars["Now"]["x"]) < 1 and bars["Open"]["x"] < bars["Past"]["x"]
    assert abs(ends["Open"] - ends["Far"]) < 1
    assert abs((line - bars["Now"]["x"]) / bars["Now"]["width"] - 0.5) < 0.02
    told = await desk.page.get_attribute(".timeline li:has-text('Timed Now') a", "title")
    assert told is not None and "Active" in told and told.endswith("Europe/Berlin")
    await desk.page.select_option("select", "active")
    await desk.until("document.querySelectorAll('.timeline li').length === 1")
    await desk.page.click(".timeline a")
    await desk.page.wait_for_selector("h1:text-is('Timed Now')")


async def box(desk: Desk, selector: str) -> dict[str, float]:
    found = await desk.page.locator(selector).first.bounding_box()
    assert found is not None, selector
    return dict(found)


# -- how it looks ----------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
async def test_what_is_written_stays_text_fits_its_window_and_axe_finds_nothing(
    browser: Browser, stall: World, width: int, scheme: str
) -> None:
    game_id = await stall.wheel(await stall.prize(), name=EVIL)
    await stall.stack.admin("PUT", f"/admin/campaigns/{stall.campaign_id}", {"name": EVIL})
    options = {**STILL, "viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    async with at_desk(browser, stall.stack, **options) as desk:
        await desk.enter("admin")
        paths = {
            "campaign": (f"/campaigns/{stall.campaign_id}", f"{PUT} img"),
            "game": (f"/games/{game_id}", f"{PUT} img"),
            "timeline": ("/campaigns?view=timeline", ".timeline li"),
        }
        for name, (path, there) in paths.items():
            await desk.to(path)
            await desk.page.wait_for_selector(there)
            await look(desk, f"launch-{name}-{width}-{scheme}")
            assert await violations(desk.page) == []
        assert await desk.page.evaluate("window.evil") is None


# -- what it may cost ------------------------------------------------------------------------


async def test_what_a_game_of_scores_costs_is_told_by_an_assumed_share_of_each_group(
    browser: Browser, stall: World
) -> None:
    mug, trip = await stall.prize(name="Mug", value=4, total=100), await stall.prize(name="Trip", value=900, total=0)
    config = {
        "tiers": [{"min": 1, "max": 9, "prize_group": "low"}, {"min": 10, "max": 99, "prize_group": "high"}],
        "prize_groups": {
            "low": [{"prize_id": mug, "probability": 0.5}],
            "high": [{"prize_id": mug, "probability": 0.5}, {"prize_id": trip, "probability": 0.1}],
        },
    }
    game_id = await stall.game(EGGS, config, status="draft")
    async with at_desk(browser, stall.stack, **STILL) as desk:
        await desk.enter("designer", path=f"/games/{game_id}")
        for name, share in (("low", "75"), ("high", "5")):
            await desk.page.get_by_label(f"Plays that reach {name}").fill(share)
        await desk.page.get_by_label("Plays a day").fill("100")
        # 0.75 * 0.5 * 4 + 0.05 * (0.5 * 4 + 0.1 * 900)
        await desk.page.wait_for_selector(".together:has-text('A play costs 6.1 on average, 610 a day')")
        assert "80 % of plays reach a group; the others, 20 %," in await desk.page.inner_text(".aside")
        # 40 mugs a day, of both groups together: a hundred are gone in two days and a half.
        gone = await desk.page.locator("tr:has-text('Mug') [data-title='Runs out']").all_inner_texts()
        assert len(gone) == 2 and gone[0] == gone[1] != ""
        assert await violations(desk.page) == []
        await look(desk, "launch-odds")
        await desk.page.get_by_label("Plays that reach high").fill("50")
        await desk.page.wait_for_selector("[data-tone=bad]:has-text('More plays reach a group than there are: 125 %')")


async def test_what_was_given_is_told_by_its_value(browser: Browser, stall: World) -> None:
    game_id = await stall.wheel(await stall.prize(value=12.5, total=9))
    for player in ("ann", "bea"):
        await stall.round(game_id, player)
    async with at_desk(browser, stall.stack, **STILL) as desk:
        await desk.enter("reward_manager", path=f"/campaigns/{stall.campaign_id}")
        await desk.page.wait_for_selector(".given b:text-is('25')")
        await desk.page.click(".given a")
        await desk.page.wait_for_url(f"**/analytics?campaign={stall.campaign_id}")


# -- what it may cost, and what stands in its way --------------------------------------------


async def test_home_and_the_lists_mark_what_is_used_up_or_runs_low_and_lead_to_it(
    browser: Browser, stall: World
) -> None:
    prize_id = await stall.prize(name="Harvest mug", value=9, currency="EUR", total=3, low_stock_at=2)
    await stall.round(await stall.wheel(prize_id))
    async with at_desk(browser, stall.stack, **STILL) as desk:
        await desk.enter("admin", path=f"/campaigns/{stall.campaign_id}")
        await desk.press("Edit")
        await desk.page.get_by_label("Budget, in the currency").fill("10")
        await desk.page.fill("dialog [name='budget.currency']", "EUR")
        await desk.press("Save", within="dialog")
        await desk.page.wait_for_selector(".budget:has-text('0 EUR of 10 EUR')")
        await thresholds.look(stall.stack.engine, stall.stack.tenant_id, every_seconds=0)
        await desk.to("/")
        await desk.page.wait_for_selector("li:has-text('Harvest mug'):has-text('2 left')")
        row = desk.page.locator(f"li:has(a[href$='/campaigns/{stall.campaign_id}'])", has_text="90 % used")
        await row.locator("[data-tone=warn]").wait_for()
        assert await violations(desk.page) == []
        await row.locator("a").click()
        await desk.page.wait_for_selector(".budget:has-text('9 EUR of 10 EUR')")
        assert "stops no play" in await desk.page.inner_text("main")
        await desk.to("/campaigns")
        await desk.page.wait_for_selector("tr:has-text('Autumn Fair') [data-tone=warn]:has-text('90 % used')")
        await desk.to("/prizes")
        await desk.page.wait_for_selector("tr:has-text('Harvest mug') [data-tone=warn]:has-text('Runs low')")


async def test_the_launch_check_says_what_is_to_be_done_and_leads_there(browser: Browser, stall: World) -> None:
    prize_id = await stall.prize(name="Bare mug", value=30, currency="EUR", total=4)
    await stall.wheel(prize_id)
    await open_quest(stall.stack, stall.campaign_id, name="Visit")
    body = {"status": "paused", "budget": {"amount": 100, "currency": "EUR"}}
    assert (await stall.stack.admin("PUT", f"/admin/campaigns/{stall.campaign_id}", body)).code == "OK"
    async with at_desk(browser, stall.stack, **STILL) as desk:
        await desk.enter("designer", path=f"/campaigns/{stall.campaign_id}")
        await desk.page.wait_for_selector(
            ".checks [data-tone=warn]:has-text('costs 120 EUR more than the budget of 100')"
        )
        assert await violations(desk.page) == []
        await desk.page.locator(".checks li", has_text="Bare mug has no picture").locator("a").click()
        await desk.page.wait_for_selector(".head h1:has-text('Bare mug')")
        await desk.to(f"/campaigns/{stall.campaign_id}")
        told = "The quest Visit gives turns, and no active game takes any"
        await desk.page.locator(".checks li[data-tone=warn]", has_text=told).locator("a").click()
        await desk.page.wait_for_selector("main tbody:has-text('Visit')")
