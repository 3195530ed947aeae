import asyncio
import hashlib
import json
import random
import re
import time
from pathlib import Path
from typing import Any, Final

import pytest

from runtime.http.pages.files import files
from runtime.http.pages.page_texts import PAGE_TEXTS
from runtime.rules.draw import Words, pick_by_sums, pick_certain, running_sums, scaled, seed_hash
from tests.support.axe import violations
from tests.support.browsing import STILL, Visit, visiting
from tests.support.chromium import Browser
from tests.support.gallery import applied
from tests.support.pages.games import ALBUM, HAND, PATIENCE_MS, ROOT, SHAPES, UNDER_WAY, finish, made
from tests.support.pages.looks import fits
from tests.support.pages.stored_play import shown_and_stored
from tests.support.panels import fired, shown, watch
from tests.support.resources import make_draw
from tests.support.world import COINS, COLLECTION, WHEEL, World

PHONE: Final = {"viewport": {"width": 390, "height": 844}}
BRAND: Final = {"theme": {"primary": "#c8102e", "accent": "#00843d"}, "background": {"color": "#fff8e7"}}
LOOKS: Final[dict[str, Any]] = {"light": ("light", {}), "dark": ("dark", {}), "brand": ("light", BRAND)}


async def played(fair: World, browser: Browser, shape: str, end: str, look: str) -> dict[str, list[str]]:
    scheme, ui = LOOKS[look]
    game_id = await made(fair, shape, end, ui=ui, rules={"max_plays_per_day": 1})
    found = {}
    async with visiting(browser, fair.stack, **STILL, **PHONE, color_scheme=scheme) as visit:
        await visit.open(game_id)
        await watch(visit, "played", "won", "refused")
        await visit.page.evaluate(HAND, [end == "won", 0])
        found["ready"] = await violations(visit.page)
        if shape in UNDER_WAY and end == "won":
            await visit.page.click("text=Reduced motion")  # Off: things fall.
        await visit.press()
        if shape in UNDER_WAY:
            await visit.page.wait_for_selector(UNDER_WAY[shape], timeout=PATIENCE_MS)
            found["under way"] = await violations(visit.page)
        assert await finish(visit, end) == end
        found[end] = await violations(visit.page)
        ((name, detail), *more) = await fired(visit)
        assert (name, [name for name, _ in more]) == ("played", ["won"] if end == "won" else [])
        tells, keeps = await shown_and_stored(fair, visit, game_id)
        assert tells == keeps
        assert tells["play"] == (detail["play_id"], detail["seed"], detail["client_seed"], detail["metadata"])
        assert [one[:2] for one in tells["prizes"]] == [
            (one["reward_id"], one["prize_id"]) for one in detail["rewards"] if one["prize_id"]
        ]
        assert tells["wallet"] == [(one["currency"], one["balance"]) for one in detail["balances"]]
        assert bool(tells["prizes"] or tells["wallet"]) is (end == "won")
        result = await visit.result()
        for reward in detail["rewards"]:
            count, name = reward["quantity"], {"maple": "Maple leaf"}.get(reward["name"], reward["name"])
            assert (f"{count} × {name}" if count > 1 else name) in result
        assert ("You won!" if end == "won" else "No prize this time") in result
        assert result.splitlines()[0] in await visit.page.inner_text("[role=status]")
        await visit.page.wait_for_selector(".main[aria-disabled=true]")
        await visit.page.wait_for_function(f"() => {ROOT}.querySelector('.left')?.textContent.startsWith('Next play')")
        await visit.page.reload()
        refused = await visit.result()
        assert await visit.kind() == "refused" and "no plays left today" in refused
        assert "Next play: tomorrow" in refused or "Next play: today" in refused
        if shape == "collection":
            await visit.page.wait_for_selector(".slots li:not(.none)")
            assert await visit.page.evaluate(ALBUM) == {"Maple leaf": 2}, "the album stays"
        found["refused"] = await violations(visit.page)
        headers = {"Authorization": f"Bearer {await visit.guest_token()}"}
        now = (await fair.stack.consumer("GET", f"/games/{game_id}/eligibility", headers=headers)).data
        assert (now["can_play"], now["reason"]) == (False, "CAP_DAY")
        assert await visit.page.get_attribute(".card", "data-reason") == now["reason"]
    return {f"{shape} {end} {look} {view}": issues for view, issues in found.items() if issues}


