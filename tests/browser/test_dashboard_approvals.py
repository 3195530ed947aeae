"""The dashboard's approvals: what waits is told where it was asked for, and another person decides it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.support.axe import violations
from tests.support.browsing import STILL
from tests.support.resources import make_campaign
from tests.support.stack import Stack
from tests.support.staff import Desk, at_desk
from tests.support.world import Launched, World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVIL = "\"'><img src=x onerror=window.evil=1>{count}${evil}"
HELD = {"dual_adjustment_above": 100, "dual_turns_above": 5, "dual_odds": True, "dual_revocations_above": 1}
SCREENS = ((375, "light"), (768, "dark"), (1440, "light"))


@pytest.fixture(scope="module")
def counter_settings() -> dict[str, Any]:
    return HELD


@pytest.fixture(scope="module")
def house(counter: Stack) -> Stack:
    return counter


@pytest_asyncio.fixture(loop_scope="session")
async def stall(counter: Stack) -> AsyncIterator[World]:
    world = Launched(counter, (await make_campaign(counter, name="Autumn Fair"))["id"])
    yield world
    await world.check()


async def enter_as(desk: Desk, subject: str, role: str, path: str = "") -> None:
    """Signs in as somebody else."""
    if desk.page.url.startswith("http"):
        await desk.page.evaluate("sessionStorage.clear()")
        await desk.page.goto("about:blank")
    await desk.follow(desk.link(role, subject=subject, path=path))
    await desk.settled()


async def decide(desk: Desk, what: str, reason: str) -> None:
    await desk.press(what, within="main .head")
    await desk.page.get_by_label("Reason", exact=True).fill(reason)
    await desk.press(what, within="dialog footer")
    await desk.page.wait_for_selector("dialog", state="detached")


async def follow(desk: Desk) -> str:
    """From what was told to what waits; its title."""
    await desk.page.locator(".toast a", has_text="Look at it").click()
    await desk.page.wait_for_selector("main .head .status")
    await desk.settled()
    return await desk.title()


async def test_an_adjustment_waits_is_found_on_home_and_done_by_another_person(desk: Desk, stall: World) -> None:
    player = "player_points"
    assert (await stall.stack.consumer("GET", "/players/me", player=player)).http == 200
    await enter_as(desk, "ann", "reward_manager", f"/players/{player}")
    await desk.press("Adjust balance", within="main .head")
    for name, value in (("scope_key", stall.campaign_id), ("amount", "5000"), ("reference_id", "ticket-9")):
        await desk.page.fill(f"dialog [name={name}]", value)
    await desk.press("Adjust balance", within="dialog footer")
    await desk.page.wait_for_selector(".toast:has-text('Nothing is done yet: this waits for a second person.')")
    await desk.page.wait_for_selector("dialog", state="detached")
    assert await follow(desk) == f"Move +5000 points of {player}"
    acts = [text.strip() for text in await desk.page.locator("main .head .acts").all_text_contents()]
    assert acts == ["Withdraw"], "nobody is their own second person"
    await enter_as(desk, "dan", "designer", "/approvals")
    await desk.page.get_by_role("link", name="Move +5000 points").first.click()
    await desk.page.wait_for_selector("main:has-text('Your role does not decide this.')")
    await enter_as(desk, "bob", "reward_manager")
    await desk.page.get_by_role("link", name=f"Move +5000 points of {player}").click()
    await desk.page.wait_for_selector("table.compared")
    told = await desk.page.locator("table.compared").text_content() or ""
    assert "5000" in told and "ticket-9" in told
    await decide(desk, "Approve", "seen the ticket")
    await desk.page.wait_for_selector(".head .status:has-text('Done')")
    assert "seen the ticket" in await desk.page.inner_text("main")
    [balance] = (await stall.stack.admin("GET", f"/admin/players/{player}/wallet")).data["items"]
    assert balance["balance"] == 5000


async def test_the_odds_of_a_live_game_wait_and_nothing_typed_is_lost(desk: Desk, stall: World) -> None:
    game = await stall.wheel(await stall.prize(name="Mug"), name="Harvest wheel")
    await enter_as(desk, "dan", "designer", f"/games/{game}")
    field = desk.page.locator("[name='handler_config.prizes[0].probability']")
    await field.fill("0.25")
    await desk.press("Save", within="form.schema footer")
    await desk.page.wait_for_selector(".toast:has-text('waits for a second person')")
    assert await field.input_value() == "0.25"
    assert await follow(desk) == "Change the odds of Harvest wheel"
    told = await desk.page.locator("table.compared").text_content() or ""
    assert "How it is won" in told and "0.25" in told
    prizes = desk.page.get_by_role("region", name="What its prizes are worth")
    assert "Mug" in (await prizes.text_content() or "")
    await enter_as(desk, "eve", "designer", "/approvals?status=waiting")
    await desk.page.get_by_role("link", name="Change the odds of Harvest wheel").click()
    await desk.page.wait_for_selector("table.compared")
    await decide(desk, "Reject", "not before the weekend")
    await desk.page.wait_for_selector(".head .status:has-text('Rejected')")
    shown = (await stall.stack.admin("GET", f"/admin/games/{game}")).data["handler_config"]
    assert shown["prizes"][0]["probability"] == 1


async def revocations(stall: World, name: str, **who: Any) -> dict[str, Any]:
    """Revocations of two rewards that wait."""
    by_hand = {"redemption_mode": "REDEMPTION_MODE_MANUAL", "channel": "none"}
    game = await stall.wheel(await stall.prize(name=name, fulfillment=by_hand))
    won = [(await stall.round(game, f"ann{n}")).data["rewards"][0]["reward_id"] for n in range(2)]
    answer = await stall.stack.admin("POST", "/admin/rewards/bulk", {"act": "BULK_ACT_REVOKE", "ids": won})
    assert answer.http == 202
    return dict(answer.envelope["data"]["approval"])


async def test_revocations_in_bulk_wait_with_each_reward(desk: Desk, stall: World) -> None:
    waits = await revocations(stall, EVIL)
    await enter_as(desk, "bob", "reward_manager", f"/approvals/{waits['id']}")
    assert await desk.title() == "Revoke 2 rewards"
    rows = await desk.page.locator("main table:not(.compared) tbody tr").all_text_contents()
    assert len(rows) == 2 and all(EVIL in row and "Won" in row and "Revoked" in row for row in rows), rows
    assert await desk.page.evaluate("window.evil") is None
    await decide(desk, "Approve", "")
    await desk.page.wait_for_selector(".head .status:has-text('Done')")
    states = await stall.database.fetch("SELECT status FROM rewards WHERE campaign_id = $1", stall.campaign_id)
    assert {row["status"] for row in states} == {"revoked"}


async def test_axe_finds_nothing_and_every_page_fits_its_window(browser: Browser, stall: World) -> None:
    waits = await revocations(stall, "Fair mug")
    found: dict[str, list[str]] = {}
    for width, scheme in SCREENS:
        options = {**STILL, "viewport": {"width": width, "height": 900}, "color_scheme": scheme}
        async with at_desk(browser, stall.stack, **options) as desk:
            await enter_as(desk, "bob", "admin", "/approvals")
            for path, name in (("/approvals", "approvals"), (f"/approvals/{waits['id']}", "approval")):
                await desk.to(path)
                await desk.shot(f"dashboard-{name}-{width}-{scheme}")
                wider = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
                assert not await desk.page.evaluate(wider), name
                if width < 1000:
                    found[f"{name}-{width}"] = await violations(desk.page)
            await desk.press("Approve", within="main .head")
            await desk.shot(f"dashboard-approve-{width}-{scheme}")
    assert {view: told for view, told in found.items() if told} == {}
