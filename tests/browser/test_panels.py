from typing import Any, Final

import pytest

from runtime.rules.draw import seed_hash
from tests.support.axe import violations
from tests.support.browsing import STILL, Visit, visiting
from tests.support.chromium import Browser
from tests.support.login import Phone
from tests.support.pages.games import FOCUSED, ROOT
from tests.support.pages.login import SUBMIT, ask_for_code
from tests.support.pages.looks import EVIL
from tests.support.pages.qr import scanned
from tests.support.panels import fired, lose, open_as, panel, said, shown, watch
from tests.support.resources import block, rung
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, World

ON_CLAIM: Final = {"redemption_mode": "on_claim", "channel": "none"}


async def claimable(fair: World, **fields: Any) -> str:
    return await fair.wheel(await fair.prize(**{"name": "Mug", "fulfillment": ON_CLAIM, **fields}), access="public")


async def collection(fair: World, *rungs: dict[str, Any], mode: str = "CUMULATIVE_UNLOCK") -> str:
    milestones = block(*rungs, auto_grant=False, mode=mode)
    return await fair.game(COLLECTION, COINS, access="public", milestones=milestones)


async def my_rewards(fair: World, player: str = "ann") -> list[dict[str, Any]]:
    answer = await fair.stack.consumer("GET", "/rewards/me", player=player, campaign_id=fair.campaign_id)
    return list(answer.data["items"])


async def test_panels_are_offered_where_they_have_something_and_invite_a_newcomer(fair: World, visit: Visit) -> None:
    named = f"[...{ROOT}.querySelectorAll('[data-panel]')].map((button) => button.dataset.panel)"
    await visit.open(await fair.wheel(await fair.prize(), access="public"))
    plain = await visit.page.evaluate(named)
    assert not {"quests", "ranking", "milestones", "wallet"} & set(plain)
    await fair.quest()
    await fair.board()
    await visit.open(await collection(fair, rung("five", 5, await fair.prize())))
    assert set(plain) | {"quests", "ranking", "milestones", "wallet"} <= set(await visit.page.evaluate(named))
    for name in ("rewards", "milestones", "wallet", "history"):
        assert "Play" in await panel(visit, name), name
        await visit.click("dialog >> text=Play now", gone="dialog")
    assert visit.api_calls() == [], "nothing is requested of which the answer is known"


async def test_winner_is_led_to_what_was_won(fair: World, visit: Visit, phone: Phone) -> None:
    """Sign in, claim, see the code: the card's first act is the next one. A badge counts what is to be claimed."""
    codes = {"fulfillment": {"redemption_mode": "on_claim", "channel": "voucher_code"}, "codes": ["CIDER-1", "CIDER-2"]}
    await visit.open(await claimable(fair, **codes))
    page, card, badge = visit.page, ".card [data-next]", "[data-panel=rewards] .badge"
    await watch(visit, "claimed")
    await visit.press()
    assert await visit.kind() == "won" and await page.inner_text(card) == "Sign in to keep it"
    await page.click(card)
    await ask_for_code(visit, "wendy@winner.test")
    await page.fill("#login-field", phone.code("wendy@winner.test"))
    await page.click(SUBMIT)
    await visit.shot("winner-signed-in")
    lead = page.locator("dialog .main:has-text('Claim')")
    assert await lead.evaluate("(button) => button.getRootNode().activeElement === button")
    assert await page.inner_text(card) == "Claim" and await page.inner_text(badge) == "1"
    assert "1 to claim" in await page.inner_text("[data-panel=rewards]")
    await lead.click()
    await page.click("dialog [data-reward] >> text=Claim")
    code = await page.inner_text("dialog code")
    ((name, detail),) = await fired(visit)
    assert (name, detail["reward"]["code"]) == ("claimed", code) and code in codes["codes"]
    await page.keyboard.press("Escape")
    await page.wait_for_selector(badge, state="detached")
    assert await page.inner_text(card) == "Show code"
    await page.click(card)
    assert code in await shown(visit, "rewards")
    # What waits is counted as it is won, and still there after a reload.
    await page.keyboard.press("Escape")
    await visit.press(then=f"{card}:has-text('Claim')")
    await visit.shot("winner-claims")
    assert await page.inner_text(badge) == "1" and await violations(page) == []
    await page.reload()
    await page.wait_for_selector(badge)


