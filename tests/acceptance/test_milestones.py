"""GET /games/{id}/milestones, and rungs that a play itself grants."""

from __future__ import annotations

import asyncio

from tests.support.milestones import block, rung, statuses
from tests.support.stack import Stack
from tests.support.world import COINS, COLLECTION, World


async def test_progress_goes_from_locked_to_claimable(world: World) -> None:
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


async def test_a_play_grants_each_rung_that_it_crosses_once(world: World, module_stack: Stack) -> None:
    mug = await world.prize(name="Mug", fulfillment={"redemption_mode": "on_claim"})
    game_id = await world.game(
        COLLECTION,
        {"items": [{"item": "coin", "weight": 1, "quantity": 5, "slot_index": 0}]},
        milestones=block(rung("ten", 10, mug), rung("three", 3, mug), rung("five", 5, mug)),
    )
    told = [(await world.round(game_id, "gil")).data["milestones_granted"] for _ in range(3)]
    assert [[granted["id"] for granted in each] for each in told] == [["three", "five"], ["ten"], []]
    assert await statuses(world, game_id, "gil") == {"three": "GRANTED", "five": "GRANTED", "ten": "GRANTED"}
    rewards = (await module_stack.consumer("GET", "/rewards/me", player="gil")).data["items"]
    assert sorted(reward["milestone_id"] for reward in rewards) == ["five", "ten", "three"]
    assert {reward["status"] for reward in rewards} == {"REWARD_STATUS_WON"}
    assert {reward["id"] for reward in rewards} == {row["reward_id"] for each in told for row in each}
    # The balance only ever grows: an unlocked rung costs nothing.
    wallet = (await module_stack.consumer("GET", "/wallet", player="gil")).data["items"]
    assert [row["balance"] for row in wallet] == [15]


async def test_a_rungs_points_reach_a_further_rung_in_the_same_play(world: World, module_stack: Stack) -> None:
    points, mug = await world.prize(type="points", value=100), await world.prize()
    game_id = await world.game(
        COLLECTION, COINS, milestones=block(rung("rich", 100, mug, "points"), rung("two", 2, points))
    )
    told = (await world.round(game_id, "pat")).data
    assert [granted["id"] for granted in told["milestones_granted"]] == ["two", "rich"]
    assert told["balances"] == [{"currency": "coin", "balance": 2}, {"currency": "points", "balance": 100}]
    (record,) = (await module_stack.consumer("GET", "/rewards/me", player="pat", prize_id=points)).data["items"]
    assert (record["milestone_id"], record["type"], record["status"]) == ("two", "points", "REWARD_STATUS_FULFILLED")
    assert record["id"] == told["milestones_granted"][0]["reward_id"]


async def test_a_rung_of_a_currency_that_nobody_has_is_not_crossed(world: World) -> None:
    prize_id = await world.prize()
    rungs = block(rung("gem", 1, prize_id, currency="gem"), rung("mug", 2, prize_id))
    game_id = await world.game(COLLECTION, COINS, milestones=rungs)
    await world.round(game_id, "poor")
    assert await statuses(world, game_id, "poor") == {"gem": "LOCKED", "mug": "GRANTED"}


async def test_points_of_a_wheel_reach_rungs_too(world: World) -> None:
    points, mug = await world.prize(type="points", value=30), await world.prize()
    game_id = await world.wheel(points, milestones=block(rung("fifty", 50, mug, "points")))
    told = [(await world.round(game_id, "quin")).data["milestones_granted"] for _ in range(3)]
    assert [len(each) for each in told] == [0, 1, 0]


async def test_a_rung_whose_prize_is_gone_stays_claimable_and_leaves_the_play_alone(
    world: World, module_stack: Stack
) -> None:
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


async def test_plays_at_once_grant_a_rung_once(world: World) -> None:
    mug = await world.prize(total=50)
    game_id = await world.game(COLLECTION, COINS, milestones=block(rung("ten", 10, mug), rung("thirty", 30, mug)))
    answers = await asyncio.gather(*(world.round(game_id, "rex") for _ in range(20)))
    granted = [row["id"] for answer in answers for row in answer.data["milestones_granted"]]
    assert sorted(granted) == ["ten", "thirty"]
    assert await world.stock(mug) == (48, 2)


async def test_auto_grant_spends_nothing_so_an_exchange_never_grants_by_itself(world: World) -> None:
    mug = await world.prize()
    exchange = block(rung("two", 2, mug), mode="SPEND_EXCHANGE", auto_grant=False)
    game_id = await world.game(COLLECTION, COINS, milestones=exchange)
    assert (await world.round(game_id, "ada")).data["milestones_granted"] == []
    assert await statuses(world, game_id, "ada") == {"two": "CLAIMABLE"}


async def test_rungs_without_an_id_are_given_one(world: World, module_stack: Stack) -> None:
    mug = await world.prize()
    bare = {"currency": "coin", "threshold": 2, "prize_id": mug}
    game_id = await world.game(COLLECTION, COINS, milestones={"rungs": [bare]})
    (item,) = await world.milestones(game_id)
    assert item["id"]
    game = (await module_stack.admin("GET", f"/admin/games/{game_id}")).data
    assert [row["id"] for row in game["milestones"]["rungs"]] == [item["id"]]


async def test_milestones_are_a_players_own(world: World, module_stack: Stack) -> None:
    game_id = await world.game(COLLECTION, COINS)
    assert await world.milestones(game_id) == []
    nobody = await module_stack.consumer("GET", f"/games/{game_id}/milestones")
    assert (nobody.http, nobody.reason) == (401, "TOKEN_MISSING")


async def test_rungs_come_in_pages_like_any_collection(world: World, module_stack: Stack) -> None:
    prize_id = await world.prize()
    rungs = [rung(f"rung_{n}", n, prize_id) for n in range(1, 6)]
    path = f"/games/{await world.game(COLLECTION, COINS, milestones=block(*rungs))}/milestones"
    seen, cursor = [], ""
    while True:
        page = (await module_stack.consumer("GET", path, player="ann", limit=2, cursor=cursor)).data
        seen.append([item["id"] for item in page["items"]])
        cursor = page["pagination"]["next_cursor"]
        if not page["pagination"]["has_more"]:
            break
    assert seen == [["rung_1", "rung_2"], ["rung_3", "rung_4"], ["rung_5"]]
