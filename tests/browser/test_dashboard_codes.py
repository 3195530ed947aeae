"""A prize's pool of codes at the dashboard: filled from a file with its progress, listed by their ends, withdrawn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.browser.test_dashboard_desk import SCREENS
from tests.support.axe import violations
from tests.support.resources import make_prize
from tests.support.staff import Desk
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.asyncio(loop_scope="session")

CODES: Final = 100_000

STATUS: Final = ".upload [role=status]"


@pytest_asyncio.fixture(loop_scope="session")
async def prize_id(office: Any) -> str:
    return await make_prize(office, fulfillment={"channel": "voucher_code"})


async def totals(desk: Desk, prize_id: str) -> dict[str, int]:
    return dict((await desk.stack.admin("GET", f"/admin/prizes/{prize_id}/codes")).data["totals"])


def file_of(*lines: str, name: str = "codes.csv") -> dict[str, Any]:
    return {"name": name, "mimeType": "text/csv", "buffer": "\n".join(lines).encode()}


@asynccontextmanager
async def held_up(desk: Desk) -> AsyncIterator[asyncio.Event]:
    """The second part of an import waits, within this, until the event is set."""
    go_on, count = asyncio.Event(), 0

    async def hold(route: Any) -> None:
        nonlocal count
        count += route.request.method == "POST"
        if count == 2:
            await go_on.wait()
        await route.continue_()

    await desk.page.route("**/codes**", hold)
    yield go_on
    go_on.set()
    await desk.page.unroute_all(behavior="wait")


async def test_a_file_of_codes_is_added_with_its_progress_and_what_was_refused_is_told(
    desk: Desk, prize_id: str
) -> None:
    page = desk.page
    await desk.enter("reward_manager", path=f"/prizes/{prize_id}")
    await page.wait_for_selector(".upload")
    lines = [f"FAIR-{nth:08};2039-12-31" for nth in range(CODES - 2)]
    async with held_up(desk) as go_on:
        sent = file_of("code;expires_at", *lines, "has space", lines[0])
        await page.set_input_files(".upload input[type=file]", sent)
        await page.wait_for_selector(f"{STATUS}:has-text('5,000 of {CODES:,} lines: 5,000 added')")
        assert await page.locator(".upload progress").evaluate("bar => bar.value / bar.max") == 5000 / CODES
        go_on.set()
    read = f"{STATUS}:has-text('All {CODES:,} lines are read: {CODES - 2:,} added, 1 there')"
    await page.wait_for_selector(read, timeout=1_000 * HANG_SECONDS)
    await page.get_by_text("The first 2 lines that were not added").click()
    refused = await page.locator(".upload .lines li").all_text_contents()
    last = CODES + 1
    assert refused == [
        f"Line {last - 1:,}holds white space or characters that cannot be printed",
        f"Line {last:,}duplicate",
    ]
    assert (await totals(desk, prize_id))["free"] == CODES - 2
    await page.wait_for_selector(f"text={CODES - 2:,} free")
    assert lines[0].partition(";")[0] not in await page.inner_text("main")
    assert "code_" in await page.inner_text("main table")


async def test_an_import_that_is_stopped_says_what_was_added_and_goes_on(desk: Desk, prize_id: str) -> None:
    page = desk.page
    await desk.enter("reward_manager", path=f"/prizes/{prize_id}")
    await page.wait_for_selector(".upload")
    lines = [f"STOP-{nth:08}" for nth in range(7_000)]
    async with held_up(desk):
        await page.set_input_files(".upload input[type=file]", file_of(*lines, name="codes.txt"))
        await page.wait_for_selector(f"{STATUS}:has-text('5,000 of 7,000 lines')")
        await desk.press("Stop", within=".upload")
        await page.wait_for_selector(f"{STATUS}:has-text('Stopped after 5,000 of 7,000 lines: 5,000 added')")
    assert (await totals(desk, prize_id))["free"] == 5_000
    await desk.press("Go on", within=".upload")
    await page.wait_for_selector(f"{STATUS}:has-text('All 7,000 lines are read: 7,000 added')")
    assert (await totals(desk, prize_id))["free"] == 7_000
    desk.wrong[:] = [one for one in desk.wrong if "ERR_ABORTED" not in one and "/codes" not in one]


async def test_codes_are_dropped_expire_and_are_withdrawn_some_and_all(desk: Desk, prize_id: str) -> None:
    page = desk.page
    await desk.enter("reward_manager", path=f"/prizes/{prize_id}")
    await page.fill(".upload input[type=date]", "2039-12-31")
    dropped = await page.evaluate_handle(
        "() => { const one = new DataTransfer(); "
        "one.items.add(new File(['A-000001\\nA-000002\\nA-000003'], 'a.txt')); return one; }"
    )
    await page.dispatch_event(".upload", "drop", {"dataTransfer": dropped})
    await page.wait_for_selector(f"{STATUS}:has-text('3 added')")
    items = (await desk.stack.admin("GET", f"/admin/prizes/{prize_id}/codes")).data["items"]
    assert {item["expires_at"] for item in items} == {2_208_988_800}
    await page.get_by_label(f"Choose {items[0]['id']}").check()
    await desk.press("Withdraw 1", within="main")
    await page.wait_for_selector("dialog:has-text('Withdraw a code?')")
    await desk.press("Withdraw", within="dialog")
    assert await desk.told() == "One code is withdrawn."
    await page.wait_for_selector("text=2 free · 1 withdrawn")
    await desk.press("Withdraw all 2 free", within="main")
    await page.wait_for_selector("dialog:has-text('Nobody wins any of the 2 any more')")
    await desk.press("Withdraw", within="dialog")
    await page.wait_for_selector("text=3 withdrawn")
    assert await totals(desk, prize_id) == {"free": 0, "assigned": 0, "withdrawn": 3, "expired": 0}
    await desk.to(f"/prizes/{prize_id}?state=free")
    await page.wait_for_selector(".empty:has-text('Nothing matches this filter')")
    await desk.to(f"/prizes/{prize_id}?state=withdrawn")
    await page.wait_for_selector("main tbody tr:nth-child(3) .status:text-is('Withdrawn')")
    for width, _ in SCREENS:
        await page.set_viewport_size({"width": width, "height": 900})
        await desk.shot(f"dashboard-codes-{width}")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    assert await violations(page) == []


async def test_the_end_of_codes_is_changed_for_those_chosen_and_for_all(desk: Desk, prize_id: str) -> None:
    page, stack = desk.page, desk.stack
    await stack.admin("POST", f"/admin/prizes/{prize_id}/codes", {"codes": ["A-000001", "A-000002", "A-000003"]})
    await desk.enter("reward_manager", path=f"/prizes/{prize_id}")
    await page.get_by_label("Choose code_").first.check()
    await desk.press("Change the end", within="main")
    await page.wait_for_selector("dialog:has-text('What somebody won stays as it is')")
    shown = await page.locator("dialog select option").all_text_contents()
    assert shown == ["The one chosen", "All 3 that are free"]
    assert await violations(page) == []
    await desk.shot("dashboard-codes-end")
    await page.fill("dialog input[type=datetime-local]", "2001-01-01T00:00")
    await desk.press("Change a code", within="dialog")
    await page.wait_for_selector("dialog .wrong:has-text('must be a time to come')")
    desk.forgive("400")
    await page.fill("dialog input[type=datetime-local]", "2039-12-31T12:00")
    await desk.press("Change a code", within="dialog")
    assert await desk.told() == "One code ends at another time."
    await page.wait_for_selector("main tbody time[datetime^='2039-12-31T12:00']")
    assert sorted(await ends(desk, prize_id)) == [0, 0, 2_208_945_600]

    await desk.press("Change the end", within="main")
    await page.wait_for_selector("dialog button:has-text('Change 3 codes')")
    await page.fill("dialog input[type=datetime-local]", "2038-01-01T00:00")
    await desk.press("Change 3 codes", within="dialog")
    await page.wait_for_selector("text=3 codes end at another time.")
    assert await ends(desk, prize_id) == [2_145_916_800] * 3
    await stack.database.execute("UPDATE codes SET expires_at = now() WHERE prize_id = $1", prize_id)
    await desk.to(f"/prizes/{prize_id}?state=expired")
    await page.wait_for_selector("text=3 expired")
    await desk.press("Change the end", within="main")
    await page.wait_for_selector("dialog option:has-text('All 3 that are expired')", state="attached")
    await desk.press("Change 3 codes", within="dialog")
    await page.wait_for_selector("text=3 free")
    assert await ends(desk, prize_id) == [0] * 3


async def ends(desk: Desk, prize_id: str) -> list[int]:
    items = (await desk.stack.admin("GET", f"/admin/prizes/{prize_id}/codes")).data["items"]
    return [item["expires_at"] for item in items]


@pytest.mark.parametrize(("role", "may"), [("designer", False), ("reward_manager", True), ("admin", True)])
async def test_only_who_may_move_codes_is_shown_how(desk: Desk, prize_id: str, role: str, may: bool) -> None:
    await desk.stack.admin("POST", f"/admin/prizes/{prize_id}/codes", {"codes": ["<img/src=x>"]})
    await desk.enter(role, path=f"/prizes/{prize_id}")
    await desk.page.wait_for_selector("main table")
    assert await desk.page.locator(".upload").count() == may
    assert await desk.page.get_by_role("button", name="Withdraw all 1 free").count() == may
    assert await desk.page.get_by_role("button", name="Change the end").count() == may
