"""A player's list of rewards, and an operator's search over everybody's."""

from __future__ import annotations

from tests.support.rewards import Shelf
from tests.support.stack import Stack


async def ids_of(stack: Stack, player: str = "player_ann", **query: object) -> list[str]:
    answer = await stack.consumer("GET", "/rewards/me", player=player, **query)
    return [reward["id"] for reward in answer.data["items"]]


async def test_rewards_come_newest_first_and_are_the_players_own(stack: Stack, shelf: Shelf) -> None:
    prize_id = await shelf.prize()
    mine = [await shelf.reward(prize_id) for _ in range(3)]
    await shelf.reward(prize_id, "player_bob")
    assert await ids_of(stack) == mine[::-1]


async def test_a_reward_is_told_whole(stack: Stack, shelf: Shelf) -> None:
    prize_id = await shelf.prize()
    reward_id = await shelf.reward(prize_id, quantity=2, expires_in_seconds=3600, game_id="game_1")
    [reward] = (await stack.consumer("GET", "/rewards/me", player="player_ann")).data["items"]
    assert reward.pop("won_at") + 3600 - reward.pop("expires_at") in (-1, 0, 1)
    assert reward == {
        "id": reward_id,
        "prize_id": prize_id,
        "name": "Mug",
        "type": "voucher",
        "value": 5,
        "quantity": 2,
        "status": "REWARD_STATUS_WON",
        "game_id": "game_1",
        "play_id": "",
        "campaign_id": "camp_test",
        "milestone_id": "",
        "code": "",
        "code_error": "",
        "claimed_at": 0,
        "fulfilled_at": 0,
        "prize": {**dict.fromkeys(("description", "image_url", "terms", "currency"), ""), "claim_fields": []},
    }


async def test_filters_narrow_the_list(stack: Stack, shelf: Shelf) -> None:
    one, two = await shelf.prize(), await shelf.prize()
    won = await shelf.reward(one, game_id="game_1")
    claimed = await shelf.reward(two, status="claimed")
    late = await shelf.reward(two, expires_in_seconds=-1)
    assert await ids_of(stack, status="REWARD_STATUS_WON") == [won]
    assert await ids_of(stack, status="claimed") == [claimed]
    assert await ids_of(stack, status="REWARD_STATUS_EXPIRED") == [late]
    assert await ids_of(stack, prize=two) == [late, claimed]
    assert await ids_of(stack, prize_id=one) == [won]
    assert await ids_of(stack, game_id="game_1") == [won]
    assert len(await ids_of(stack, campaign="camp_test")) == 3
    assert await ids_of(stack, campaign="camp_other") == []


async def test_pages_show_every_reward_once(stack: Stack, shelf: Shelf) -> None:
    prize_id = await shelf.prize()
    mine = [await shelf.reward(prize_id) for _ in range(5)]
    seen: list[str] = []
    cursor = ""
    while True:
        page = (await stack.consumer("GET", "/rewards/me", player="player_ann", limit=2, cursor=cursor)).data
        seen += [reward["id"] for reward in page["items"]]
        await shelf.reward(prize_id)  # newer ones do not move the pages
        cursor = page["pagination"]["next_cursor"]
        if not page["pagination"]["has_more"]:
            break
    assert seen == mine[::-1]


async def test_the_list_needs_a_player(stack: Stack, shelf: Shelf) -> None:
    assert (await stack.consumer("GET", "/rewards/me")).http == 401
    refused = await stack.core("GET", "/rewards/me")
    assert (refused.http, refused.reason) == (400, "VALIDATION")


async def test_a_code_that_cannot_be_opened_hides_nothing_else(stack: Stack, shelf: Shelf) -> None:
    prize_id = await shelf.prize(channel="voucher_code")
    await shelf.codes(prize_id, "MUG-1")
    reward_id = await shelf.reward(prize_id)
    await stack.consumer("POST", f"/rewards/{reward_id}/claim", {}, player="player_ann")
    await shelf.engine.database.execute("UPDATE codes SET key_id = 'gone'")
    [reward] = (await stack.consumer("GET", "/rewards/me", player="player_ann")).data["items"]
    assert (reward["status"], reward["code"]) == ("REWARD_STATUS_FULFILLED", "")


