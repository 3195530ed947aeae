"""The dashboard's packs of codes, and a campaign's entry form with a player's consents."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.axe import violations
from tests.support.packs import redeem
from tests.support.resources import make_campaign
from tests.support.staff import Desk
from tests.support.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_pack_is_made_filled_paused_and_watched(desk: Desk, fair: World, tmp_path: Path) -> None:
    page = desk.page
    await desk.enter("admin", path="/packs")
    await desk.press("New pack of codes", within="main .head")
    await page.get_by_label("Name", exact=True).fill("Bottle caps")
    await page.get_by_label("Campaign", exact=True).last.select_option(label="Autumn Fair")
    await desk.press("Create pack", within="dialog")
    await page.wait_for_url("**/packs/pack_*")
    await page.wait_for_selector("h1:has-text('Bottle caps')")
    file = tmp_path / "caps.csv"
    file.write_text("code\nCAPS-0001\nCAPS-0002\ncaps ooo1\n")
    await page.set_input_files(".upload input[type=file]", file)
    await page.wait_for_selector(".upload >> text=2 added, 1 duplicates, 0 rejected")
    await desk.press("Generate codes", within="main")
    await page.locator("dialog input[name=count]").fill("20")
    async with page.expect_download() as saved:
        await desk.press("Generate codes", within="dialog footer")
    codes = Path(await (await saved.value).path()).read_text().split()
    assert codes[0] == "code" and len(codes) == 21
    await page.wait_for_selector(".tile:has-text('Available') >> text=22")
    for code in ("CAPS-0001", codes[1]):
        assert (await redeem(fair, code, "anna")).code == "OK"
    await desk.press("Withdraw codes", within="main")
    await page.locator("dialog textarea").first.fill("CAPS-0001\nCAPS-0002")
    await page.locator("dialog [name=reason]").fill("lost")
    await desk.press("Withdraw codes", within="dialog footer")
    await page.wait_for_selector(".toast:has-text('1 code withdrawn 1 code did not change')")
    for tile, count in (("Available", 19), ("Used", 2), ("Withdrawn", 1)):
        await page.wait_for_selector(f".tile:has-text('{tile}') >> text={count}")
    await page.wait_for_selector("tbody tr:has-text('anna'):has-text('1 turn')")
    await desk.press("Create secret", within="main")
    assert (await page.get_by_label("Secret", exact=True).input_value()).startswith("whsec_")
    await desk.press("Close", within="dialog footer")
    assert await violations(page) == []
    await desk.press("Edit", within="main .head")
    await page.locator("dialog [name=status]").select_option("paused")
    await desk.press("Save", within="dialog")
    await page.wait_for_selector(".head:has-text('Paused')")
    assert (await redeem(fair, codes[2], "anna")).reason == "UNKNOWN_CODE"
    await page.locator("tbody a", has_text="anna").first.click()
    await page.wait_for_selector("section:has-text('Redeemed codes and receipts') tbody tr:has-text('Bottle caps')")


async def test_entry_form_is_set_up_and_a_consent_withdrawn(desk: Desk, fair: World) -> None:
    page, stack = desk.page, desk.stack

    def dialog(name: str) -> Any:
        return page.locator(f"dialog form [name='{name}']")

    campaign_id = (await make_campaign(stack))["id"]
    await desk.enter("admin", path=f"/campaigns/{campaign_id}")
    await desk.press("Set up", within="main")
    await page.get_by_role("button", name="Add to consents").click()
    await dialog("entry.consents[0].id").fill("1st")
    await dialog("entry.consents[0].text.en").fill("I accept the terms.")
    await dialog("entry.consents[0].required").check()
    await desk.press("Save", within="dialog")
    await page.wait_for_selector("dialog small.wrong >> text=must begin with a letter")
    assert await violations(page) == []
    await desk.shot("entry form editor 1280", whole=False)
    await dialog("entry.consents[0].id").fill("terms")
    await desk.press("Save", within="dialog")
    await page.wait_for_selector("main >> text=Before playing")
    entry = (await stack.admin("GET", f"/admin/campaigns/{campaign_id}")).data["entry"]
    assert entry["consents"] == [{"id": "terms", "text": {"en": "I accept the terms."}, "required": True, "link": ""}]

    submitted = {"consents": {"terms": True}}
    await stack.consumer("POST", f"/campaigns/{campaign_id}/entry", submitted, player="erin")
    await desk.enter("admin", path="/players/erin")
    await page.wait_for_selector("main >> text=I accept the terms.")
    await desk.shot("entry of a player 1280", whole=False)
    await desk.press("Withdraw", within="main")
    await desk.press("Withdraw", within="dialog")
    await page.wait_for_selector("main >> text=Not in force since")
    (given,) = (await stack.admin("GET", "/admin/players/erin/entries")).data["items"]
    assert (given["consents"][0]["given"], given["missing"]) == (False, ["consents.terms"])
    desk.forgive("400")
