"""Farmers spend as guests and log in: a merge gives back no more than it takes, and takes no more than was won."""

from collections import Counter
from typing import Any

import pytest

from tests.support.guests import Guest, guest_who_played, log_in, rewards_of, wallet_of
from tests.support.milestones import block, rung
from tests.support.stack import Stack, refused
from tests.support.world import COINS, COLLECTION, World

GUESTS = 3
ON_CLAIM = {"redemption_mode": "on_claim", "channel": "none"}
POINTS = 50
"""Of the rung `points`, which costs two coins: what one play credits."""


async def exchange(world: World, *rungs: dict[str, Any]) -> str:
    points = await world.prize(type="points", value=POINTS)
    sold = block(rung("points", 2, points), *rungs, auto_grant=False, mode="SPEND_EXCHANGE")
    return await world.game(COLLECTION, COINS, access="public", milestones=sold)


async def buy(world: World, game_id: str, who: str, *rungs: str) -> None:
    for name in rungs:
        assert (await world.redeem(game_id, name, who)).code == "OK"


async def player_who_bought(world: World, game_id: str, *rungs: str) -> str:
    player = await log_in(world.stack)
    await world.round(game_id, player)
    await buy(world, game_id, player, *rungs)
    return player


async def guest_who_bought(world: World, game_id: str, *rungs: str) -> Guest:
    guest = await guest_who_played(world, game_id)
    await buy(world, game_id, guest.player_id, *rungs)
    return guest


async def adjust(world: World, player: str, points: int) -> None:
    wallet = {"player_id": player, "scope_key": world.campaign_id, "currency": "points", "reference_id": "r"}
    assert (await world.stack.admin("POST", "/admin/wallet/adjustments", {**wallet, "amount": points})).code == "OK"


async def test_purchases_of_guest_points_are_refunded_before_points_are_taken(own_world: World, stack: Stack) -> None:
    mug = await own_world.prize(total=9, fulfillment=ON_CLAIM)
    game_id = await exchange(own_world, rung("mug", POINTS, mug, "points"))
    player = await player_who_bought(own_world, game_id, "points", "mug")
    for nth in range(1, GUESTS + 1):
        assert await log_in(stack, await guest_who_bought(own_world, game_id, "points", "mug")) == player
        assert await wallet_of(stack, player) == {"coin": 2 * nth, "points": 0}
    assert len(await rewards_of(stack, player)) == 2
    assert await own_world.stock(mug) == (8, 1)


async def test_price_is_refunded_only_with_the_points_that_it_bought(own_world: World, stack: Stack) -> None:
    game_id = await exchange(own_world, rung("mug", POINTS, await own_world.prize(total=9), "points"))
    player = await player_who_bought(own_world, game_id, "points", "mug")
    for _ in range(GUESTS):
        assert await log_in(stack, await guest_who_bought(own_world, game_id, "points", "mug")) == player
        assert await wallet_of(stack, player) == {"coin": 0, "points": 0}
    assert len(await rewards_of(stack, player)) == 2


