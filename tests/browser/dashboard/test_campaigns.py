import time
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from runtime.operations.budget_alerts import thresholds
from tests.support.axe import violations
from tests.support.browsing import STILL
from tests.support.chromium import Browser
from tests.support.pages.looks import EVIL
from tests.support.pages.qr import scanned
from tests.support.staff import Desk, at_desk
from tests.support.world import World

PUT: Final = "section:has(h2:text-is('Share and embed'))"


async def test_campaign_is_activated_paused_ended_and_duplicated(desk: Desk) -> None:
    api, page = desk.stack.admin, desk.page
    campaign = {"name": "Winter Draw", "timezone": "Europe/Berlin", "start_date": 1953874800, "end_date": 1955905200}
    campaign_id = (await api("POST", "/admin/campaigns", campaign)).data["id"]
    prize = (await api("POST", "/admin/prizes", {"name": "Sledge", "stock": {"total": 3}})).data["prize_id"]
    odds = {"prizes": [{"prize_id": prize, "probability": 0.25}]}
    game = {"type": "spin_wheel", "reward_handler": "probability", "campaign_id": campaign_id, "handler_config": odds}
    assert (await api("POST", "/admin/games", {"name": "Snow wheel", **game})).code == "OK"
    await desk.enter("admin", path=f"/campaigns/{campaign_id}")
    assert "1 Dec 2031, 08:00" in await page.inner_text(".under")
    assert "No game is active" in await page.inner_text(".checks [data-tone=bad]")
    await desk.press("Activate", within=".table", then="dialog:has-text('Players can start it')")
    await desk.press("Activate", within="dialog", then=".toast:has-text('Snow wheel: Active')")
    await page.wait_for_selector(".checks:has-text('The odds of Snow wheel add up to 25 %')")
    assert "Sledge has stock: 3 left" in await page.inner_text(".checks")
    for verb, state in (("Activate", "Active"), ("Pause", "Paused"), ("Activate", "Active"), ("End", "Ended")):
        await desk.press(verb, within="main .head")
        dialog = await page.inner_text("dialog")
        assert "active game" in dialog and "Snow wheel" in dialog
        await desk.press(verb, within="dialog", then=f".head .status:has-text('{state}')")
    assert (await api("GET", f"/admin/campaigns/{campaign_id}")).data["status"] == "CAMPAIGN_STATUS_ENDED"
    await desk.press("Duplicate")
    await page.get_by_label("Name", exact=True).fill("Winter Draw again")
    assert "keep the original's duration" in await page.inner_text("dialog form")
    ends = page.locator("dialog [name=end_date]")
    await page.locator("dialog [name=start_date]").fill("2029-01-31T09:00")
    for key in ("ArrowRight", "ArrowRight", *"2030"):
        await page.keyboard.press(key)
    await ends.fill("2030-01-30T09:00")
    await desk.press("Duplicate", within="dialog", then="dialog [aria-invalid=true]")
    assert await ends.get_attribute("aria-invalid") == "true"
    await ends.fill("2030-02-03T18:00")
    await desk.press("Duplicate", within="dialog", then="h1:has-text('Winter Draw again')")
    assert "Draft" in await page.inner_text(".head .status")
    again = (await api("GET", f"/admin/campaigns/{page.url.rpartition('/')[2]}")).data
    zone = ZoneInfo(again["timezone"])
    dates = [datetime.fromtimestamp(again[name], zone).isoformat()[:16] for name in ("start_date", "end_date")]
    assert dates == ["2030-01-31T09:00", "2030-02-03T18:00"]
    desk.forgive("400")


