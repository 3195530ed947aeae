"""The dashboard's entry form: set up at a campaign, with a player's consents withdrawn at the player's page."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.support.axe import violations
from tests.support.chromium import Locator
from tests.support.resources import make_campaign
from tests.support.staff import Desk
from tests.support.world import World


def dialog(desk: Desk, name: str) -> Locator:
    return desk.page.locator(f"dialog form [name='{name}']")


async def test_entry_form_is_set_up_and_a_consent_withdrawn(desk: Desk, fair: World) -> None:
    page, stack = desk.page, desk.stack
    campaign_id = (await make_campaign(stack))["id"]
    await desk.enter("admin", path=f"/campaigns/{campaign_id}")
    await desk.press("Set up", within="main")
    await page.get_by_role("button", name="Add to consents").click()
    await dialog(desk, "entry.consents[0].id").fill("1st")
    await dialog(desk, "entry.consents[0].text.en").fill("I accept the terms.")
    await dialog(desk, "entry.consents[0].required").check()
    await desk.press("Save", within="dialog")
    await page.wait_for_selector("dialog small.wrong >> text=must begin with a letter")
    assert await violations(page) == []
    await desk.shot("entry form editor 1280", whole=False)
    await dialog(desk, "entry.consents[0].id").fill("terms")
    await desk.press("Save", within="dialog")
    await page.wait_for_selector("main >> text=Before playing")
    entry = (await stack.admin("GET", f"/admin/campaigns/{campaign_id}")).data["entry"]
    assert entry["consents"] == [{"id": "terms", "text": {"en": "I accept the terms."}, "required": True, "link": ""}]

    submitted = {"consents": {"terms": True}, "source": {"utm_source": "letter", "referrer": "news.example"}}
    await stack.consumer("POST", f"/campaigns/{campaign_id}/entry", submitted, player="erin")
    await page.get_by_label("Consent", exact=True).select_option(label="Agreed to terms")
    for kind in ("participants", "winners"):
        async with page.expect_download() as saved:
            await desk.press(f"Export {kind}", within="main")
        text = Path(await (await saved.value).path()).read_text()
        assert ("erin" in text) is (kind == "participants")
        [asked] = [one for one in desk.asked if f"/exports/{kind}" in one]
        assert parse_qs(urlsplit(asked.partition(" ")[2]).query) == {"campaign_id": [campaign_id], "consent": ["terms"]}
    await desk.enter("admin", path="/players/erin")
    await page.wait_for_selector("main >> text=I accept the terms.")
    await page.wait_for_selector("main >> text=Source: utm_source=letter, referrer=news.example")
    await desk.shot("entry of a player 1280", whole=False)
    await desk.press("Withdraw", within="main")
    await desk.press("Withdraw", within="dialog")
    await page.wait_for_selector("main >> text=Not in force since")
    (given,) = (await stack.admin("GET", "/admin/players/erin/entries")).data["items"]
    assert (given["consents"][0]["given"], given["missing"]) == (False, ["consents.terms"])
    desk.forgive("400")
