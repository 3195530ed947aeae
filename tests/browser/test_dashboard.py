"""The dashboard: signing in and out, what a role sees, and a campaign's way from a draft to its end."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from runtime.http.dashboard.serving import files
from tests.support.axe import violations
from tests.support.browsing import STILL
from tests.support.issuer import Issuer
from tests.support.pages.looks import SCREENS
from tests.support.staff import Desk, at_desk
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVIL = "\"'><img src=x onerror=window.evil=1><script>window.evil=1</script>{count}${evil}"
KEPT = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"


# -- signing in ------------------------------------------------------------------------------


async def test_a_link_signs_in_once_and_leaves_no_trace_in_the_address(desk: Desk, browser: Browser) -> None:
    link = desk.link("admin", path="/campaigns")
    await desk.follow(link)
    await desk.settled()
    assert await desk.title() == "Campaigns"
    assert desk.page.url == f"{desk.home}/campaigns"
    token = await desk.page.evaluate("sessionStorage.getItem('tombola.token')")
    assert token and token not in str(desk.asked) and link.partition("=")[2] not in str(desk.asked)
    assert await desk.page.evaluate("document.cookie + JSON.stringify({...localStorage})") == "{}"
    async with at_desk(browser, desk.stack) as other:
        await other.follow(link)
        assert "used already" in await other.page.inner_text(".notice")
        other.forgive("401")


async def test_a_link_signs_nobody_in_who_has_not_said_so(desk: Desk) -> None:
    """It may be another's, and of another tenant: who works on as they makes their secrets the other's."""
    link = desk.link("admin", subject="eve", path="/campaigns")
    await desk.page.goto(link)
    await desk.page.wait_for_selector(f"dialog:has-text('signs you in as eve of tenant {desk.stack.tenant_id}.')")
    assert desk.page.url == f"{desk.home}/campaigns"
    await desk.press("Cancel", within="dialog")
    await desk.until("!document.querySelector('dialog')")
    assert await desk.page.evaluate("sessionStorage.length") == 0
    assert not [one for one in desk.asked if "/auth/link" in one], "the link is as good as before"
    assert await violations(desk.page) == []
    await desk.follow(link)
    await desk.settled()
    assert await desk.page.inner_text(".who-name b") == "eve"


async def test_a_link_asks_before_it_puts_somebody_else_in_the_place_of_who_is_signed_in(desk: Desk) -> None:
    await desk.enter("admin", path="/campaigns")
    link, who = (
        desk.link("admin", subject="eve", path="/campaigns"),
        "document.querySelector('.who-name b').textContent",
    )
    for load in (False, True):  # In the page that is open, and in one that is loaded with it.
        if load:
            await desk.page.goto("about:blank")
        await desk.page.goto(link)
        assert "as ann" in await desk.page.inner_text("dialog") and "as eve" in await desk.page.inner_text("dialog")
        assert desk.page.url == f"{desk.home}/campaigns"
        await desk.press("Cancel", within="dialog")
        await desk.settled()
        assert await desk.page.evaluate(who) == "ann"
    await desk.page.goto(link)
    await desk.press("Sign in", within="dialog")
    await desk.until(f"{who} === 'eve'")
    await desk.page.reload()
    await desk.settled()
    assert await desk.page.evaluate(who) == "eve"


async def test_who_signs_in_at_the_issuer_comes_back_to_where_they_were(desk: Desk, issuer: Issuer) -> None:
    where = f"{desk.home}/campaigns?status=active"
    await desk.page.goto(where)
    await desk.press("Sign in with your organisation")
    await desk.page.click("button:text-is('dora')")
    await desk.settled()
    assert desk.page.url == where and await desk.title() == "Campaigns"
    assert await desk.page.inner_text(".who-name b") == "dora"
    assert issuer.refused == []
    # Signing out ends it on the server: the token that was opens nothing.
    token = await desk.page.evaluate("sessionStorage.getItem('tombola.token')")
    await desk.press("Sign out")
    await desk.page.wait_for_selector(".notice:has-text('signed out')")
    answer = await desk.stack.admin("GET", "/admin/me", roles=(), headers={"Authorization": f"Bearer {token}"})
    assert answer.reason == "TOKEN_INVALID" and token not in await desk.page.evaluate(KEPT)


async def test_an_answer_of_the_issuer_s_that_nobody_asked_for_signs_nobody_in(desk: Desk) -> None:
    await desk.page.goto(desk.home)
    await desk.press("Sign in with your organisation")
    await desk.page.wait_for_selector("button:text-is('ann')")
    await desk.page.goto(f"{desk.home}?code=stolen&state=another")
    await desk.page.wait_for_selector(".notice:has-text('did not work')")
    assert desk.page.url == desk.home and "tombola.token" not in await desk.page.evaluate(KEPT)
    assert not [one for one in desk.asked if "finish" in one]


async def test_who_has_no_role_is_told_so(desk: Desk) -> None:
    await desk.page.goto(desk.home)
    await desk.press("Sign in with your organisation")
    await desk.page.click("button:text-is('eve')")
    await desk.page.wait_for_selector(".notice:has-text('no role here')")
    assert await desk.page.locator("nav a:has-text('Campaigns')").count() == 0
    desk.forgive("403")


async def test_a_service_that_is_away_for_a_moment_signs_nobody_out(desk: Desk) -> None:
    await desk.enter("admin")
    away = {"code": "UNAVAILABLE", "message": "", "trace_id": "", "data": {"reason": "STORE_UNAVAILABLE"}}
    await desk.page.route("**/admin/me", lambda route: route.fulfill(status=503, json=away))
    await desk.page.reload()
    await desk.page.wait_for_selector(".notice")
    await desk.page.unroute("**/admin/me")
    await desk.page.reload()
    await desk.settled()
    assert await desk.title() == "Home"
    desk.forgive("503")


async def test_a_session_that_ends_leads_to_a_sign_in_that_returns_to_the_same_place(desk: Desk, stall: World) -> None:
    await desk.enter("admin", path=f"/campaigns/{stall.campaign_id}")
    token = await desk.page.evaluate("sessionStorage.getItem('tombola.token')")
    await desk.stack.admin("POST", "/admin/auth/logout", {}, roles=(), headers={"Authorization": f"Bearer {token}"})
    await desk.page.click("nav a:has-text('Home')")
    await desk.page.wait_for_selector(".notice:has-text('has ended')")
    await desk.page.go_back()
    await desk.page.click("summary")
    await desk.page.fill("input[type=password]", desk.stack.token("bob", ("designer",)))
    await desk.page.keyboard.press("Enter")
    await desk.settled()
    assert await desk.title() == "Autumn Fair" and await desk.page.inner_text(".who-name b") == "bob"
    desk.forgive("401")


async def test_a_token_whose_time_is_over_is_not_shown_again_and_the_place_is_kept(desk: Desk, stall: World) -> None:
    await desk.enter("admin", path=f"/campaigns/{stall.campaign_id}")
    over = desk.stack.token("ann", ("admin",), seconds=-600)
    await desk.page.evaluate("(token) => sessionStorage.setItem('tombola.token', token)", over)
    await desk.page.reload()
    await desk.page.wait_for_selector(".notice:has-text('has ended')")
    assert over not in await desk.page.evaluate(KEPT)
    answer = await desk.stack.admin("GET", "/admin/me", roles=(), headers={"Authorization": f"Bearer {over}"})
    assert answer.reason == "TOKEN_EXPIRED"
    await desk.page.click("summary")
    await desk.page.fill("input[type=password]", desk.stack.token("bob", ("designer",)))
    await desk.page.keyboard.press("Enter")
    await desk.settled()
    assert await desk.title() == "Autumn Fair" and await desk.page.inner_text(".who-name b") == "bob"
    desk.forgive("401")


# -- campaigns -------------------------------------------------------------------------------


async def test_a_campaign_goes_from_nothing_to_its_end_without_a_terminal(desk: Desk) -> None:
    await desk.enter("admin", path="/campaigns")
    await desk.press("New campaign")
    await desk.page.get_by_label("Name", exact=True).fill("Winter Draw")
    await desk.page.get_by_label("Time zone").fill("Europe/Berlin")
    await desk.page.get_by_label("Begins").fill("2031-12-01T08:00")
    await desk.page.get_by_label("Ends").fill("2031-12-24T20:00")
    await desk.press("Make campaign")
    assert await desk.told() == "Winter Draw is made, as a draft."
    await desk.settled()
    assert await desk.title() == "Winter Draw" and "1 Dec 2031, 08:00" in await desk.page.inner_text(".under")
    campaign_id = desk.page.url.rpartition("/")[2]
    stored = (await desk.stack.admin("GET", f"/admin/campaigns/{campaign_id}")).data
    assert (stored["start_date"], stored["timezone"]) == (1953874800, "Europe/Berlin")
    assert "No game is active" in await desk.page.inner_text(".checks [data-tone=bad]")

    prize = (await desk.stack.admin("POST", "/admin/prizes", {"name": "Sledge", "stock": {"total": 3}})).data[
        "prize_id"
    ]
    game = {
        "name": "Snow wheel",
        "type": "spin_wheel",
        "campaign_id": campaign_id,
        "reward_handler": "probability",
        "handler_config": {"prizes": [{"prize_id": prize, "probability": 0.25}]},
    }
    assert (await desk.stack.admin("POST", "/admin/games", game)).code == "OK"
    await desk.to(f"/campaigns/{campaign_id}")
    await desk.press("Activate", within=".table")
    await desk.page.wait_for_selector("dialog:has-text('Players can start it')")
    await desk.press("Activate", within="dialog")
    await desk.page.wait_for_selector(".toast:has-text('Snow wheel is now: Active')")
    await desk.page.wait_for_selector(".checks:has-text('The odds of Snow wheel add up to 25 %')")
    assert "Sledge has stock: 3 left" in await desk.page.inner_text(".checks")
    for verb, state in (("Activate", "Active"), ("Pause", "Paused"), ("Activate", "Active"), ("End", "Ended")):
        await desk.press(verb, within="main .head")
        dialog = await desk.page.inner_text("dialog")
        assert "active game" in dialog and "Snow wheel" in dialog
        await desk.press(verb, within="dialog")
        await desk.page.wait_for_selector(f".head .status:has-text('{state}')")
    assert (await desk.stack.admin("GET", f"/admin/campaigns/{campaign_id}")).data["status"] == "CAMPAIGN_STATUS_ENDED"
    await desk.press("Duplicate")
    await desk.page.get_by_label("Name", exact=True).fill("Winter Draw again")
    assert "lasts as long as the original" in await desk.page.inner_text("dialog form")
    ends = desk.page.locator("dialog [name=end_date]")
    await desk.page.locator("dialog [name=start_date]").fill("2030-01-31T09:00")
    await ends.fill("2030-01-30T09:00")
    await desk.press("Duplicate", within="dialog")
    await desk.page.wait_for_selector("dialog [aria-invalid=true]")
    assert await ends.get_attribute("aria-invalid") == "true"
    await ends.fill("2030-02-03T18:00")
    await desk.press("Duplicate", within="dialog")
    await desk.page.wait_for_selector("h1:has-text('Winter Draw again')")
    assert "Draft" in await desk.page.inner_text(".head .status")
    again = (await desk.stack.admin("GET", f"/admin/campaigns/{desk.page.url.rpartition('/')[2]}")).data
    zone = ZoneInfo(again["timezone"])
    told = [datetime.fromtimestamp(again[name], zone).isoformat()[:16] for name in ("start_date", "end_date")]
    assert told == ["2030-01-31T09:00", "2030-02-03T18:00"]
    desk.forgive("400")


async def test_what_is_wrong_is_said_at_its_field_and_nothing_typed_is_lost(desk: Desk, stall: World) -> None:
    await desk.enter("admin", path=f"/campaigns/{stall.campaign_id}")
    await desk.press("Edit")
    await desk.page.get_by_label("Time zone").fill("Mars/Olympus")
    await desk.page.get_by_label("Name", exact=True).fill("Autumn Fair on Mars")
    await desk.press("Save")
    field = desk.page.get_by_label("Time zone")
    await desk.page.wait_for_selector("[aria-invalid=true]")
    assert await field.get_attribute("aria-invalid") == "true"
    await desk.until("document.activeElement.getAttribute('name') === 'timezone'")
    assert await desk.page.get_by_label("Name", exact=True).input_value() == "Autumn Fair on Mars"
    desk.forgive("400")
    await field.fill("UTC")
    await desk.press("Save")
    assert await desk.told() == "Saved." and await desk.title() == "Autumn Fair on Mars"


async def test_a_game_that_somebody_changed_meanwhile_is_not_overwritten(desk: Desk, stall: World) -> None:
    game_id = await stall.wheel(await stall.prize())
    await desk.enter("admin", path=f"/campaigns/{stall.campaign_id}")
    await desk.stack.admin("PUT", f"/admin/games/{game_id}", {"name": "Changed"})
    await desk.press("Pause", within=".table")
    await desk.press("Pause", within="dialog")
    await desk.page.wait_for_selector(".toast[data-tone=bad]")
    assert (await desk.stack.admin("GET", f"/admin/games/{game_id}")).data["status"] == "GAME_STATUS_ACTIVE"
    await desk.page.wait_for_selector("td:has-text('Changed')")
    desk.forgive("409")


async def test_a_campaign_that_somebody_changed_meanwhile_is_overwritten_by_who_was_told_so(
    desk: Desk, stall: World
) -> None:
    path = f"/admin/campaigns/{stall.campaign_id}"
    await desk.enter("admin", path=f"/campaigns/{stall.campaign_id}")
    await desk.press("Edit")
    await desk.page.get_by_label("Name", exact=True).fill("Mine")
    theirs = {"name": "Theirs", "timezone": "Europe/Rome"}
    assert (await desk.stack.admin("PUT", path, theirs)).code == "OK"
    await desk.press("Save")
    await desk.page.wait_for_selector("dialog >> text=Somebody has changed this meanwhile: Name, Time zone.")
    desk.forgive("409")
    assert await desk.page.get_by_label("Name", exact=True).input_value() == "Mine"
    assert (await desk.stack.admin("GET", path)).data["name"] == "Theirs"
    await desk.press("Save")
    assert await desk.told() == "Saved."
    now = (await desk.stack.admin("GET", path)).data
    assert (now["name"], now["timezone"]) == ("Mine", "Europe/Rome"), "what was not typed is not undone"


async def test_a_list_s_filter_and_page_are_in_its_address(desk: Desk) -> None:
    for i in range(27):
        body = {"name": f"Paged {i:02}", "status": "paused" if i % 2 else "draft"}
        assert (await desk.stack.admin("POST", "/admin/campaigns", body)).code == "OK"
    await desk.enter("designer", path="/campaigns?q=Paged")
    first = await desk.rows()
    assert len(first) == 25
    await desk.press("Next page")
    await desk.page.wait_for_url("**cursor=**")
    await desk.until("document.querySelectorAll('tbody tr').length === 2")
    assert not set(await desk.rows()) & set(first)
    await desk.page.go_back()
    await desk.until("document.querySelectorAll('tbody tr').length === 25")
    await desk.page.select_option("select", "paused")
    await desk.page.wait_for_url("**status=paused**")
    await desk.until("document.querySelectorAll('tbody tr').length === 13")
    await desk.page.reload()
    assert len(await desk.rows()) == 13
    await desk.page.fill("input[type=search]", "none of these")
    await desk.page.wait_for_selector(".empty:has-text('Nothing matches')")
    await desk.press("Clear the filter")
    await desk.page.wait_for_url(f"{desk.home}/campaigns")


# -- roles, safety ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "sees"),
    [("admin", True), ("designer", True), ("reward_manager", False), ("platform", None)],
)
async def test_each_role_sees_what_the_strict_matrix_lets_it_do(
    desk: Desk, stall: World, role: str, sees: bool | None
) -> None:
    await stall.wheel(await stall.prize())
    await desk.enter(role, path="/campaigns")
    page = desk.page
    if sees is None:
        assert "nothing at this address" in await page.inner_text("main")
        assert await page.locator("nav.side a").all_inner_texts() == ["Home", "Tenants"]
        return
    assert await page.get_by_role("button", name="New campaign").count() == int(sees)
    await desk.to(f"/campaigns/{stall.campaign_id}")
    for name in ("Edit", "Duplicate", "Pause", "End"):
        assert await page.get_by_role("button", name=name, exact=True).count() >= int(sees), name
        assert sees or await page.get_by_role("button", name=name, exact=True).count() == 0, name
    assert not [one for one in desk.wrong if "403" in one]


async def test_whatever_is_written_stays_text(desk: Desk, stall: World) -> None:
    await stall.stack.admin("PUT", f"/admin/campaigns/{stall.campaign_id}", {"name": EVIL})
    game_id = await stall.wheel(await stall.prize(name=EVIL, total=1), name=EVIL)
    await desk.enter("admin")
    for path in ("", "/campaigns", f"/campaigns/{stall.campaign_id}"):
        await desk.to(path)
        assert EVIL in await desk.page.inner_text("main"), path
    await desk.press("Pause", within=".table")
    assert EVIL in await desk.page.inner_text("dialog")
    await desk.press("Pause", within="dialog")
    assert EVIL in await desk.told()
    assert await desk.page.evaluate("window.evil") is None and await desk.page.title() == f"{EVIL} · Tombola"
    assert (await desk.stack.admin("GET", f"/admin/games/{game_id}")).data["status"] == "GAME_STATUS_PAUSED"


async def test_the_page_may_run_nothing_but_its_files(desk: Desk) -> None:
    answer = await desk.page.goto(desk.home)
    assert answer is not None
    policy = answer.headers["content-security-policy"]
    for part in (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "frame-ancestors 'none'",
    ):
        assert part in policy.split("; ")
    await desk.page.evaluate(INLINE)
    assert await desk.page.evaluate("window.evil") is None
    desk.forgive("Content Security Policy", "inline script")


INLINE = """(() => {
    const script = document.createElement("script");
    script.text = "window.evil = 1";
    document.body.append(script);
})()"""

FORM = """async ([address, schema, value]) => {
    const { html, render, Form } = await import(`${address}/main.js`);
    const root = document.createElement("div");
    root.id = "tried";
    document.querySelector("main").replaceChildren(root);
    const save = (got) => { window.got = got; };
    const asked = { schema, value, save, prefix: "handler_config", word: "Try" };
    render(html`<${Form} ...${asked} />`, root);
}"""


async def test_every_reward_handler_has_a_form_that_keeps_what_it_is_given(desk: Desk) -> None:
    from tests.unit.rules.test_config_schemas import TAKEN

    await desk.enter("admin")
    address = f"{desk.stack.process.admin_url}/dashboard-files/{files().version}"
    for name, config in TAKEN.items():
        async with desk.stack.http.get(f"{desk.stack.process.admin_url}/api/v1/schemas/games/{name}.json") as answer:
            schema = await answer.json(content_type=None)
        await desk.page.evaluate(FORM, [address, schema, config])
        await desk.page.click("#tried button[type=submit]")
        await desk.until("window.got")
        assert await desk.page.evaluate("window.got") == config, name
        added: dict[str, Any] = await desk.page.evaluate("delete window.got, {}")
        assert added == {}
        await desk.shot(f"dashboard-form-{name}")


async def test_axe_finds_nothing_on_any_page(browser: Browser, stall: World) -> None:
    await stall.wheel(await stall.prize(name="Fair mug", total=20), name="Harvest wheel")
    found: dict[str, list[str]] = {}
    for scheme in ("light", "dark"):
        async with at_desk(browser, stall.stack, **STILL, color_scheme=scheme) as desk:
            await desk.page.goto(desk.home)
            await desk.page.wait_for_selector(".sign-in")
            found[f"sign-in {scheme}"] = await violations(desk.page)
            await desk.enter("admin")
            for path in ("", "/campaigns", "/campaigns?q=none+such", f"/campaigns/{stall.campaign_id}"):
                await desk.to(path)
                found[f"{path} {scheme}"] = await violations(desk.page)
            for name in ("Edit", "Duplicate", "End"):
                await desk.press(name, within="main .head")
                found[f"{name} {scheme}"] = await violations(desk.page)
                await desk.page.keyboard.press("Escape")
                await desk.page.wait_for_selector("dialog", state="detached")
    assert {view: told for view, told in found.items() if told} == {}


# -- how it looks ----------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
async def test_every_page_fits_its_window(browser: Browser, stall: World, width: int, scheme: str) -> None:
    prize = await stall.prize(name="Fair mug", total=20)
    game_id = await stall.wheel(prize, name="Harvest wheel", ui={"theme": {"primary": "#c2410c"}})
    await stall.game(
        {"type": "scratch_card", "reward_handler": "probability"}, {"prizes": []}, name="Lucky scratch", status="draft"
    )
    for i in range(19):
        await stall.round(game_id, f"player_{i}")
    now = int(time.time())
    dates = {"start_date": now - 86400, "end_date": now + 864000, "timezone": "Europe/Berlin"}
    await stall.stack.admin("PUT", f"/admin/campaigns/{stall.campaign_id}", dates)
    options = {**STILL, "viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    async with at_desk(browser, stall.stack, **options) as desk:
        await desk.page.goto(desk.home)
        await desk.page.wait_for_selector(".sign-in")
        await look(desk, f"sign-in-{width}-{scheme}")
        await desk.enter("admin")
        await look(desk, f"home-{width}-{scheme}")
        await desk.to("/campaigns")
        await look(desk, f"campaigns-{width}-{scheme}")
        await desk.to(f"/campaigns/{stall.campaign_id}")
        await look(desk, f"campaign-{width}-{scheme}")
        await desk.press("Edit")
        await look(desk, f"campaign-edit-{width}-{scheme}")
        await desk.page.keyboard.press("Escape")
        await desk.press("Pause", within="main .head")
        await look(desk, f"campaign-pause-{width}-{scheme}")
        await desk.press("Pause", within="dialog")
        await desk.page.wait_for_selector(".checks")
        await look(desk, f"campaign-check-{width}-{scheme}")
        await desk.to("/campaigns?q=none+such")
        await look(desk, f"campaigns-empty-{width}-{scheme}")


WIDER = """[...document.querySelectorAll("body *")].filter((it) =>
    it.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !it.closest(".table, .toasts"))
    .map((it) => it.outerHTML.slice(0, 120))"""


async def look(desk: Desk, name: str) -> None:
    """A picture; nothing of the page is wider than its window."""
    await desk.shot(f"dashboard-{name}")
    scrolls = await desk.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    assert not scrolls, await desk.page.evaluate(WIDER)
