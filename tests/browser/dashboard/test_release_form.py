"""A release schedule is set in a prize's form."""

from typing import Any

import pytest

from tests.support.pages.forms import field
from tests.support.staff import Desk
from tests.support.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_release_schedule_is_set_and_removed(desk: Desk, fair: World) -> None:
    page = desk.page
    prize = await fair.prize(name="Bike", total=9)
    await desk.enter("designer", path=f"/prizes/{prize}")
    await field(desk, "release.kind").select_option("SEALED")
    await field(desk, "release.units").fill("4")
    await field(desk, "release.timezone").fill("Europe/Rome")
    await field(desk, "release.starts_at").fill("2030-06-01T09:00")
    await field(desk, "release.ends_at").fill("2030-06-30T20:00")
    await page.get_by_role("button", name="Add to Hours").click()
    for day in ("Mon", "Sat"):
        await page.get_by_label(day).check()
    await field(desk, "release.hours[0].from_hour").fill("9")
    await field(desk, "release.hours[0].to_hour").fill("20")
    await desk.press("Save", within="main")
    await page.wait_for_selector(".toast:has-text('Saved')")
    release: dict[str, Any] = (await fair.stack.admin("GET", f"/admin/prizes/{prize}")).data["release"]
    assert (release["kind"], release["units"], release["starts_at"]) == ("SEALED", 4, 1906527600)
    assert release["hours"] == [{"weekdays": [1, 6], "from_hour": 9, "to_hour": 20}]
    await field(desk, "release.kind").select_option("NONE")
    await page.wait_for_selector(".toast", state="detached")
    await desk.press("Save", within="main")
    await page.wait_for_selector(".toast:has-text('Saved')")
    assert (await fair.stack.admin("GET", f"/admin/prizes/{prize}")).data["release"] is None
