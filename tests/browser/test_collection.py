"""The collection: the card that is turned over is the one that was drawn, and the album counts what the wallet has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.browsing import Visit, visiting
from tests.support.stack import Stack
from tests.support.world import COLLECTION, World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

ALBUM = """Object.fromEntries(
    [...document.querySelector("tombola-game").shadowRoot.querySelectorAll(".slots li")].map((slot) => [
        slot.querySelector("span:last-of-type").textContent, Number(slot.querySelector("b").textContent)]))"""
UPPERMOST = """(() => {
    const root = document.querySelector("tombola-game").shadowRoot;
    const { left, top, width, height } = root.querySelector(".deck").getBoundingClientRect();
    return root.elementFromPoint(left + width / 2, top + height / 2).closest(".back, .face").className;
})()"""
"""Which side of the card is seen."""
MOVING = "document.querySelector('tombola-game').shadowRoot.getAnimations().length"


async def collection(fair: World, *, auto_grant: bool = False, scope: str = "campaign", **fields: Any) -> str:
    """A public collection where each card is two maple leaves, and three of them reach the first rung."""
    config = {"items": [{"item": "maple", "weight": 1, "quantity": 2, "slot_index": 0}]}
    prize_id = await fair.prize(name="Fair mug")
    rungs = [
        {"name": f"{count} leaves", "currency": "maple", "threshold": count, "prize_id": prize_id} for count in (3, 8)
    ]
    milestones = {"mode": "cumulative_unlock", "auto_grant": auto_grant, "rungs": rungs}
    ui = {"items": [{"emoji": "🍁", "item": "maple", "label": "Maple leaf"}, {"emoji": "🌰", "item": "chestnut"}]}
    return await fair.game(
        COLLECTION, config, access="public", ui=ui, milestones=milestones, wallet_scope=scope, **fields
    )


async def rungs(visit: Visit) -> list[str]:
    """What each rung says of how far it is."""
    return [str(told) for told in await visit.page.locator(".rungs .far").all_inner_texts()]


@pytest.mark.parametrize("scope", ["campaign", "tenant"])
async def test_a_card_is_what_was_drawn_and_the_album_is_the_wallet(fair: World, visit: Visit, scope: str) -> None:
    game_id = await collection(fair, scope=scope)
    await visit.open(game_id)
    assert visit.api_calls() == ["GET render"] or visit.api_calls() == []
    assert await visit.page.evaluate(ALBUM) == {"Maple leaf": 0, "chestnut": 0}
    assert await rungs(visit) == ["0 / 3", "0 / 8"]
    await visit.press()
    assert await visit.kind() == "won"
    assert "2 × Maple leaf" in await visit.page.inner_text(".leaf .face")
    assert await visit.page.evaluate(ALBUM) == {"Maple leaf": 2, "chestnut": 0}
    assert await rungs(visit) == ["2 / 3", "2 / 8"]
    await visit.press()
    await visit.page.wait_for_selector(".rungs .there")
    assert await rungs(visit) == ["✓ Reached", "4 / 8"]
    headers = {"Authorization": f"Bearer {await visit.guest_token()}"}
    wallet = (await fair.stack.consumer("GET", "/wallet", headers=headers)).data["items"]
    assert [(row["currency"], row["balance"]) for row in wallet] == [("maple", 4)]
    await visit.page.reload()
    await visit.page.wait_for_selector(".slots li:not(.none)")
    assert await visit.page.evaluate(ALBUM) == {"Maple leaf": 4, "chestnut": 0}
    guest_id = await fair.database.fetchval("SELECT player_id FROM plays WHERE play_id = $1", (await fair.plays())[0])
    points = {"player_id": guest_id, "scope_key": wallet[0]["scope_key"], "currency": "points", "amount": 10}
    assert (await fair.stack.admin("POST", "/admin/wallet/adjustments", {**points, "reference_id": "r"})).data
    await visit.page.reload()
    await visit.page.wait_for_selector(".slots li:not(.none)")
    assert await visit.page.evaluate(ALBUM) == {"Maple leaf": 4, "chestnut": 0}, "points have no place in it"
    assert await rungs(visit) == ["✓ Reached", "4 / 8"]
    assert len(await fair.plays()) == 2


async def test_a_card_that_turns_shows_what_one_that_stands_still_does(
    fair: World, browser: Browser, shop: Stack
) -> None:
    async with visiting(browser, shop) as visit:
        await visit.open(await collection(fair))
        assert await visit.page.evaluate(UPPERMOST) == "back"
        await visit.page.click(".deck")
        assert await visit.kind() == "won" and "2 × maple" in await visit.result()
        assert "2 × Maple leaf" in await visit.page.inner_text(".leaf .face")
        assert await visit.page.evaluate(UPPERMOST) == "face"
    assert len(await fair.plays()) == 1


async def test_nothing_moves_for_who_wants_it_still_and_the_keyboard_draws(fair: World, visit: Visit) -> None:
    await visit.open(await collection(fair))
    await visit.page.focus("button.main")
    await visit.page.keyboard.press("Enter")
    await visit.page.wait_for_selector(".leaf.open")
    assert await visit.page.evaluate(MOVING) == 0
    assert await visit.kind() == "won"
    assert "maple" in await visit.page.inner_text("[role=status]")


async def test_a_rung_whose_prize_was_granted_at_once_says_so(fair: World, visit: Visit) -> None:
    await visit.open(await collection(fair, auto_grant=True))
    await visit.press()
    await visit.result()
    played = await visit.play()
    assert [rung["name"] for rung in played["milestones_granted"]] == ["3 leaves"]
    await visit.page.wait_for_selector(".rungs .there")
    assert await rungs(visit) == ["✓ Reached", "4 / 8"]


async def test_a_reload_before_the_card_was_seen_shows_the_same_one(fair: World, browser: Browser, shop: Stack) -> None:
    async with visiting(browser, shop) as visit:
        await visit.open(await collection(fair))
        async with visit.page.expect_response("**/play"):
            await visit.press()
        await visit.page.reload()
        assert await visit.kind() == "won"
        assert await visit.page.evaluate(ALBUM) == {"Maple leaf": 2, "chestnut": 0}
    assert len(await fair.plays()) == 1


async def test_who_has_drawn_all_is_refused_and_keeps_the_album(fair: World, visit: Visit) -> None:
    await visit.open(await collection(fair, rules={"max_plays_per_day": 1}))
    await visit.press()
    await visit.result()
    await visit.page.reload()
    assert await visit.kind() == "refused" and "all your plays" in await visit.result()
    await visit.page.wait_for_selector(".slots li:not(.none)")
    assert await visit.page.evaluate(ALBUM) == {"Maple leaf": 2, "chestnut": 0}


@pytest.mark.parametrize("items", ["nonsense", [None, 3, {"item": {}}], {"a": {"item": "maple"}}, None])
async def test_whatever_an_operator_made_of_its_items_it_can_be_played(fair: World, visit: Visit, items: Any) -> None:
    game_id = await collection(fair)
    await fair.looks(game_id, {"items": items})
    await visit.open(game_id)
    await visit.press()
    assert await visit.kind() == "won" and "2 × maple" in await visit.result()
    assert (await visit.page.evaluate(ALBUM))["maple"] == 2


async def test_a_type_that_is_not_known_and_credits_items_has_an_album(fair: World, visit: Visit) -> None:
    config = {"items": [{"item": "coin", "weight": 1, "quantity": 2, "slot_index": 0}]}
    await visit.open(
        await fair.game({"type": "something_new", "reward_handler": "lucky_item"}, config, access="public")
    )
    await visit.press()
    assert await visit.kind() == "won" and "2 × coin" in await visit.result()
    assert await visit.page.evaluate(ALBUM) == {"coin": 2}
