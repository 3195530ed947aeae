import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest

import sql
from runtime import ids
from runtime.http.feeds import live
from runtime.operations.reporting import counting
from tests.support.browsing import STILL
from tests.support.chromium import Browser, Route
from tests.support.pages.looks import EVIL
from tests.support.stack import BROWSER, Stack
from tests.support.staff import Desk, at_desk
from tests.support.waiting import until
from tests.support.world import World, new_world

PLAYS: Final = 6
VIEWS: Final = 8
NAME: Final = EVIL[:70]


@pytest.fixture
async def played(tenant: Stack, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(counting, "FRESH_SECONDS", -1.0)
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.1)
    monkeypatch.setattr(live, "STOCK_EVERY", 1)
    async with new_world(tenant, name=f"Fair {NAME}", timezone="Europe/Berlin") as world:
        prizes: tuple[dict[str, Any], ...] = (
            {"value": 4, "currency": "EUR", "name": f"Mug {NAME}"},
            *({"value": 2.5, "currency": "USD", "name": "Cup"}, {"value": 9, "type": "turns", "name": "Turns"}),
        )
        games = [await world.wheel(await world.prize(total=100, **one), name=f"Wheel {NAME}") for one in prizes]
        for n in range(PLAYS):
            assert (await world.round(games[n % 3], f"player_{n % 2}")).data
        view = {"source": {"utm_source": f"poster {NAME}"}}
        for _ in range(VIEWS):
            await tenant.consumer("POST", f"/campaigns/{world.campaign_id}/views", view, headers=BROWSER)

        async def settled() -> bool:
            horizon = await tenant.database.fetchval(sql.load("analytics")["horizon"])
            newest = "SELECT max(played_at) FROM plays WHERE tenant_id = $1"
            return bool(await tenant.database.fetchval(newest, tenant.tenant_id) < horizon)

        await until(settled)
        yield world


