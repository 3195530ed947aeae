"""Claims as players make them, what admins may do by hand, and the lists of rewards."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runtime.streams import expiry
from tests.support.rewards import Shelf
from tests.support.stack import OTHER_TENANT, Stack


async def claim(stack: Stack, reward_id: str, player: str = "player_ann", **headers: str) -> Any:
    return await stack.consumer("POST", f"/rewards/{reward_id}/claim", {}, player=player, headers=headers)


async def test_claim_of_a_voucher_shows_its_code_and_delivers_it(stack: Stack, shelf: Shelf) -> None:
    prize_id = await shelf.prize(channel="voucher_code")
    await shelf.codes(prize_id, "MUG-1")
    reward = (await claim(stack, reward_id := await shelf.reward(prize_id))).data
    assert (reward["status"], reward["code"]) == ("REWARD_STATUS_FULFILLED", "MUG-1")
    assert reward["claimed_at"] == reward["fulfilled_at"] > 0
    assert (await shelf.row(reward_id))["task"] == "delivered"


async def test_reward_and_its_task_read_alike_after_each_move(stack: Stack, shelf: Shelf) -> None:
    for mode, moves in (("on_claim", ("claim",)), ("manual", ("claim", "fulfill", "revoke"))):
        reward_id = await shelf.reward(prize_id := await shelf.prize(mode))
        await stack.database.execute("UPDATE prizes SET terms = 'Until May.' WHERE prize_id = $1", prize_id)
        for move in moves:
            if move == "claim":
                moved = (await claim(stack, reward_id)).data
            else:
                moved = (await stack.admin("POST", f"/admin/rewards/{reward_id}/{move}", {})).data
            assert moved["prize"]["terms"] == "Until May."
            assert (await stack.consumer("GET", "/rewards/me", player="player_ann")).data["items"][0] == moved
            tasks = (await stack.admin("GET", "/admin/fulfillment/tasks", prize=prize_id)).data["items"]
            assert {task["attempts"] for task in tasks} <= {1}
        assert [task["status"] for task in tasks] == ["TASK_STATUS_DELIVERED"]


async def test_second_claim_is_rejected(stack: Stack, shelf: Shelf) -> None:
    reward_id = await shelf.reward(await shelf.prize())
    await claim(stack, reward_id)
    again = await claim(stack, reward_id)
    assert (again.http, again.code, again.reason) == (409, "ALREADY_EXISTS", "ALREADY_CLAIMED")


async def test_claim_of_an_expired_reward_is_refused(stack: Stack, shelf: Shelf) -> None:
    reward_id = await shelf.reward(await shelf.prize(), expires_in_seconds=-1)
    refused = await claim(stack, reward_id)
    assert (refused.code, refused.reason) == ("FAILED_PRECONDITION", "ILLEGAL_TRANSITION")
    assert refused.envelope["data"]["reward_status"] == "REWARD_STATUS_EXPIRED"


async def test_refused_claim_leaves_its_key_free(stack: Stack, shelf: Shelf) -> None:
    prize_id = await shelf.prize(channel="voucher_code")
    body = {"player_id": "player_ann", "idempotency_key": "k1"}
    reward_id = await shelf.reward(prize_id)
    assert (await stack.core("POST", f"/rewards/{reward_id}/claim", body)).reason == "OUT_OF_STOCK"
    await shelf.codes(prize_id, "MUG-1")
    assert (await stack.core("POST", f"/rewards/{reward_id}/claim", body)).data["reward"]["code"] == "MUG-1"


async def test_fulfil_of_a_voucher_takes_a_code_that_only_its_owner_sees(stack: Stack, shelf: Shelf) -> None:
    prize_id = await shelf.prize("manual", "voucher_code")
    reward_id = await shelf.reward(prize_id)
    path, note = f"/admin/rewards/{reward_id}/fulfill", {"note": "handed over"}
    assert (await stack.admin("POST", path, note)).reason == "OUT_OF_STOCK"
    await shelf.codes(prize_id, "MUG-1")
    assert not (await stack.admin("POST", path, note)).data.get("code")
    [mine] = (await stack.consumer("GET", "/rewards/me", player="player_ann")).data["items"]
    assert mine["code"] == "MUG-1"
    [entry] = (await stack.admin("GET", "/admin/audit", subject_id=reward_id)).data["items"]
    assert (entry["action"], entry["actor"], entry["before"]["status"]) == ("reward.fulfill", "staff_test", "won")
    assert (entry["after"]["status"], entry["after"]["note"]) == ("fulfilled", "handed over")
    assert "MUG-1" not in str(entry)


async def test_expiry_reaches_every_tenant_in_batches(
    stack: Stack, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "BATCH", 2)
    other = await Shelf(shelf.engine, OTHER_TENANT).open()
    for place in (shelf, other):
        prize_id = await place.prize()
        for _ in range(5):
            await place.reward(prize_id, expires_in_seconds=-1)
    assert sum(await asyncio.gather(*(expiry.expire(shelf.engine) for _ in range(4)))) == 10


async def test_expiry_runs_until_its_event_is_set(stack: Stack, shelf: Shelf) -> None:
    prize_id = await shelf.prize()
    reward_id = await shelf.reward(prize_id, expires_in_seconds=-1)
    stop = asyncio.Event()
    running = asyncio.create_task(expiry.run(shelf.engine, stop, every_seconds=0.01))
    while (await shelf.row(reward_id))["status"] != "expired":
        await asyncio.sleep(0)
    stop.set()
    await running
    late = await shelf.reward(prize_id, expires_in_seconds=-1)
    assert (await shelf.row(late))["status"] == "won"


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