async def test_price_of_half_spent_points_is_half_refunded(own_world: World, stack: Stack) -> None:
    game_id = await exchange(own_world, rung("pin", POINTS // 2, await own_world.prize(), "points"))
    player = await player_who_bought(own_world, game_id, "points")
    assert await wallet_of(stack, player) == {"coin": 0, "points": POINTS}
    await buy(own_world, game_id, player, "pin")
    await adjust(own_world, player, -POINTS // 2)
    guest = await guest_who_bought(own_world, game_id, "points", "pin")
    assert await log_in(stack, guest) == player
    assert await wallet_of(stack, player) == {"coin": 1, "points": 0}


async def test_unspent_points_of_a_rung_are_taken_back(own_world: World, stack: Stack) -> None:
    ten = await own_world.prize(type="points", value=10)
    free = await own_world.game(COLLECTION, COINS, access="public", milestones=block(rung("ten", 2, ten)))
    pin, jar = await own_world.prize(), await own_world.prize()
    shop = await exchange(own_world, rung("pin", 4, pin, "points"), rung("jar", 10, jar, "points"))
    player = await log_in(stack)
    await own_world.round(free, player)
    await buy(own_world, shop, player, "jar")
    guest = await guest_who_played(own_world, free)
    await buy(own_world, shop, guest.player_id, "pin")
    assert await log_in(stack, guest) == player
    assert await wallet_of(stack, player) == {"coin": 4, "points": 0}


async def test_points_are_taken_back_at_what_they_were_won_for(own_world: World, stack: Stack) -> None:
    prize_id = await own_world.prize(type="points", value=10, constraints={"max_per_user": 1})
    wheel = await own_world.wheel(prize_id, access="public")
    player = await log_in(stack)
    await own_world.round(wheel, player)
    await adjust(own_world, player, 500)
    for value in (1_000, 1):
        guest = await guest_who_played(own_world, wheel)
        assert (await stack.admin("PUT", f"/admin/prizes/{prize_id}", {"value": value})).code == "OK"
        assert await log_in(stack, guest) == player
        back = await stack.admin("PUT", f"/admin/prizes/{prize_id}", {"value": 10})
        assert back.code == "OK"
        assert await wallet_of(stack, player) == {"points": 510}


async def test_points_of_two_rungs_are_capped_as_one_players(own_world: World, stack: Stack) -> None:
    capped = await own_world.prize(type="points", value=10, constraints={"max_per_user": 1})
    rungs = block(*(rung(name, 2, capped) for name in ("one", "other")), auto_grant=False, mode="SPEND_EXCHANGE")
    game_id = await own_world.game(COLLECTION, COINS, access="public", milestones=rungs)
    wheel = await own_world.wheel(capped, access="public")
    player = await player_who_bought(own_world, game_id, "one")
    assert await log_in(stack, await guest_who_bought(own_world, game_id, "other")) == player
    assert await wallet_of(stack, player) == {"coin": 2, "points": 10}
    another = "bob@example.com"
    guest = await guest_who_bought(own_world, game_id, "one")
    path = f"/admin/prizes/{capped}"
    assert (await stack.admin("PUT", path, {"constraints": {"max_per_user": 2}})).code == "OK"
    await own_world.round(wheel, guest.player_id)
    assert (await wallet_of(stack, guest.player_id))["points"] == 20
    assert (await stack.admin("PUT", path, {"constraints": {"max_per_user": 1}})).code == "OK"
    other = await log_in(stack, guest, another)
    assert await wallet_of(stack, other) == {"coin": 0, "points": 10}


@pytest.mark.settings(rate_limits=True, rate_guest_per_second=0.001, rate_guest_burst=GUESTS)
async def test_goods_bought_with_free_rung_points_are_kept_by_each_guest(own_world: World, stack: Stack) -> None:
    ten = await own_world.prize(type="points", value=10)
    free = await own_world.game(COLLECTION, COINS, access="public", milestones=block(rung("ten", 2, ten)))
    goods = [rung(f"good{nth}", 10, await own_world.prize(fulfillment=ON_CLAIM), "points") for nth in range(5)]
    shop = await own_world.game(
        COLLECTION, COINS, access="public", milestones=block(*goods, auto_grant=False, mode="SPEND_EXCHANGE")
    )
    player = await log_in(stack)
    for nth in range(GUESTS):
        guest = await guest_who_played(own_world, free)
        await buy(own_world, shop, guest.player_id, f"good{nth}")
        assert len(await rewards_of(stack, guest.player_id)) == 2  # Which it keeps, whether it logs in or not.
        assert await log_in(stack, guest) == player
    won = Counter(row["milestone_id"] for row in await rewards_of(stack, player))
    assert won == {"ten": 1, **{f"good{nth}": 1 for nth in range(GUESTS)}}
    assert await wallet_of(stack, player) == {"coin": 2 * GUESTS, "points": 0}
    assert refused(await own_world.start(free, "")) == (429, "RESOURCE_EXHAUSTED", "RATE_LIMITED")
    await own_world.round(free, player)
    assert (await own_world.redeem(shop, f"good{GUESTS}", player)).reason == "THRESHOLD_NOT_REACHED"
