from pathlib import Path
from typing import Any

from tests.support.axe import violations
from tests.support.chromium import Locator
from tests.support.packs import redeem
from tests.support.resources import make_campaign
from tests.support.staff import Desk
from tests.support.world import World


def dialog(desk: Desk, name: str) -> Locator:
    return desk.page.locator(f"dialog form [name='{name}']")


async def test_postal_entry_is_added_by_staff(desk: Desk, fair: World) -> None:
    kinds = ("EMAIL", "DATE", "CHECKBOX", "NUMBER", "ADDRESS")
    fields: list[dict[str, Any]] = [{"key": kind.lower(), "kind": f"ENTRY_FIELD_KIND_{kind}"} for kind in kinds]
    fields.append({"key": "size", "kind": "ENTRY_FIELD_KIND_CHOICE", "options": [{"value": "s"}, {"value": "m"}]})
    fields = [{"label": {"en": field["key"].title()}, **field} for field in fields]
    consents = [{"id": "terms", "text": {"en": "I accept the terms."}, "required": True}]
    made = await make_campaign(desk.stack, entry={"mode": "ENTRY_MODE_OPEN", "fields": fields, "consents": consents})
    await desk.enter("admin", path=f"/campaigns/{made['id']}")
    await desk.press("Add entry", within="main")
    for name, text in (("player_id", "postal-1"), ("reason", "A postcard"), ("fields.email", "no address")):
        await dialog(desk, name).fill(text)
    await dialog(desk, "country").fill("at")
    await dialog(desk, "fields.size").select_option("m")
    await dialog(desk, "fields.address.city").fill("Ulm")
    await desk.press("Add entry", within="dialog", then="dialog small.wrong")
    assert await violations(desk.page) == []
    await desk.shot("entry added by staff 1280", whole=False)
    await dialog(desk, "fields.email").fill("pat@example.com")
    await dialog(desk, "fields.address.line1").fill("1 Main Street")
    await dialog(desk, "fields.address.country").fill("DE")
    await dialog(desk, "fields.number").fill("0")
    await desk.press("Add entry", within="dialog", then="text=Entry added. Still missing: terms")
    (entry,) = (await desk.stack.admin("GET", "/admin/players/postal-1/entries")).data["items"]
    address = {"line1": "1 Main Street", "city": "Ulm", "country": "DE"}
    assert entry["fields"] == {"email": "pat@example.com", "size": "m", "number": 0, "address": address}
    assert entry["country"] == "AT"
    await desk.page.set_viewport_size({"width": 390, "height": 800})
    assert ((await desk.page.locator(".toast").last.bounding_box()) or {})["y"] < 400, "buttons are below"
    await desk.press("Edit entry form", within="main")
    options = desk.page.locator("dialog fieldset[data-path$='.options']")
    assert await options.count() == 1, "of the choice"
    await dialog(desk, "entry.fields[5].kind").select_option("ENTRY_FIELD_KIND_TEXT")
    await desk.press("Save", within="dialog")  # Hidden options would be refused.
    await desk.page.wait_for_selector("dialog", state="detached")
    desk.forgive("400")


async def test_pack_is_made_filled_paused_and_watched(desk: Desk, fair: World, tmp_path: Path) -> None:
    page = desk.page
    await desk.enter("admin", path="/packs")
    await desk.press("New pack of codes", within="main .head")
    await page.get_by_label("Name", exact=True).fill("Bottle caps")
    await page.get_by_label("Campaign", exact=True).last.select_option(label="Autumn Fair")
    await desk.press("Create pack", within="dialog", url="**/packs/pack_*")
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
    await desk.press("Save", within="dialog", then=".head:has-text('Paused')")
    assert (await redeem(fair, codes[2], "anna")).reason == "UNKNOWN_CODE"
    await page.locator("tbody a", has_text="anna").first.click()
    await page.wait_for_selector("section:has-text('Redeemed codes and receipts') tbody tr:has-text('Bottle caps')")
