"""GET /games/{id}/eligibility: what start would say, without starting."""

from tests.support.leaderboards import make_board
from tests.support.packs import make_pack
from tests.support.quests import open_quest
from tests.support.stack import Stack
from tests.support.world import COLLECTION, EGGS, World


async def test_render_has_the_ui_and_the_prizes_and_never_the_config(own_world: World, stack: Stack) -> None:
    prize_id = await own_world.prize(total=1, name="Mug", type="goods", value=5)
    ui = {"theme": {"primary": "#123456"}, "egg": {"image": "egg.png"}, "anything": [1, {"at": None}]}
    config = {
        "tiers": [{"min": 71, "max": 93, "prize_group": "marker_group"}],
        "prize_groups": {"marker_group": [{"prize_id": prize_id, "probability": 0.123456}]},
        "max_score": 98_765,
    }
    game_id = await own_world.game(EGGS, config, ui=ui, rules={"max_plays_per_day": 3})
    answer = await stack.consumer("GET", f"/games/{game_id}/render")
    render = answer.data
    assert render["ui"] == ui
    assert (render["id"], render["type"], render["campaign_id"]) == (game_id, "egg_catcher", own_world.campaign_id)
    assert (render["status"], render["access"]) == ("GAME_STATUS_ACTIVE", "GAME_ACCESS_PLAYER")
    assert render["rules"]["max_plays_per_day"] == 3
    content = {**dict.fromkeys(("description", "image_url", "terms", "currency"), ""), "claim_fields": []}
    content |= {"needs_claim": False, "gives_code": False}
    mug = {"prize_id": prize_id, "name": "Mug", "type": "goods", "value": 5, "available": True}
    assert render["prizes"] == [mug | content]
    text = str(render)
    for identifier in (game_id, prize_id, own_world.campaign_id):  # an id may hold any two digits
        text = text.replace(identifier, "")
    for secret in ("handler_config", "marker_group", "0.123456", "98765", "71"):
        assert secret not in text


async def test_render_has_the_milestones_and_the_wallet_of_an_album(own_world: World) -> None:
    stack, prize_id = own_world.stack, await own_world.prize(name="Mug")
    rung = {"id": "five", "name": "Five", "currency": "maple", "threshold": 5, "prize_id": prize_id}
    config = {"items": [{"item": "maple", "weight": 1, "quantity": 1, "slot_index": 0}]}
    fields = {"milestones": {"mode": "cumulative_unlock", "auto_grant": False, "rungs": [rung]}, "access": "public"}
    scopes = []
    for scope in ("campaign", "tenant"):
        game_id = await own_world.game(COLLECTION, config, wallet_scope=scope, **fields)
        render = (await stack.consumer("GET", f"/games/{game_id}/render")).data
        assert render["reward_handler"] == "lucky_item"
        assert render["milestones"]["rungs"] == [rung]
        scopes.append(render["scope_key"])
        moved = (await own_world.round(game_id)).data["balances"]
        wallet = (await stack.consumer("GET", "/wallet", player="ann", scope_key=scopes[-1])).data["items"]
        assert [{"currency": row["currency"], "balance": row["balance"]} for row in wallet] == moved
    assert scopes == [own_world.campaign_id, stack.tenant_id]


async def test_render_tells_whether_there_are_quests_leaderboards_codes_and_draws(own_world: World) -> None:
    stack, prize_id = own_world.stack, await own_world.prize()
    game_id, other_id = [await own_world.wheel(prize_id) for _ in range(2)]

    async def offers(game_id: str) -> list[str]:
        return list((await stack.consumer("GET", f"/games/{game_id}/render")).data["offers"])

    assert await offers(game_id) == []
    await make_board(stack, own_world.campaign_id, game_id=other_id)
    quest_id = await open_quest(stack, own_world.campaign_id)
    assert (await offers(game_id), await offers(other_id)) == (["quests"], ["quests", "leaderboards"])
    board_id = (await make_board(stack, own_world.campaign_id))["id"]
    pack_id = await make_pack(own_world)
    raffle = {"tickets": {"entries": True}, "randomness": {"kind": "INTERNAL"}}
    prizes = [{"prize_id": prize_id, "count": 1}]
    draw = {"campaign_id": own_world.campaign_id, "name": "Car", "prizes": prizes, **raffle}
    draw_id = (await stack.admin("POST", "/admin/draws", draw)).data["id"]
    assert await offers(game_id) == ["quests", "leaderboards", "codes", "draws"]
    await stack.admin("DELETE", f"/admin/draws/{draw_id}")
    await stack.admin("PUT", f"/admin/packs/{pack_id}", {"status": "paused"})
    await stack.admin("PUT", f"/admin/quests/{quest_id}", {"status": "archived"})
    await stack.admin("DELETE", f"/admin/leaderboards/{board_id}")
    assert await offers(game_id) == []