@pytest.mark.parametrize(
    "look", [one if one == "brand" else pytest.param(one, marks=pytest.mark.nightly) for one in LOOKS]
)
async def test_outcome_of_each_game_is_as_kept_and_axe_finds_nothing(fair: World, browser: Browser, look: str) -> None:
    """A collection has no loss: each play credits something."""
    ends = [(shape, end) for shape in SHAPES for end in ("won", "lost") if (shape, end) != ("collection", "lost")]
    found: dict[str, list[str]] = {}
    for three in (ends[:3], ends[3:6], ends[6:]):
        for one in await asyncio.gather(*(played(fair, browser, shape, end, look) for shape, end in three)):
            found.update(one)
    assert found == {}
    assert len(await fair.plays()) == len(ends)


async def test_game_that_closes_while_it_is_played_is_refused_and_takes_nothing(fair: World, visit: Visit) -> None:
    for shape in ("wheel", "gifts"):
        game_id = await made(fair, shape)
        await visit.open(game_id)
        await watch(visit, "played", "won", "refused")
        if shape in UNDER_WAY:
            await visit.press()
            await visit.page.wait_for_selector(UNDER_WAY[shape], timeout=PATIENCE_MS)
        await fair.stack.admin("PUT", f"/admin/games/{game_id}", {"status": "paused"})
        if shape not in UNDER_WAY:
            await visit.press()
        before = len(await fair.plays())
        assert await finish(visit, "won") == "refused"
        await visit.page.wait_for_selector(".card[data-reason=PAUSED]:has-text('is paused')")
        assert [(name, detail["reason"]) for name, detail in await fired(visit)] == [("refused", "GAME_INACTIVE")]
        assert "is paused" in await visit.page.inner_text("[role=status]")
        assert len(await fair.plays()) == before
        await fair.stack.admin("PUT", f"/admin/games/{game_id}", {"status": "active"})
        await visit.reload()
        visit.forgive("400")
        await visit.press()
        assert await finish(visit, "won") == "won", "an open game can be played again"
        assert len(await fair.plays()) == before + 1


async def test_page_says_that_its_campaign_has_not_begun_is_paused_over_or_sold_out(fair: World, visit: Visit) -> None:
    game_id = await fair.wheel(await fair.prize(name="Mug", total=1), access="public", rules={"max_plays_per_day": 3})
    page = visit.page

    async def open_as(reason: str, **change: Any) -> None:
        body = {"status": "active", "start_date": 0, "timezone": "Asia/Kathmandu", **change}
        assert (await fair.stack.admin("PUT", f"/admin/campaigns/{fair.campaign_id}", body)).http == 200
        await visit.open(game_id)
        await page.wait_for_selector(f".card[data-reason={reason}]:not([hidden])")

    async def opened(reason: str, **change: Any) -> str:
        await open_as(reason, **change)
        assert await page.get_attribute("button.main", "aria-disabled") == ("false" if reason == "SOLD_OUT" else "true")
        await visit.shot(f"state-{reason.lower()}")
        assert await violations(page) == []
        return str(await page.inner_text(".frame"))

    said = await opened("NOT_STARTED", start_date=int(time.time()) + 2 * 86_400 + 1_800)
    assert "not started" in said and "GMT+5:45" in said and "plays left" not in said
    assert (await page.inner_text("[role=timer]")).split()[:4] == ["2", "days", "0", "hours"]
    assert "paused" in await opened("PAUSED", status="paused")
    # It begins while the page is open, and nobody is asked.
    await open_as("NOT_STARTED", start_date=int(time.time()) + 12)
    await page.wait_for_selector("button.main[aria-disabled=false]")
    assert visit.api_calls() == [] and "3 plays left" in await page.inner_text(".frame")
    await visit.press()
    assert await visit.kind() == "won"
    assert "play for fun" in await opened("SOLD_OUT")
    assert "ended" in await opened("ENDED", status="ended") and not await page.is_visible("button.main")
    await page.click(".card >> text=My rewards")
    assert "Mug" in await shown(visit, "rewards")


