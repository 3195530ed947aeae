"""Every page that there is, walked through: names that would like to be more than text, narrow and wide, and empty.

The pages are read from pages.js: one that is new is walked, too. With TOMBOLA_TEST_PICTURES=all in every width and both
schemes, with a picture of each and with axe; other tests of the pages look at theirs so each time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.browser.test_dashboard import EVIL
from tests.support.axe import violations
from tests.support.browsing import STILL
from tests.support.stack import TENANT, Stack, new_stack, settings_of
from tests.support.staff import at_desk
from tests.support.world import World, new_world

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGES_JS: Final = Path(__file__).parents[2] / "runtime" / "web" / "dashboard" / "pages.js"
ROUTES: Final = tuple(re.findall(r'\{ path: "([^"]+)", needs', PAGES_JS.read_text()))
DOCS: Final = Path(__file__).parents[2] / "docs" / "dashboard.md"
WHOLE: Final = os.environ.get("TOMBOLA_TEST_PICTURES") == "all"
WIDTHS: Final = (360, 768, 1280)
SCHEMES: Final = ("light", "dark") if WHOLE else ("light",)

LISTS: Final = tuple(
    path for path in ROUTES if path not in ("/", "/analytics", "/tenants") and ":" not in path and path.count("/") == 1
)
"""Pages that are a list. Of an empty tenant each says what to do next."""

WIDER: Final = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
CUT: Final = "[...document.querySelectorAll('main .table')].some((one) => one.scrollWidth > one.clientWidth)"
"""Of a table in a narrow window nothing is to be scrolled for, least of all its buttons."""


async def furnished(hall: World) -> dict[str, str]:
    """One of everything, each by a name that a page must take for text: {route: path of its thing}."""
    stack, name = hall.stack, EVIL[:90]
    own = {"campaign_id": hall.campaign_id}
    prize = await hall.prize(name=name, total=20, value=3, description=EVIL, terms=EVIL, **own)
    coupon = await hall.prize(name=name, codes=["AAAA-1111", "BBBB-2222"], **own)
    game = await hall.wheel(prize, coupon, name=name, ui={"theme": {"preset": "ocean"}})

    async def made(path: str, body: dict[str, Any]) -> str:
        data = (await stack.admin("POST", path, body)).data
        return str(data.get("id", ""))

    board = {
        "name": name,
        "metric": "plays",
        "mode": "sum",
        "prizes": [{"from_rank": 1, "to_rank": 1, "prize_id": prize}],
    }
    board_id = await made("/admin/leaderboards", {**board, **own})
    await made("/admin/quests", {"name": name, "description": EVIL, "turns": 1, "type": "one_time", **own})
    hook = {"type": "webhook", "events": ["prize_won"], "config": {"url": "https://shop.example/hooks"}}
    await made("/admin/integrations", hook)
    await made("/admin/merchants", {"name": name})
    await made("/admin/tokens", {"name": name, "roles": ["designer"]})
    for player in ("ann", "bea", "cleo"):
        await hall.round(game, player)
        named = await stack.consumer("PUT", "/players/me", {"display_name": name}, player=player)
        assert named.code == "OK", named.envelope
    await stack.database.execute("UPDATE tasks SET last_error = $1", EVIL)
    broken = (
        "INSERT INTO violations (tenant_id, violation_id, check_name, subject_id, row_id, expected, found, deviation,"
        " first_seen_at, last_seen_at) VALUES ($1, $2, 'player_ledger_sum', 'ann', $3, $4, $4, $4, now(), now())"
    )
    noted = (stack.tenant_id, f"violation_of_{hall.campaign_id}", hall.campaign_id, EVIL)
    await stack.database.execute(broken, *noted)
    ids = {"campaigns": hall.campaign_id, "games": game, "prizes": prize, "leaderboards": board_id, "players": "ann"}
    return {path: path.replace(":id", ids.get(path.split("/")[1], "")) for path in ROUTES}


@pytest.mark.timeout(900 if WHOLE else 120)
async def test_every_page_fits_every_width_and_takes_names_for_text(browser: Browser, counter: Stack) -> None:
    found: dict[str, list[str]] = {}
    async with new_world(counter, name=EVIL[:90]) as world:
        paths = await furnished(world)
        assert len(paths) > 20
        for scheme in SCHEMES:
            options = {**STILL, "color_scheme": scheme, "viewport": {"width": WIDTHS[-1], "height": 900}}
            async with at_desk(browser, counter, **options) as desk:
                await desk.enter("admin", "platform")
                for route, path in paths.items():
                    if route == "/approvals/:id":
                        continue  # None waits here; test_dashboard_approvals has it.
                    await desk.to(path if path != "/" else "")
                    for width in WIDTHS:
                        await desk.page.set_viewport_size({"width": width, "height": 900})
                        where = f"{route} {width} {scheme}"
                        assert not await desk.page.evaluate(WIDER), where
                        assert width == WIDTHS[-1] or not await desk.page.evaluate(CUT), where
                        if WHOLE:
                            await desk.shot(f"walk{route.replace('/', '-').replace(':', '')}-{width}-{scheme}")
                            found[where] = await violations(desk.page)
                    assert await desk.page.evaluate("window.evil") is None, route
    assert {where: told for where, told in found.items() if told} == {}


def table() -> dict[str, str]:
    """What docs/dashboard.md says that each page reads."""
    rows = re.findall(r"^\| (`/[^|]*) \| ([^|]*) \|", DOCS.read_text(), re.MULTILINE)
    return {route: reads for routes, reads in rows for route in re.findall(r"`([^`]+)`", routes)}


async def test_what_a_page_reads_stands_in_the_table_of_the_docs(browser: Browser, counter: Stack) -> None:
    told = table()
    async with new_world(counter, name="Autumn Fair") as world, at_desk(browser, counter, **STILL) as desk:
        await desk.enter("admin", "platform")
        found: dict[str, set[str]] = {}
        for route, path in (await furnished(world)).items():
            if route == "/approvals/:id":
                continue  # None waits here.
            await desk.page.goto("about:blank")  # What the page before still asked for is none of this one's.
            desk.asked.clear()
            await desk.to(path if path != "/" else "")
            asked = {one.partition("/api/v1/")[2].partition("?")[0] for one in desk.asked if one.startswith("GET ")}
            asked = {"schema" if one.startswith("schemas/games/") else one for one in asked}
            # The last word of a path that is no id; who is signed in is asked for wherever a page begins.
            words = {
                next((word for word in one.split("/")[::-1] if not re.search(r"[_0-9]", word)), "") for one in asked
            }
            reads = told[route.replace(":id", "{id}")].lower()
            spelled = {word.removesuffix(".json").replace("-", " ") for word in words - {"", "me", "ann"}}
            found[route] = {word for word in spelled if word.removesuffix("s") not in reads}
    assert {route: words for route, words in found.items() if words} == {}


async def test_every_list_has_a_filter_in_its_address(browser: Browser, counter: Stack) -> None:
    async with new_world(counter, name="Autumn Fair"), at_desk(browser, counter, **STILL) as desk:
        await desk.enter("admin")
        for path in LISTS:
            await desk.page.locator(f"nav.side a[href$='{path}']").click()
            await desk.page.wait_for_url(f"**{path}")
            await desk.settled()
            field = desk.page.locator("main .filters").locator("input, select").first
            if await field.evaluate("(it) => it.tagName") == "SELECT":
                await field.select_option(index=1)
            else:
                await field.fill("none such")
            await desk.page.wait_for_url(re.compile(rf"{path}\?.+="))


async def test_where_there_is_nothing_every_list_says_what_to_do_next(
    browser: Browser, make_database: Callable[[], str], valkey_url: str
) -> None:
    settings = settings_of(make_database(), valkey_url, default_tenant=TENANT, role_matrix="strict")
    async with new_stack(settings) as stack, at_desk(browser, stack, **STILL) as desk:
        await desk.page.goto(desk.home)
        await desk.page.evaluate(
            "(token) => sessionStorage.setItem('tombola.token', token)", stack.token("ann", ("admin",))
        )
        said: dict[str, str] = {}
        for path in LISTS:
            if path == "/audit":
                continue  # That somebody signed in stands there.
            await desk.to(path)
            said[path] = await desk.page.locator("main .empty").first.inner_text()
            assert "\n" in said[path], f"{path}: {said[path]}"
        assert not [path for path, text in said.items() if "tombola " in text], said
