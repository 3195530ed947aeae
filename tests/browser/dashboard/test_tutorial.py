"""Stories by clicks alone: a marketer's campaign, as in the tutorial and branded, and a complaint until its parcel.

The marketer's test records the seconds until the campaign was live. TOMBOLA_PICTURES=1 leaves pictures.
"""

import base64
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import web

from runtime.operations import samples
from tests.support.axe import violations
from tests.support.browsing import STILL, Visit, visiting
from tests.support.chromium import Browser
from tests.support.deliveries import working
from tests.support.guests import log_in
from tests.support.mailbox import Mailbox
from tests.support.receiver import Got, Receiver, receiving
from tests.support.staff import Desk, at_desk
from tests.support.waiting import until
from tests.support.world import World

PRESSED: Final = re.findall(r"\*\*(.+?)\*\*", Path("docs/tutorials/first-campaign.md").read_text())
NAME: Final = "Spring at the market"
BLUE: Final = "rgb(11 92 138)"
LOGO: Final[Any] = {"name": "logo.png", "mimeType": "image/png", "buffer": base64.b64decode(samples.PICTURE)}
DROP: Final = """(field, bytes) => {
    const about = { dataTransfer: new DataTransfer(), bubbles: true, cancelable: true };
    about.dataTransfer.items.add(new File([Uint8Array.from(bytes)], "mug.png", { type: "image/png" }));
    for (const name of ["dragover", "drop"]) field.dispatchEvent(new DragEvent(name, about));
}"""
TITLE: Final = ("Spring fair", "Frühlingsmarkt")
INTRO: Final = ("Spin and **win**.", "Drehen und **gewinnen**.")
ENDED: Final = ("See you **next year**.", "Bis **nächstes Jahr**.")
TERMS: Final = ("I accept the terms.", "Ich akzeptiere.")


async def fill(desk: Desk, fields: Mapping[str, Any], within: str = "") -> None:
    """A pair is a text in English and in German. A missing row is added first."""
    for name, value in fields.items():
        for language, typed in zip((".en", ".de"), value, strict=True) if isinstance(value, tuple) else [("", value)]:
            control = desk.page.locator(f"form [name='{within}{name}{language}']")
            if (language or "[" in within) and not await control.count():
                rows = within + name if language else within.rpartition("[")[0]
                await desk.page.locator(f"[data-path='{rows}'] > [aria-label^='Add to']").click()
            if typed is True:
                await control.check()
            elif await control.evaluate("(it) => it.tagName") == "SELECT":
                await control.select_option(typed)
            else:
                await control.fill(typed)


async def saved(desk: Desk) -> None:
    """Saves the page of a part of the campaign, and goes back to the campaign."""
    await desk.page.wait_for_selector(".toast", state="detached")
    await desk.press("Save", within=".sheet", then=".toast:has-text('Saved')")
    await desk.page.click(f"main a:text-is('{NAME}')")


async def give_it_the_brand(desk: Desk) -> None:
    page = desk.page
    await desk.press("Page", within=".head")
    await page.set_input_files(".asset:has([name='theme.logo']) input[type=file]", [LOGO])
    await fill(desk, {"theme.logo_alt": "Brand", "theme.primary": BLUE, "states.ended.text": ENDED})
    await fill(desk, {"texts.title": TITLE, "texts.intro": INTRO})
    await page.wait_for_selector(".preview .logo[alt=Brand]")
    await page.wait_for_selector(f".preview h2 >> text={TITLE[0]}")
    await page.locator(".choices select").nth(0).select_option("de")
    for state, shown in (("announced", "[role=timer]"), ("ended", ".state strong >> text=Jahr"), ("running", ".main")):
        await page.locator(".choices select").nth(1).select_option(state)
        await page.wait_for_selector(f".preview {shown}")
    await page.locator("[name=preview]").evaluate(DROP, list(LOGO["buffer"]))
    await desk.until("document.querySelector('[name=preview]').value.startsWith('/assets/')")
    await page.locator(".asset:has([name='background.image'])").get_by_role("button", name="Choose").click()
    await page.wait_for_selector(".library img")
    assert await violations(page) == []
    await desk.press("Use logo.png", within="dialog")
    await desk.shot("brand page", whole=False)
    await saved(desk)


async def ask_and_write(desk: Desk) -> None:
    page = desk.page
    await desk.press("Set up", within="main")
    field = {"key": "email", "label": ("E-mail", "E-Mail"), "kind": "ENTRY_FIELD_KIND_EMAIL", "required": True}
    await fill(desk, field, "entry.fields[0].")
    await fill(desk, {"id": "terms", "text": TERMS, "required": True}, "entry.consents[0].")
    await fill(desk, {"id": "news", "text": ("News, please.", "Neues, bitte.")}, "entry.consents[1].")
    await desk.press("Save", within="dialog")
    await desk.press("Edit messages", within="main")
    await fill(desk, {"sent": True, "subject": ("You won {name}", "Gewonnen: {prize}")}, "won.")
    await page.wait_for_selector("[role=alert] >> text={name} is not a placeholder")
    await desk.press("Save", within=".sheet", then="small.wrong >> text={name} is not a placeholder")
    await fill(desk, {"won.subject.en": "You won {prize}"})
    await page.wait_for_selector(".mail >> text=You won Weekend trip")
    await saved(desk)
    desk.forgive("400")
    await page.locator("main table a", has_text="Spring wheel").click()
    await fill(desk, {f"handler_config.prizes[{nth}].probability": odds for nth, odds in enumerate(("0", "100", "0"))})
    for nth in (6, 3, 1):  # Of prizes that are not to be won: the launch check would name them.
        await desk.press(f"Remove segments {nth}", within="main")
    await saved(desk)
    await desk.settled()
    assert await page.locator(".checks [data-tone=bad]").count() == 0