CODES: Final = ("CIDER-0001", "Gutschein-№7-5€-🎃", ("https://shop.example/redeem?code=" + "A1b2C3d4" * 12)[:128])


async def test_code_is_scanned_from_the_screen_and_copied(fair: World, browser: Browser) -> None:
    """Copied by the clipboard's API, and by selection, which is what plain HTTP leaves."""
    pytest.importorskip("zxingcpp")
    game_id = await fair.wheel(await fair.prize(name="Voucher", codes=CODES), access="public")
    for _ in CODES:
        await fair.round(game_id, "ann")
    for scheme, width, permissions in (("light", 320, []), ("dark", 1440, ["clipboard-read", "clipboard-write"])):
        options: dict[str, Any] = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
        async with visiting(browser, fair.stack, **STILL, **options, permissions=permissions) as visit:
            if not permissions:
                await visit.page.add_init_script("delete Navigator.prototype.clipboard")
            await open_as(visit, game_id, "ann")
            await panel(visit, "rewards")
            cards, read = visit.page.locator("[data-reward]"), []
            for nth in range(len(CODES)):
                await cards.nth(nth).get_by_text("QR code").click()
                picture = cards.nth(nth).locator(".qr")
                await picture.locator("svg").wait_for()
                (text,) = await scanned(visit.page, await picture.screenshot())
                assert text == await cards.nth(nth).locator("code").inner_text()
                read.append(text)
            assert sorted(read) == sorted(CODES)
            await visit.click("dialog >> text=Copy", then="dialog >> text=Copied")
            selected = f"{ROOT}.getSelection?.().toString()"
            copied = await visit.page.evaluate("navigator.clipboard.readText()" if permissions else selected)
            assert copied in (*CODES, *([] if permissions else [None]))


ASKED: Final[list[dict[str, Any]]] = [
    {"key": "name", "label": EVIL[:80], "required": True},
    {"key": "address", "label": "Address", "kind": "CLAIM_FIELD_KIND_LONG_TEXT", "required": True},
    {"key": "size", "label": "Size", "kind": "CLAIM_FIELD_KIND_CHOICE", "options": ["M", EVIL[:80]]},
]
FORM: Final = "dialog form.claim"


async def focus_is_on(visit: Visit, name: str) -> None:
    await until(lambda: visit.page.evaluate(f"{FOCUSED}?.name"), lambda it: it == name)


async def test_claim_form_is_filled_by_keyboard_and_loses_nothing_typed(fair: World, visit: Visit) -> None:
    page = visit.page
    game = await claimable(fair, claim_fields=ASKED)
    await fair.round(game, "ann")
    await open_as(visit, game, "ann")
    await panel(visit, "rewards")
    await page.press("dialog [data-act=ask]", "Enter")
    await focus_is_on(visit, "name")
    assert EVIL[:80] in await page.inner_text(f"{FORM} label >> nth=0")
    assert await violations(page) == []
    await page.keyboard.type("\u202eAnn")
    await page.keyboard.press("Enter")
    await focus_is_on(visit, "address")
    await page.wait_for_selector(f"{FORM} [name=address][aria-invalid=true]")
    assert await page.inner_text(f"{FORM} .wrong:not(:empty)") == "This field is required."
    assert await violations(page) == []
    assert [call for call in visit.api_calls() if "claim" in call] == [], "an incomplete form is not sent"
    await page.keyboard.type("1 Mill Lane")
    await page.keyboard.press("Enter")
    await page.keyboard.type("Bath")
    await page.keyboard.press("Escape")
    await panel(visit, "rewards")
    await page.click("dialog [data-act=ask]")
    assert await page.input_value(f"{FORM} [name=address]") == "1 Mill Lane\nBath", "kept while closed"
    await page.select_option(f"{FORM} [name=size]", EVIL[:80])
    await page.click(f"{FORM} [data-act=claim]")
    await page.wait_for_selector(f"{FORM} [name=name][aria-invalid=true]")  # Refused by the service.
    await focus_is_on(visit, "name")
    assert await page.inner_text(f"{FORM} .wrong:not(:empty)") == "Please check this field."
    await page.fill(f"{FORM} [name=name]", "Ann <b>Lee</b>")
    await page.wait_for_selector(f"{FORM} [name=name][aria-invalid=false]")
    # The prize asks for something else meanwhile.
    (reward,) = await my_rewards(fair)
    more = [*ASKED, {"key": "shoe", "label": "Shoe", "required": True}]
    for fields in (more, ASKED):
        changed = await fair.stack.admin("PUT", f"/admin/prizes/{reward['prize_id']}", {"claim_fields": fields})
        assert changed.code == "OK"
        await page.press(f"{FORM} [data-act=claim]", "Enter")
        if fields is more:
            await page.wait_for_selector("dialog .refusal >> text=Close and reopen your rewards")
            assert await page.input_value(f"{FORM} [name=name]") == "Ann <b>Lee</b>"
    await page.wait_for_selector("dialog [data-status=FULFILLED]")
    assert await said(visit) == "Mug claimed"
    found = (await fair.stack.admin("GET", f"/admin/rewards/{reward['id']}")).data["answers"]
    expected = {"name": "Ann <b>Lee</b>", "address": "1 Mill Lane\nBath", "size": EVIL[:80]}
    assert {one["key"]: one["value"] for one in found} == expected
    assert await page.evaluate("window.evil") is None
    assert "Mill Lane" not in await page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}])")
    visit.forgive("400")


