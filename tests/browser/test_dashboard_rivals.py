"""The dashboard with others at work: what they change stays theirs, what is gone is not shown, what is lost is said."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from runtime.http.feeds import live
from tests.support.browsing import STILL
from tests.support.guests import guest_who_played
from tests.support.stack import Stack, make_tenant
from tests.support.staff import Desk, at_desk
from tests.support.waiting import until
from tests.support.world import World, new_world

if TYPE_CHECKING:
    from playwright.async_api import Browser, Route

pytestmark = pytest.mark.asyncio(loop_scope="session")

WHO = "document.querySelector('.who-name').textContent"


async def test_a_link_of_another_tenant_begins_the_page_anew(
    browser: Browser, stall: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.1)
    other = await make_tenant(stall.stack, "tenant_beside")
    async with new_world(other, name="Of the other tenant"), at_desk(browser, stall.stack, **STILL) as desk:
        await desk.enter("admin")
        await desk.page.wait_for_selector(".now[data-away=false]")
        asked = len([one for one in desk.asked if "/admin/live" in one])
        await desk.page.goto(Desk(desk.page, other).link("admin", subject="eve"))
        await desk.press("Sign in", within="dialog")
        await desk.until(f"{WHO}.includes('tenant_beside')")
        await desk.page.wait_for_selector("main td:has-text('Of the other tenant')")
        assert stall.campaign_id not in await desk.page.content(), "nothing of the first one's is left"
        await desk.until("!!document.querySelector('.now[data-away=false]')")
        assert len([one for one in desk.asked if "/admin/live" in one]) > asked, "another stream"


async def test_a_link_that_was_used_leaves_who_is_signed_in(desk: Desk, browser: Browser) -> None:
    link = desk.link("admin", subject="eve", path="/campaigns")
    async with at_desk(browser, desk.stack, **STILL) as first:
        await first.follow(link)
        await first.settled()
    await desk.enter("admin", path="/campaigns")
    await desk.follow(link)
    await desk.page.wait_for_selector(".toast[data-tone=bad]")
    desk.forgive("401", "403", "400", "409")
    assert "ann" in await desk.page.evaluate(WHO)
    await desk.page.reload()
    await desk.settled()
    assert "ann" in await desk.page.evaluate(WHO) and await desk.title() == "Campaigns"


async def test_another_campaign_s_figures_never_stand_under_its_name(desk: Desk, stall: World) -> None:
    await stall.round(await stall.wheel(await stall.prize()))
    async with new_world(stall.stack, name="Slow fair") as slow:
        gate = asyncio.Event()

        async def held(route: Route) -> None:
            await gate.wait()
            await route.fulfill(status=503, json={"code": "UNAVAILABLE", "message": "too much", "data": {}})

        await desk.page.route(f"**/admin/campaigns/{slow.campaign_id}/figures*", held)
        await desk.enter("designer", path=f"/analytics?campaign={stall.campaign_id}")
        await desk.page.wait_for_selector("main .under")
        await desk.page.get_by_label("Campaign", exact=True).select_option(label="Slow fair")
        await desk.page.wait_for_selector("main .loading")
        assert await desk.page.locator("main .under").count() == 0
        gate.set()
        await desk.page.wait_for_selector("main .problem:has-text('too much')")
        desk.forgive("503")


async def test_what_somebody_else_saved_of_a_prize_is_not_undone(desk: Desk, stall: World) -> None:
    prize = await stall.prize(name="Mug", constraints={"max_per_user": 1})
    path = f"/admin/prizes/{prize}"
    await desk.enter("admin", path=f"/prizes/{prize}")
    form = desk.page.locator("form.schema")
    await form.locator("[name=description]").fill("Blue")
    theirs: dict[str, Any] = {"constraints": {"max_per_user": 7}}
    assert (await desk.stack.admin("PUT", path, theirs)).code == "OK"
    await form.get_by_role("button", name="Save", exact=True).click()
    await desk.page.wait_for_selector("form >> text=Somebody has changed this meanwhile")
    for text in ("Blue", "Blue and white"):
        await form.locator("[name=description]").fill(text)
        await form.get_by_role("button", name="Save", exact=True).click()
        await desk.page.wait_for_selector(".toast:has-text('Saved.')")
        await desk.page.wait_for_selector(".toast", state="detached")
        now = (await desk.stack.admin("GET", path)).data
        assert (now["description"], now["constraints"]["max_per_user"]) == (text, 7)
        assert await form.locator("[name='constraints.max_per_user']").input_value() == "7"


async def test_what_somebody_else_saved_of_a_game_stands_in_the_form_after_a_save_over_it(
    desk: Desk, stall: World
) -> None:
    game = await stall.wheel(await stall.prize(), rules={"max_plays_per_user": 1})
    path = f"/admin/games/{game}"
    await desk.enter("admin", path=f"/games/{game}")
    form = desk.page.locator(".designer form")
    await form.locator("[name=name]").fill("Mine")
    assert (await desk.stack.admin("PUT", path, {"rules": {"max_plays_per_user": 9}})).code == "OK"
    await desk.press("Save", within=".designer")
    await desk.page.locator(".conflict button").click()
    desk.forgive("409")
    await desk.press("Save", within=".designer")
    await desk.page.wait_for_selector(".toast:has-text('Saved.')")
    assert await form.locator("[name='rules.max_plays_per_user']").input_value() == "9"
    await form.locator("[name='rules.max_plays_per_day']").fill("3")
    await desk.press("Save", within=".designer")

    async def saved() -> bool:
        rules = (await desk.stack.admin("GET", path)).data["rules"]
        return (rules["max_plays_per_day"], rules["max_plays_per_user"]) == (3, 9)

    await until(saved)


async def test_of_an_integration_only_what_was_typed_is_changed(desk: Desk, stall: World) -> None:
    hook = {"type": "webhook", "events": ["prize_won"], "config": {"url": "https://shop.example/rivals"}}
    made = (await desk.stack.admin("POST", "/admin/integrations", hook)).data
    await desk.enter("admin", path="/integrations")
    await desk.press("Edit", within="tbody tr:has-text('/rivals')")
    await desk.page.get_by_label("Address", exact=True).fill("https://shop.example/rivals/new")
    more = {"events": ["prize_won", "prize_claimed"]}
    assert (await desk.stack.admin("PUT", f"/admin/integrations/{made['id']}", more)).code == "OK"
    await desk.press("Save", within="dialog")
    await desk.page.wait_for_selector("tbody tr:has-text('/rivals/new')")
    [now] = [
        one for one in (await desk.stack.admin("GET", "/admin/integrations")).data["items"] if one["id"] == made["id"]
    ]
    assert (now["config"]["url"], now["events"]) == ("https://shop.example/rivals/new", more["events"])


async def test_a_merge_is_asked_for_by_another_button_than_the_look_before_it(desk: Desk, stall: World) -> None:
    player = (await stall.stack.consumer("GET", "/players/me", player="merged_ann")).data["id"]
    guest = await guest_who_played(stall, await stall.wheel(await stall.prize(), access="public"))
    await desk.looks_at_guest(player, guest.player_id)
    assert await desk.page.evaluate("document.activeElement.textContent") == "Cancel"
    await desk.page.keyboard.press("Enter")
    await desk.page.wait_for_selector("dialog", state="detached")
    into = "SELECT coalesce(merged_into, '') FROM players WHERE player_id = $1"
    assert await stall.database.fetchval(into, guest.player_id) == ""


async def test_a_campaign_beyond_the_first_hundred_can_be_chosen(browser: Browser, office: Stack) -> None:
    stack = await make_tenant(office, "tenant_many")
    await stack.database.execute(
        "INSERT INTO campaigns (tenant_id, campaign_id, name, status)"
        " SELECT 'tenant_many', 'camp_' || lpad(n::text, 4, '0'), 'Campaign ' || n, 'active'"
        " FROM generate_series(1, 130) AS n"
    )
    async with new_world(stack, name="Newest") as world:
        await world.round(await world.wheel(await world.prize()), "ann")
        async with at_desk(browser, stack, **STILL) as desk:
            await desk.enter("admin", path="/players/ann")
            await desk.press("Give turns", within="main .head")
            await desk.page.wait_for_selector("dialog option:text-is('Campaign 1')", state="attached")
            for path in ("/analytics", "/prizes"):
                await desk.to(path)
                await desk.page.wait_for_selector("main option:text-is('Campaign 1')", state="attached")


async def test_what_may_have_been_made_though_no_answer_came_says_so(desk: Desk) -> None:
    async def lost(route: Route) -> None:
        if route.request.method == "POST":
            await route.fetch()  # The service has it; its answer goes astray.
            await route.abort("connectionreset")
        else:
            await route.continue_()

    await desk.enter("admin", path="/campaigns")
    await desk.page.route("**/api/v1/admin/campaigns", lost)
    await desk.press("New campaign", within="main")
    await desk.page.get_by_label("Name", exact=True).fill("Made once")
    await desk.press("Make campaign", within="dialog")
    await desk.page.wait_for_selector("dialog .problem:has-text('look before you do it again')")
    desk.forgive("ERR_")
    found = (await desk.stack.admin("GET", "/admin/campaigns", q="Made once")).data["items"]
    assert len(found) == 1


async def test_a_stream_that_says_nothing_is_told_as_away_and_begun_anew(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.page.clock.install()
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.1)
    await desk.enter("admin")
    await desk.page.wait_for_selector(".now[data-away=false]")
    monkeypatch.setattr(live, "EVERY_SECONDS", 3600)
    before = len([one for one in desk.asked if "/admin/live" in one])
    await desk.page.clock.fast_forward(16_000)
    await desk.page.wait_for_selector(".now[data-away=true]")
    await desk.page.clock.fast_forward(2_000)
    await desk.page.wait_for_selector(".now[data-away=false]")
    assert len([one for one in desk.asked if "/admin/live" in one]) == before + 1


async def test_the_end_of_a_session_is_told_before_it_comes(desk: Desk) -> None:
    await desk.page.clock.install()
    await desk.enter("admin", path="/campaigns")
    assert await desk.page.locator(".ending").count() == 0
    hours = desk.stack.process.settings.staff_session_seconds
    await desk.page.clock.fast_forward((hours - 5 * 60) * 1000)
    await desk.page.wait_for_selector(".ending:has-text('within ten minutes')")
    assert await desk.title() == "Campaigns"


async def test_a_secret_shown_once_is_copied_without_a_clipboard(desk: Desk) -> None:
    await desk.page.add_init_script("delete Navigator.prototype.clipboard")
    await desk.enter("admin", path="/people")
    await desk.press("New token", within="main")
    await desk.page.locator("dialog [name=name]").fill("To copy")
    await desk.press("Make the token", within="dialog")
    await desk.page.get_by_role("button", name="Copy Token").click()
    chosen = (
        "(() => { const it = document.querySelector('dialog input'); return it.selectionEnd - it.selectionStart; })()"
    )
    assert await desk.page.evaluate(chosen) == len(await desk.page.input_value("dialog input"))
