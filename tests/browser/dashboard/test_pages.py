import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.axe import violations
from tests.support.browsing import STILL
from tests.support.chromium import Browser
from tests.support.keyboard import LISTENS, tab_to, walk
from tests.support.pages.desk import furnish
from tests.support.pages.looks import accessible, window
from tests.support.stack import Stack
from tests.support.staff import Desk, at_desk
from tests.support.world import World

pytestmark = pytest.mark.timeout(300)

TOP: Final = Path(__file__).parents[3]
PAGES: Final = TOP / "runtime" / "web" / "dashboard" / "pages.js"
ROUTES: Final = tuple(re.findall(r'\{ path: "([^"]+)", needs', PAGES.read_text()))
LISTS: Final = tuple(
    path for path in ROUTES if path not in ("/", "/analytics", "/tenants") and ":" not in path and path.count("/") == 1
)
CUT: Final = "[...document.querySelectorAll('main .table')].some((one) => one.scrollWidth > one.clientWidth)"


@pytest.fixture
async def paths(fair: World) -> dict[str, str]:
    """{route: the path of its thing}, of a tenant that has one of everything."""
    ids = await furnish(fair)
    found = {path: path.replace(":id", ids.get(path.split("/")[1], "")) for path in ROUTES}
    return {**found, "/": "", "codes": f"/prizes/{ids['codes']}", "timeline": "/campaigns?view=timeline"}


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (360, "dark"),
        *(pytest.param(*one, marks=pytest.mark.nightly) for one in ((360, "light"), (768, "dark"), (1440, "light"))),
    ],
)
async def test_page_fits_its_window_takes_names_for_text_and_axe_finds_nothing(
    browser: Browser, paths: dict[str, str], tenant: Stack, width: int, scheme: str
) -> None:
    assert len(paths) > 20
    found: dict[str, list[str]] = {}
    async with at_desk(browser, tenant, **STILL, **window(width, scheme, 900)) as desk:
        await desk.page.goto(desk.home)
        await desk.page.wait_for_selector(".sign-in")
        await accessible(desk, f"dashboard-sign-in-{width}-{scheme}", found)
        await desk.enter("admin", "platform")
        for route, path in paths.items():
            await desk.go(path)
            if route in ("/", "/analytics"):
                await desk.page.wait_for_selector(".tiles")
            name = f"dashboard{route.replace('/', '-').replace(':', '-')}-{width}-{scheme}"
            await accessible(desk, name, found)
            assert width > 1000 or not await desk.page.evaluate(CUT), name
            assert await desk.page.evaluate("window.evil") is None, route
    assert found == {}


def documented() -> dict[str, str]:
    text = (TOP / "docs/reference/dashboard.md").read_text()
    rows = re.findall(r"^\| (`/[^|]*) \| ([^|]*) \|", text, re.MULTILINE)
    return {route: reads for routes, reads in rows for route in re.findall(r"`([^`]+)`", routes)}


async def test_page_reads_what_the_docs_say_and_its_address_has_its_filter(desk: Desk, paths: dict[str, str]) -> None:
    docs, found = documented(), dict[str, set[str]]()
    await desk.enter("admin", "platform", path="/audit")
    for route in ROUTES:
        if route == "/approvals/:id":
            continue
        desk.asked.clear()
        await desk.go(paths[route])
        body = {one.partition("/api/v1/")[2].partition("?")[0] for one in desk.asked if one.startswith("GET ")}
        body = {"schema" if one.startswith("schemas/games/") else one for one in body}
        # The last word of a path that is no id.
        words = {next((word for word in one.split("/")[::-1] if not re.search(r"[_0-9]", word)), "") for one in body}
        reads = docs[route.replace(":id", "{id}")].lower()
        spelled = {word.removesuffix(".json").replace("-", " ") for word in words - {"", "me", "ann"}}
        if undocumented := {word for word in spelled if word.removesuffix("s") not in reads}:
            found[route] = undocumented
    for route in LISTS:
        await desk.go(route)
        control = desk.page.locator("main .filters").locator("input, select").first
        if await control.evaluate("(it) => it.tagName") == "SELECT":
            await control.select_option(index=1)
        else:
            await control.fill("none such")
        await desk.page.wait_for_url(re.compile(rf"{route}\?.+="))
    assert found == {}


