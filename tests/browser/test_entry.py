import re
from typing import Any, Final

import pytest

from tests.support.axe import violations
from tests.support.browsing import Visit
from tests.support.chromium import Page
from tests.support.packs import TICKETS, make_pack, redeem
from tests.support.pages.looks import EVIL
from tests.support.panels import open_as, panel, sign_in
from tests.support.resources import make_campaign, make_draw
from tests.support.waiting import until
from tests.support.world import World

FORM: Final = "form.entry"
ENTRY: Final[dict[str, Any]] = {
    "mode": "ENTRY_MODE_BEFORE_PLAY",
    "min_age": 18,
    "captcha": "altcha",
    "fields": [
        {"key": "email", "label": {"en": "E-mail", "de": "E-Mail"}, "kind": "ENTRY_FIELD_KIND_EMAIL", "required": True},
        {"key": "birth_date", "label": {"en": "Date of birth"}, "kind": "ENTRY_FIELD_KIND_DATE"},
        {"key": "home", "label": {"en": EVIL[:80]}, "kind": "ENTRY_FIELD_KIND_ADDRESS"},
    ],
    "consents": [
        {"id": "terms", "text": {"en": "I accept the terms."}, "required": True, "link": "https://brand.example/terms"},
        {"id": "news", "text": {"en": "Send me news."}},
    ],
}


async def entered(fair: World, entry: dict[str, Any], **prize: Any) -> tuple[World, str]:
    world = World(fair.stack, (await make_campaign(fair.stack, entry=entry))["id"])
    return world, await world.wheel(await world.prize(name="Mug", **prize), access="public")


async def test_newcomer_fills_in_the_form_and_then_plays(fair: World, visit: Visit) -> None:
    _, game_id = await entered(fair, ENTRY)
    page = visit.page
    await visit.open(game_id)
    await page.click("tombola-game .main")
    await page.wait_for_selector(FORM)
    assert await violations(page) == []
    await visit.shot("entry form", whole=False)
    await page.press(f"{FORM} [data-act=entry]", "Enter")
    assert await page.inner_text(f"{FORM} .wrong:not(:empty) >> nth=0") == "This field is required."
    assert await page.evaluate("document.querySelector('tombola-game').shadowRoot.activeElement.name") == "email"
    await page.fill(f"{FORM} [name=email]", "nobody")
    await page.fill(f"{FORM} [name=birth_date]", "2015-01-31")
    await page.check(f"{FORM} [name=terms]")
    await page.click(f"{FORM} [data-act=entry]")
    await page.wait_for_selector(f"{FORM} [name=email][aria-invalid=true]")
    await page.fill(f"{FORM} [name=email]", "gus@example.com")
    await page.click(f"{FORM} [data-act=entry]")
    await page.wait_for_selector(f"{FORM} >> text=You are too young")
    await page.fill(f"{FORM} [name=birth_date]", "1990-01-31")
    await page.click(f"{FORM} [data-act=entry]")
    await page.wait_for_selector("tombola-game [data-result=won]")
    assert await page.evaluate("window.evil") is None
    assert "gus@" not in await page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}])")
    visit.forgive("400", "403")


