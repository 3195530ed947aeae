"""Uploads in the dashboard: a picture by drag and drop and from the library; a campaign's page beside its preview."""

import base64

from runtime.operations import samples
from tests.support.axe import violations
from tests.support.resources import make_campaign, make_game, make_prize
from tests.support.staff import Desk
from tests.support.world import World

DROP = """([field, bytes]) => {
    const held = new DataTransfer();
    const body = Uint8Array.from(atob(bytes), (one) => one.charCodeAt(0));
    held.items.add(new File([body], "mug.png", { type: "image/png" }));
    const place = document.querySelector(`[name='${field}']`).parentElement;
    const about = { dataTransfer: held, bubbles: true, cancelable: true };
    for (const name of ["dragover", "drop"]) place.dispatchEvent(new DragEvent(name, about));
}"""


async def test_picture_of_a_prize_is_dropped_and_chosen_again(desk: Desk, fair: World) -> None:
    page, stack = desk.page, desk.stack
    await desk.enter("admin", path="/prizes/new")
    await page.wait_for_selector("[name=image_url]")
    await page.evaluate(DROP, ["image_url", samples.PICTURE])
    await desk.until("document.querySelector('[name=image_url]').value.startsWith('/assets/')")
    url = await page.input_value("[name=image_url]")
    await page.fill("[name=image_url]", "")
    await page.get_by_role("button", name="Choose").first.click()
    await page.wait_for_selector(".library img")
    assert await violations(page) == []
    await desk.shot("library 1280", whole=False)
    await page.get_by_role("button", name="Use mug.png").click()
    assert await page.input_value("[name=image_url]") == url
    await page.fill("[name=name]", "Fair mug")
    await desk.press("Create prize", within="main")
    await page.wait_for_selector("main h1 >> text=Fair mug")
    (made,) = (await stack.admin("GET", "/admin/prizes", q="Fair mug")).data["items"]
    assert made["image_url"] == url


async def test_page_of_a_campaign_is_edited_beside_its_preview(desk: Desk, fair: World) -> None:
    page, stack = desk.page, desk.stack
    campaign = await make_campaign(stack, settings={"terms": "Be fair.", "theme": {"primary": "#0b5c8a"}})
    await make_game(stack, campaign["id"], await make_prize(stack), access="public")
    await desk.enter("admin", path=f"/campaigns/{campaign['id']}")
    await page.get_by_role("button", name="Page", exact=True).click()
    await page.wait_for_selector(".preview tombola-game")
    picture = {"name": "logo.png", "mimeType": "image/png", "buffer": base64.b64decode(samples.PICTURE)}
    await page.set_input_files(".asset:has([name='theme.logo']) input[type=file]", [picture])
    await page.fill("[name='theme.logo_alt']", "Brand")
    await page.fill("[name='texts.title.en']", "Spring fair")
    await page.fill("[name='texts.intro.en']", "Spin and **win**.")
    await page.get_by_role("button", name="Add to introduction").click()
    await page.fill("[name='texts.intro.de']", "Drehen und **gewinnen**.")
    await page.wait_for_selector(".preview .logo[alt=Brand]")
    await page.wait_for_selector(".preview h2 >> text=Spring fair")
    choices = page.locator(".choices select")
    await choices.nth(0).select_option("de")
    await page.wait_for_selector(".preview .lead strong >> text=gewinnen")
    await page.fill("[name='states.ended.text.en']", "See you **next year**.")
    for state, shown in (("announced", ".preview [role=timer]"), ("ended", ".preview .state strong >> text=next year")):
        await choices.nth(1).select_option(state)
        await page.wait_for_selector(shown)
    assert await violations(page) == []
    for width in (390, 768, 1280):
        await page.set_viewport_size({"width": width, "height": 900})
        await desk.shot(f"campaign page {width}")
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await desk.press("Save", within="main")
    await desk.toast()
    settings = (await stack.admin("GET", f"/admin/campaigns/{campaign['id']}")).data["settings"]
    assert settings["page"] == {
        "texts": {
            "title": {"en": "Spring fair"},
            "intro": {"en": "Spin and **win**.", "de": "Drehen und **gewinnen**."},
        },
        "states": {"ended": {"text": {"en": "See you **next year**."}}},
    }
    assert settings["theme"]["logo"].startswith(f"/assets/{stack.tenant_id}/asset_")
    assert (settings["theme"]["primary"], settings["terms"]) == ("#0b5c8a", "Be fair."), "the rest is unchanged"