class TestSearch:
    """GET /admin/rewards."""

    async def found(self, stack: Stack, **query: object) -> list[str]:
        answer = await stack.admin("GET", "/admin/rewards", roles=("reward_manager",), **query)
        return [reward["id"] for reward in answer.data["items"]]

    async def test_an_operator_finds_what_waits_for_a_hand(self, stack: Stack, shelf: Shelf) -> None:
        manual, other = await shelf.prize("manual"), await shelf.prize()
        waiting = await shelf.reward(manual, "player_bob", status="claimed")
        await shelf.reward(manual)
        await shelf.reward(other, status="claimed")
        [reward] = (await stack.admin("GET", "/admin/rewards", prize=manual, status="claimed")).data["items"]
        assert (reward["id"], reward["player_id"], reward["prize_id"]) == (waiting, "player_bob", manual)
        fulfilled = await stack.admin("POST", f"/admin/rewards/{waiting}/fulfill", {"note": "by hand"})
        assert fulfilled.data["status"] == "REWARD_STATUS_FULFILLED"
        assert await self.found(stack, prize=manual, status="claimed") == []

    async def test_filters_narrow_it(self, stack: Stack, shelf: Shelf) -> None:
        one, two = await shelf.prize(), await shelf.prize()
        won = await shelf.reward(one, game_id="game_1")
        claimed = await shelf.reward(two, "player_bob", status="claimed")
        late = await shelf.reward(two, expires_in_seconds=-1)
        assert await self.found(stack) == [late, claimed, won]
        assert await self.found(stack, player_id="player_bob") == [claimed]
        assert await self.found(stack, game_id="game_1") == [won]
        assert await self.found(stack, prize_id=two) == [late, claimed]
        assert await self.found(stack, campaign_id="camp_test", status="won") == [won]
        assert await self.found(stack, campaign_id="camp_other") == []
        assert await self.found(stack, status="REWARD_STATUS_EXPIRED") == [late]

    async def test_it_never_has_a_code(self, stack: Stack, shelf: Shelf) -> None:
        prize_id = await shelf.prize(channel="voucher_code")
        await shelf.codes(prize_id, "MUG-SECRET-1")
        reward_id = await shelf.reward(prize_id)
        claimed = await stack.consumer("POST", f"/rewards/{reward_id}/claim", {}, player="player_ann")
        assert claimed.data["code"] == "MUG-SECRET-1"
        for answer in (await stack.admin("GET", "/admin/rewards"), await stack.core("GET", "/rewards")):
            [reward] = answer.data["items"]
            assert reward["status"] == "REWARD_STATUS_FULFILLED"
            assert "code" not in reward and "MUG-SECRET-1" not in str(answer.envelope)

    async def test_it_is_of_one_tenant_and_for_management(self, stack: Stack, shelf: Shelf) -> None:
        await shelf.reward(await shelf.prize())
        other = await Shelf(shelf.engine, tenant_id="tenant_other").open()
        foreign = await other.reward(await other.prize())
        assert foreign not in await self.found(stack)
        assert len(await self.found(stack)) == 1
        assert (await stack.admin("GET", "/admin/rewards", roles=("player",))).http == 403

    async def test_pages_show_every_reward_once(self, stack: Stack, shelf: Shelf) -> None:
        prize_id = await shelf.prize()
        made = [await shelf.reward(prize_id, f"player_{n}") for n in range(5)]
        first = (await stack.admin("GET", "/admin/rewards", limit=3)).data
        rest = (await stack.admin("GET", "/admin/rewards", limit=3, cursor=first["pagination"]["next_cursor"])).data
        assert [reward["id"] for reward in first["items"] + rest["items"]] == made[::-1]
        assert not rest["pagination"]["has_more"]