async def test_campaign_edit_tells_errors_and_conflicts_and_loses_nothing_typed(desk: Desk, fair: World) -> None:
    path, page = f"/admin/campaigns/{fair.campaign_id}", desk.page
    game_id = await fair.wheel(await fair.prize())
    await desk.enter("admin", path=f"/campaigns/{fair.campaign_id}")
    await desk.press("Edit")
    name, zone = page.get_by_label("Name", exact=True), page.get_by_label("Time zone")
    await zone.fill("Mars/Olympus")
    await name.fill("Mine")
    await desk.press("Choose", within="dialog")
    await page.get_by_role("dialog", name="Pictures").get_by_role("button", name="Close").click()
    await page.locator("dialog input[type=file]").first.dispatch_event("cancel")  # No file was chosen.
    await desk.press("Save", then="[aria-invalid=true]")
    assert await zone.get_attribute("aria-invalid") == "true"
    await desk.until("document.activeElement.getAttribute('name') === 'timezone'")
    assert await name.input_value() == "Mine"
    await zone.fill("UTC")
    assert (await desk.stack.admin("PUT", path, {"name": "Theirs", "timezone": "Europe/Rome"})).code == "OK"
    await desk.press("Save", then="dialog >> text=Someone else changed: Name, Time zone.")
    assert await name.input_value() == "Mine" and (await desk.stack.admin("GET", path)).data["name"] == "Theirs"
    await desk.press("Save")
    assert await desk.toast() == "Saved"
    now = (await desk.stack.admin("GET", path)).data
    assert (now["name"], now["timezone"]) == ("Mine", "Europe/Rome"), "what was not changed is not undone"
    await desk.stack.admin("PUT", f"/admin/games/{game_id}", {"name": "Changed"})
    await desk.press("Pause", within=".table")
    await desk.press("Pause", within="dialog", then=".toast[data-tone=bad]")
    assert (await desk.stack.admin("GET", f"/admin/games/{game_id}")).data["status"] == "GAME_STATUS_ACTIVE"
    await page.wait_for_selector("td:has-text('Changed')")
    path = f"/admin/tenants/{desk.stack.tenant_id}"
    await desk.enter("platform", path=f"/tenants?q={desk.stack.tenant_id}")
    await desk.press("Edit", within="tbody")
    await page.fill("dialog [name=name]", "Fair & Co.")
    sender = {"address": "hello@fair.example", "smtp_url": "smtp://mail.fair.example"}
    assert (await desk.stack.admin("PUT", path, {"sender": sender}, roles=("platform",))).code == "OK"
    await desk.press("Save", within="dialog", then="dialog >> text=Someone else changed: Mail sender.")
    await desk.press("Save", within="dialog")
    await page.wait_for_selector(".empty")  # No tenant of the former name.
    kept = "SELECT name FROM tenants WHERE tenant_id = $1 AND sender ? 'secret'"
    assert await fair.database.fetchval(kept, desk.stack.tenant_id) == "Fair & Co."
    desk.forgive("400", "409")