SEEDS: Final = 1_000
WORK: Final = """async ([address, cases]) => {
    const check = await import(address);
    return cases.map(([seed, client, weights]) => {
        const word = check.word(seed, client, 0);
        return [
            check.hashSeed(seed), word, check.word(seed, client, 11),
            check.pick(check.runningSums(weights), word),
            check.pickCertain(check.runningSums(check.scaled(weights)), word),
        ];
    });
}"""


async def test_draw_in_the_page_equals_the_rules(fair: World, visit: Visit) -> None:
    drawn = random.Random(11)
    clients = ["", "a", "ünïcödé 🎃", "x" * 200, "1:2"]
    cases = [
        (drawn.randbytes(32).hex(), drawn.choice(clients), [drawn.random() / 5 for _ in range(drawn.randint(1, 7))])
        for _ in range(SEEDS)
    ]
    await visit.open(await fair.wheel(await fair.prize(), access="public"))
    address = await visit.page.evaluate("document.querySelector('script').src.replace('tombola.js', 'check.js')")
    found = await visit.page.evaluate(WORK, [address, cases])
    for (seed, client, weights), answer in zip(cases, found, strict=True):
        raw = bytes.fromhex(seed)
        words = Words(raw, client)
        picked = pick_by_sums(running_sums(weights), words.word(0))
        certain = pick_certain(running_sums(scaled(weights)), words.word(0))
        expected = [seed_hash(raw), words.word(0), words.word(11), -1 if picked is None else picked, certain]
        assert answer == expected


async def verdict(visit: Visit) -> tuple[list[str], str]:
    """(whether each step of the panel's check fits, its last line)."""
    await visit.page.click("[data-panel=fair]")
    await visit.click("dialog button:has-text('Verify now')", then=".steps li")
    lines = visit.page.locator(".steps li")
    fits = [str(await lines.nth(i).get_attribute("data-fits")) for i in range(await lines.count())]
    return fits, await lines.last.inner_text()


def tampering(part: str) -> Any:
    async def tamper(route: Any) -> None:
        answer = await route.fetch()
        body = await answer.json()
        if part == "seed":
            body["data"]["seed"] = hashlib.sha256(b"another").hexdigest()
        elif part == "rewards":
            body["data"]["rewards"][0]["prize_id"] = "prize_other"
        else:
            body["data"]["commitment"] = "00" * 32
        await route.fulfill(response=answer, body=json.dumps(body))

    return tamper


async def test_check_of_a_draw_fits_until_it_is_tampered_with(fair: World, visit: Visit, tmp_path: Path) -> None:
    other = await fair.prize(name="Other")
    for policy in ("lose", "redraw", "fallback", "collection"):
        if policy == "collection":
            game_id = await fair.game(COLLECTION, COINS, access="public")
        else:
            gone = await fair.prize(name="Gone", total=1)
            odds = {"prizes": [{"prize_id": gone, "probability": 0.9}, {"prize_id": other, "probability": 0.1}]}
            fallback: dict[str, Any] = {"fallback_prize_id": other} if policy == "fallback" else {}
            game_id = await fair.game(WHEEL, odds, access="public", on_unavailable=policy, **fallback)
            while (await fair.stock(gone))[0]:
                await fair.round(game_id, "bob")
        await visit.open(game_id)
        await visit.press()
        await visit.result()
        fits, last = await verdict(visit)
        assert set(fits) <= {"true", "null"} and "Draw verified" in last, policy
    assert fits == ["true"] * 6
    async with visit.page.expect_download() as saved:
        await visit.page.click("dialog button:has-text('Download')")
    await (await saved.value).save_as(tmp_path / "draw.json")
    file = json.loads((tmp_path / "draw.json").read_text())
    assert hashlib.sha256(file["terms"].encode()).hexdigest() == file["result"]["session"]["revision_hash"]
    assert seed_hash(bytes.fromhex(file["result"]["seed"])) == file["result"]["session"]["seed_hash"]
    assert all(step["fits"] for step in file["checked"])
    game_id = await fair.wheel(await fair.prize(name="Mug"), access="public")
    await visit.open(game_id)
    for part, path in (("seed", "**/play"), ("rewards", "**/play"), ("commitment", "**/start")):
        await visit.page.evaluate("sessionStorage.clear()")
        await visit.open(game_id)
        await visit.page.route(path, tampering(part))
        await visit.press()
        await visit.result()
        fits, last = await verdict(visit)
        assert "false" in fits and "Verification failed" in last, part
        await visit.page.unroute(path)


