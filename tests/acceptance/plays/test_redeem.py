"""POST /games/{id}/redeem: a rung claimed or bought, once, and never at a loss."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.support.guests import guest_who_played
from tests.support.milestones import block, rung, statuses
from tests.support.operations import make_merchant
from tests.support.stack import Answer, Stack, refused
from tests.support.world import COINS, COLLECTION, World


async def collection(world: World, prize_id: str, *, mode: str = "SPEND_EXCHANGE", threshold: int = 3) -> str:
    """The id of a game with one rung, "mug", of `threshold` coins; a play gives 2."""
    rungs = block(rung("mug", threshold, prize_id), mode=mode, auto_grant=False)
    return await world.game(COLLECTION, COINS, milestones=rungs)


async def earn(world: World, game_id: str, plays: int, player: str = "ann") -> None:
    for _ in range(plays):
        await world.round(game_id, player)


async def coins(world: World, player: str = "ann") -> int:
    balance = await world.database.fetchval(
        "SELECT balance FROM balances WHERE player_id = $1 AND scope_key = $2 AND currency = 'coin'",
        player,
        world.campaign_id,
    )
    return int(balance or 0)


async def test_exchange_spends_the_threshold_and_gives_the_prize(world: World, module_stack: Stack) -> None:
    prize_id = await world.prize(name="Mug", type="goods", value=5, total=1)
    game_id = await collection(world, prize_id)
    await earn(world, game_id, 2, "eve")
    told = (await world.redeem(game_id, "mug", "eve")).data
    assert told["balances"] == [{"currency": "coin", "balance": 1}]
    assert (told["milestone"]["id"], told["milestone"]["status"]) == ("mug", "MILESTONE_STATUS_GRANTED")
    assert told["milestone"]["granted_at"] > 0
    reward = told["reward"]
    assert (reward["prize_id"], reward["name"], reward["status"]) == (prize_id, "Mug", "REWARD_STATUS_FULFILLED")
    (mine,) = (await module_stack.consumer("GET", "/rewards/me", player="eve")).data["items"]
    assert (mine["id"], mine["milestone_id"], mine["game_id"]) == (reward["id"], "mug", game_id)
    entry = (await module_stack.consumer("GET", "/wallet/ledger", player="eve")).data["items"][0]
    assert (entry["amount"], entry["balance_after"], entry["reason"]) == (-3, 1, "LEDGER_REASON_MILESTONE_SPEND")
    assert await world.stock(prize_id) == (0, 1)


async def test_redeem_of_an_unlocked_rung_costs_nothing(world: World) -> None:
    game_id = await collection(world, await world.prize(), mode="CUMULATIVE_UNLOCK")
    await earn(world, game_id, 2)
    told = (await world.redeem(game_id, "mug")).data
    assert told["balances"] == [{"currency": "coin", "balance": 4}]
    assert await statuses(world, game_id) == {"mug": "GRANTED"}


async def test_redeem_below_the_threshold_is_refused_and_costs_nothing(world: World) -> None:
    game_id = await collection(world, await world.prize())
    await earn(world, game_id, 1)
    answer = await world.redeem(game_id, "mug")
    assert refused(answer) == (400, "FAILED_PRECONDITION", "THRESHOLD_NOT_REACHED")
    assert (answer.envelope["data"]["balance"], answer.envelope["data"]["threshold"]) == (2, 3)
    assert await coins(world) == 2
    rungs = block(rung("gem", 1, await world.prize(), currency="gem"), auto_grant=False)
    none = await world.redeem(await world.game(COLLECTION, COINS, milestones=rungs), "gem")
    assert (none.reason, none.envelope["data"]["balance"]) == ("THRESHOLD_NOT_REACHED", 0)


async def test_adjustment_after_a_refused_redeem_counts(world: World, module_stack: Stack) -> None:
    game_id = await collection(world, await world.prize())
    await earn(world, game_id, 1, "rich")
    assert (await world.redeem(game_id, "mug", "rich")).reason == "THRESHOLD_NOT_REACHED"
    body = {"player_id": "rich", "scope_key": world.campaign_id, "currency": "coin", "amount": 1}
    assert (await module_stack.core("POST", "/wallet/adjustments", body)).http == 200
    assert (await world.redeem(game_id, "mug", "rich")).http == 200


async def test_redeem_by_a_guest_is_refused_on_a_players_game(world: World, module_stack: Stack) -> None:
    rungs = block(rung("mug", 2, await world.prize()), auto_grant=False)
    game_id = await world.game(COLLECTION, COINS, milestones=rungs, access="public")
    guest = await guest_who_played(world, game_id)
    change = {"access": "GAME_ACCESS_PLAYER"}
    assert (await module_stack.admin("PUT", f"/admin/games/{game_id}", change)).http == 200
    answer = await world.redeem(game_id, "mug", guest.player_id)
    assert refused(answer) == (403, "PERMISSION_DENIED", "LOGIN_REQUIRED")
    change = {"access": "GAME_ACCESS_PUBLIC"}
    assert (await module_stack.admin("PUT", f"/admin/games/{game_id}", change)).http == 200
    assert (await world.redeem(game_id, "mug", guest.player_id)).http == 200


async def test_redeem_out_of_stock_costs_nothing(world: World) -> None:
    game_id = await collection(world, await world.prize(total=1))
    await earn(world, game_id, 2, "ann")
    await earn(world, game_id, 2, "bob")
    assert (await world.redeem(game_id, "mug", "ann")).http == 200
    answer = await world.redeem(game_id, "mug", "bob")
    assert refused(answer) == (400, "FAILED_PRECONDITION", "OUT_OF_STOCK")
    assert answer.envelope["message"] == "this milestone's prize is out of stock"
    assert await coins(world, "bob") == 4
    assert await statuses(world, game_id, "bob") == {"mug": "CLAIMABLE"}


async def test_redeem_beyond_a_prize_cap_is_refused_with_its_reset_time(world: World) -> None:
    mine, daily = [await world.prize(constraints={name: 1}) for name in ("max_per_user", "max_per_day")]
    midnight = (int(time.time()) // 86400 + 1) * 86400
    for prize_id, second, reason, resets_at in (
        (mine, "cap_ann", "CAP_USER", 0),
        (daily, "cap_bob", "CAP_DAY", midnight),
    ):
        first_game, game_id = await collection(world, prize_id), await collection(world, prize_id)
        await earn(world, first_game, 4, "cap_ann")
        assert (await world.redeem(first_game, "mug", "cap_ann")).http == 200
        await earn(world, game_id, 2, second)
        before = await coins(world, second)
        answer = await world.redeem(game_id, "mug", second)
        assert refused(answer) == (400, "FAILED_PRECONDITION", reason)
        said = answer.envelope["data"]
        assert (said["limit"], said["resets_at"]) == (1, resets_at)
        assert await coins(world, second) == before
        assert await statuses(world, game_id, second) == {"mug": "CLAIMABLE"}
    await world.database.execute("UPDATE prize_days SET day = day - 1 WHERE prize_id = $1", daily)
    assert (await world.redeem(game_id, "mug", "cap_bob")).http == 200


async def test_redeem_of_an_empty_code_pool_is_out_of_stock(world: World, module_stack: Stack) -> None:
    prize_id = await world.prize(fulfillment={"channel": "voucher_code"})
    game_id = await collection(world, prize_id)
    await earn(world, game_id, 2, "kay")
    assert (await world.redeem(game_id, "mug", "kay")).reason == "OUT_OF_STOCK"
    await module_stack.admin("POST", f"/admin/prizes/{prize_id}/codes", {"codes": ["R-1"]})
    reward = (await world.redeem(game_id, "mug", "kay")).data["reward"]
    (mine,) = (await module_stack.consumer("GET", "/rewards/me", player="kay")).data["items"]
    assert (mine["id"], mine["code"]) == (reward["id"], "R-1")


async def test_redeem_of_points_credits_them_and_leaves_a_reward(world: World, module_stack: Stack) -> None:
    prize_id = await world.prize(type="points", value=40)
    game_id = await collection(world, prize_id)
    await earn(world, game_id, 2)
    told = (await world.redeem(game_id, "mug")).data
    assert told["balances"] == [{"currency": "coin", "balance": 1}, {"currency": "points", "balance": 40}]
    reward = told["reward"]
    assert (reward["type"], reward["status"], reward["prize_id"]) == ("points", "REWARD_STATUS_FULFILLED", prize_id)
    assert reward["milestone_id"] == "mug"
    mine = (await module_stack.consumer("GET", "/rewards/me", player="ann", prize=prize_id)).data["items"]
    assert [(row["id"], row["status"], row["value"]) for row in mine] == [(reward["id"], "REWARD_STATUS_FULFILLED", 40)]
    assert not await world.database.fetchval("SELECT count(*) FROM tasks WHERE reward_id = $1", reward["id"])
    assert refused(await world.redeem(game_id, "mug")) == (409, "ALREADY_EXISTS", "ALREADY_GRANTED")


TIMES = ("won_at", "claimed_at", "fulfilled_at", "expires_at")
WEBHOOK = {"channel": "webhook", "config": {"url": "https://hooks.example/x"}}


@pytest.mark.parametrize(
    "prize",
    [
        {"type": "goods", "value": 5, "expires_after_days": 7},
        {"type": "goods", "expires_after_days": 1, "fulfillment": {"redemption_mode": "on_claim"}},
        {"type": "points", "value": 40, "expires_after_days": 7},
        {"type": "turns", "value": 2},
        {"type": "goods", "fulfillment": WEBHOOK},
    ],
    ids=("delivered", "claimable", "points", "turns", "webhook"),
)
async def test_redeem_answers_the_reward_as_it_is_read(
    world: World, module_stack: Stack, prize: dict[str, Any]
) -> None:
    prize_id = await world.prize(**prize)
    game_id = await collection(world, prize_id)
    await earn(world, game_id, 2)
    told = (await world.redeem(game_id, "mug")).data["reward"]
    (read,) = (await module_stack.consumer("GET", "/rewards/me", player="ann", prize=prize_id)).data["items"]
    assert told.pop("prize") is None and read.pop("prize")["image_url"] == ""
    if told["status"] == "REWARD_STATUS_WON" and read["status"] == "REWARD_STATUS_FULFILLING":
        read["status"] = told["status"]  # Its delivery has begun meanwhile.
    for name in TIMES:
        assert bool(told[name]) == bool(read[name]) and abs(told.pop(name) - read.pop(name)) <= 2, name
    assert told == read
    if prize.get("fulfillment") == WEBHOOK:
        task = await world.database.fetchval("SELECT status FROM tasks WHERE reward_id = $1", told["id"])
        assert task in ("pending", "delivering", "retry")


async def test_redeem_of_an_unknown_rung_or_game_is_refused(world: World, module_stack: Stack) -> None:
    game_id = await collection(world, await world.prize())
    assert refused(await world.redeem(game_id, "none")) == (404, "NOT_FOUND", "UNKNOWN_MILESTONE")
    assert refused(await world.redeem("game_none", "mug")) == (404, "NOT_FOUND", "UNKNOWN_GAME")
    assert refused(await world.redeem(game_id, "")) == (400, "INVALID_ARGUMENT", "VALIDATION")
    assert refused(await world.redeem(game_id, "mug", player="")) == (401, "UNAUTHENTICATED", "TOKEN_MISSING")
    paused = await collection(world, await world.prize())
    await module_stack.admin("PUT", f"/admin/games/{paused}", {"status": "GAME_STATUS_PAUSED"})
    assert (await world.redeem(paused, "mug")).reason == "GAME_INACTIVE"


async def test_key_redeems_once_and_answers_the_same(world: World, module_stack: Stack) -> None:
    game_id = await collection(world, await world.prize())
    await earn(world, game_id, 4)
    answers = await asyncio.gather(*(world.redeem(game_id, "mug", key="r1") for _ in range(30)))
    assert {answer.http for answer in answers} <= {200, 409}
    assert {answer.reason for answer in answers if answer.http == 409} <= {"IDEMPOTENCY_IN_PROGRESS"}
    replayed = await world.redeem(game_id, "mug", key="r1")
    assert all(answer.data == replayed.data for answer in answers if answer.http == 200)
    assert await coins(world) == 5
    other = await world.redeem(game_id, "other", key="r1")
    assert refused(other) == (422, "INVALID_ARGUMENT", "IDEMPOTENCY_MISMATCH")
    # Core knows it too, from its row alone.
    body = {"player_id": "ann", "milestone_id": "mug", "idempotency_key": "r1"}
    core = (await module_stack.core("POST", f"/games/{game_id}/redeem", body)).data
    assert core["reward"]["id"] == replayed.data["reward"]["id"]


async def revoke(world: World, reward_id: str) -> Answer:
    return await world.stack.admin("POST", f"/admin/rewards/{reward_id}/revoke", {"reason": "a cheat"})


async def test_revoke_of_a_purchase_pays_back_and_keeps_the_rung_granted(world: World, module_stack: Stack) -> None:
    prize_id = await world.prize(total=3)
    game_id = await collection(world, prize_id)
    await earn(world, game_id, 3, "rev")
    reward = (await world.redeem(game_id, "mug", "rev")).data["reward"]
    assert await coins(world, "rev") == 3
    assert (await revoke(world, reward["id"])).data["status"] == "REWARD_STATUS_REVOKED"
    assert await coins(world, "rev") == 6
    newest = (await module_stack.consumer("GET", "/wallet/ledger", player="rev", limit=1)).data["items"][0]
    assert (newest["amount"], newest["reason"], newest["reference_id"]) == (3, "LEDGER_REASON_REVERSAL", reward["id"])
    assert refused(await revoke(world, reward["id"])) == (400, "FAILED_PRECONDITION", "ILLEGAL_TRANSITION")
    assert await coins(world, "rev") == 6
    assert (await world.redeem(game_id, "mug", "rev")).reason == "ALREADY_GRANTED"


async def test_revoke_of_an_unlocked_rung_pays_nothing_back(world: World) -> None:
    game_id = await collection(world, await world.prize(), mode="CUMULATIVE_UNLOCK")
    await earn(world, game_id, 3, "cum")
    reward = (await world.redeem(game_id, "mug", "cum")).data["reward"]
    assert (await revoke(world, reward["id"])).http == 200
    assert await coins(world, "cum") == 6


async def test_revoke_of_spent_points_is_refused(world: World, module_stack: Stack) -> None:
    game_id = await collection(world, await world.prize(type="points", value=40))
    await earn(world, game_id, 2, "poi")
    reward = (await world.redeem(game_id, "mug", "poi")).data["reward"]
    spent = {"player_id": "poi", "scope_key": world.campaign_id, "currency": "points", "amount": -30}
    assert (await module_stack.core("POST", "/wallet/adjustments", spent)).http == 200
    answer = await revoke(world, reward["id"])
    assert refused(answer) == (400, "FAILED_PRECONDITION", "INSUFFICIENT_BALANCE")
    assert await coins(world, "poi") == 1
    assert (await module_stack.core("POST", "/wallet/adjustments", {**spent, "amount": 30})).http == 200
    assert (await revoke(world, reward["id"])).http == 200
    assert await coins(world, "poi") == 4


async def test_revokes_at_once_pay_back_once(world: World) -> None:
    game_id = await collection(world, await world.prize())
    await earn(world, game_id, 3, "twin")
    reward = (await world.redeem(game_id, "mug", "twin")).data["reward"]
    answers = await asyncio.gather(
        *(revoke(world, reward["id"]) for _ in range(10)), *(world.round(game_id, "twin") for _ in range(10))
    )
    assert sum(answer.http == 200 for answer in answers[:10]) == 1
    assert await coins(world, "twin") == 6 + 20


async def test_second_redeem_is_rejected_after_any_change_of_the_game(world: World, module_stack: Stack) -> None:
    merchant_id = await make_merchant(module_stack)
    rungs = block(rung("mug", 3, await world.prize()), auto_grant=False)
    game_id = await world.game(COLLECTION, COINS, milestones=rungs, access="public")
    guest = await guest_who_played(world, game_id)
    session = (await world.start(game_id, "", **guest.bearer)).data["session_id"]
    assert (await world.play(game_id, session, "")).code == "OK"
    await earn(world, game_id, 2, "again")
    for who in ("again", guest.player_id):
        assert (await world.redeem(game_id, "mug", who)).http == 200
    game, campaign = f"games/{game_id}", f"campaigns/{world.campaign_id}"
    changes: list[tuple[str, dict[str, Any]]] = [
        (game, {"milestones": {"rungs": []}}),
        (game, {"access": "GAME_ACCESS_PLAYER"}),
        (game, {"status": "GAME_STATUS_PAUSED"}),
        (campaign, {"merchant_id": merchant_id}),
        (f"merchants/{merchant_id}", {"status": "MERCHANT_STATUS_SUSPENDED"}),
        ("players/again", {"status": "PLAYER_STATUS_SUSPENDED"}),
        (game, {"status": "GAME_STATUS_DRAFT"}),
        (game, {"status": "GAME_STATUS_ARCHIVED"}),
        (campaign, {"status": "CAMPAIGN_STATUS_PAUSED"}),
        (campaign, {"status": "CAMPAIGN_STATUS_DRAFT"}),
        (campaign, {"status": "CAMPAIGN_STATUS_ENDED"}),
    ]
    for path, change in changes:
        assert (await module_stack.admin("PUT", f"/admin/{path}", change)).http == 200, change
        for who in ("again", guest.player_id):
            again = await world.redeem(game_id, "mug", who)
            assert refused(again) == (409, "ALREADY_EXISTS", "ALREADY_GRANTED"), (change, who)