async def test_trackers_load_only_once_the_player_agrees(fair: World, visit: Visit) -> None:
    tracking = {"ga4": "G-AB12CD34EF", "gtm": "GTM-AB12CD3", "meta_pixel": "1234567890", "consent": "news"}
    world, game_id = await entered(fair, {**ENTRY, "min_age": 0, "fields": []})
    path, host = f"/admin/campaigns/{world.campaign_id}", f"{fair.stack.tenant_id.replace('_', '-')}.localhost"
    hosts = {"hosts": [host]}
    await fair.stack.admin("PUT", f"/admin/tenants/{fair.stack.tenant_id}", hosts, roles=("platform",))
    assert (await fair.stack.admin("PUT", path, {"tracking": tracking, **hosts})).data["tracking"] == tracking
    page = visit.page
    asked: list[str] = []

    async def answer(route: Any) -> None:
        asked.append(route.request.url.partition("?")[0])
        await route.fulfill(status=200, content_type="text/javascript", body="")

    await page.route(re.compile("^https:"), answer)
    for news in (False, True):
        address = visit.stack.process.consumer_url.replace("127.0.0.1", host)
        await page.goto(f"{address}/p/{game_id}?tenant_id={visit.stack.tenant_id}")
        await page.click("tombola-game .main")
        await page.check(f"{FORM} [name=terms]")
        await page.set_checked(f"{FORM} [name=news]", news)
        async with page.expect_response(lambda got: got.request.method == "GET" and got.url.endswith("/entry")):
            await page.click(f"{FORM} [data-act=entry]")
        if not news:
            await page.wait_for_selector("tombola-game [data-result=won]")
            assert asked == [] and await page.evaluate("typeof window.dataLayer") == "undefined"
            await page.evaluate("[localStorage, sessionStorage].forEach((one) => one.clear())")
    google = "www.googletagmanager.com"
    scripts = (f"{google}/gtag/js", f"{google}/gtm.js", "connect.facebook.net/en_US/fbevents.js")
    await until(lambda: len(asked) >= 3)
    assert sorted(asked) == sorted(f"https://{one}" for one in scripts)
    assert await page.evaluate("[dataLayer.length, fbq.queue.length]") == [3, 2]
    await page.reload()
    await until(lambda: page.locator("head script[async]").count(), lambda it: it == 3)
    await panel(visit, "rewards")
    await page.click("dialog summary >> text=My consents")
    async with page.expect_request(lambda sent: sent.method == "POST" and sent.url.endswith("/entry")) as sent:
        await page.click("dialog [data-consent=news] >> text=Withdraw")
    assert (await sent.value).post_data_json == {"consents": {"news": False}}, "a suspended player may, too"
    await page.wait_for_selector("dialog [data-consent=news] >> text=Withdrawn")
    await visit.shot("consents", whole=False)
    async with page.expect_response(lambda got: got.url.endswith("/entry")):
        await page.reload()
    await page.wait_for_selector("tombola-game .main")
    assert await page.evaluate("typeof window.dataLayer") == "undefined", "withdrawn"
    other = await world.wheel(await world.prize(), access="public")
    assert (await fair.stack.admin("PUT", path, {"tracking": {}})).data["tracking"] is None
    async with fair.stack.http.get(f"{fair.stack.process.consumer_url}/p/{other}") as plain:
        text = plain.headers["Content-Security-Policy"] + await plain.text()
    assert "google" not in text and "tracking" not in text, "a campaign without trackers has none"
    visit.forgive("400")  # A start without an entry.


async def test_form_sends_where_the_visitor_came_from(fair: World, visit: Visit) -> None:
    world, game_id = await entered(fair, {**ENTRY, "fields": [], "min_age": 0})
    await world.wheel(access="public")  # With two games, the campaign has a page of its own.
    page, stack = visit.page, visit.stack
    views: list[Any] = []
    page.on("request", lambda request: views.append(request.post_data_json) if request.url.endswith("/views") else None)
    query = f"tenant_id={stack.tenant_id}&utm_source=letter&utm_content=%7F{'%F0%9F%8E%81' * 201}&other=1"
    await page.goto(f"{stack.process.consumer_url}/c/{world.campaign_id}?{query}")
    await page.click(f"main a[href*='{game_id}'][href*='utm_source=letter']")
    await visit.ready()
    await until(lambda: len(views) == 2)
    assert page.url.count("utm_") == 2 and "other" not in page.url
    await page.goto(page.url, referer="https://news.example/inbox?of=ann")
    await page.click("tombola-game .main")
    await page.check(f"{FORM} [name=terms]")
    kept = await page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie])")
    assert "letter" not in kept and "news.example" not in kept
    await page.click(f"{FORM} [data-act=entry]")
    await page.wait_for_selector("tombola-game [data-result=won]")
    source = await stack.database.fetchval("SELECT source FROM entries WHERE tenant_id = $1", stack.tenant_id)
    assert source == {"utm_source": "letter", "utm_content": "\U0001f381" * 200, "referrer": "news.example"}
    letter = {name: source[name] for name in ("utm_source", "utm_content")}
    shown = [(view.get("game_id"), view["source"]) for view in views]
    assert shown == [("", letter), (game_id, letter), (game_id, source)]
    visit.forgive("400")


async def test_claim_leads_to_the_form_and_back(fair: World, visit: Visit) -> None:
    entry = {**ENTRY, "mode": "ENTRY_MODE_BEFORE_CLAIM", "min_age": 0, "fields": ENTRY["fields"][:1]}
    world, game_id = await entered(fair, entry, fulfillment={"redemption_mode": "on_claim", "channel": "none"})
    await world.round(game_id, "ann")
    await open_as(visit, game_id, "ann")
    await panel(visit, "rewards")
    await visit.page.click("dialog [data-act=claim]")
    await visit.page.click("dialog .refusal >> text=Take part")
    await visit.page.fill(f"{FORM} [name=email]", "ann@example.com")
    await visit.page.check(f"{FORM} [name=terms]")
    changed = {"entry": {**entry, "consents": [{**ENTRY["consents"][0], "text": {"en": "I accept new terms."}}]}}
    assert (await fair.stack.admin("PUT", f"/admin/campaigns/{world.campaign_id}", changed)).code == "OK"
    await visit.click(f"{FORM} [data-act=entry]", then=f"{FORM} >> text=A text has changed")
    await visit.page.check(f"{FORM} >> text=I accept new terms.")
    await visit.page.click(f"{FORM} [data-act=entry]")
    await visit.click("dialog [data-act=claim]", then="dialog [data-status=FULFILLED]")
    visit.forgive("400")