async def test_navigation_has_five_groups_and_home_creates_what_the_role_may(desk: Desk, fair: World) -> None:
    await fair.database.execute("UPDATE tenants SET name = 'Fair & Co.' WHERE tenant_id = $1", fair.stack.tenant_id)
    await desk.enter("admin", "platform")
    groups = await desk.page.locator("#nav p").all_text_contents()
    assert groups == ["Overview", "Promotions", "Players", "Control", "Settings"]
    assert await desk.page.locator("#nav a").count() == len([one for one in ROUTES if one.count("/") == 1])
    assert await desk.page.inner_text(".bar .tenant") == "Fair & Co."
    links = desk.page.locator(".dropdown a")
    made = ["Campaign from a template", "Campaign", "Prize", "Leaderboard", "Quest", "Integration"]
    assert await links.all_text_contents() == made
    for nth, path in enumerate(("/campaigns/gallery", "/campaigns", "/prizes/new", "/leaderboards", "/quests")):
        await desk.to("/")
        await desk.press("Create", within="main .head")
        assert await violations(desk.page) == []
        await links.nth(nth).click()
        await desk.page.wait_for_url(re.compile(rf"/dashboard{path}(\?make=1)?$"))
        await desk.page.wait_for_selector("dialog form, main form, .gallery")
    await desk.enter("reward_manager")
    assert await links.count() == 0
    desk.forgive("429")  # Each visit of Home opens a live stream, and the edge notices its end with the next event.


async def test_empty_list_says_what_to_do_next(browser: Browser, tenant: Stack) -> None:
    async with at_desk(browser, tenant, **STILL) as desk:
        await desk.page.goto(desk.home)
        token = tenant.token("ann", ("admin",))
        await desk.page.evaluate("(token) => sessionStorage.setItem('tombola.token', token)", token)
        said: dict[str, str] = {}
        for path in LISTS:
            if path != "/audit":  # It lists the sign-in.
                await desk.to(path)
                said[path] = await desk.page.locator("main .empty").first.inner_text()
        assert [path for path, text in said.items() if "\n" not in text or "tombola " in text] == [], said


SIZE: Final[Any] = {"width": 1280, "height": 800}
SOME: Final = ("/", "/campaigns/:id", "/prizes/new", "/audit")

OPENERS: Final = """() => {
    const OTHERS = "form button, nav button, .id, tr:not(:first-child) .link, [aria-pressed]";
    const all = [...document.querySelectorAll(`main button:not(${OTHERS})`)];
    return [...new Set(all.filter((one) => one.checkVisibility()).map((one) => one.textContent.trim()))];
}"""

PRESS: Final = """(text) => {
    const all = document.querySelectorAll("main button:not(form button)");
    (window.pressed = [...all].find((one) => one.textContent.trim() === text)).focus();
}"""
EXPORTS: Final = ("Export", "Export participants", "Export winners")
AT_ONCE: Final = {"Copy", "Save as SVG", "Save as PNG", "Send test event", *EXPORTS}

FOCUS_IN: Final = """document.activeElement.matches(
    "dialog[open] :is(form :is(input, select, textarea), footer button, header button)")"""


