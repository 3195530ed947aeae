"""The dashboard's packs of codes."""

from pathlib import Path

from tests.support.axe import violations
from tests.support.packs import redeem
from tests.support.staff import Desk
from tests.support.world import World


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
