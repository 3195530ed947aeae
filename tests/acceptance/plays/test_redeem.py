"""POST /games/{id}/redeem: a rung claimed or bought, once, and never at a loss."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.guests import guest_who_played
from tests.support.milestones import block, rung
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


async def test_adjustment_after_a_refused_redeem_counts(world: World, module_stack: Stack) -> None:
    game_id = await collection(world, await world.prize())
    await earn(world, game_id, 1, "rich")
    assert (await world.redeem(game_id, "mug", "rich")).reason == "THRESHOLD_NOT_REACHED"
    body = {"player_id": "rich", "scope_key": world.campaign_id, "currency": "coin", "amount": 1}
    assert (await module_stack.core("POST", "/wallet/adjustments", body)).http == 200
    assert (await world.redeem(game_id, "mug", "rich")).http == 200


TIMES = ("won_at", "claimed_at", "fulfilled_at", "expires_at")
CLAIMED = {"fulfillment": {"redemption_mode": "on_claim"}, "claim_fields": [{"key": "size", "label": "Size"}]}
WEBHOOK = {"channel": "webhook", "config": {"url": "https://hooks.example/x"}}


@pytest.mark.parametrize(
    "prize",
    [
        {"type": "goods", "value": 5, "expires_after_days": 7},
        {"type": "goods", "expires_after_days": 1, **CLAIMED},
        {"type": "points", "value": 40, "expires_after_days": 7},
        {"type": "turns", "value": 2},
        {"type": "goods", "fulfillment": WEBHOOK},
    ],
    ids=("delivered", "claimable", "points", "turns", "webhook"),
)
async def test_redeem_answers_the_reward_as_it_is_read(
    world: World, module_stack: Stack, prize: dict[str, Any]
) -> None:
    prize_id = await world.prize(**prize, description="Holds tea.")
    game_id = await collection(world, prize_id)
    await earn(world, game_id, 2)
    told = (await world.redeem(game_id, "mug", key="k")).data["reward"]
    same = {"player_id": "ann", "milestone_id": "mug", "idempotency_key": "k"}
    again = (await module_stack.core("POST", f"/games/{game_id}/redeem", same)).data["reward"]
    assert again["prize"] == told["prize"] and told["prize"]["description"] == "Holds tea."
    (read,) = (await module_stack.consumer("GET", "/rewards/me", player="ann", prize=prize_id)).data["items"]
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