async def test_page_of_a_campaign_without_games_takes_entries_and_withdrawals(fair: World, visit: Visit) -> None:
    entry = {**ENTRY, "mode": "ENTRY_MODE_OPEN", "min_age": 0, "one_per_contact": True, "fields": ENTRY["fields"][:1]}
    campaign_id = (await make_campaign(fair.stack, entry=entry, name="Raffle"))["id"]
    await make_draw(fair.stack, campaign_id, await World(fair.stack, campaign_id).prize())
    page, asked = visit.page, f"/c/{campaign_id}?tenant_id={fair.stack.tenant_id}"

    async def open_form(label: str) -> None:
        await page.goto(f"{fair.stack.process.consumer_url}{asked}")
        for width in (390, 768, 1280):
            await page.set_viewport_size({"width": width, "height": 800})
            await page.wait_for_selector(f"[data-entry] button:text-is('{label}')")
            await visit.shot(f"raffle-{label}-{width}")
        assert await violations(page) == []
        await page.click("[data-entry] button.main")
        await page.wait_for_selector(FORM)
        await visit.shot(f"raffle-form-{label}")

    await open_form("Take part")
    await page.fill(f"{FORM} [name=email]", "gus@example.com")
    for name in ("terms", "news"):
        await page.check(f"{FORM} [name={name}]")
    for start, said in (
        (2**31, f"{FORM} >> text=currently closed. Starts: "),
        (0, "[data-entry] >> text=entry is saved."),
    ):
        await fair.stack.admin("PUT", f"/admin/campaigns/{campaign_id}", {"start_date": start})
        await page.click(f"{FORM} [data-act=entry]")
        await page.wait_for_selector(said)
        await visit.shot(f"raffle-sent-{start}")
    for name, shown in (("draws", "[data-draw]"), ("rewards", ".blank"), ("login", "form")):
        await page.click(f"[data-panel={name}]")
        await page.wait_for_selector(f"dialog [data-name={name}] {shown}")
        await page.keyboard.press("Escape")
        await page.wait_for_selector("dialog", state="detached")
    over = {"status": "CAMPAIGN_STATUS_ENDED"}
    assert (await fair.stack.admin("PUT", f"/admin/campaigns/{campaign_id}", over)).http == 200
    await open_form("View")
    await page.uncheck(f"{FORM} [name=news]")
    await page.click(f"{FORM} [data-act=entry]")
    await page.wait_for_selector("dialog", state="detached")
    given = await fair.stack.database.fetchval("SELECT given FROM entries WHERE campaign_id = $1", campaign_id)
    assert [one.split(":")[1] for one in given] == ["terms", "email"], "the consent is withdrawn, after the end too"
    visit.forgive("400")  # The captcha.


async def test_form_starts_with_what_its_own_player_sent_and_edited(fair: World, visit: Visit) -> None:
    entry = {**ENTRY, "min_age": 0, "captcha": "", "fields": ENTRY["fields"][:1]}
    world, game_id = await entered(fair, entry)
    sent = {"fields": {"email": "ann@example.com"}}
    path, email, news = f"/campaigns/{world.campaign_id}/entry", f"{FORM} [name=email]", f"{FORM} [name=news]"
    assert (await fair.stack.consumer("POST", path, sent, player="ann")).data["missing"] == ["consents.terms"]

    async def form() -> tuple[str, bool]:
        await visit.page.click("tombola-game .main")
        shown = await visit.page.input_value(email), await visit.page.is_checked(news)
        await visit.page.fill(email, "edited@example.com")
        await visit.page.check(news)
        await visit.page.keyboard.press("Escape")
        await visit.page.wait_for_selector("dialog", state="detached")
        return shown

    await visit.open(game_id)
    await visit.click("tombola-game .main", then=email)
    await visit.page.keyboard.press("Escape")
    await sign_in(visit, "ann")
    assert [await form(), await form()] == [("ann@example.com", False), ("edited@example.com", True)]
    await sign_in(visit, "bob")
    assert await form() == ("", False)
    visit.forgive("400")