async def test_analytics_shows_plays_costs_and_odds_and_saves_them_by_local_days(desk: Desk, played: World) -> None:
    page, day = desk.page, "2026-10-25"  # In Berlin it has 25 hours.
    await desk.enter("admin", path=f"/analytics?campaign={played.campaign_id}")
    assert await desk.title() == "Analytics"
    steps = [str(one).split("\n")[0] for one in await page.locator(".funnel li").all_inner_texts()]
    assert steps == ["Views", "Starts", "Plays", "Wins", "Claimed", "Fulfilled"]
    assert (await page.locator(".funnel b").all_inner_texts())[:4] == [str(VIEWS), *[str(PLAYS)] * 3]
    assert "−25" in await page.locator(".funnel li:has-text('Starts')").inner_text(), "the loss since the views"
    source = await page.locator(".part:has(h2:text-is('By source')) tbody td").all_inner_texts()
    played_by = (await page.locator(".funnel b").all_inner_texts())[2:5]
    assert source[:10] == [f"poster {NAME}"[:100], "", "", str(VIEWS), "1", *["0"] * 5]
    assert source[10:] == ["Direct or unknown", "", "", *["0"] * 4, *played_by], "without an entry"
    cost = page.locator(".tile:has(span:text-is('Cost')) b")
    assert await cost.inner_text() == "8\u00a0EUR and 5\u00a0USD", "each currency by itself"
    rows = page.locator(".part:has(h2:text-is('Cost by prize')) tbody tr")
    cells = [(await row.locator("td").all_inner_texts())[-2:] for row in await rows.all()]
    assert cells == [["8", "EUR"], ["5", "USD"], ["0", ""]]
    await desk.until("document.querySelectorAll('.chart canvas').length === 2")
    assert "Europe/Berlin" in await page.inner_text("p.under")
    assert "match the published odds" in await page.inner_text("main")
    await page.select_option("select[aria-label=Game]", index=1)
    await desk.until("location.search.includes('game=game_')")
    await page.fill("label:has-text('From') input", "2040-01-01")
    await page.wait_for_selector("text=No views or plays in this period")
    assert "from=2040-01-01" in page.url
    # Another campaign's figures never stand under this one's name.
    async with new_world(played.stack, name="Slow fair") as slow:
        gate = asyncio.Event()

        async def hold(route: Route) -> None:
            await gate.wait()
            await route.fulfill(status=503, json={"code": "UNAVAILABLE", "message": "too much", "data": {}})

        await page.route(f"**/admin/campaigns/{slow.campaign_id}/figures*", hold)
        await desk.to(f"/analytics?campaign={played.campaign_id}")
        await page.wait_for_selector("main .under")
        await page.get_by_label("Campaign", exact=True).select_option(label="Slow fair")
        await page.wait_for_selector("main .loading")
        assert await page.locator("main .under").count() == 0
        gate.set()
        await page.wait_for_selector("main .problem:has-text('too much')")
    assert not await page.evaluate("window.evil")
    desk.forgive("503")
    await desk.to(f"/analytics?campaign={played.campaign_id}")
    async with page.expect_download() as saved:
        await page.locator(".part:has(h2:text-is('Export data'))").get_by_role("button", name="Plays").click()
    plays = Path(await (await saved.value).path()).read_text().splitlines()
    assert plays[0].startswith("id,played_at,") and len(plays) == PLAYS + 1 and await desk.toast() == "Plays exported"
    days = page.locator(".part:has(h2:text-is('By day')) details")
    await days.locator("summary").click()
    async with page.expect_download() as saved:
        await days.get_by_role("button").click()
    numbers = Path(await (await saved.value).path()).read_text().splitlines()
    assert numbers[0] == "day,plays,wins,players,views,visitors"
    assert sum(int(row.split(",")[1]) for row in numbers[1:]) == PLAYS
    await desk.to(f"/analytics?campaign={played.campaign_id}&from={day}&to={day}")
    async with page.expect_download():
        await desk.press("Winners", within="main")
    [request] = [one for one in desk.asked if "/exports/winners" in one]
    query = parse_qs(urlsplit(request.partition(" ")[2]).query)
    at = [datetime.fromisoformat(f"{one}+00:00").timestamp() for one in ("2026-10-24T22:00:00", "2026-10-25T23:00:00")]
    assert [query["from"], query["to"]] == [[f"{time:.0f}"] for time in at]
    await desk.to("/audit")
    await page.select_option("select[aria-label=Type]", label="Export")
    await page.wait_for_selector("tbody tr:has(button:text-is('export.read')):has-text('plays')")


async def test_home_shows_plays_as_they_happen(desk: Desk, played: World) -> None:
    await desk.enter("designer")
    await desk.page.wait_for_selector(".tiles.now")
    assert "Live" in await desk.page.inner_text(".part:has(.now)")
    await desk.page.wait_for_selector(".now .tile:has-text('Value (24 h)') b:has-text('EUR'):has-text('USD')")
    game = await played.wheel(await played.prize(total=1000, name=f"Cap {NAME}"))
    await played.round(game)
    before = int(await desk.page.locator(".now b").first.inner_text())
    await played.round(game)
    await desk.until(f"Number(document.querySelector('.now b').textContent) > {before}")
    token = await desk.page.evaluate("sessionStorage.getItem('tombola.token')")
    assert [one for one in desk.asked if "/admin/live" in one] and token not in str(desk.asked)
    await desk.page.locator(".now a").first.click()
    assert await desk.title() == "Analytics" and not await desk.page.evaluate("window.evil")


DONE: Final = (
    # (when, action, subject, name, reason)
    ("2026-03-01T23:59:59", "prize.create", "prize_mug", "Blue mug", ""),
    ("2026-03-02T00:00:00", "prize.update", "prize_mug", "Blue mug", ""),
    ("2026-03-02T23:59:59", "prize.remove", "prize_jar", "Jar", "nobody wanted it"),
    ("2026-03-03T00:00:00", "campaign.update", "camp_fair", "Blue fair", ""),
)
ALL: Final = ["campaign.update", "prize.remove", "prize.update", "prize.create"]
SHOWN: Final = "[...document.querySelectorAll('tbody .link')].map((it) => it.textContent)"


