"""The dashboard's figures: a campaign's analytics with charts and files, and the audit log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
import pytest_asyncio

import sql
from ops.servers.base import free_port
from runtime.app import running
from runtime.http.feeds import live
from runtime.operations.reporting import counting
from tests.support.axe import violations
from tests.support.browsing import STILL
from tests.support.pages.looks import SCREENS, SIZES
from tests.support.stack import ROLES, TENANT, Stack, make_tenant, settings_of
from tests.support.staff import Desk, at_desk
from tests.support.waiting import until
from tests.support.world import World, new_world

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVIL = "\"'><img src=x onerror=window.evil=1><script>window.evil=1</script>"
PLAYS = 6


@pytest.fixture(scope="module")
def house(counter: Stack) -> Stack:
    return counter


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def played(counter: Stack) -> AsyncIterator[World]:
    """A campaign whose wheel was played, under names that would like to be more than text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "FRESH_SECONDS", -1.0)
        async with new_world(counter, name=f"Fair {EVIL}", timezone="Europe/Berlin") as world:
            game = await world.wheel(await world.prize(total=100, name=f"Mug {EVIL}", value=4), name=f"Wheel {EVIL}")
            for n in range(PLAYS):
                assert (await world.round(game, f"player_{n % 2}")).data

            async def settled() -> bool:
                horizon = await counter.database.fetchval(sql.load("analytics")["horizon"])
                newest = "SELECT max(played_at) FROM plays WHERE tenant_id = $1"
                return bool(await counter.database.fetchval(newest, TENANT) < horizon)

            await until(settled)
            yield world


async def test_analytics_shows_the_campaign_in_figures(desk: Desk, played: World) -> None:
    await desk.enter("designer", path=f"/analytics?campaign={played.campaign_id}")
    assert await desk.title() == "Analytics"
    assert (await desk.page.locator(".funnel b").all_inner_texts())[:3] == [str(PLAYS)] * 3
    assert await desk.page.locator(".tile b").all_inner_texts() == ["2", "0", "24"]
    await desk.until("document.querySelectorAll('.chart canvas').length === 2")
    assert "Europe/Berlin" in await desk.page.inner_text("p.under")
    assert "what chance makes of the declared odds" in await desk.page.inner_text("main")
    # What was asked for is in the address, and can be sent on.
    await desk.page.select_option("select[aria-label=Game]", index=1)
    await desk.until("location.search.includes('game=game_')")
    await desk.page.fill("label:has-text('From') input", "2040-01-01")
    await desk.page.wait_for_selector("text=Nobody played in this time")
    assert "from=2040-01-01" in desk.page.url
    assert not await desk.page.evaluate("window.evil")


async def test_each_currency_costs_by_itself(desk: Desk, counter: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.1)
    monkeypatch.setattr(live, "STOCK_EVERY", 1)
    async with new_world(counter, name="Abroad") as world:
        for prize in (
            {"value": 4, "currency": "EUR"},
            {"value": 2.5, "currency": "USD"},
            {"value": 9, "type": "turns"},
        ):
            await world.round(await world.wheel(await world.prize(total=9, **prize)))
        await desk.enter("designer", path=f"/analytics?campaign={world.campaign_id}")
        cost = desk.page.locator(".tile:has(span:text-is('Cost')) b")
        assert await cost.inner_text() == "4\u00a0EUR, 2.5\u00a0USD"
        rows = desk.page.locator(".part:has(h2:text-is('Cost by prize')) tbody tr")
        cells = [(await row.locator("td").all_inner_texts())[-2:] for row in await rows.all()]
        assert cells == [["4", "EUR"], ["2.5", "USD"], ["0", ""]]
        await desk.to("/")
        await desk.page.wait_for_selector(".now .tile:has-text('by value') b:has-text('EUR'):has-text('USD')")


async def test_numbers_and_rows_are_taken_along_as_csv(desk: Desk, played: World) -> None:
    await desk.enter("admin", path=f"/analytics?campaign={played.campaign_id}")
    async with desk.page.expect_download() as taken:
        await (
            desk.page.locator(".part:has(h2:text-is('Take everything along'))")
            .get_by_role("button", name="Plays")
            .click()
        )
    rows = Path(await (await taken.value).path()).read_text().splitlines()
    assert rows[0].startswith("id,played_at,") and len(rows) == PLAYS + 1
    assert await desk.told() == "Exported: Plays."
    days = desk.page.locator(".part:has(h2:text-is('By day')) details")
    await days.locator("summary").click()
    async with desk.page.expect_download() as taken:
        await days.get_by_role("button").click()
    numbers = Path(await (await taken.value).path()).read_text().splitlines()
    assert numbers[0] == "day,plays,wins,players" and sum(int(row.split(",")[1]) for row in numbers[1:]) == PLAYS
    await desk.to("/audit")
    await desk.page.select_option("select[aria-label=Kind]", label="Export")
    await desk.page.wait_for_selector("tbody tr:has(button:text-is('export.read')):has-text('plays')")


