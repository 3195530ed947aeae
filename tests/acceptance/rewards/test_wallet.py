from dataclasses import replace
from typing import Any

import pytest

from tests.support.invariants import check_sums
from tests.support.operations import make_merchant
from tests.support.resources import make_campaign, make_draw, make_game, make_prize, play_once, wheel
from tests.support.stack import Answer, Stack, refused


async def adjust(stack: Stack, scope_key: str, amount: int, **fields: Any) -> Answer:
    body = {"player_id": "player_1", "scope_key": scope_key, "currency": "points", "amount": amount, **fields}
    return await stack.core("POST", "/wallet/adjustments", body)


async def test_adjustment_with_a_wrong_field_is_refused(stack: Stack) -> None:
    answer = await adjust(stack, "", 0, currency="")
    fields = {row["field"] for row in answer.envelope["data"]["violations"]}
    assert fields == {"scope_key", "currency", "amount"}
    await stack.consumer("GET", "/players/me", player="player_1")
    assert (await adjust(stack, "camp_none", 1)).envelope["data"]["violations"][0]["field"] == "scope_key"
    assert (await adjust(stack, stack.tenant_id, 1, player_id="player_none")).reason == "UNKNOWN_PLAYER"
    less = await adjust(stack, stack.tenant_id, -1)
    assert (less.http, less.reason, less.envelope["data"]["balance"]) == (400, "INSUFFICIENT_BALANCE", 0)
    assert (await adjust(stack, stack.tenant_id, 2**63 - 1)).code == "OK"
    assert (await adjust(stack, stack.tenant_id, 1)).code == "INVALID_ARGUMENT"
    assert (await adjust(stack, stack.tenant_id, 2, currency="of no game")).data["entry"]["balance_after"] == "2"
    await check_sums(stack.database)


MERCHANTS, TENANTS = "WALLET_SCOPE_MERCHANT", "WALLET_SCOPE_TENANT"
KEPT = (400, "FAILED_PRECONDITION", "HAS_HISTORY")
FORBIDDEN = (403, "PERMISSION_DENIED", "FORBIDDEN")


async def test_wallet_scope_of_the_tenant_is_refused_to_a_merchants_staff(stack: Stack) -> None:
    staff = replace(stack, merchant_id=await make_merchant(stack))
    campaign = await make_campaign(staff)
    prize_id = await make_prize(staff, campaign_id=campaign["id"])
    copied, wallet = (
        f"/admin/campaigns/{campaign['id']}/duplicate",
        {"currency": "points", "scope_key": stack.tenant_id},
    )
    draw = {"prizes": [{"prize_id": prize_id, "count": 1}], "randomness": {"kind": "INTERNAL"}, "tickets": wallet}
    for kind, body in (("packs", {"gives": {**wallet, "amount": 1}}), ("draws", draw)):
        made = await stack.admin("POST", f"/admin/{kind}", {"campaign_id": campaign["id"], "name": "N", **body})
        path = f"/admin/{kind}/{made.data['id']}"
        of_pack = [(f"{path}/codes/generate", {"count": 1}), (f"{path}/rotate-secret", {})]
        for act, asked in [(copied, {}), *(of_pack if kind == "packs" else [])]:
            assert refused(await staff.admin("POST", act, asked)) == FORBIDDEN, act
        assert (await stack.admin("DELETE", path)).data
    made = await staff.admin("POST", "/admin/games", wheel(campaign["id"], prize_id, wallet_scope=TENANTS))
    assert refused(made) == FORBIDDEN
    path = f"/admin/games/{(await make_game(staff, campaign['id'], prize_id))['id']}"
    assert refused(await staff.admin("PUT", path, {"wallet_scope": TENANTS})) == FORBIDDEN
    assert (await staff.admin("PUT", path, {"wallet_scope": MERCHANTS})).data
    assert (await stack.admin("PUT", path, {"wallet_scope": TENANTS})).data
    assert refused(await staff.admin("PUT", path, {"name": "More"})) == FORBIDDEN
    assert refused(await staff.admin("POST", copied, {})) == FORBIDDEN
    assert (await stack.admin("POST", copied, {})).data


async def test_wallet_scope_of_the_merchant_requires_a_merchant(stack: Stack) -> None:
    merchant_id, prize_id = await make_merchant(stack), await make_prize(stack)
    campaign = await make_campaign(stack)
    made = await stack.admin("POST", "/admin/games", wheel(campaign["id"], prize_id, wallet_scope=MERCHANTS))
    assert [row["field"] for row in made.envelope["data"]["violations"]] == ["wallet_scope"]
    game = f"/admin/games/{(await make_game(stack, campaign['id'], prize_id))['id']}"
    updated = await stack.admin("PUT", game, {"wallet_scope": MERCHANTS})
    assert [row["field"] for row in updated.envelope["data"]["violations"]] == ["wallet_scope"]
    path = f"/admin/campaigns/{campaign['id']}"
    assert (await stack.admin("PUT", path, {"merchant_id": merchant_id})).data
    assert (await stack.admin("PUT", game, {"wallet_scope": MERCHANTS})).data
    bare = await stack.admin("PUT", path, {"merchant_id": ""})
    assert [row["field"] for row in bare.envelope["data"]["violations"]] == ["merchant_id"]