async def test_rung_is_granted_or_swapped_once_and_the_wallet_shows_it(fair: World, visit: Visit) -> None:
    mug, cup = await fair.prize(name="Mug"), await fair.prize(name="Cup")
    game_id = await collection(fair, rung("two", 2, mug), rung("nine", 9, cup))
    await open_as(visit, game_id, "ann")
    await visit.play()
    await visit.page.click(".rungs li.due:has-text('two') >> text=Redeem")
    text = await shown(visit, "milestones")
    assert "2 of 2 coin" in text and "2 of 9 coin" in text
    assert await visit.page.get_attribute("[data-rung=nine] [role=progressbar]", "aria-valuenow") == "22"
    assert await visit.page.locator("dialog [data-act=redeem]").count() == 1
    keys = await lose(visit, "**/redeem")
    await visit.page.dblclick("dialog [data-act=redeem]")
    await visit.page.wait_for_selector("[data-rung=two][data-status=GRANTED]")
    assert len(keys) == 3 and len(set(keys)) == 1
    assert await said(visit) == "Mug is yours!"
    statuses = [item["status"] for item in await fair.milestones(game_id)]
    assert statuses == ["MILESTONE_STATUS_GRANTED", "MILESTONE_STATUS_LOCKED"]
    assert await fair.stock(mug) == (0, 1)
    await visit.page.click("dialog .notice button")
    assert "Mug" in await shown(visit, "rewards")
    visit.forgive("ERR_CONNECTION_RESET")
    # A swap takes its price.
    await visit.page.unroute_all()
    await visit.page.goto("about:blank")
    game_id = await collection(fair, rung("two", 2, mug), rung("big", 3, mug), mode="SPEND_EXCHANGE")
    await open_as(visit, game_id, "bob")
    await visit.play()
    await visit.play()
    text = await panel(visit, "milestones")
    assert "deducted from your wallet" in text and "Redeem for 2 coin" in text and "Redeem for 3 coin" in text
    await visit.page.dblclick("dialog >> text=Redeem for 3 coin")
    await visit.page.wait_for_selector("[data-rung=big][data-status=GRANTED]")
    assert "1 of 2 coin" in await shown(visit, "milestones")
    await visit.page.keyboard.press("Escape")
    wallet = await panel(visit, "wallet")
    await visit.page.wait_for_selector("[data-entry]")
    assert await visit.page.inner_text("[data-currency=coin] strong") == "1"
    assert "Redeemed for a prize" in wallet
    ledger = (await fair.stack.consumer("GET", "/wallet/ledger", player="bob", scope_key=fair.campaign_id)).data
    amounts = await visit.page.locator("dialog .amount").all_inner_texts()
    assert amounts == [f"{row['amount']:+}" for row in ledger["items"]] == ["-3", "+2", "+2"]


