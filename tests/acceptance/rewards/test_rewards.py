"""A player's list of rewards, and an operator's search over everybody's."""

from __future__ import annotations

from tests.support.rewards import Shelf
from tests.support.stack import Stack


async def test_reward_is_listed_with_all_its_fields(stack: Stack, shelf: Shelf) -> None:
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


async def test_rewards_list_of_core_requires_a_player(stack: Stack) -> None:
    refused = await stack.core("GET", "/rewards/me")
    assert (refused.http, refused.reason) == (400, "VALIDATION")


async def test_rewards_list_of_staff_never_has_a_code(stack: Stack, shelf: Shelf) -> None:
    prize_id = await shelf.prize(channel="voucher_code")
    await shelf.codes(prize_id, "MUG-SECRET-1")
    reward_id = await shelf.reward(prize_id)
    claimed = await stack.consumer("POST", f"/rewards/{reward_id}/claim", {}, player="player_ann")
    assert claimed.data["code"] == "MUG-SECRET-1"
    for answer in (await stack.admin("GET", "/admin/rewards"), await stack.core("GET", "/rewards")):
        [reward] = answer.data["items"]
        assert reward["status"] == "REWARD_STATUS_FULFILLED"
        assert "code" not in reward and "MUG-SECRET-1" not in str(answer.envelope)
