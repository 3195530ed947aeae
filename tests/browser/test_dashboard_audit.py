"""The audit log at the dashboard: found again by what was done, when, and by the words of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pytest
import pytest_asyncio

from runtime import ids
from tests.support.browsing import STILL
from tests.support.stack import Stack, make_tenant
from tests.support.staff import Desk, at_desk

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

DONE: Final = (
    # (when, what, to what, its name, why)
    ("2026-03-01T23:59:59", "prize.create", "prize_mug", "Blue mug", ""),
    ("2026-03-02T00:00:00", "prize.update", "prize_mug", "Blue mug", ""),
    ("2026-03-02T23:59:59", "prize.remove", "prize_jar", "Jar", "nobody wanted it"),
    ("2026-03-03T00:00:00", "campaign.update", "camp_fair", "Blue fair", ""),
)
ALL: Final = ["campaign.update", "prize.remove", "prize.update", "prize.create"]
SHOWN: Final = "[...document.querySelectorAll('tbody .link')].map((it) => it.textContent)"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def house(office: Stack) -> Stack:
    """A tenant where this was done, and nothing else."""
    stack = await make_tenant(office, "tenant_audit")
    for number, (when, action, subject, name, reason) in enumerate(DONE):
        at = datetime.fromisoformat(when).replace(tzinfo=UTC)
        row = (
            f"{ids.earliest('audit', at.timestamp())}{number}",
            action,
            subject,
            {"name": name, "reason": reason},
            at,
        )
        await stack.database.execute(
            "INSERT INTO audit_entries"
            " (tenant_id, actor, entry_id, action, subject_type, subject_id, after, created_at)"
            " VALUES ('tenant_audit', 'bob', $1, $2, split_part($2, '.', 1), $3, $4, $5)",
            *row,
        )
    return stack


async def shows(desk: Desk, *actions: str) -> None:
    """Waits until these are listed, the newest first."""
    await desk.until(f"JSON.stringify({SHOWN}) === JSON.stringify({list(actions)!r})")


async def log(desk: Desk, query: str) -> None:
    """Opens the log without who signed in, which is not of this."""
    await desk.to(f"/audit?actor=bob{query}")


async def kept(desk: Desk, query: dict[str, str], *actions: str) -> None:
    """The address holds what is asked for; loaded anew, the page shows the same, and says in its fields why."""
    asked = {"actor": "bob", **query}
    await desk.until(
        f"Object.entries({asked!r}).every(([name, value]) => new URLSearchParams(location.search).get(name) === value)"
    )
    await shows(desk, *actions)
    await desk.page.reload()
    await desk.settled()
    await shows(desk, *actions)
    values = await desk.page.eval_on_selector_all(".filters :is(input, select)", "(all) => all.map((it) => it.value)")
    assert sorted(value for value in values if value) == sorted(asked.values())


@pytest.mark.parametrize(
    ("label", "typed", "query", "actions"),
    [
        ("What, from its beginning", "prize.", {"action": "prize."}, ALL[1:]),
        ("What, from its beginning", "prize.u", {"action": "prize.u"}, ["prize.update"]),
        ("From (UTC)", "2026-03-02", {"since": "2026-03-02"}, ALL[:3]),
        ("To (UTC)", "2026-03-02", {"until": "2026-03-02"}, ALL[1:]),
        ("Name, reason or id", "blue", {"q": "blue"}, ["campaign.update", "prize.update", "prize.create"]),
        ("Name, reason or id", "nobody wanted", {"q": "nobody wanted"}, ["prize.remove"]),
        ("Name, reason or id", "camp_fair", {"q": "camp_fair"}, ["campaign.update"]),
    ],
)
async def test_the_log_is_filtered_by_its_address_and_a_reload_keeps_it(
    desk: Desk, label: str, typed: str, query: dict[str, str], actions: list[str]
) -> None:
    await desk.enter("admin")
    await log(desk, "")
    await shows(desk, *ALL)
    await desk.page.get_by_label(label).fill(typed)
    await kept(desk, query, *actions)


async def test_filters_are_put_together_and_cleared(desk: Desk) -> None:
    await desk.enter("admin")
    await log(desk, "&q=blue")
    await shows(desk, "campaign.update", "prize.update", "prize.create")
    await desk.page.get_by_label("From (UTC)").fill("2026-03-02")
    await desk.page.get_by_label("To (UTC)").fill("2026-03-02")
    day = {"since": "2026-03-02", "until": "2026-03-02"}
    await kept(desk, {"q": "blue", **day}, "prize.update")
    await desk.page.get_by_label("What, from its beginning").fill("campaign")
    await desk.page.wait_for_selector(".empty:has-text('Nothing matches this filter.')")
    for nothing in (True, False):
        await desk.press("Clear the filter", within="main")
        await desk.page.wait_for_url("**/audit")
        await desk.page.wait_for_selector("tbody .link:text-is('staff.sign_in')")
        if nothing:
            await log(desk, "&action=prize.")
            await shows(desk, *ALL[1:])
    assert await desk.page.get_by_role("button", name="Clear the filter").count() == 0


@pytest.mark.parametrize("zone", ["Pacific/Auckland", "America/Los_Angeles"])
async def test_a_day_is_the_same_wherever_one_looks(browser: Browser, house: Stack, zone: str) -> None:
    options: dict[str, Any] = {**STILL, "timezone_id": zone}
    async with at_desk(browser, house, **options) as desk:
        await desk.enter("admin")
        await log(desk, "&since=2026-03-02&until=2026-03-02")
        await shows(desk, "prize.remove", "prize.update")
        assert (await desk.page.locator("tbody time").last.get_attribute("title")) == "2 Mar 2026, 00:00 UTC"