@pytest.fixture
async def keys(browser: Browser, tenant: Stack) -> AsyncIterator[Desk]:
    async with at_desk(browser, tenant, **STILL, viewport=SIZE) as desk:
        await desk.page.add_init_script(LISTENS)
        await desk.enter("admin", "platform")
        yield desk


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["some", "every"])
async def test_tab_reaches_all_that_the_mouse_does_and_dialogs_keep_the_focus(
    keys: Desk, paths: dict[str, str], fair: World, every: bool
) -> None:
    # A long campaign name wraps the buttons of a list's row.
    await fair.stack.admin("PUT", f"/admin/campaigns/{fair.campaign_id}", {"name": "Autumn Fair"})
    desk, page, found = keys, keys.page, list[tuple[str, Any]]()
    for route in paths if every else SOME:
        await desk.to(paths[route])
        for back in (False, True) if route in (*SOME[1:3], "/audit") else (False,):
            stops, wrong = await walk(page, back=back)
            found += [(route, one) for one in wrong]
            assert back or "Skip" in stops[0], stops
        if route == "/analytics":
            continue  # Its buttons filter, or save a file.
        await desk.to(paths[route])
        for text in await page.evaluate(OPENERS):
            if text in AT_ONCE:
                continue
            await page.evaluate(PRESS, text)
            await page.keyboard.press("Enter")
            await page.wait_for_selector("dialog[open]")
            await desk.until("!document.querySelector('dialog :is(.loading, [aria-busy=true])')")
            assert await page.evaluate(FOCUS_IN), (route, text)
            found += [(route, (text, one)) for one in await violations(page)]
            await page.focus("dialog header button")
            _, wrong = await walk(page, "dialog")
            found += [(route, (text, one)) for one in wrong]
            await page.keyboard.press("Escape")
            await page.wait_for_selector("dialog", state="detached")
            assert await page.evaluate("document.activeElement === window.pressed"), (route, text)
    assert found == []


async def test_sign_in_lists_and_menu_work_by_the_keys_alone(keys: Desk, paths: dict[str, str], fair: World) -> None:
    """Signs in, opens a row, filters the log, opens the menu of a small window."""
    desk, page = keys, keys.page
    token = await page.evaluate("sessionStorage.getItem('tombola.token')")
    await page.evaluate("sessionStorage.clear()")
    await page.goto(f"{desk.home}/games")
    await page.wait_for_selector(".sign-in summary")
    stops, wrong = await walk(page)
    assert wrong == [] and len(stops) >= 2, stops
    await tab_to(page, page.locator("summary"))
    await page.keyboard.press("Enter")
    await page.wait_for_selector("input[type=password]")
    await tab_to(page, page.locator("input[type=password]"))
    await page.keyboard.type(token)
    await page.keyboard.press("Enter")
    await desk.settled()
    assert await desk.title() == "Games"
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("#content:focus")  # Past the navigation.
    await tab_to(page, page.locator("main tbody a").first)
    await page.keyboard.press("Enter")
    await page.wait_for_selector("main h1:focus")
    await desk.to("/audit")
    shown = page.locator("main tbody time").first
    title = await shown.get_attribute("title")
    assert title and title.endswith(" UTC") and await shown.inner_text() != title
    for full in (True, False):  # What a mouse reads by hovering, the keys show everywhere.
        await tab_to(page, page.get_by_role("button", name="Show exact times"))
        await page.keyboard.press("Space")
        await page.reload()
        await desk.settled()
        assert (await shown.inner_text() == title) is full
    await tab_to(page, page.get_by_label("Type"))
    await page.keyboard.type("Leader")
    await page.wait_for_url("**/audit?subject_type=leaderboard")
    await page.set_viewport_size({"width": 360, "height": 800})
    menu, links = page.get_by_role("button", name="Menu", exact=True), page.locator("#nav a")
    await tab_to(page, menu)
    await page.keyboard.press("Enter")
    await page.wait_for_selector("#nav")
    await tab_to(page, links.last)
    assert await links.last.is_visible()
    await tab_to(page, page.get_by_label("Type"))
    await page.wait_for_selector("#nav", state="hidden")  # It would cover the focus.
    await tab_to(page, menu, "Shift+Tab")
    await page.keyboard.press("Enter")
    await tab_to(page, links.nth(2))
    await page.keyboard.press("Escape")
    await page.wait_for_selector("#nav", state="hidden")
    assert await menu.evaluate("(it) => it === document.activeElement")