PIXEL: Final = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
STATES: Final = {
    "announced": {"text": {"en": "The fair opens **soon**."}},
    "running": {"image": PIXEL},
    "claims_open": {"text": "Collect your *mug*."},
}


async def test_text_and_picture_of_the_state_are_shown_by_the_widget_and_the_page(fair: World, visit: Visit) -> None:
    game_id = await fair.wheel(await fair.prize(name="Mug"), access="public")
    page, now = visit.page, int(time.time())

    async def changed(**campaign: Any) -> None:
        body = {"settings": {"page": {"states": STATES}}, "start_date": 0, **campaign}
        assert (await fair.stack.admin("PUT", f"/admin/campaigns/{fair.campaign_id}", body)).http == 200
        await visit.open(game_id)

    await changed()
    assert await page.get_attribute(".state img", "src") == PIXEL and not await page.inner_text(".state")
    await changed(start_date=now + 86_400)
    assert await page.inner_text(".state strong") == "soon"
    await page.wait_for_selector("[role=timer]")
    await changed(start_date=now - 60, end_date=now - 30, redeem_until=now + 3_600)
    assert await page.inner_text(".state em") == "mug"
    assert "can be claimed until" in await page.inner_text(".card")
    assert await page.is_visible(".card >> text=My rewards")
    await fair.wheel(await fair.prize(name="Pen"), access="public")
    await page.goto(f"{fair.stack.process.consumer_url}/c/{fair.campaign_id}?tenant_id={fair.stack.tenant_id}")
    assert await page.inner_text(".state em") == "mug" and "can be claimed until" in await page.inner_text(".state")


CALENDAR: Final = """(given) => {
    const made = document.createElement("tombola-calendar");
    for (const [name, value] of Object.entries(given)) made.setAttribute(name, value);
    const title = Object.assign(document.createElement("h1"), { textContent: "A page of a brand" });
    document.querySelector("main").replaceChildren(title, made);
}"""


@pytest.mark.parametrize("width", [390, 768, 1280])
async def test_calendar_opens_a_door_a_day(fair: World, browser: Browser, width: int) -> None:
    stack = fair.stack
    campaign_id = await applied(stack, "advent_calendar", days_ago=2)
    assert (await stack.admin("PUT", f"/admin/campaigns/{campaign_id}", {"status": "active"})).http == 200
    async with visiting(browser, stack, viewport={"width": width, "height": 900}, **STILL) as visit:
        page = visit.page
        await page.goto(f"{stack.process.consumer_url}/c/{campaign_id}?tenant_id={stack.tenant_id}")
        await page.wait_for_function("() => !/20../.test(document.querySelector('.doors').innerText)")
        doors = page.locator(".doors li")
        kinds = [await door.get_attribute("data-door") for door in await doors.all()]
        assert kinds == ["closed", "closed", "today", *["locked"] * 21]
        assert await page.locator(".doors .number").all_inner_texts() == [*map(str, range(1, 25))]
        assert "Ended" in await doors.nth(0).inner_text() and "Starts" in await doors.nth(3).inner_text()
        assert await violations(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        await visit.shot(f"calendar {width}")
        assert await page.locator(".doors a").count() == 3, "an ended door leads to its prizes until redeem_until"
        for _ in range(3):
            await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.getAttribute('aria-current')") == "date"
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".frame h1:has-text('Door 3')")
        await page.evaluate(CALENDAR, {"campaign": campaign_id, "tenant": stack.tenant_id})
        await page.wait_for_selector("tombola-calendar .doors")
        assert [await door.get_attribute("data-door") for door in await doors.all()] == kinds
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        assert await violations(page) == []
        await visit.shot(f"calendar element {width}")
        assert await page.locator("tombola-calendar .doors button").count() == 3
        await page.locator("tombola-calendar .doors [aria-current]").press("Enter")
        await page.wait_for_selector("tombola-calendar tombola-game h2:has-text('Door 3')")
        await visit.shot(f"calendar element open {width}", whole=False)
        await page.get_by_role("button", name="Close").press("Enter")
        await page.wait_for_selector(".doors button:focus >> text=Door 3")
        await page.locator("tombola-calendar").evaluate("element => element.setAttribute('locale', 'de')")
        await page.wait_for_selector(".doors button >> text=Spielen")
        await page.click("text=Advent calendar")
        await page.wait_for_selector(".doors a")


