import time
from typing import Any

import pytest

from runtime.operations.files import kinds
from tests.support.guests import guest_who_played
from tests.support.operations import make_merchant
from tests.support.resources import block, make_campaign, rung
from tests.support.stack import Answer, Stack, fields_of, refused
from tests.support.world import COINS, COLLECTION, World


async def collection(world: World, prize_id: str, *, mode: str = "SPEND_EXCHANGE", threshold: int = 3) -> str:
    rungs = block(rung("mug", threshold, prize_id), mode=mode, auto_grant=False)
    return await world.game(COLLECTION, COINS, milestones=rungs)


async def earn(world: World, game_id: str, plays: int, player: str = "ann") -> None:
    for _ in range(plays):
        await world.round(game_id, player)


async def coins(world: World, player: str = "ann") -> int:
    query = "SELECT balance FROM balances WHERE player_id = $1 AND scope_key = $2 AND currency = 'coin'"
    return int(await world.database.fetchval(query, player, world.campaign_id) or 0)


TIMES = ("won_at", "claimed_at", "fulfilled_at", "expires_at")
CLAIMED = {"fulfillment": {"redemption_mode": "on_claim"}, "claim_fields": [{"key": "size", "label": "Size"}]}
WEBHOOK = {"channel": "webhook", "config": {"url": "https://hooks.example/x"}}


@pytest.mark.parametrize(
    "prize",
    [
        {"type": "goods", "value": 5, "expires_after_days": 7},
        {"type": "goods", "expires_after_days": 1, **CLAIMED},
        *({"type": "points", "value": 40, "expires_after_days": 7}, {"type": "turns", "value": 2}),
        {"type": "goods", "fulfillment": WEBHOOK},
        {"type": "voucher", "codes": ["CUP-1"]},
    ],
    ids=("delivered", "claimable", "points", "turns", "webhook", "voucher"),
)
async def test_redeem_answers_the_reward_as_read(world: World, module_stack: Stack, prize: dict[str, Any]) -> None:
    prize_id = await world.prize(**prize, description="Holds tea.")
    game_id = await collection(world, prize_id)
    await earn(world, game_id, 2)
    reply = (await world.redeem(game_id, "mug", key="k")).data["reward"]
    same = {"player_id": "ann", "milestone_id": "mug", "idempotency_key": "k"}
    again = (await module_stack.core("POST", f"/games/{game_id}/redeem", same)).data["reward"]
    assert again["code"] == reply["code"] == (prize.get("codes") or [""])[0]
    assert again["prize"] == reply["prize"] and reply["prize"]["description"] == "Holds tea."
    (read,) = (await module_stack.consumer("GET", "/rewards/me", player="ann", prize=prize_id)).data["items"]
    if reply["status"] == "REWARD_STATUS_WON" and read["status"] == "REWARD_STATUS_FULFILLING":
        read["status"] = reply["status"]  # Its delivery has begun meanwhile.
    for name in TIMES:
        assert bool(reply[name]) == bool(read[name]) and abs(reply.pop(name) - read.pop(name)) <= 2, name
    assert reply == read
    if prize.get("fulfillment") == WEBHOOK:
        task = await world.database.fetchval("SELECT status FROM tasks WHERE reward_id = $1", reply["id"])
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
    game_id = await collection(world, await world.prize(total=3))
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
    assert (await revoke(world, (await world.redeem(game_id, "mug", "cum")).data["reward"]["id"])).http == 200
    assert await coins(world, "cum") == 6


async def test_revoke_of_spent_points_is_refused(world: World, module_stack: Stack) -> None:
    game_id = await collection(world, await world.prize(type="points", value=40))
    await earn(world, game_id, 2, "poi")
    reward = (await world.redeem(game_id, "mug", "poi")).data["reward"]
    spent = {"player_id": "poi", "scope_key": world.campaign_id, "currency": "points", "amount": -30}
    assert (await module_stack.core("POST", "/wallet/adjustments", spent)).http == 200
    assert refused(await revoke(world, reward["id"])) == (400, "FAILED_PRECONDITION", "INSUFFICIENT_BALANCE")
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
        *((game, {"milestones": {"rungs": []}}), (game, {"access": "GAME_ACCESS_PLAYER"})),
        *((game, {"status": "GAME_STATUS_PAUSED"}), (campaign, {"merchant_id": merchant_id})),
        (f"merchants/{merchant_id}", {"status": "MERCHANT_STATUS_SUSPENDED"}),
        *(("players/again", {"status": "PLAYER_STATUS_SUSPENDED"}), (game, {"status": "GAME_STATUS_DRAFT"})),
        *((game, {"status": "GAME_STATUS_ARCHIVED"}), (campaign, {"status": "CAMPAIGN_STATUS_PAUSED"})),
        *((campaign, {"status": "CAMPAIGN_STATUS_DRAFT"}), (campaign, {"status": "CAMPAIGN_STATUS_ENDED"})),
    ]
    for path, change in changes:
        assert (await module_stack.admin("PUT", f"/admin/{path}", change)).http == 200, change
        for who in ("again", guest.player_id):
            again = await world.redeem(game_id, "mug", who)
            assert refused(again) == (409, "ALREADY_EXISTS", "ALREADY_GRANTED"), (change, who)


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
        *((0, 0.0, "MILESTONE_STATUS_LOCKED", 0), (2, 0.5, "MILESTONE_STATUS_LOCKED", 0)),
        (4, 1.0, "MILESTONE_STATUS_CLAIMABLE", 0),
    ]


