"""GET /games/{id}/milestones, and rungs that a play itself grants."""

from __future__ import annotations

from tests.support.milestones import block, rung, statuses
from tests.support.stack import Stack
from tests.support.world import COINS, COLLECTION, World


async def test_milestone_goes_from_locked_to_claimable(world: World) -> None:
    prize_id = await world.prize()
    game_id = await world.game(COLLECTION, COINS, milestones=block(rung("four", 4, prize_id), auto_grant=False))
    seen = []
    for _ in range(3):
        (item,) = await world.milestones(game_id)
        assert (item["name"], item["currency"], item["threshold"], item["prize_id"]) == ("Four", "coin", 4, prize_id)
        seen.append((item["balance"], item["progress"], item["status"], item["granted_at"]))
        await world.round(game_id)
    assert seen == [
        (0, 0.0, "MILESTONE_STATUS_LOCKED", 0),
        (2, 0.5, "MILESTONE_STATUS_LOCKED", 0),
        (4, 1.0, "MILESTONE_STATUS_CLAIMABLE", 0),
    ]


async def test_rung_that_a_play_crosses_is_granted_once(world: World, module_stack: Stack) -> None:
    mug = await world.prize(name="Mug", fulfillment={"redemption_mode": "on_claim"})
    game_id = await world.game(
        COLLECTION,
        {"items": [{"item": "coin", "weight": 1, "quantity": 5, "slot_index": 0}]},
        milestones=block(
            rung("ten", 10, mug), rung("three", 3, mug), rung("five", 5, mug), rung("gem", 1, mug, currency="gem")
        ),
    )
    told = [(await world.round(game_id, "gil")).data["milestones_granted"] for _ in range(3)]
    assert [[granted["id"] for granted in each] for each in told] == [["three", "five"], ["ten"], []]
    assert await statuses(world, game_id, "gil") == {
        **dict.fromkeys(("three", "five", "ten"), "GRANTED"),
        "gem": "LOCKED",
    }
    rewards = (await module_stack.consumer("GET", "/rewards/me", player="gil")).data["items"]
    assert sorted(reward["milestone_id"] for reward in rewards) == ["five", "ten", "three"]
    assert {reward["status"] for reward in rewards} == {"REWARD_STATUS_WON"}
    assert {reward["id"] for reward in rewards} == {row["reward_id"] for each in told for row in each}
    # The balance only ever grows: an unlocked rung costs nothing.
    wallet = (await module_stack.consumer("GET", "/wallet", player="gil")).data["items"]
    assert [row["balance"] for row in wallet] == [15]


async def test_rung_whose_prize_is_gone_stays_claimable(world: World, module_stack: Stack) -> None:
    scarce = await world.prize(total=1)
    game_id = await world.game(COLLECTION, COINS, milestones=block(rung("two", 2, scarce)))
    assert (await world.round(game_id, "first")).data["milestones_granted"]
    told = (await world.round(game_id, "late")).data
    assert (told["milestones_granted"], told["balances"]) == ([], [{"currency": "coin", "balance": 2}])
    assert await statuses(world, game_id, "late") == {"two": "CLAIMABLE"}
    refused = await world.redeem(game_id, "two", "late")
    assert (refused.code, refused.reason) == ("FAILED_PRECONDITION", "OUT_OF_STOCK")
    # Once there is stock again, the next play grants it.
    (await module_stack.admin("PUT", f"/admin/prizes/{scarce}", {"stock": {"total": 2}})).data  # noqa: B018
    assert [row["id"] for row in (await world.round(game_id, "late")).data["milestones_granted"]] == ["two"]


async def test_rung_of_an_exchange_is_not_granted_by_a_play(world: World) -> None:
    mug = await world.prize()
    exchange = block(rung("two", 2, mug), mode="SPEND_EXCHANGE", auto_grant=False)
    game_id = await world.game(COLLECTION, COINS, milestones=exchange)
    assert (await world.round(game_id, "ada")).data["milestones_granted"] == []
    assert await statuses(world, game_id, "ada") == {"two": "CLAIMABLE"}