async def test_campaign_list_and_timeline_keep_their_filter_in_the_address(desk: Desk) -> None:
    for i in range(27):
        body = {"name": f"Paged {i:02}", "status": "paused" if i % 2 else "draft"}
        assert (await desk.stack.admin("POST", "/admin/campaigns", body)).code == "OK"

    async def counts(rows: int) -> None:
        await desk.until(f"document.querySelectorAll('tbody tr').length === {rows}")

    await desk.enter("designer", path="/campaigns?q=Paged")
    first = await desk.rows()
    assert len(first) == 25
    await desk.press("Next page", url="**cursor=**")
    await counts(2)
    assert not set(await desk.rows()) & set(first)
    await desk.page.go_back()
    await counts(25)
    await desk.page.select_option("select", "paused")
    await desk.page.wait_for_url("**status=paused**")
    await counts(13)
    await desk.page.reload()
    assert len(await desk.rows()) == 13
    await desk.page.fill("input[type=search]", "none of these")
    await desk.page.wait_for_selector(".empty:has-text('No results')")
    await desk.press("Clear filter", url=f"{desk.home}/campaigns")
    now, day = int(time.time()), 86_400
    for name, start, end, status in (
        *(("Past", now - 40 * day, now - 20 * day, "ended"), ("Now", now - 10 * day, now + 10 * day, "active")),
        *(("Open", 0, 0, "paused"), ("Far", now - 10 * day, now + 4_000 * day, "draft")),
    ):
        body = {"name": f"Timed {name}", "start_date": start, "end_date": end, "status": status}
        answer = await desk.stack.admin("POST", "/admin/campaigns", {**body, "timezone": "Europe/Berlin"})
        assert answer.code == "OK", answer.envelope

    async def box(selector: str) -> Any:
        return await desk.page.locator(selector).first.bounding_box()

    await desk.to("/campaigns?q=Timed")
    await desk.press("Timeline", url="**view=timeline**")
    assert "q=Timed" in desk.page.url and len(await desk.rows()) == 4
    line = (await box(".timeline li i"))["x"]
    bars = {name: await box(f".timeline li:has-text('Timed {name}') a") for name in ("Past", "Now", "Open", "Far")}
    ends = {name: one["x"] + one["width"] for name, one in bars.items()}
    assert bars["Past"]["x"] < ends["Past"] < bars["Now"]["x"] < line < ends["Now"] < ends["Far"]
    assert abs(bars["Far"]["x"] - bars["Now"]["x"]) < 1 and bars["Open"]["x"] < bars["Past"]["x"]
    assert abs(ends["Open"] - ends["Far"]) < 1 and abs((line - bars["Now"]["x"]) / bars["Now"]["width"] - 0.5) < 0.02
    title = await desk.page.get_attribute(".timeline li:has-text('Timed Now') a", "title")
    assert title is not None and "Active" in title and title.endswith("Europe/Berlin")
    await desk.page.select_option("select", "active")
    await desk.until("document.querySelectorAll('.timeline li').length === 1")
    await desk.click(".timeline a", then="h1:text-is('Timed Now')")


async def test_text_in_dialogs_is_never_run_nor_is_an_inline_script(desk: Desk, fair: World) -> None:
    await fair.stack.admin("PUT", f"/admin/campaigns/{fair.campaign_id}", {"name": EVIL})
    prize = await fair.prize(name=EVIL, total=3)
    game = await fair.wheel(prize, name=EVIL, ui={"theme": {"font": EVIL}, "background": {"emoji": EVIL}})
    await fair.stack.admin("PUT", f"/admin/games/{game}", {"name": f"{EVIL}2", "ui": {}})
    await fair.stack.consumer("PUT", "/players/me", {"display_name": EVIL[:100]}, player="ann")
    await desk.enter("admin")
    for path, button, within in (
        *(("/players/ann", "Suspend", "main .head"), (f"/prizes/{prize}", "Delete", "main .head")),
        *((f"/games/{game}", "Compare", "main"), (f"/campaigns/{fair.campaign_id}", "Pause", ".table")),
    ):
        await desk.to(path)
        await desk.press(button, within=within)
        assert EVIL[:100] in await desk.page.inner_text("dialog"), path
    await desk.press("Pause", within="dialog")
    assert EVIL in await desk.toast() and await desk.page.title() == f"{EVIL} · Tombola"
    policy = (await desk.page.goto(desk.home)).headers["content-security-policy"].split("; ")
    own = [f"{kind}-src 'self'" for kind in ("script", "style", "connect")]
    assert {"default-src 'none'", *own, "img-src 'self' data:", "frame-ancestors 'none'"} <= set(policy)
    inline = """(() => {
        const script = document.createElement("script");
        script.text = "window.evil = 1";
        document.body.append(script);
    })()"""
    await desk.page.evaluate(inline)
    assert await desk.page.evaluate("window.evil") is None
    desk.forgive("Content Security Policy", "inline script")