async def test_receipt_is_verified_in_the_browser_alone(fair: World, visit: Visit) -> None:
    played = (await fair.round(await fair.wheel(await fair.prize()), client_seed="clover")).data
    answer = await fair.stack.consumer("GET", f"/plays/{played['play_id']}/receipt", player="ann")
    whole = json.dumps(answer.envelope)
    await visit.page.goto(f"{fair.stack.process.consumer_url}/verify")
    visit.asked.clear()
    for outcome, text in {"good": whole, "bad": whole.replace("clover", "thyme"), "unreadable": "{}"}.items():
        file = {"name": "receipt.json", "mimeType": "application/json", "buffer": text.encode()}
        await visit.page.set_input_files("input", [file])
        await visit.page.wait_for_selector(f"main[data-outcome={outcome}]")
        refuted = await visit.page.locator("li[data-ok=false]").all_inner_texts()
        assert ("words follow" in "".join(refuted)) is (outcome == "bad")
    assert visit.asked == []


async def test_draw_is_verified_in_the_browser_alone(fair: World, visit: Visit) -> None:
    draw_id = await make_draw(fair.stack, fair.campaign_id, await fair.prize(), tickets={"imported": True})
    holders = [{"player_id": f"till-{nth}", "tickets": nth} for nth in range(1, 6)]
    for step, body in {"tickets": {"holders": holders}, "close": {}, "draw": {}}.items():
        assert (await fair.stack.admin("POST", f"/admin/draws/{draw_id}/{step}", body)).code == "OK"
    url = f"{fair.stack.process.consumer_url}/api/v1/draws/{draw_id}/file?tenant_id={fair.stack.tenant_id}"
    whole = await (await visit.page.request.get(url)).text()
    _, *lines, end = map(json.loads, whole.splitlines())
    winner = end["result"][0]["holder"]
    loser = next(one for one in lines if one["holder"] != winner)
    await visit.page.goto(f"{fair.stack.process.consumer_url}/verify#{winner}")
    visit.asked.clear()
    changed = f'"result":{json.dumps([{**end["result"][0], "holder": loser["holder"]}])}'
    for outcome, text in {"good": whole, "bad": re.sub(r'"result":\[.*?\]', changed, whole)}.items():
        file = {"name": "draw.jsonl", "mimeType": "application/x-ndjson", "buffer": text.encode()}
        await visit.page.set_input_files("input[type=file]", [file])
        await visit.page.wait_for_selector(f"main[data-outcome={outcome}]")
        await visit.page.wait_for_selector("#found:has-text('Won: rank 1')")
        failed = " ".join((await visit.page.inner_text("main > ul")).split())
        assert failed.count(f"result[0].holder Expected {winner} In the file {loser['holder']}") == (outcome == "bad")
        await visit.page.fill("#holder", loser["holder"])
        await visit.page.keyboard.press("Enter")
        await visit.page.wait_for_selector(f"#found:has-text('Tickets: {loser['tickets']} (')")
        answer = await visit.page.inner_text("#found")
        assert "None of these tickets was drawn." in answer and ("do not rely" in answer) is (outcome == "bad")
        for width in (390, 768, 1280):
            await visit.page.set_viewport_size({"width": width, "height": 900})
            await fits(visit, f"verify-{outcome}-{width}")
        assert await violations(visit.page) == []
    assert visit.asked == []
    said = await visit.page.evaluate(f"import('{files().address('verify_words.js')}').then((one) => one.WORDS)")
    parts = {
        language: {key: sorted(re.findall(r"{\w+}", text)) for key, text in words.items()}
        for language, words in said.items()
    }
    assert parts == dict.fromkeys(PAGE_TEXTS, parts["en"])