async def test_refused_claim_or_rung_says_why_and_until_when(fair: World, visit: Visit) -> None:
    await open_as(visit, await claimable(fair), "ann")
    await visit.play()
    await panel(visit, "rewards")
    (reward,) = await my_rewards(fair)
    await fair.stack.admin("POST", f"/admin/rewards/{reward['id']}/revoke", {"reason": "a mistake"})
    await watch(visit, "refused")
    await visit.click("dialog >> text=Claim", then="dialog >> text=This reward can no longer be claimed.")
    assert (await fired(visit))[0][1]["reason"] == "ILLEGAL_TRANSITION"
    visit.forgive("400")
    for constraint, words in (
        ({"max_per_user": 1}, "You have reached the limit for this prize."),
        ({"max_per_day": 1}, "This prize is sold out for today. Available again: "),
        ({}, "This prize is currently sold out."),
    ):
        mug = await fair.prize(name="Mug", constraints=constraint, total=0 if constraint else 1)
        game_id = await collection(fair, rung("one", 1, mug), rung("two", 2, mug))
        await visit.page.goto("about:blank")
        await open_as(visit, game_id, "ann")
        await visit.play()
        assert (await fair.redeem(game_id, "one")).code == "OK"
        await panel(visit, "milestones")
        await visit.click("[data-rung=two] [data-act=redeem]", then="dialog .refusal")
        refused = await visit.page.inner_text("dialog .refusal")
        assert refused.startswith(words) and refused.strip() == (await said(visit)).strip()
        assert await visit.page.get_attribute("[data-rung=two] [data-act=redeem]", "aria-disabled") is None
    visit.forgive("400")


async def test_turns_that_are_won_are_shown_and_can_be_played(fair: World, visit: Visit) -> None:
    turns = await fair.prize(name="Golden ticket", type="turns", value=3, total=1)
    game_id = await fair.wheel(turns, access="public", rules={"max_plays_per_day": 1})
    await open_as(visit, game_id, "turner")
    await visit.press()
    assert "Golden ticket: 3 more turns" in await visit.result()
    await visit.page.wait_for_selector(".left >> text=3 turns left")
    assert await violations(visit.page) == []
    await visit.press(then=".left >> text=2 turns left")
    assert "No prize" in await visit.result()
    assert (await fair.eligibility(game_id, "turner"))["remaining_turns"] == 2
    rungs = block(rung("start", 2, await fair.prize(name="Two more", type="turns", value=2)))
    game_id = await fair.game(COLLECTION, COINS, access="public", rules={"max_plays_per_day": 1}, milestones=rungs)
    await visit.page.goto("about:blank")
    await open_as(visit, game_id, "turner")
    await visit.press(then=".left >> text=4 turns left")


async def test_quest_earns_its_turns_once_and_opens_the_game(fair: World, visit: Visit) -> None:
    await fair.quest(name="Visit the stall", type="daily", turns=3)
    game_id = await fair.wheel(await fair.prize(), access="public", rules={"requires_turn": True})
    await open_as(visit, game_id, "ann")
    assert "no turns left" in await visit.result()
    text = await panel(visit, "quests")
    assert "Visit the stall" in text and "3 turns" in text and "0 plays left" in text
    keys = await lose(visit, "**/complete")
    await visit.page.dblclick("dialog [data-act=quest]")
    await visit.page.wait_for_selector("dialog >> text=3 turns earned")
    assert len(keys) == 3 and len(set(keys)) == 1
    await visit.page.wait_for_selector("dialog >> text=3 turns left")
    await visit.page.keyboard.press("Escape")
    assert "Completed" in await panel(visit, "quests")
    assert (await fair.eligibility(game_id))["remaining_turns"] == 3
    await visit.page.keyboard.press("Escape")
    assert await visit.page.is_hidden(".card"), "the refusal is gone"
    await visit.press()
    assert await visit.kind() == "won"
    visit.forgive("ERR_CONNECTION_RESET")