async def test_roles_see_only_what_they_may_do(desk: Desk, fair: World) -> None:
    prize = await fair.prize(total=3, codes=["<img/src=x>"], campaign_id=fair.campaign_id)
    game = await fair.wheel(prize)
    assert (await fair.round(game, "ann")).data["rewards"]
    campaigns, designs, moves = {"admin", "designer"}, {"admin", "designer"}, {"admin", "reward_manager"}
    seen: dict[str, dict[str, set[str]]] = {
        "/campaigns": {"New campaign": campaigns},
        f"/campaigns/{fair.campaign_id}": dict.fromkeys(("Edit", "Duplicate", "Pause", "End"), campaigns),
        f"/games/{game}": {"Save": designs, "Run test plays": designs},
        "/prizes": {"New prize": designs},
        f"/prizes/{prize}": {
            "Delete": designs,
            "Adjust stock": designs,
            "Withdraw all 2 available": moves,
            "Change expiry": moves,
        },
        "/players/ann": {
            "Grant turns": moves,
            "Adjust balance": moves,
            **{name: {"admin"} for name in ("Merge", "Sign out everywhere", "Suspend", "Export", "Erase")},
        },
        "/rewards": {"Revoke": moves},
        "/integrations": {"New integration": {"admin"}},
        "/people": {"New token": {"admin"}},
        "/merchants": {"New merchant": {"admin"}},
    }
    await fair.stack.admin("POST", f"/admin/prizes/{prize}/codes", {"codes": ["B", "C"]})
    wrong = []
    for role in ("admin", "designer", "reward_manager"):
        await desk.enter(role)
        for path, buttons in seen.items():
            await desk.go(path)
            shown = {one.strip() for one in await desk.page.locator("main button, main a").all_inner_texts()}
            wrong += [(role, path, name) for name, roles in buttons.items() if (name in shown) != (role in roles)]
        assert await desk.page.locator("nav.side a", has_text="Tenants").count() == 0
    assert wrong == []
    await desk.to("/prizes/new")
    assert "Page not found" in await desk.page.inner_text("main"), "a reward manager makes no prize"
    await desk.enter("platform", path="/campaigns")
    assert "Page not found" in await desk.page.inner_text("main")
    assert await desk.page.locator("nav.side a").all_inner_texts() == ["Home", "Tenants"]
    assert not [one for one in desk.wrong if "403" in one]


async def test_link_snippet_and_qr_code_lead_to_the_campaign(browser: Browser, fair: World, tmp_path: Path) -> None:
    pytest.importorskip("zxingcpp")
    base, tenant_id = fair.stack.process.settings.consumer_base_url, fair.stack.tenant_id
    query = f"?tenant_id={tenant_id}"
    options: dict[str, Any] = {**STILL, "permissions": ["clipboard-read", "clipboard-write"]}
    async with at_desk(browser, fair.stack, **options) as desk:
        part = desk.page.locator(PUT)
        await desk.enter("designer", path=f"/campaigns/{fair.campaign_id}")
        text = await part.inner_text()
        assert "Activate a game to get" in text and "Add your site's origin" in text
        game_id, campaign_id = await fair.wheel(await fair.prize(), name="Harvest wheel"), fair.campaign_id
        doors = {"settings": {"page": {"layout": "calendar"}}}
        assert (await fair.stack.admin("PUT", f"/admin/campaigns/{campaign_id}", doors)).code == "OK"
        for path, link, element in (
            (f"/campaigns/{campaign_id}", f"{base}/c/{campaign_id}{query}", f'calendar campaign="{campaign_id}"'),
            (f"/games/{game_id}", f"{base}/p/{game_id}{query}", f'game game="{game_id}"'),
        ):
            await desk.to(path)
            assert await part.locator("a").get_attribute("href") == link
            element = f'<tombola-{element} tenant="{tenant_id}"></tombola-{element.partition(" ")[0]}>'
            snippet = f'{base}/widget/v1/tombola.js"></script>\n{element}'
            for name, copied in (("Copy link", link), ("Copy snippet", snippet)):
                await part.get_by_role("button", name=name).click()
                await part.get_by_role("button", name=name, exact=False).get_by_text("Copied").wait_for()
                assert (await desk.page.evaluate("navigator.clipboard.readText()")).endswith(copied)
            await part.locator("img").wait_for()
            assert await scanned(desk.page, await part.locator("img").screenshot()) == [link]
        for kind in ("SVG", "PNG"):
            async with desk.page.expect_download() as saved:
                await part.get_by_role("button", name=f"Save as {kind}").click()
            file = tmp_path / (await saved.value).suggested_filename
            await (await saved.value).save_as(file)
            assert file.name == f"Harvest-wheel.{kind.lower()}"
        assert await scanned(desk.page, file.read_bytes()) == [link]
        change = {"status": "draft", "origins": ["https://brand.example"]}
        assert (await desk.stack.admin("PUT", f"/admin/campaigns/{fair.campaign_id}", change)).code == "OK"
        await desk.to(f"/campaigns/{fair.campaign_id}")
        text = await part.inner_text()
        assert "Draft: not visible to players yet." in text and "Allowed origins: https://brand.example" in text


