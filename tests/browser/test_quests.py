"""The panels of quests, turns, the ranking and the history."""

from typing import Any

from runtime.rules.draw import seed_hash
from tests.support.axe import violations
from tests.support.browsing import STILL, Visit, visiting
from tests.support.chromium import Browser
from tests.support.leaderboards import make_board
from tests.support.milestones import block, rung
from tests.support.pages.games import FOCUSED
from tests.support.panels import lose, open_as, panel, shown
from tests.support.quests import open_quest
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, World


async def test_turns_that_are_won_are_shown_and_can_be_played(fair: World, visit: Visit) -> None:
    turns = await fair.prize(name="Golden ticket", type="turns", value=3, total=1)
    game_id = await fair.wheel(turns, access="public", rules={"max_plays_per_day": 1})
    await open_as(visit, game_id, "turner")
    await visit.press()
    assert "Golden ticket: 3 more turns" in await visit.result()
    await visit.page.wait_for_selector(".left >> text=3 turns left")
    assert await violations(visit.page) == []
    await visit.press()
    await visit.page.wait_for_selector(".left >> text=2 turns left")
    assert "No prize" in await visit.result()
    assert (await fair.eligibility(game_id, "turner"))["remaining_turns"] == 2
    rungs = block(rung("start", 2, await fair.prize(name="Two more", type="turns", value=2)))
    game_id = await fair.game(COLLECTION, COINS, access="public", rules={"max_plays_per_day": 1}, milestones=rungs)
    await visit.page.goto("about:blank")
    await open_as(visit, game_id, "turner")
    await visit.press()
    await visit.page.wait_for_selector(".left >> text=4 turns left")


async def test_quest_earns_its_turns_once_and_opens_the_game(fair: World, visit: Visit) -> None:
    await open_quest(fair.stack, fair.campaign_id, name="Visit the stall", type="daily", turns=3)
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
    quest = await open_quest(fair.stack, fair.campaign_id, condition={"kind": "plays", "count": 2})
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
    await visit.page.click(offered)
    await visit.page.wait_for_selector("dialog >> text=3 turns earned")
    visits = await open_quest(fair.stack, fair.campaign_id, turns=2)
    await visit.open(game_id)
    await panel(visit, "quests")
    await visit.page.click(f"dialog [data-quest={visits}] [data-act=quest]")
    await visit.page.wait_for_selector("dialog >> text=2 turns earned")
    headers = {"Authorization": f"Bearer {await visit.guest_token()}"}
    now = (await fair.stack.consumer("GET", f"/games/{game_id}/eligibility", headers=headers)).data
    assert (now["remaining_turns"], now["free_plays_remaining"]) == (2, 2)


async def test_ranking_is_the_service_s_and_keeps_the_player_s_own_place_in_sight(fair: World, visit: Visit) -> None:
    board_id = (await make_board(fair.stack, fair.campaign_id, metric="plays"))["id"]
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

    async def ranked() -> bool:
        return len(await everybody()) == 25

    await until(ranked)
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
        await visit.page.click("dialog >> text=Verify now")
        await visit.page.wait_for_selector(".steps li >> text=Draw verified.")
        await visit.page.click("dialog [aria-label=Back]")
        await shown(visit, "history")
        assert await visit.page.locator("dialog [aria-label=Back]").is_hidden()