SEND = "dialog [data-act=codes]"

CAMERA = """(refuses) => {
    const read = { rawValue: "https://brand.example/?code=SCAN-0001" };
    window.BarcodeDetector = class { async detect() { return [read]; } };
    const stream = async () => {
        if (refuses) throw new DOMException("no", "NotAllowedError");
        const stream = document.createElement("canvas").captureStream();
        window.stopped = () => stream.getTracks().every((track) => track.readyState === "ended");
        return stream;
    };
    Object.defineProperty(navigator, "mediaDevices", { value: { getUserMedia: stream }, configurable: true });
    HTMLMediaElement.prototype.play = async () => {};
}"""


async def enter(page: Page, code: str) -> None:
    await page.fill("dialog input[name=code]", code)
    await page.click(SEND)


async def test_code_gives_turns_to_a_visitor_and_opens_the_game(fair: World, visit: Visit) -> None:
    await make_pack(fair, "OPEN-0001", "OPEN-0002")
    await make_pack(fair, "TICKET-01", gives=TICKETS)
    game_id = await fair.wheel(await fair.prize(), access="public", rules={"requires_turn": True})
    await visit.open(game_id)
    await panel(visit, "codes")
    assert await violations(visit.page) == []
    await enter(visit.page, "nothing-1")
    await visit.page.wait_for_selector("dialog >> text=This code does not exist")
    await enter(visit.page, "open ooo1")
    await visit.page.wait_for_selector("dialog >> text=2 turns earned")
    await enter(visit.page, "open-0001")
    await visit.page.wait_for_selector("dialog >> text=already been used")
    await enter(visit.page, "TICKET-01")
    await visit.page.wait_for_selector("dialog >> text=5 ticket added")
    await visit.page.keyboard.press("Escape")
    await visit.press()
    assert await visit.kind() == "won"
    visit.forgive("404")
    visit.forgive("409")


@pytest.mark.parametrize("refused", [False, True])
async def test_camera_reads_a_code_or_leaves_the_field(fair: World, visit: Visit, refused: bool) -> None:
    await make_pack(fair, "SCAN-0001")
    await visit.page.add_init_script(f"({CAMERA})({str(refused).lower()})")
    await open_as(visit, await fair.wheel(await fair.prize(), access="public"), "scanner")
    await panel(visit, "codes")
    await visit.page.click("dialog [data-act=scan]")
    if refused:
        await visit.page.wait_for_selector("dialog >> text=The camera cannot be used")
        await enter(visit.page, "SCAN-0001")
    else:
        await visit.page.wait_for_function("() => document.querySelector('tombola-game') && window.stopped?.()")
        assert await visit.page.input_value("dialog input[name=code]") == "SCAN-0001"
        await visit.page.click(SEND)
    await visit.page.wait_for_selector("dialog >> text=2 turns earned")


async def test_draws_show_tickets_until_now_and_then_what_was_won(fair: World, visit: Visit) -> None:
    prize_id = await fair.prize(name="Bicycle", total=1)
    game_id = await fair.wheel(await fair.prize(), access="public")
    await make_pack(fair, "TICKET-01", gives=TICKETS)
    await open_as(visit, game_id, "lucky")
    assert (await redeem(fair, "TICKET-01", "lucky")).code == "OK"
    draw_id = await make_draw(fair.stack, fair.campaign_id, prize_id, tickets={"currency": "ticket"})
    await open_as(visit, game_id, "lucky")
    await panel(visit, "draws")
    await visit.page.wait_for_selector("dialog [data-draw]:has-text('Bicycle') >> text=You have 5 tickets")
    assert await violations(visit.page) == []
    for step in ("close", "draw", "confirm"):
        assert (await fair.stack.admin("POST", f"/admin/draws/{draw_id}/{step}", {})).code == "OK"
    await visit.page.keyboard.press("Escape")
    await panel(visit, "draws")
    await visit.page.wait_for_selector("dialog [data-draw] >> text=You won: Bicycle")
    holder = (await fair.stack.consumer("GET", f"/draws/{draw_id}", player="lucky")).data["me"]["holder"]
    await visit.page.wait_for_selector(f"dialog [data-draw] >> text=Your line in the file: {holder}")
    assert (await visit.page.get_attribute("dialog a >> text=Verify", "href") or "").endswith(f"/verify#{holder}")
    await visit.page.set_viewport_size({"width": 390, "height": 800})
    await visit.shot("draws-390")