HOUR, DAY = 3_600, 86_400


def ago(seconds: int) -> int:
    return int(time.time()) - seconds


async def earned(world: World, *, players: tuple[str, ...] = ("ann",), **fields: Any) -> str:
    prize_id = await world.prize(**fields)
    rungs = block(rung("one", 2, prize_id), rung("two", 2, prize_id), auto_grant=False)
    game_id = await world.game(COLLECTION, COINS, milestones=rungs)
    for player in players:
        await world.round(game_id, player)
    return game_id


async def put(stack: Stack, world: World, **fields: Any) -> dict[str, Any]:
    return dict((await stack.admin("PUT", f"/admin/campaigns/{world.campaign_id}", fields)).data)


@pytest.mark.parametrize("ended", ["by its date", "by hand", "paused before its date"])
async def test_redeem_is_open_after_the_end_until_redeem_until(own_world: World, stack: Stack, ended: str) -> None:
    game_id = await earned(own_world, total=1)
    until = ago(-HOUR)
    if ended == "by hand":
        await put(stack, own_world, status="CAMPAIGN_STATUS_ENDED", redeem_until=until)
    else:
        paused = {"status": "CAMPAIGN_STATUS_PAUSED"} if ended.startswith("paused") else {}
        await put(stack, own_world, end_date=ago(HOUR), redeem_until=until, **paused)
    assert refused(await own_world.start(game_id)) == (400, "FAILED_PRECONDITION", "CAMPAIGN_CLOSED")
    assert (await own_world.redeem(game_id, "one")).data["milestone"]["status"] == "MILESTONE_STATUS_GRANTED"
    assert (await own_world.redeem(game_id, "two")).reason == "OUT_OF_STOCK"
    assert (await own_world.redeem(game_id, "one")).reason == "ALREADY_GRANTED"


async def test_claim_is_open_after_redeem_until(own_world: World, stack: Stack) -> None:
    """Claims know no end but the reward's own, `expires_at`."""
    claimed = {"channel": "none", "redemption_mode": "REDEMPTION_MODE_ON_CLAIM"}
    (won,) = (await own_world.round(await own_world.wheel(await own_world.prize(fulfillment=claimed)))).data["rewards"]
    await put(stack, own_world, end_date=ago(2 * HOUR), redeem_until=ago(HOUR))
    claim = await stack.consumer("POST", f"/rewards/{won['reward_id']}/claim", {}, player="ann")
    assert claim.data["status"] == "REWARD_STATUS_FULFILLED"


@pytest.mark.parametrize(
    "fields",
    [
        {"end_date": 2_000_000_000, "redeem_until": 1_999_999_999},
        *({"start_date": 2_000_000_000, "redeem_until": 1_999_999_999}, {"redeem_until": -1}),
        {"redeem_until": 10**15},
    ],
)
async def test_redeem_until_before_the_end_is_refused(stack: Stack, fields: dict[str, Any]) -> None:
    assert fields_of(await stack.admin("POST", "/admin/campaigns", {"name": "Autumn", **fields})) == ["redeem_until"]
    made = await make_campaign(stack)
    assert fields_of(await stack.admin("PUT", f"/admin/campaigns/{made['id']}", fields)) == ["redeem_until"]
    dated = await make_campaign(stack, end_date=1_000, redeem_until=1_000)
    assert (await stack.admin("PUT", f"/admin/campaigns/{dated['id']}", {"name": "On"})).data["redeem_until"] == 1_000
    early = await make_campaign(stack, end_date=ago(-HOUR), redeem_until=ago(-2 * HOUR))
    later = await stack.admin("PUT", f"/admin/campaigns/{early['id']}", {"end_date": ago(-DAY)})
    assert fields_of(later) == ["redeem_until"]


def test_redeem_until_is_a_date_in_campaign_files() -> None:
    assert "redeem_until" in kinds.CAMPAIGN.settable and "redeem_until" in kinds.TIMES
