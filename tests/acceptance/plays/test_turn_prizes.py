"""Prizes of turns: won by plays, rungs and ranks, given by the win's commit, taken back where they are left."""

from __future__ import annotations

from typing import Any

from tests.support.guests import rewards_of
from tests.support.leaderboards import make_board
from tests.support.milestones import block, rung
from tests.support.stack import Answer, Stack, fields_of
from tests.support.world import COINS, COLLECTION, World

FULFILLED = "REWARD_STATUS_FULFILLED"


async def three_turns(world: World, **fields: Any) -> str:
    return await world.prize(name="Three turns", type="turns", value=3, **fields)


async def turns_of(world: World, player: str) -> int:
    items = (await world.stack.consumer("GET", "/players/me/turns", player=player)).data["items"]
    return sum(row["balance"] for row in items if row["campaign_id"] == world.campaign_id)


async def entries_of(world: World, player: str) -> list[tuple[int, int, str, str]]:
    """(amount, balance after, reason, reference) of each, the oldest first."""
    items = (await world.stack.admin("GET", f"/admin/players/{player}/turns/ledger")).data["items"]
    named = [(row["amount"], row["balance_after"], row["reason"], row["reference_id"]) for row in items]
    return [(amount, after, reason.removeprefix("TURN_REASON_"), about) for amount, after, reason, about in named][::-1]


async def revoke(world: World, reward_id: str) -> Answer:
    return await world.stack.admin("POST", f"/admin/rewards/{reward_id}/revoke", {"reason": "a cheat"})


async def test_turns_spent_and_won_by_one_play_add_up(world: World) -> None:
    prize_id = await three_turns(world, total=5)
    game_id = await world.wheel(prize_id, rules={"requires_turn": True})
    await world.turns("ann", 1)
    played = (await world.round(game_id)).data
    (won,) = played["rewards"]
    assert {name: won[name] for name in ("prize_id", "name", "type", "quantity", "value")} == {
        "prize_id": prize_id,
        "name": "Three turns",
        "type": "turns",
        "quantity": 1,
        "value": 3,
    }
    assert await turns_of(world, "ann") == (await world.eligibility(game_id))["remaining_turns"] == 3
    spent, given = (await entries_of(world, "ann"))[-2:]
    assert {spent, given} == {(-1, 0, "PLAY", played["play_id"]), (3, 3, "PRIZE", won["reward_id"])}
    (reward,) = await rewards_of(world.stack, "ann")
    assert (reward["id"], reward["status"], reward["play_id"]) == (won["reward_id"], FULFILLED, played["play_id"])
    assert await world.stock(prize_id) == (4, 1)
    replayed = await world.replay(played["play_id"])
    assert replayed.matches
    await world.check()


async def test_turns_cost_a_play_no_further_round_trip(world: World) -> None:
    games = [await world.wheel(prize) for prize in (await world.prize(total=99), await three_turns(world, total=99))]
    trips = []
    for game_id in games:
        await world.round(game_id)
        each = []
        for _ in range(4):
            session = await world.session(game_id)
            before = world.database.round_trips
            assert (await world.play(game_id, session)).data["rewards"]
            each.append(world.database.round_trips - before)
        trips.append(min(each))  # A background task may add to one of them.
    assert trips[0] == trips[1]


async def test_turns_are_given_by_rungs(world: World) -> None:
    prize_id = await three_turns(world)
    crossed = await world.game(COLLECTION, COINS, milestones=block(rung("up", 2, prize_id)))
    played = (await world.round(crossed)).data
    (granted,) = played["milestones_granted"]
    assert (await entries_of(world, "ann"))[-1] == (3, 3, "PRIZE", granted["reward_id"])
    shop = await world.game(
        COLLECTION, COINS, milestones=block(rung("buy", 2, prize_id), auto_grant=False, mode="SPEND_EXCHANGE")
    )
    await world.round(shop)
    bought = (await world.redeem(shop, "buy")).data["reward"]
    assert (bought["type"], bought["value"], bought["status"]) == ("turns", 3, FULFILLED)
    assert await turns_of(world, "ann") == 6
    assert (await revoke(world, bought["id"])).data["status"] == "REWARD_STATUS_REVOKED"
    held = (await world.stack.consumer("GET", "/wallet", player="ann", scope_key=world.campaign_id)).data["items"]
    assert (await turns_of(world, "ann"), held[0]["balance"]) == (3, 4)
    await world.check()


async def test_turns_are_given_by_rank(world: World) -> None:
    prize_id = await three_turns(world)
    ranks = [{"from_rank": 1, "to_rank": 2, "prize_id": prize_id}]
    board = await make_board(world.stack, world.campaign_id, metric="plays", prizes=ranks)
    game_id = await world.wheel()
    await world.turns("first", 2)
    for player in ("first", "first", "second", "third", "second", "first"):
        await world.round(game_id, player)
    done = await world.stack.admin("POST", f"/admin/leaderboards/{board['id']}/finalize", {})
    rewards = [row["reward_id"] for row in done.data["standings"]]
    assert (await entries_of(world, "first"))[-1] == (3, 5, "PRIZE", rewards[0])
    assert (await entries_of(world, "second")) == [(3, 3, "PRIZE", rewards[1])]
    assert await turns_of(world, "third") == 0
    again = await world.stack.admin("POST", f"/admin/leaderboards/{board['id']}/finalize", {})
    assert again.data["standings"] == done.data["standings"]
    assert await turns_of(world, "first") == 5
    await world.check()


async def test_prize_that_could_give_no_turns_is_refused(module_stack: Stack) -> None:
    named = []
    wrongs: tuple[dict[str, Any], ...] = (
        *({"value": value} for value in (0, 1001, 2.5)),
        *({"fulfillment": wrong} for wrong in ({"channel": "manual"}, {"redemption_mode": "on_claim"})),
    )
    for wrong in wrongs:
        body = {"name": "Turns", "type": "turns", "value": 3, **wrong}
        made = await module_stack.admin("POST", "/admin/prizes", body)
        goods = await module_stack.admin("POST", "/admin/prizes", {**body, "type": "goods"})
        become = await module_stack.admin("PUT", f"/admin/prizes/{goods.data['id']}", {"type": "turns"})
        assert fields_of(made) == fields_of(become), wrong
        named += fields_of(made)
    assert named == ["value"] * 3 + ["fulfillment.channel", "fulfillment.redemption_mode"]