async def test_quest_counts_plays_and_is_done_by_a_newcomer_as_a_guest(fair: World, visit: Visit) -> None:
    quest = await fair.quest(condition={"kind": "plays", "count": 2})
    game_id = await fair.wheel(await fair.prize(), access="public", rules={"max_plays_per_day": 2})
    await fair.round(game_id, "ann")
    card, offered = f"dialog [data-quest={quest}]", f"dialog [data-quest={quest}] [data-act=quest]"
    await visit.open(game_id)
    await panel(visit, "quests")
    assert "0 of 2 plays" in await visit.page.inner_text(card) and await visit.page.locator(offered).count() == 0
    await open_as(visit, game_id, "ann")
    await panel(visit, "quests")
    assert "1 of 2 plays" in await visit.page.inner_text(card) and await visit.page.locator(offered).count() == 0
    await visit.page.keyboard.press("Escape")
    await fair.round(game_id, "ann")
    await panel(visit, "quests")
    assert "2 of 2 plays" in await visit.page.inner_text(card)
    await visit.click(offered, then="dialog >> text=3 turns earned")
    visits = await fair.quest(turns=2)
    await visit.open(game_id)
    await panel(visit, "quests")
    await visit.click(f"dialog [data-quest={visits}] [data-act=quest]", then="dialog >> text=2 turns earned")
    headers = {"Authorization": f"Bearer {await visit.guest_token()}"}
    now = (await fair.stack.consumer("GET", f"/games/{game_id}/eligibility", headers=headers)).data
    assert (now["remaining_turns"], now["free_plays_remaining"]) == (2, 2)


async def test_ranking_is_the_service_s_and_keeps_the_player_s_own_place_in_sight(fair: World, visit: Visit) -> None:
    board_id = await fair.board()
    game_id = await fair.wheel(await fair.prize(), access="public")
    for n in range(24):
        await fair.round(game_id, f"player_{n:02}")
        if n < 3:
            await fair.round(game_id, f"player_{n:02}")
    await open_as(visit, game_id, "ann")
    await visit.play()

    async def everybody() -> list[dict[str, Any]]:
        path = f"/leaderboards/{board_id}/rankings"
        return list((await fair.stack.consumer("GET", path, player="ann", limit=100)).data["items"])

    await fair.stack.engine.rankings.catch_up(fair.stack.tenant_id)  # The page may have had the set built before.
    await panel(visit, "ranking")
    places = visit.page.locator("dialog .place")
    assert await places.count() == 21
    last, window = await places.last.bounding_box(), visit.page.viewport_size
    assert await places.last.get_attribute("data-rank") == "25" and "You" in await places.last.inner_text()
    assert last and window and last["y"] + last["height"] <= window["height"], "in sight without scrolling"
    assert await places.first.inner_text() == "🥇\n1\nPlayer\n2"
    await visit.page.click("dialog >> text=Show more")
    await places.nth(24).wait_for()
    ranks = await places.evaluate_all("(rows) => rows.map((row) => Number(row.dataset.rank))")
    assert ranks == [row["rank"] for row in await everybody()]
    assert await visit.page.locator("dialog [data-me]").count() == 1


async def test_history_lists_every_play_in_local_time_and_leads_to_its_check(fair: World, browser: Browser) -> None:
    game_id = await fair.wheel(await fair.prize(name="Mug"), access="public")
    for _ in range(22):
        await fair.round(game_id, "ann")
    async with visiting(browser, fair.stack, **STILL, timezone_id="Asia/Kathmandu") as visit:
        await open_as(visit, game_id, "ann")
        text = await panel(visit, "history")
        plays = visit.page.locator("[data-play]")
        assert await plays.count() == 20
        await visit.page.click("dialog >> text=Show more")
        await plays.nth(21).wait_for()
        assert await visit.page.evaluate(f"{FOCUSED}.dataset.play") is not None, "the focus is on what was added"
        listed = await plays.evaluate_all("(rows) => rows.map((row) => row.dataset.play)")
        history = (await fair.history(game_id, limit=100))["items"]
        assert listed == [row["id"] for row in history] and sorted(listed) == await fair.plays()
        newest = "SELECT extract(epoch FROM max(played_at))::bigint FROM plays WHERE game_id = $1"
        minutes = (await fair.database.fetchval(newest, game_id) // 60 + 5 * 60 + 45) % (24 * 60)
        assert f"{minutes // 60}:{minutes % 60:02}" in text
        oldest = history[-1]
        await visit.page.click(f"[data-play={oldest['id']}] button")
        text = await shown(visit, "fair")
        assert oldest["seed"] in text and seed_hash(bytes.fromhex(oldest["seed"])) in text
        await visit.click("dialog >> text=Verify now", then=".steps li >> text=Draw verified.")
        await visit.page.click("dialog [aria-label=Back]")
        await shown(visit, "history")
        assert await visit.page.locator("dialog [aria-label=Back]").is_hidden()