async def test_wallet_scope_of_a_played_game_cannot_change(stack: Stack) -> None:
    campaign, prize_id = await make_campaign(stack), await make_prize(stack, type="points")
    game = await make_game(stack, campaign["id"], prize_id)
    path = f"/admin/games/{game['id']}"
    assert (await stack.admin("PUT", path, {"wallet_scope": TENANTS})).data
    await play_once(stack, game["id"])
    answer = await stack.admin("PUT", path, {"wallet_scope": "WALLET_SCOPE_CAMPAIGN"})
    assert (refused(answer), answer.envelope["data"]["field"]) == (KEPT, "wallet_scope")
    assert "Instead, duplicate the campaign" in answer.envelope["message"]
    assert (await stack.admin("PUT", path, {"wallet_scope": TENANTS, "name": "Same"})).data


async def test_currency_of_a_rung_of_a_played_game_cannot_change(stack: Stack) -> None:
    campaign, prize_id = await make_campaign(stack), await make_prize(stack, type="points")
    rung = {"id": "ten", "name": "Ten", "currency": "points", "threshold": 10, "prize_id": prize_id}
    milestones = {"mode": "MILESTONE_MODE_CUMULATIVE_UNLOCK", "rungs": [rung]}
    game = await make_game(stack, campaign["id"], prize_id, milestones=milestones)
    await play_once(stack, game["id"])
    for fields, is_refused in (({"currency": "coin"}, True), ({"threshold": 20}, False), ({"id": "new"}, False)):
        changed = {**milestones, "rungs": [{**rung, **fields}]}
        answer = await stack.admin("PUT", f"/admin/games/{game['id']}", {"milestones": changed})
        assert (refused(answer) == KEPT) if is_refused else answer.data
        assert (answer.envelope["data"].get("field") == "milestones.rungs[0].currency") is is_refused
        assert ("the currency of the rung 'Ten'" in answer.envelope["message"]) is is_refused


async def test_currencies_of_a_played_game_cannot_be_dropped(stack: Stack) -> None:
    """A currency of another name would leave what was collected where no play adds to it, and no rung counts it."""
    campaign, prize_id = await make_campaign(stack), await make_prize(stack)
    items = [{"item": name, "weight": 1, "quantity": 1, "slot_index": at} for at, name in enumerate(("leaf", "acorn"))]
    shape = {"type": "collection", "reward_handler": "lucky_item"}
    game = await make_game(stack, campaign["id"], **shape, handler_config={"items": items})
    path = f"/admin/games/{game['id']}"
    items = [{**items[0], "item": "coin"}, items[1]]
    assert (await stack.admin("PUT", path, {"handler_config": {"items": items}})).data
    await play_once(stack, game["id"])
    renamed = [{**items[0], "item": "star"}, items[1]]
    for config in ({"items": renamed}, {"items": items[:1]}, {"items": [{**items[0], "item": "Coin"}, items[1]]}):
        answer = await stack.admin("PUT", path, {"handler_config": config})
        assert refused(answer) == KEPT
        assert "currency" in answer.envelope["message"] and answer.envelope["data"]["field"] == "handler_config"
    assert (await stack.admin("PUT", path, {"handler_config": {"items": []}})).code == "INVALID_ARGUMENT"
    other = {"reward_handler": "probability", "handler_config": {"prizes": [{"prize_id": prize_id, "probability": 1}]}}
    assert refused(await stack.admin("PUT", path, other)) == KEPT
    retired = [{**items[0], "weight": 0}, items[1], {**items[1], "item": "star"}]
    assert (await stack.admin("PUT", path, {"handler_config": {"items": retired}})).data


@pytest.mark.parametrize("scope", [MERCHANTS, "WALLET_SCOPE_CAMPAIGN"])
async def test_merchant_of_a_campaign_that_moved_its_wallets_cannot_change(stack: Stack, scope: str) -> None:
    ann, bob = await make_merchant(stack), await make_merchant(stack)
    campaign, prize_id = await make_campaign(stack, merchant_id=ann), await make_prize(stack, type="points")
    game = await make_game(stack, campaign["id"], prize_id, wallet_scope=scope)
    path = f"/admin/campaigns/{campaign['id']}"
    for merchant_id in (bob, ann):
        assert (await stack.admin("PUT", path, {"merchant_id": merchant_id})).data
    await play_once(stack, game["id"])
    moved = await stack.admin("PUT", path, {"merchant_id": bob})
    assert refused(moved) == KEPT if scope == MERCHANTS else moved.data
    assert moved.envelope["data"].get("field") == ("merchant_id" if scope == MERCHANTS else None)


async def test_merchant_of_a_campaign_cannot_change_while_a_pack_or_open_draw_uses_its_wallet(stack: Stack) -> None:
    ann, bob = await make_merchant(stack), await make_merchant(stack)
    campaign, prize_id = await make_campaign(stack, merchant_id=ann), await make_prize(stack)
    theirs, own = [{"currency": "ticket", "scope_key": key} for key in (ann, campaign["id"])]
    draw_id = await make_draw(stack, campaign["id"], prize_id, tickets=theirs)
    pack = {"campaign_id": campaign["id"], "name": "Caps", "gives": {**theirs, "amount": 1}}
    pack_id = (await stack.admin("POST", "/admin/packs", pack)).data["id"]
    mended = {f"packs/{pack_id}": {"gives": {**own, "amount": 1}}, f"draws/{draw_id}": {"tickets": own}}
    for path, fields in mended.items():
        moved = await stack.admin("PUT", f"/admin/campaigns/{campaign['id']}", {"merchant_id": bob})
        assert (refused(moved), moved.envelope["data"]["field"]) == (KEPT, "merchant_id")
        assert (await stack.admin("PUT", f"/admin/{path}", fields)).data
    assert (await stack.admin("PUT", f"/admin/campaigns/{campaign['id']}", {"merchant_id": bob})).data