async def shows(desk: Desk, *actions: str) -> None:
    await desk.until(f"JSON.stringify({SHOWN}) === JSON.stringify({list(actions)!r})")


@pytest.mark.parametrize("zone", ["Pacific/Auckland", pytest.param("America/Los_Angeles", marks=pytest.mark.nightly)])
async def test_audit_log_is_filtered_by_its_address_in_days_of_utc(browser: Browser, tenant: Stack, zone: str) -> None:
    for number, (when, action, subject, name, reason) in enumerate(DONE):
        at = datetime.fromisoformat(when).replace(tzinfo=UTC)
        await tenant.database.execute(
            "INSERT INTO audit_entries"
            " (tenant_id, actor, entry_id, action, subject_type, subject_id, after, created_at)"
            " VALUES ($6, 'bob', $1, $2, split_part($2, '.', 1), $3, $4, $5)",
            *(f"{ids.earliest('audit', at.timestamp())}{number}", action, subject, {"name": name, "reason": reason}),
            *(at, tenant.tenant_id),
        )
    async with at_desk(browser, tenant, **STILL, timezone_id=zone) as desk:
        await desk.enter("admin")
        wrong = []
        for label, typed, name, actions in (
            ("Action (starts with)", "prize.", "action", ALL[1:]),
            ("Action (starts with)", "prize.u", "action", ["prize.update"]),
            *(("From (UTC)", "2026-03-02", "since", ALL[:3]), ("To (UTC)", "2026-03-02", "until", ALL[1:])),
            ("Name, reason or ID", "blue", "q", ["campaign.update", "prize.update", "prize.create"]),
            ("Name, reason or ID", "nobody wanted", "q", ["prize.remove"]),
            ("Name, reason or ID", "camp_fair", "q", ["campaign.update"]),
        ):
            await desk.to("/audit?actor=bob")
            await shows(desk, *ALL)
            await desk.page.get_by_label(label).fill(typed)
            await desk.until(f"new URLSearchParams(location.search).get({name!r}) === {typed!r}")
            await shows(desk, *actions)
            await desk.page.reload()
            await desk.settled()
            await shows(desk, *actions)
            if await desk.page.get_by_label(label).input_value() != typed:
                wrong.append((label, typed))
        assert wrong == [], "a reload keeps the filter in its field"
        await desk.to("/audit?actor=bob&since=2026-03-02&until=2026-03-02")
        await shows(desk, "prize.remove", "prize.update")
        assert (await desk.page.locator("tbody time").last.get_attribute("title")) == "2 Mar 2026, 00:00 UTC"
        await desk.page.get_by_label("Action (starts with)").fill("campaign")
        await desk.page.wait_for_selector(".empty:has-text('No results.')")
        await desk.press("Clear filter", within="main", url="**/audit")
        await desk.page.wait_for_selector("tbody .link:text-is('staff.sign_in')")
        assert await desk.page.get_by_role("button", name="Clear filter").count() == 0


async def test_audit_entry_compares_before_and_after(desk: Desk, fair: World) -> None:
    await desk.stack.admin("PUT", f"/admin/campaigns/{fair.campaign_id}", {"redeem_until": 2_000_000_000})
    await desk.enter("reward_manager", path=f"/audit?subject_id={fair.campaign_id}")
    assert await desk.title() == "Audit log"
    await desk.page.locator("tbody button", has_text="campaign.update").first.click()
    row = desk.page.locator("dialog tr", has_text="Redeem until")
    assert (await row.locator("td").nth(1).inner_text()).strip() == "18 May 2033, 03:33 UTC"
    await desk.page.keyboard.press("Escape")
    await desk.page.select_option("select[aria-label=Type]", "game")
    await desk.page.wait_for_selector("tbody button", state="detached")
