"""The dashboard by the keys alone: every page that there is, every dialog, and what each page is for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import pytest
import pytest_asyncio

from tests.browser.test_dashboard_desk import MANUAL, complainant
from tests.browser.test_dashboard_walk import ROUTES, furnished
from tests.support import approvals
from tests.support.browsing import STILL
from tests.support.keyboard import LISTENS, Keys, tab_to, walk
from tests.support.stack import TO_LOOPBACK, Stack
from tests.support.staff import Desk, at_desk
from tests.support.world import World, new_world

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

SIZE: Final[Any] = {"width": 1280, "height": 800}


@pytest.fixture(scope="module")
def counter_settings() -> dict[str, Any]:
    return {**TO_LOOPBACK, "dual_turns_above": 5}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(counter: Stack) -> AsyncIterator[World]:
    async with new_world(counter, name="Autumn Fair") as world:
        yield world


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def paths(world: World) -> dict[str, str]:
    """One of everything: {route: path of its thing}."""
    found = await furnished(world)
    await world.round(await world.wheel(await world.prize(name="Hamper", total=9, fulfillment=MANUAL)), "dora")
    await complainant(world)
    turns = {"campaign_id": world.campaign_id, "amount": 9, "reason": "sorry"}
    asked = await approvals.as_(world.stack, "bob", "POST", "players/ann/turns", turns)
    coupon = await world.prize(name="Coupon", codes=["AAAA-1111"])
    return {
        **found,
        "/approvals/:id": f"/approvals/{approvals.waiting(asked)['id']}",
        "codes": f"/prizes/{coupon}",
        "timeline": "/campaigns?view=timeline",
    }


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def desk(browser: Browser, counter: Stack) -> AsyncIterator[Desk]:
    """One tab for all of them."""
    async with at_desk(browser, counter, **STILL, viewport=SIZE) as desk:
        await desk.page.add_init_script(LISTENS)
        await desk.enter("admin", "platform")
        yield desk


@pytest.mark.parametrize("route", [*ROUTES, "codes", "timeline"])
async def test_tab_reaches_all_that_a_mouse_does(desk: Desk, paths: dict[str, str], route: str) -> None:
    await desk.to(paths[route] if route != "/" else "")
    stops, wrong = await walk(desk.page)
    assert wrong == [], stops
    assert "Skip" in stops[0]


@pytest.mark.parametrize("route", ["/campaigns/:id", "/prizes/new"])
async def test_what_is_gone_back_to_is_not_under_the_bar(desk: Desk, paths: dict[str, str], route: str) -> None:
    await desk.to(paths[route])
    stops, wrong = await walk(desk.page, back=True)
    assert wrong == [], stops


async def test_in_a_narrow_window_the_menu_is_opened_gone_through_and_closed(desk: Desk) -> None:
    page = desk.page
    await page.set_viewport_size({"width": 360, "height": 800})
    try:
        await desk.to("/audit")
        menu, links = page.get_by_role("button", name="Menu", exact=True), page.locator("#nav a")
        await tab_to(page, menu)
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#nav")
        await tab_to(page, links.last)
        assert await links.last.is_visible()
        await tab_to(page, page.get_by_label("Kind"))
        await page.wait_for_selector("#nav", state="hidden")  # It would lie over what has the focus.
        await tab_to(page, menu, "Shift+Tab")
        await page.keyboard.press("Enter")
        await tab_to(page, links.nth(2))
        await page.keyboard.press("Escape")
        await page.wait_for_selector("#nav", state="hidden")
        assert await menu.evaluate("(it) => it === document.activeElement")
    finally:
        await page.set_viewport_size(SIZE)


async def test_what_is_told_to_who_points_at_it_is_told_without(desk: Desk) -> None:
    """How long ago something was says its time to a mouse alone: the keys have it shown everywhere, and so it stays."""
    shown = desk.page.locator("main tbody time").first
    await desk.to("/audit")
    pointed_at = await shown.get_attribute("title")
    assert pointed_at and pointed_at.endswith(" UTC") and await shown.inner_text() != pointed_at
    for other in (True, False):
        await tab_to(desk.page, desk.page.get_by_role("button", name="Show times in full"))
        await desk.page.keyboard.press("Space")
        await desk.page.reload()
        await desk.settled()
        assert (await shown.inner_text() == pointed_at) is other
    assert "Admin" in await desk.page.inner_text(".who-name")


# -- dialogs ---------------------------------------------------------------------------------

OPENERS: Final = """() => {
    const OTHERS = "form button, nav button, .id, tr:not(:first-child) .link, [aria-pressed]";
    const all = [...document.querySelectorAll(`main button:not(${OTHERS})`)];
    return [...new Set(all.filter((one) => one.checkVisibility()).map((one) => one.textContent.trim()))];
}"""
"""What is written on the buttons of a page that are no part of a form: alike ones once."""

PRESS: Final = """(text) => {
    const all = document.querySelectorAll("main button:not(form button)");
    (window.pressed = [...all].find((one) => one.textContent.trim() === text)).focus();
}"""

AT_ONCE: Final = {
    "/campaigns/:id": {"Copy", "Save as SVG", "Save as PNG"},
    "/games/:id": {"Copy", "Save as SVG", "Save as PNG"},
    "/players/:id": {"Export"},
    "/integrations": {"Send me one"},
}
"""What does its work without a dialog."""

ASKING: Final = tuple(route for route in (*ROUTES, "codes") if route != "/analytics")
"""There every button filters, or saves a file."""

IN: Final = ":is(form :is(input, select, textarea), footer button, header button)"
FOCUS_IN: Final = f"document.activeElement.matches('dialog[open] {IN}')"


async def closed(desk: Desk) -> None:
    await desk.page.keyboard.press("Escape")
    await desk.page.wait_for_selector("dialog", state="detached")


@pytest.mark.parametrize("route", ASKING)
async def test_a_dialog_takes_the_focus_keeps_it_and_gives_it_back(
    desk: Desk, paths: dict[str, str], route: str
) -> None:
    page = desk.page
    await desk.to(paths[route] if route != "/" else "")
    for text in await page.evaluate(OPENERS):
        if text in AT_ONCE.get(route, ()):
            continue
        await page.evaluate(PRESS, text)
        await page.keyboard.press("Enter")
        await page.wait_for_selector("dialog[open]")
        await desk.until("!document.querySelector('dialog :is(.loading, [aria-busy=true])')")
        assert await page.evaluate(FOCUS_IN), text
        await page.focus("dialog header button")
        stops, wrong = await walk(page, "dialog")
        assert wrong == [], (text, stops)
        await closed(desk)
        assert await page.evaluate("document.activeElement === window.pressed"), text


# -- what each page is for -------------------------------------------------------------------

Act = Callable[[Keys, World], Awaitable[None]]
ACTS: Final[dict[str, Act]] = {}


def does(*routes: str) -> Callable[[Act], Act]:
    def taken(act: Act) -> Act:
        ACTS.update(dict.fromkeys(routes, act))
        return act

    return taken


@pytest.mark.parametrize("route", ROUTES)
async def test_what_a_page_is_for_is_done_by_keys_alone(
    desk: Desk, world: World, paths: dict[str, str], route: str
) -> None:
    await desk.to(paths[route] if route != "/" else "")
    await desk.page.keyboard.press("Tab")
    await desk.page.keyboard.press("Enter")
    await desk.page.wait_for_selector("#content:focus")  # Past the navigation.
    await ACTS[route](Keys(desk), world)
    assert desk.wrong == []


@does("/", "/campaigns", "/games", "/players", "/approvals")
async def a_thing_is_opened(keys: Keys, world: World) -> None:
    link = keys.page.locator("main tbody a").first
    path = str(await link.get_attribute("href")).removeprefix("/dashboard/")
    await tab_to(keys.page, link)
    await keys.page.keyboard.press("Enter")
    await keys.page.wait_for_selector("main h1:focus")
    assert keys.page.url.endswith(path) and await keys.get(path)


@does("/campaigns/gallery")
async def a_ready_campaign_is_made(keys: Keys, world: World) -> None:
    [*_, one] = await keys.page.locator("main .gallery h2").all_inner_texts()
    await keys.press(f"Start with this: {one}")
    asked = await keys.dialog()
    await asked.fill(name="By keys")
    await asked.press("Start with this")
    made = await keys.get(f"campaigns/{await keys.opened('By keys')}")
    assert (made["name"], made["status"]) == ("By keys", "CAMPAIGN_STATUS_DRAFT")


@does("/campaigns/:id")
async def a_campaign_is_paused(keys: Keys, world: World) -> None:
    for verb, status in (("Pause", "PAUSED"), ("Activate", "ACTIVE")):
        await keys.press(verb)
        await (await keys.dialog()).press(verb)
        await keys.gone()
        await keys.page.wait_for_selector(f".head .status:has-text('{status.title()}')")
        assert (await keys.get(f"campaigns/{world.campaign_id}"))["status"] == f"CAMPAIGN_STATUS_{status}"


@does("/campaigns/:id/games/new")
async def a_game_is_made(keys: Keys, world: World) -> None:
    await keys.fill(name="Card by keys", shape="Scratch")
    await keys.press("Make game")
    made = await keys.get(f"games/{await keys.opened('Card by keys')}")
    assert (made["type"], made["campaign_id"]) == ("scratch_card", world.campaign_id)


@does("/games/:id")
async def a_game_is_saved(keys: Keys, world: World) -> None:
    game = keys.last
    await keys.fill(name="Wheel by keys")
    await keys.press("Save")
    await keys.page.wait_for_selector(".toast:has-text('Saved.')")
    assert (await keys.get(f"games/{game}"))["name"] == "Wheel by keys"


@does("/prizes")
async def the_form_of_a_prize_is_opened(keys: Keys, world: World) -> None:
    await keys.press("New prize")
    assert await keys.opened("New prize") == "new"


@does("/prizes/new")
async def a_prize_is_made(keys: Keys, world: World) -> None:
    await keys.fill(name="Mug by keys", value="7")
    await keys.page.keyboard.press("Enter")
    made = await keys.get(f"prizes/{await keys.opened('Mug by keys')}")
    assert (made["name"], made["value"]) == ("Mug by keys", 7)


@does("/prizes/:id")
async def stock_is_moved(keys: Keys, world: World) -> None:
    prize = keys.last
    before = (await keys.get(f"prizes/{prize}"))["stock"]["total"]
    await keys.press("Adjust")
    asked = await keys.dialog()
    await asked.fill(change="5", reason="counted")
    await asked.press("Adjust")
    await keys.gone()
    assert (await keys.get(f"prizes/{prize}"))["stock"]["total"] == before + 5


@does("/leaderboards", "/quests")
async def a_contest_is_made(keys: Keys, world: World) -> None:
    kind = keys.last
    thing = kind.removesuffix("s")
    await keys.press(f"New {thing}")
    asked = await keys.dialog()
    await keys.page.wait_for_selector("dialog [name=campaign_id] option:text-is('Autumn Fair')", state="attached")
    await asked.fill(name="By keys", campaign_id="Autumn F")
    await asked.press(f"Make {thing}")
    await keys.gone()
    [made] = (await keys.get(kind, q="By keys"))["items"]
    assert made["campaign_id"] == world.campaign_id


@does("/leaderboards/:id")
async def a_leaderboard_is_finalized(keys: Keys, world: World) -> None:
    board = keys.last
    await keys.press("Finalize")
    await (await keys.dialog()).press("Finalize")
    await keys.page.wait_for_selector(".head .status:has-text('Finalized')")
    assert (await keys.get(f"leaderboards/{board}"))["status"] == "LEADERBOARD_STATUS_FINALIZED"


@does("/players/:id")
async def a_balance_is_adjusted(keys: Keys, world: World) -> None:
    await keys.press("Adjust balance")
    asked = await keys.dialog()
    await asked.fill(scope_key=world.campaign_id, currency="points", amount="40", reference_id="ticket-1")
    await asked.press("Adjust balance")
    await keys.gone()
    [balance] = (await keys.get("players/ann/wallet"))["items"]
    assert (balance["scope_key"], balance["balance"]) == (world.campaign_id, 40)


@does("/rewards")
async def a_reward_is_fulfilled(keys: Keys, world: World) -> None:
    [reward] = (await keys.get("rewards", player_id="dora"))["items"]
    row = keys.page.locator(f"tbody tr:has(a[href$='/{reward['prize_id']}'])")
    await tab_to(keys.page, row.locator("input[type=checkbox]"))
    await keys.page.keyboard.press("Space")
    await keys.press("Fulfill 1", "Shift+Tab")
    await (await keys.dialog()).press("Fulfill")
    await row.locator(".status:has-text('Fulfilled')").wait_for()
    [reward] = (await keys.get("rewards", player_id="dora"))["items"]
    assert reward["status"] == "REWARD_STATUS_FULFILLED"


@does("/deliveries")
async def a_delivery_is_tried_again(keys: Keys, world: World) -> None:
    [dead] = (await keys.get("fulfillment/tasks", status="dead"))["items"]
    await keys.press("Try again")
    await (await keys.dialog()).press("Try again")
    await keys.page.wait_for_selector(".toast:has-text('One delivery is tried again.')")
    assert dead["id"] in [one["id"] for one in (await keys.get("fulfillment/tasks", status="pending"))["items"]]


@does("/integrations")
async def an_integration_is_added(keys: Keys, world: World) -> None:
    await keys.press("New integration")
    asked = await keys.dialog()
    await asked.fill(**{"config.url": "https://shop.example/keys"})
    await asked.press("Make integration")
    await keys.gone()
    urls = [one["config"]["url"] for one in (await keys.get("integrations"))["items"]]
    assert "https://shop.example/keys" in urls


@does("/analytics")
async def plays_are_taken_along(keys: Keys, world: World) -> None:
    async with keys.page.expect_download() as told:
        await keys.press("Plays")
    assert (await told.value).suggested_filename == "plays.csv"


@does("/approvals/:id")
async def what_waits_is_approved(keys: Keys, world: World) -> None:
    await keys.press("Approve")
    asked = await keys.dialog()
    await asked.fill(reason="seen")
    await asked.press("Approve")
    await keys.page.wait_for_selector(".head .status:has-text('Done')")
    done = await keys.get(f"approvals/{keys.last}")
    assert (done["status"], done["decided_by"], done["reason"]) == ("APPROVAL_STATUS_DONE", "ann", "seen")


@does("/audit")
async def the_log_is_filtered(keys: Keys, world: World) -> None:
    await tab_to(keys.page, keys.page.get_by_label("Kind"))
    await keys.page.keyboard.type("Leader")
    await keys.page.wait_for_url("**/audit?subject_type=leaderboard")
    await keys.desk.until(
        "[...document.querySelectorAll('tbody button')].every((it) => it.textContent.startsWith('leaderboard.'))"
    )
    said = await keys.page.locator("tbody button").all_inner_texts()
    assert said == [one["action"] for one in (await keys.get("audit", subject_type="leaderboard"))["items"]] != []


@does("/violations")
async def a_violation_is_closed(keys: Keys, world: World) -> None:
    [one, *_] = (await keys.get("violations", status="open"))["items"]
    await keys.press(one["holds"])
    asked = await keys.dialog()
    await asked.fill(reason="by hand")
    await asked.press("Close it")
    await keys.gone()
    closed = (await keys.get("violations", status="closed"))["items"]
    assert (one["id"], "ann", "by hand") in [(it["id"], it["closed_by"], it["reason"]) for it in closed]


@does("/people")
async def a_token_is_made(keys: Keys, world: World) -> None:
    await keys.press("New token")
    asked = await keys.dialog()
    await asked.fill(name="By keys")
    await asked.press("Make the token")
    await keys.page.wait_for_selector("dialog input[readonly]")
    await keys.page.keyboard.press("Escape")
    await keys.gone()
    assert len((await keys.get("tokens", q="By keys"))["items"]) == 1


@does("/merchants", "/tenants")
async def an_owner_is_made(keys: Keys, world: World) -> None:
    kind = keys.last
    word = f"New {kind.removesuffix('s')}"
    await keys.press(word)
    asked = await keys.dialog()
    await asked.fill(name="By keys")
    await asked.press(word)
    await keys.gone()
    assert len((await keys.get(kind, q="By keys"))["items"]) == 1


async def test_codes_are_added_and_withdrawn_by_keys_alone(desk: Desk, paths: dict[str, str]) -> None:
    """What is done by dropping a file has its way by keys."""
    keys = Keys(desk)
    desk.page.on("filechooser", lambda _: None)  # It is ours from now on: by the time that a key opens it, for sure.
    await desk.to(paths["codes"])
    await tab_to(desk.page, desk.page.locator(".upload input[type=file]"))
    async with desk.page.expect_file_chooser() as asked:
        await desk.page.keyboard.press("Enter")
    await (await asked.value).set_files({"name": "c.txt", "mimeType": "text/plain", "buffer": b"BBBB-2222\nCCCC-3333"})
    await desk.page.wait_for_selector(".upload [role=status]:has-text('2 added')")
    await desk.page.wait_for_selector("tbody tr:nth-child(3)")
    await tab_to(desk.page, desk.page.locator("main tbody input[type=checkbox]").first)
    await desk.page.keyboard.press("Space")
    await keys.press("Withdraw 1", "Shift+Tab")
    await (await keys.dialog()).press("Withdraw")
    await desk.page.wait_for_selector(".toast:has-text('One code is withdrawn.')")
    totals = (await keys.get(f"{paths['codes'][1:]}/codes"))["totals"]
    assert (totals["free"], totals["withdrawn"]) == (2, 1)


async def test_somebody_signs_in_by_keys_alone(desk: Desk) -> None:
    token = await desk.page.evaluate("sessionStorage.getItem('tombola.token')")
    await desk.page.evaluate("sessionStorage.clear()")
    await desk.page.goto(f"{desk.home}/games")
    await desk.page.wait_for_selector(".sign-in summary")
    await tab_to(desk.page, desk.page.locator("summary"))
    await desk.page.keyboard.press("Enter")
    await desk.page.wait_for_selector("input[type=password]")
    stops, wrong = await walk(desk.page)
    assert wrong == [] and len(stops) >= 3, stops
    await tab_to(desk.page, desk.page.locator("input[type=password]"))
    await desk.page.keyboard.type(token)
    await desk.page.keyboard.press("Enter")
    await desk.settled()
    assert await desk.title() == "Games"