async def test_budget_and_launch_check_warn_and_lead_to_what_is_to_be_done(desk: Desk, fair: World) -> None:
    page, prize_id = desk.page, await fair.prize(name="Harvest mug", value=9, currency="EUR", total=3, low_stock_at=2)
    await fair.round(await fair.wheel(prize_id))
    await desk.enter("admin", path=f"/campaigns/{fair.campaign_id}")
    await page.wait_for_selector(".given b:has-text('9')")
    await desk.press("Edit")
    await page.get_by_label("Amount").fill("10")
    await page.fill("dialog [name='budget.currency']", "EUR")
    await desk.press("Save", within="dialog", then=".budget:has-text('0 EUR of 10 EUR')")
    await thresholds.check(fair.stack.engine, fair.stack.tenant_id, every_seconds=0)
    await desk.to("/")
    await page.wait_for_selector("li:has-text('Harvest mug'):has-text('2 left')")
    row = page.locator(f"li:has(a[href$='/campaigns/{fair.campaign_id}'])", has_text="90 % used")
    await row.locator("[data-tone=warn]").wait_for()
    assert await violations(page) == []
    await row.locator("a").click()
    await page.wait_for_selector(".budget:has-text('9 EUR of 10 EUR')")
    assert "For information only" in await page.inner_text("main")
    await desk.to("/campaigns")
    await page.wait_for_selector("tr:has-text('Autumn Fair') [data-tone=warn]:has-text('90 % used')")
    await desk.to("/prizes")
    await page.wait_for_selector("tr:has-text('Harvest mug') [data-tone=warn]:has-text('Low stock')")
    await fair.quest(name="Visit")
    body = {"status": "paused", "budget": {"amount": 10, "currency": "EUR"}}
    assert (await fair.stack.admin("PUT", f"/admin/campaigns/{fair.campaign_id}", body)).code == "OK"
    await desk.to(f"/campaigns/{fair.campaign_id}")
    await page.wait_for_selector(
        ".checks [data-tone=warn]:has-text('cost 18 EUR on top of 9 EUR used, more than the budget of 10')"
    )
    assert await violations(page) == []
    await page.locator(".checks li", has_text="Harvest mug has no picture").locator("a").click()
    await page.wait_for_selector(".head h1:has-text('Harvest mug')")
    await desk.until("document.activeElement.name === 'image_url'")
    await desk.to(f"/campaigns/{fair.campaign_id}")
    await page.locator(".checks li", has_text="No origins are set").locator("a").click()
    await desk.until("document.activeElement.matches('dialog [data-path=origins] button')")
    await desk.press("Cancel", within="dialog")
    warning = "The quest Visit gives turns, but no active game takes any"
    await page.locator(".checks li[data-tone=warn]", has_text=warning).locator("a").click()
    await desk.until("document.activeElement.matches('dialog [name=turns]')")
