"""What the panels around a game say is what the service keeps, and what they do is done once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from runtime.rules.draw import seed_hash
from tests.support.axe import violations
from tests.support.browsing import STILL, Visit, visiting
from tests.support.leaderboards import make_board
from tests.support.milestones import block, rung
from tests.support.panels import FOCUSED, open_as, panel, said, shown, sign_in, told, watch
from tests.support.quests import open_quest
from tests.support.stack import Stack
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, World

if TYPE_CHECKING:
    from playwright.async_api import Browser, Route

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def claimable(fair: World, **fields: Any) -> str:
    """The id of a public wheel on which every play wins a mug that is to be claimed."""
    on_claim = {"redemption_mode": "on_claim", "channel": "none"}
    prize_id = await fair.prize(**{"name": "Mug", "fulfillment": on_claim, **fields})
    return await fair.wheel(prize_id, access="public")


async def collection(fair: World, *rungs: dict[str, Any], mode: str = "CUMULATIVE_UNLOCK", **fields: Any) -> str:
    milestones = block(*rungs, auto_grant=False, mode=mode)
    return await fair.game(COLLECTION, COINS, **{"access": "public", "milestones": milestones, **fields})


async def my_rewards(fair: World, player: str = "ann") -> list[dict[str, Any]]:
    """What a player has won in this campaign."""
    answer = await fair.stack.consumer("GET", "/rewards/me", player=player, campaign_id=fair.campaign_id)
    return list(answer.data["items"])


async def lose(visit: Visit, path: str, times: int = 2) -> list[str]:
    """The service decides what is asked of `path`; its first answers never come. The keys that it is asked with."""
    keys: list[str] = []

    async def lost(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) <= times:
            await route.fetch()
            await route.abort("connectionreset")
        else:
            await route.continue_()

    await visit.page.route(path, lost)
    return keys


# -- what there is ---------------------------------------------------------------------------


async def test_nothing_is_offered_that_is_not_there(fair: World, visit: Visit) -> None:
    script = "[...document.querySelector('tombola-game').shadowRoot.querySelectorAll('[data-panel]')]"
    named = f"{script}.map((button) => button.dataset.panel)"
    await visit.open(await fair.wheel(await fair.prize(), access="public"))
    plain = await visit.page.evaluate(named)
    assert not {"quests", "ranking", "milestones", "wallet"} & set(plain)
    await open_quest(fair.stack, fair.campaign_id)
    await make_board(fair.stack, fair.campaign_id)
    await visit.open(await collection(fair, rung("five", 5, await fair.prize())))
    assert set(plain) | {"quests", "ranking", "milestones", "wallet"} <= set(await visit.page.evaluate(named))


@pytest.mark.parametrize("name", ["rewards", "milestones", "wallet", "history"])
async def test_who_is_nobody_yet_is_told_what_to_do(fair: World, visit: Visit, name: str) -> None:
    await visit.open(await collection(fair, rung("five", 5, await fair.prize())))
    assert "Play" in await panel(visit, name)
    assert visit.api_calls() == [], "nothing is asked of which the answer is known"
    await visit.page.click("dialog >> text=Play now")
    await visit.page.wait_for_selector("dialog", state="detached")


# -- rewards ---------------------------------------------------------------------------------


async def test_what_a_prize_says_of_itself_is_read_beside_it(visit: Visit, fair: World) -> None:
    evil = "Stoneware.\n<img src=x onerror=window.evil=1>"
    content = {
        "description": evil,
        "terms": "At the stall, until Sunday.",
        "image_url": "https://pictures.example/mug.svg",
    }
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
    await visit.page.route(
        "https://pictures.example/*", lambda route: route.fulfill(body=svg, content_type="image/svg+xml")
    )
    game = await claimable(fair, **content)
    await fair.round(game, "ann")
    await open_as(visit, game, "ann")
    for name in ("prizes", "rewards"):
        assert "<img src=x" in await panel(visit, name)
        image = visit.page.locator("dialog .panel img.picture").first
        assert await image.get_attribute("src") == content["image_url"]
        assert not await visit.page.get_by_text(content["terms"]).first.is_visible()
        await visit.page.locator("dialog summary").first.press("Enter")
        await visit.page.get_by_text(content["terms"]).first.wait_for()
        await visit.shot(f"content-{name}")
        assert await violations(visit.page) == []
        if name == "prizes":
            await visit.page.keyboard.press("Escape")
    await visit.page.click("dialog [data-act=claim]")
    await visit.page.wait_for_selector("dialog [data-status=FULFILLED] details")
    assert await visit.page.evaluate("window.evil") is None


async def test_a_double_click_claims_once_and_it_shows(fair: World, visit: Visit) -> None:
    await open_as(visit, await claimable(fair), "ann")
    await visit.play()
    await watch(visit, "claimed")
    assert "Mug" in await panel(visit, "rewards")
    await visit.page.dblclick("dialog >> text=Claim")
    await visit.page.wait_for_selector("[data-status=FULFILLED]")
    (reward,) = await my_rewards(fair)
    assert reward["status"] == "REWARD_STATUS_FULFILLED" and reward["claimed_at"]
    assert [call for call in visit.api_calls() if "claim" in call] == ["POST claim"]
    assert await said(visit) == "Mug is claimed"
    ((name, detail),) = await told(visit)
    assert (name, detail["reward"]["id"]) == ("claimed", reward["id"])


async def test_a_claim_whose_answer_is_lost_is_asked_for_again_with_its_key(fair: World, visit: Visit) -> None:
    await open_as(visit, await claimable(fair), "ann")
    await visit.play()
    keys = await lose(visit, "**/claim")
    await panel(visit, "rewards")
    await visit.page.click("dialog >> text=Claim")
    await visit.page.wait_for_selector("[data-status=FULFILLED]")
    assert len(keys) == 3 and len(set(keys)) == 1
    visit.forgive("ERR_CONNECTION_RESET")


async def test_a_code_is_there_once_it_is_claimed(fair: World, visit: Visit) -> None:
    prize = {"fulfillment": {"redemption_mode": "on_claim", "channel": "voucher_code"}, "codes": ["CIDER-0042"]}
    await open_as(visit, await claimable(fair, **prize), "ann")
    await visit.play()
    assert "CIDER" not in await panel(visit, "rewards")
    await visit.page.click("dialog >> text=Claim")
    await visit.page.wait_for_selector("dialog code")
    assert await visit.page.inner_text("dialog code") == "CIDER-0042"
    assert (await my_rewards(fair))[0]["code"] == "CIDER-0042"


async def test_a_claim_that_is_refused_says_why(fair: World, visit: Visit) -> None:
    await open_as(visit, await claimable(fair), "ann")
    await visit.play()
    await panel(visit, "rewards")
    (reward,) = await my_rewards(fair)
    await fair.stack.admin("POST", f"/admin/rewards/{reward['id']}/revoke", {"reason": "a mistake"})
    await watch(visit, "refused")
    await visit.page.click("dialog >> text=Claim")
    await visit.page.wait_for_selector("dialog >> text=This can no longer be claimed.")
    assert (await told(visit))[0][1]["reason"] == "ILLEGAL_TRANSITION"
    visit.forgive("400")


async def test_a_guest_sees_and_claims_what_is_theirs(fair: World, visit: Visit) -> None:
    game_id = await claimable(fair)
    await fair.round(game_id, "bob")
    await visit.open(game_id)
    await visit.play()
    await panel(visit, "rewards")
    assert await visit.page.locator("dialog .item").count() == 1
    await visit.page.click("dialog >> text=Claim")
    await visit.page.wait_for_selector("[data-status=FULFILLED]")
    assert (await my_rewards(fair, "bob"))[0]["status"] == "REWARD_STATUS_WON"


# -- milestones ------------------------------------------------------------------------------


async def test_a_rung_is_had_once_and_the_next_one_not_yet(fair: World, visit: Visit) -> None:
    mug, cup = await fair.prize(name="Mug"), await fair.prize(name="Cup")
    game_id = await collection(fair, rung("two", 2, mug), rung("nine", 9, cup))
    await open_as(visit, game_id, "ann")
    await visit.play()
    text = await panel(visit, "milestones")
    assert "2 of 2 coin" in text and "2 of 9 coin" in text
    assert await visit.page.get_attribute("[data-rung=nine] [role=progressbar]", "aria-valuenow") == "22"
    assert await visit.page.locator("dialog [data-act=redeem]").count() == 1
    keys = await lose(visit, "**/redeem")
    await visit.page.dblclick("dialog [data-act=redeem]")
    await visit.page.wait_for_selector("[data-rung=two][data-status=GRANTED]")
    assert len(keys) == 3 and len(set(keys)) == 1
    assert await said(visit) == "Mug is yours!"
    assert [item["status"] for item in await fair.milestones(game_id)] == [
        "MILESTONE_STATUS_GRANTED",
        "MILESTONE_STATUS_LOCKED",
    ]
    assert await fair.stock(mug) == (0, 1)
    await visit.page.click("dialog .notice button")
    assert "Mug" in await shown(visit, "rewards")
    visit.forgive("ERR_CONNECTION_RESET")


async def test_a_swap_takes_its_price_once_and_the_wallet_says_so(fair: World, visit: Visit) -> None:
    mug = await fair.prize(name="Mug")
    game_id = await collection(fair, rung("two", 2, mug), rung("big", 3, mug), mode="SPEND_EXCHANGE")
    await open_as(visit, game_id, "ann")
    await visit.play()
    await visit.play()
    text = await panel(visit, "milestones")
    assert "taken from your wallet" in text and "Swap 2 coin" in text and "Swap 3 coin" in text
    await visit.page.dblclick("dialog >> text=Swap 3 coin")
    await visit.page.wait_for_selector("[data-rung=big][data-status=GRANTED]")
    assert "1 of 2 coin" in await shown(visit, "milestones"), "what is left is less"
    await visit.page.keyboard.press("Escape")
    wallet = await panel(visit, "wallet")
    await visit.page.wait_for_selector("[data-entry]")
    assert await visit.page.inner_text("[data-currency=coin] strong") == "1"
    assert "Swapped for a prize" in wallet
    ledger = (await fair.stack.consumer("GET", "/wallet/ledger", player="ann", scope_key=fair.campaign_id)).data
    amounts = await visit.page.locator("dialog .amount").all_inner_texts()
    assert amounts == [f"{row['amount']:+}" for row in ledger["items"]] == ["-3", "+2", "+2"]


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        ({"max_per_user": 1}, "You have as many of this prize as one player may have."),
        ({"max_per_day": 1}, "All that there was of this prize for today is gone. Again: "),
        ({}, "Nothing is left of this right now."),
    ],
)
async def test_a_rung_that_cannot_be_had_says_which_cap_and_when(
    fair: World, visit: Visit, constraint: dict[str, int], words: str
) -> None:
    mug = await fair.prize(name="Mug", constraints=constraint, total=0 if constraint else 1)
    game_id = await collection(fair, rung("one", 1, mug), rung("two", 2, mug))
    await open_as(visit, game_id, "ann")
    await visit.play()
    assert (await fair.redeem(game_id, "one")).code == "OK"
    await panel(visit, "milestones")
    await visit.page.click("[data-rung=two] [data-act=redeem]")
    await visit.page.wait_for_selector("dialog .refusal")
    refused = await visit.page.inner_text("dialog .refusal")
    assert refused.startswith(words) and refused.strip() == (await said(visit)).strip()
    assert await visit.page.get_attribute("[data-rung=two] [data-act=redeem]", "aria-disabled") is None
    visit.forgive("400")


# -- quests ----------------------------------------------------------------------------------


async def test_turns_that_are_won_are_told_and_can_be_played(fair: World, visit: Visit) -> None:
    turns = await fair.prize(name="Golden ticket", type="turns", value=3, total=1)
    game_id = await fair.wheel(turns, access="public", rules={"max_plays_per_day": 1})
    await open_as(visit, game_id, "turner")
    await visit.press()
    assert "Golden ticket: 3 more turns" in await visit.result()
    await visit.page.wait_for_selector(".left >> text=3 turns left")
    assert await violations(visit.page) == []
    await visit.shot("turns")
    await visit.press()
    await visit.page.wait_for_selector(".left >> text=2 turns left")
    assert "No prize" in await visit.result()
    assert (await fair.eligibility(game_id, "turner"))["remaining_turns"] == 2
    # What a rung gives is not in the answer: it is asked for.
    rungs = block(rung("start", 2, await fair.prize(name="Two more", type="turns", value=2)))
    game_id = await fair.game(COLLECTION, COINS, access="public", rules={"max_plays_per_day": 1}, milestones=rungs)
    await visit.page.goto("about:blank")
    await open_as(visit, game_id, "turner")
    await visit.press()
    await visit.page.wait_for_selector(".left >> text=4 turns left")


async def test_a_quest_earns_its_turns_once_and_the_game_can_be_played_with_them(fair: World, visit: Visit) -> None:
    quest_id = await open_quest(fair.stack, fair.campaign_id, name="Visit the stall", type="daily", turns=3)
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
    assert "Done" in await panel(visit, "quests"), "what is done is shown as done"
    assert (await fair.eligibility(game_id))["remaining_turns"] == 3
    await visit.page.keyboard.press("Escape")
    assert await visit.page.is_hidden(".card"), "what stood in the way does no longer"
    await visit.press()
    assert await visit.kind() == "won"
    assert quest_id
    visit.forgive("ERR_CONNECTION_RESET")


async def test_a_quest_that_is_done_says_so_and_when_it_may_be_done_again(fair: World, visit: Visit) -> None:
    daily = await open_quest(fair.stack, fair.campaign_id, type="daily")
    once = await open_quest(fair.stack, fair.campaign_id, type="one_time")
    later = await open_quest(fair.stack, fair.campaign_id, type="daily", end_date=4_000_000_000)
    for quest_id in (daily, once):
        await fair.stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player="ann")
    await open_as(visit, await fair.wheel(await fair.prize(), access="public"), "ann")
    await panel(visit, "quests")
    cards = {
        quest_id: await visit.page.inner_text(f"dialog [data-quest={quest_id}]") for quest_id in (daily, once, later)
    }
    assert ["Done" in told for told in cards.values()] == [True, True, False], cards
    assert ["Again: " in told for told in cards.values()] == [True, False, False], cards
    assert "October 2096" in cards[later], "of another year it is said which"
    offered = visit.page.locator("dialog [data-act=quest]")
    assert await offered.count() == 1, "what is done is not offered once more"
    await fair.stack.consumer("POST", f"/quests/{later}/complete", {}, player="ann")
    await offered.click()
    await visit.page.wait_for_selector("dialog .refusal")
    assert await offered.count() == 0, "nor what was done elsewhere meanwhile"
    refused = await visit.page.inner_text("dialog .refusal")
    assert refused.startswith("You have done this already. Again: ") and "(in " in refused
    visit.forgive("409")


async def test_quests_are_offered_where_nobody_knows_what_is_done(fair: World, visit: Visit) -> None:
    await open_quest(fair.stack, fair.campaign_id)
    await open_as(visit, await fair.wheel(await fair.prize(), access="public"), "ann")
    refusal = {"code": "PERMISSION_DENIED", "message": "", "data": {"reason": "FORBIDDEN"}}
    await visit.page.route("**/players/me/quests*", lambda route: route.fulfill(status=403, json=refusal))
    await panel(visit, "quests")
    assert await visit.page.locator("dialog [data-act=quest]").count() == 1
    visit.forgive("403")


async def test_a_quest_that_takes_plays_says_how_many_and_is_offered_when_there_are(fair: World, visit: Visit) -> None:
    quest = await open_quest(fair.stack, fair.campaign_id, condition={"kind": "plays", "count": 2})
    game_id = await fair.wheel(await fair.prize(), access="public")
    await fair.round(game_id, "ann")
    card, offered = f"dialog [data-quest={quest}]", "dialog [data-act=quest]"
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
    await visit.page.click(offered)
    await visit.page.wait_for_selector("dialog >> text=3 turns earned")


async def test_who_is_nobody_yet_earns_as_the_guest_that_they_become(fair: World, visit: Visit) -> None:
    await open_quest(fair.stack, fair.campaign_id, turns=2)
    game_id = await fair.wheel(await fair.prize(), access="public", rules={"max_plays_per_day": 1})
    await visit.open(game_id)
    await panel(visit, "quests")
    await visit.page.click("dialog [data-act=quest]")
    await visit.page.wait_for_selector("dialog >> text=2 turns earned")
    headers = {"Authorization": f"Bearer {await visit.guest_token()}"}
    now = (await fair.stack.consumer("GET", f"/games/{game_id}/eligibility", headers=headers)).data
    assert (now["remaining_turns"], now["free_plays_remaining"]) == (2, 1)


# -- ranking ---------------------------------------------------------------------------------


async def test_the_ranking_is_the_service_s_and_ones_own_place_is_always_in_sight(fair: World, visit: Visit) -> None:
    board_id = (await make_board(fair.stack, fair.campaign_id, metric="plays"))["id"]
    game_id = await fair.wheel(await fair.prize(), access="public")
    for n in range(24):
        await fair.round(game_id, f"player_{n:02}")
        if n < 3:
            await fair.round(game_id, f"player_{n:02}")
    await open_as(visit, game_id, "ann")
    await visit.play()
    path = f"/leaderboards/{board_id}/rankings"

    async def everybody() -> list[dict[str, Any]]:
        return list((await fair.stack.consumer("GET", path, player="ann", limit=100)).data["items"])

    async def ranked() -> bool:
        return len(await everybody()) == 25

    await until(ranked)
    await panel(visit, "ranking")
    rows = "dialog .place"
    assert await visit.page.locator(rows).count() == 21
    last = await visit.page.locator(rows).last.bounding_box()
    assert last is not None
    assert await visit.page.locator(rows).last.get_attribute("data-rank") == "25"
    assert "You" in await visit.page.locator(rows).last.inner_text()
    window = visit.page.viewport_size
    assert window and last["y"] + last["height"] <= window["height"], "it is in sight without scrolling"
    assert await visit.page.locator(rows).first.inner_text() == "🥇\n1\nPlayer\n2"
    await visit.page.click("dialog >> text=Show more")
    await visit.page.locator("dialog .place >> nth=24").wait_for()
    ranks = [row["rank"] for row in await everybody()]
    shown_ranks = await visit.page.locator(rows).evaluate_all("(rows) => rows.map((row) => Number(row.dataset.rank))")
    assert shown_ranks == ranks and await visit.page.locator("dialog [data-me]").count() == 1


# -- wallet, history -------------------------------------------------------------------------


async def test_the_history_leads_to_the_check_of_each_draw_and_back(fair: World, visit: Visit) -> None:
    game_id = await fair.wheel(await fair.prize(name="Mug"), access="public")
    for _ in range(22):
        await fair.round(game_id, "ann")
    await open_as(visit, game_id, "ann")
    await panel(visit, "history")
    assert await visit.page.locator("[data-play]").count() == 20
    await visit.page.click("dialog >> text=Show more")
    await visit.page.locator("[data-play] >> nth=21").wait_for()
    assert await visit.page.evaluate(f"{FOCUSED}.dataset.play") is not None, "the focus is on what came"
    listed = await visit.page.locator("[data-play]").evaluate_all("(rows) => rows.map((row) => row.dataset.play)")
    history = (await fair.history(game_id, limit=100))["items"]
    assert listed == [row["id"] for row in history] and sorted(listed) == await fair.plays()
    oldest = history[-1]
    await visit.page.click(f"[data-play={oldest['id']}] button")
    text = await shown(visit, "fair")
    assert oldest["seed"] in text and seed_hash(bytes.fromhex(oldest["seed"])) in text
    await visit.page.click("dialog >> text=Check it now")
    await visit.page.wait_for_selector(".steps li >> text=Everything fits.")
    await visit.page.click("dialog [aria-label=Back]")
    await shown(visit, "history")
    assert await visit.page.locator("dialog [aria-label=Back]").is_hidden()


# -- everybody -------------------------------------------------------------------------------


async def test_the_keyboard_alone_claims_and_never_leaves_the_dialog(fair: World, visit: Visit) -> None:
    await open_as(visit, await claimable(fair), "ann")
    await visit.play()
    await visit.page.focus("[data-panel=rewards]")
    await visit.page.keyboard.press("Enter")
    await shown(visit, "rewards")
    inside = f"{FOCUSED} === null || {FOCUSED}.closest('dialog') !== null"
    for _ in range(8):
        await visit.page.keyboard.press("Tab")
        assert await visit.page.evaluate(inside)
        if await visit.page.evaluate(f"{FOCUSED}?.dataset.act") == "claim":
            break
    assert await visit.page.evaluate(f"getComputedStyle({FOCUSED}).outlineStyle") == "solid"
    await visit.page.keyboard.press("Enter")
    await visit.page.wait_for_selector("[data-status=FULFILLED]")
    assert await visit.page.evaluate(f"{FOCUSED}.dataset.status") == "FULFILLED", "the focus is on what came of it"
    await visit.page.keyboard.press("Escape")
    assert await visit.page.evaluate(f"{FOCUSED}.dataset.panel") == "rewards", "and back where it was"


async def test_times_are_told_in_the_player_s_time_zone(fair: World, browser: Browser, shop: Stack) -> None:
    game_id = await fair.wheel(await fair.prize(), access="public")
    await fair.round(game_id, "ann")
    ((_, played_at),) = await plays_at(fair)
    async with visiting(browser, shop, **STILL, timezone_id="Asia/Kathmandu", locale="en-GB") as visit:
        await open_as(visit, game_id, "ann")
        minutes = (int(played_at) // 60 + 5 * 60 + 45) % (24 * 60)
        assert f"{minutes // 60}:{minutes % 60:02}" in await panel(visit, "history")


async def plays_at(fair: World) -> list[tuple[str, int]]:
    rows = await fair.database.fetch(
        "SELECT p.play_id, extract(epoch FROM p.played_at)::bigint AS at FROM plays AS p"
        " JOIN games AS g USING (tenant_id, game_id) WHERE g.campaign_id = $1",
        fair.campaign_id,
    )
    return [(row["play_id"], row["at"]) for row in rows]


async def test_a_panel_that_cannot_be_loaded_says_so(fair: World, visit: Visit) -> None:
    await visit.open(await fair.wheel(await fair.prize(name="Mug"), access="public"))
    await visit.page.context.set_offline(True)
    await visit.page.click("[data-panel=prizes]")
    await visit.page.wait_for_selector(".left >> text=No answer came")
    assert await visit.page.locator("dialog").count() == 0
    visit.forgive("ERR_INTERNET_DISCONNECTED")


async def test_whoever_signs_in_sees_what_is_theirs(fair: World, visit: Visit) -> None:
    game_id = await claimable(fair)
    await fair.round(game_id, "bob")
    await open_as(visit, game_id, "ann")
    assert "not won anything yet" in await panel(visit, "rewards")
    await visit.page.keyboard.press("Escape")
    await sign_in(visit, "bob")
    assert "Mug" in await panel(visit, "rewards")