async def take_part(visit: Visit, link: str, nth: int) -> None:
    page, form = visit.page, visit.page.locator("form.entry")
    await page.goto(f"{link}&utm_source=letter", referer="https://news.example/inbox")
    await visit.ready()
    await page.wait_for_selector("img[alt=Brand]")
    await page.wait_for_selector(f"strong:text-is('{INTRO[nth].split('**')[1]}')")
    colour = "(it) => getComputedStyle(it.shadowRoot.firstElementChild).getPropertyValue('--t-primary')"
    assert await page.locator("tombola-game").evaluate(colour) == BLUE
    for width in (1280, 390):
        await page.set_viewport_size({"width": width, "height": 760})
        await visit.shot(f"brand live {width}")
    await page.click("tombola-game .main")
    await form.get_by_label("E-mail").fill(f"visitor{nth}@example.com")
    await form.get_by_label(TERMS[nth]).check()
    await form.locator("[data-act=entry]").click()
    await page.wait_for_selector("tombola-game [data-result=won] >> text=Tote bag")
    await visit.shot("tutorial-play", whole=False)
    visit.forgive("400")  # A start without an entry.


async def take_the_exports(desk: Desk) -> None:
    await desk.page.reload()
    for consent, form in (("terms", "csv"), ("news", "csv"), ("terms", "parquet")):
        await desk.page.get_by_label("Consent", exact=True).select_option(consent)
        await desk.page.get_by_label("Format").select_option(form)
        for kind in ("participants", "winners"):
            async with desk.page.expect_download() as download:
                await desk.press(f"Export {kind}", within="main")
            text = Path(await (await download.value).path()).read_text("latin-1")
            assert text.startswith("PAR1") if form == "parquet" else ("visitor0@" in text) is (consent == "terms")


async def withdraw_the_consent(desk: Desk) -> None:
    await desk.enter("admin", path="/players")
    addresses = [str(await one.get_attribute("href")) for one in await desk.page.locator("tbody a").all()]
    for address in addresses:  # Guests of one day are in no order.
        await desk.page.evaluate("address => { location.href = address }", address)
        await desk.page.wait_for_selector("main >> text=Given")
        if await desk.page.locator(f"main >> text={TERMS[1]}").count():
            break
    await desk.page.wait_for_selector("main >> text=Source: utm_source=letter, referrer=news.example")
    await desk.press("Withdraw", within="main")
    await desk.press("Withdraw", within="dialog", then="main >> text=Not in force since")
    await desk.page.wait_for_selector("[data-title=Missing] >> text=terms")


async def test_campaign_of_the_tutorial_is_branded_live_won_mailed_and_exported(
    browser: Browser, desk: Desk, mailbox: Mailbox, record_property: Callable[[str, object], None]
) -> None:
    page, stack, pressed = desk.page, desk.stack, iter(PRESSED)
    sender = {"name": "Brand", "address": "win@brand.example", "smtp_url": f"smtp://127.0.0.1:{mailbox.port}"}
    await stack.admin("PUT", f"/admin/tenants/{stack.tenant_id}", {"sender": sender}, roles=("platform",))
    await page.set_viewport_size({"width": 1100, "height": 700})

    async def press(within: str) -> None:
        await page.locator(within).locator("button:visible, a:visible").get_by_text(next(pressed)).first.click()

    await desk.enter("designer", "reward_manager")
    begun = time.monotonic()
    await press("nav.side")
    await desk.settled()
    await press("main")
    await page.locator("main button:visible").nth(2).wait_for()
    await desk.settled()
    await desk.shot("tutorial-gallery", whole=False)
    await press("main")
    await page.get_by_label(next(pressed), exact=True).fill(NAME)
    await page.get_by_label(next(pressed)).fill("Europe/Berlin")
    await desk.shot("tutorial-start", whole=False)
    await press("dialog")
    await page.wait_for_selector(f"h1:text-is('{NAME}')")
    await desk.settled()
    await desk.shot("tutorial-draft", whole=False)
    await give_it_the_brand(desk)
    await ask_and_write(desk)
    await press("main")
    await page.wait_for_selector("dialog")
    await press("dialog")
    await page.wait_for_selector("main .head .status:has-text('Active')")
    record_property("seconds_to_live", round(time.monotonic() - begun, 1))
    await desk.settled()
    await desk.shot("tutorial-live", whole=False)
    link = str(await page.locator("section:has(pre) a").first.get_attribute("href"))
    async with working(stack.engine, "integrations"):
        for nth, locale in ((1, "de-DE"), (0, "en-GB")):
            async with visiting(browser, stack, **STILL, locale=locale) as visit:
                await take_part(visit, link, nth)
        await take_the_exports(desk)
        record_property("seconds_to_export", round(time.monotonic() - begun, 1))
        await until(lambda: len(mailbox.parsed) == 2)
    mails = sorted((mail["To"], mail["Subject"]) for mail in mailbox.parsed)
    assert mails == [("visitor0@example.com", "You won Tote bag"), ("visitor1@example.com", "Gewonnen: Tote bag")]
    campaign = (await stack.admin("GET", f"/admin/campaigns/{urlsplit(link).path.rpartition('/')[2]}")).data
    title, intro, ended = (dict(zip(("en", "de"), one, strict=True)) for one in (TITLE, INTRO, ENDED))
    texts, logo = {"title": title, "intro": intro}, campaign["settings"]["preview"]
    assert logo.startswith(f"/assets/{stack.tenant_id}/asset_") and campaign["settings"] == {
        "preview": logo,
        "background": {"image": logo},
        "page": {"texts": texts, "states": {"ended": {"text": ended}}},
        "theme": {"preset": "forest", "logo": logo, "logo_alt": "Brand", "primary": BLUE},
    }
    await withdraw_the_consent(desk)