async def test_an_export_s_last_day_is_as_long_as_its_zone_has_it(desk: Desk, played: World) -> None:
    """In Berlin the 25th of October 2026 has 25 hours."""
    day = "2026-10-25"
    await desk.enter("admin", path=f"/analytics?campaign={played.campaign_id}&from={day}&to={day}")
    async with desk.page.expect_download():
        await desk.press("Winners", within="main")
    [asked] = [one for one in desk.asked if "/exports/winners" in one]
    query = parse_qs(urlsplit(asked.partition(" ")[2]).query)
    at = [datetime.fromisoformat(f"{one}+00:00").timestamp() for one in ("2026-10-24T22:00:00", "2026-10-25T23:00:00")]
    assert [query["from"], query["to"]] == [[f"{time:.0f}"] for time in at]


async def test_home_tells_what_happens_as_it_happens(
    desk: Desk, played: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.1)
    await desk.enter("designer")
    await desk.page.wait_for_selector(".tiles.now")
    assert "Live" in await desk.page.inner_text(".part:has(.now)")
    game = await played.wheel(await played.prize(total=1000, name=f"Cap {EVIL}"))
    for _ in range(3):
        await played.round(game)
    before = await plays_shown(desk)
    await played.round(game)
    await desk.until(f"Number(document.querySelector('.now b').textContent) > {before}")
    # It was read by its header: no address has the token.
    token = await desk.page.evaluate("sessionStorage.getItem('tombola.token')")
    assert [one for one in desk.asked if "/admin/live" in one] and token not in str(desk.asked)
    await desk.page.locator(".now a").first.click()
    assert await desk.title() == "Analytics"
    assert not await desk.page.evaluate("window.evil")


async def test_a_session_that_ends_ends_the_watching_in_a_sign_in(
    desk: Desk, played: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.1)
    await desk.enter("admin")
    await desk.page.wait_for_selector(".tiles.now")
    token = await desk.page.evaluate("sessionStorage.getItem('tombola.token')")
    await desk.stack.admin("POST", "/admin/auth/logout", {}, roles=(), headers={"Authorization": f"Bearer {token}"})
    await desk.page.wait_for_selector(".notice:has-text('Your session has ended')")
    assert desk.page.url == desk.home and await desk.page.evaluate("sessionStorage.getItem('tombola.token')") is None
    desk.forgive("401")


async def test_watching_survives_a_restart_of_the_edge(
    browser: Browser, make_database: Callable[[], str], valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.1)
    settings = settings_of(make_database(), valkey_url, default_tenant=TENANT, admin_port=free_port())
    async with AsyncExitStack() as parts:
        process = await parts.enter_async_context(running(settings, ROLES))
        async with aiohttp.ClientSession() as http:
            stack = await make_tenant(Stack(process, http), TENANT)
            async with at_desk(browser, stack, **STILL) as desk:
                await desk.enter("admin")
                await desk.page.wait_for_selector(".now[data-away=false]")
                await parts.aclose()
                await desk.page.wait_for_selector(".now[data-away=true]")
                async with running(settings, ROLES):
                    await desk.page.wait_for_selector(".now[data-away=false]")
                desk.forgive("ERR_")


async def plays_shown(desk: Desk) -> int:
    return int(await desk.page.locator(".now b").first.inner_text())


async def test_the_audit_log_shows_before_and_after_side_by_side(desk: Desk, played: World) -> None:
    await desk.stack.admin("PUT", f"/admin/campaigns/{played.campaign_id}", {"redeem_until": 2_000_000_000})
    await desk.enter("reward_manager", path=f"/audit?subject_id={played.campaign_id}")
    assert await desk.title() == "Audit log"
    await desk.page.locator("tbody button", has_text="campaign.update").first.click()
    row = desk.page.locator("dialog tr", has_text="Redeem until")
    assert (await row.locator("td").nth(1).inner_text()).strip() == "18 May 2033, 03:33 UTC"
    await desk.page.keyboard.press("Escape")
    await desk.page.select_option("select[aria-label=Kind]", "game")
    await desk.page.wait_for_selector("tbody button", state="detached")
    assert not await desk.page.evaluate("window.evil")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing(browser: Browser, counter: Stack, played: World, scheme: str) -> None:
    async with at_desk(browser, counter, color_scheme=scheme, **STILL) as desk:
        await desk.enter("admin", path=f"/analytics?campaign={played.campaign_id}")
        assert await violations(desk.page) == []
        await desk.to("/")
        await desk.page.wait_for_selector(".tiles.now")
        assert await violations(desk.page) == []
        await desk.to("/audit")
        assert await violations(desk.page) == []
        await desk.to("/audit?action=campaign.create")
        await desk.page.locator("tbody button", has_text="campaign.create").first.click()
        assert await violations(desk.page) == []


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
async def test_pages_fit_their_window(browser: Browser, counter: Stack, played: World, width: int, scheme: str) -> None:
    size = {"width": width, "height": SIZES[width]}
    async with at_desk(browser, counter, viewport=size, color_scheme=scheme, **STILL) as desk:
        await desk.enter("admin", path=f"/analytics?campaign={played.campaign_id}")
        await desk.until("document.querySelectorAll('.chart canvas').length === 2")
        for name, path in (("analytics", ""), ("audit", "/audit"), ("home-now", "/")):
            if path:
                await desk.to(path)
            if path == "/":
                await desk.page.wait_for_selector(".tiles.now")
            await desk.shot(f"dashboard-{name}-{width}-{scheme}")
            assert await desk.page.evaluate("document.documentElement.scrollWidth") <= width