VERA: Final = "vera.vexed@example.com"


async def closed(got: Got) -> web.StreamResponse:
    return web.Response(status=410, text="the shop is closed for stock-taking")


async def part(desk: Desk, title: str) -> str:
    heading = desk.page.get_by_role("heading", name=title, exact=True)
    return str(await desk.page.locator("section", has=heading).last.inner_text())


async def replay_the_play(desk: Desk) -> None:
    await desk.press("View details", within="main", then="dialog .replay[data-tone=good]")
    text = await desk.page.inner_text("dialog")
    assert "the replay gives the same result" in text and "Decision path" in text and "Fair mug" in text
    assert await desk.page.locator("dialog ol.named li").count() > 0
    await desk.press("Close", within="dialog footer")


async def make_it_good(desk: Desk, receiver: Receiver) -> None:
    assert "HTTP 410: the shop is closed for stock-taking" in await part(desk, "Deliveries")
    assert "Failed" in await part(desk, "Rewards")
    for toast in ("Delivery failed again: HTTP 410", "Delivered"):
        await desk.press("Retry", within="main")
        await desk.press("Retry", within="dialog", then=f".toast:has-text('{toast}')")
        if "failed" in toast:  # So is one that is tried again among several.
            await desk.to(f"/rewards?contact={VERA}")
            await desk.page.get_by_label("Select Fair mug").check()
            await desk.press("Retry 1", within="main .head")
            await desk.press("Retry", within="dialog", then=f"tbody small:has-text('{toast}')")
            await desk.page.go_back()
            await desk.settled()
    first, *_, again = [await receiver.next() for _ in range(4)]
    assert again.json["id"] == first.json["id"] and again.json["data"]["prize"]["name"] == "Fair mug"

    async def delivered() -> bool:
        await desk.page.reload()
        await desk.settled()
        return "Delivered" in await part(desk, "Deliveries") and "Fulfilled" in await part(desk, "Rewards")

    await until(delivered)


async def read_the_log(desk: Desk, player: str) -> None:
    await desk.page.locator("section", has_text="task.retry").first.wait_for()
    assert (await part(desk, "Audit log")).count("sue") == 3
    await desk.press("Filter entries", within="main", url=f"**/audit?player_id={player}")


async def test_complaint_about_a_missing_prize_ends_in_its_delivery(browser: Browser, fair: World) -> None:
    stack = fair.stack
    async with receiving() as receiver, working(stack.engine, "deliveries"):
        receiver.replies = [closed] * 3
        player = await log_in(stack, contact=VERA)
        named = await stack.consumer("PUT", "/players/me", {"display_name": "Vera Vexed"}, player=player)
        assert named.code == "OK"
        hook = {"channel": "webhook", "redemption_mode": "REDEMPTION_MODE_ON_WIN", "config": {"url": receiver.url}}
        mug = await fair.prize(name="Fair mug", total=3, fulfillment=hook)
        await fair.round(await fair.wheel(mug, name="Harvest wheel"), player)
        task = "SELECT task_id, status FROM tasks WHERE tenant_id = $1 AND player_id = $2"

        async def dead() -> bool:
            row = await fair.database.fetchrow(task, stack.tenant_id, player)
            return row is not None and row["status"] == "dead"

        await until(dead)
        async with at_desk(browser, stack, **STILL) as desk:
            await desk.follow(desk.link("reward_manager", subject="sue"))
            await desk.settled()
            await desk.to(f"/players/{player}")
            await replay_the_play(desk)
            await desk.shot("story-complaint-player")
            await make_it_good(desk, receiver)
            await read_the_log(desk, player)
