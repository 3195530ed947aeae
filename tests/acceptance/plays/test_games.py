from typing import Any

import pytest

from tests.support.packs import make_pack
from tests.support.resources import make_campaign, make_draw, make_game, make_prize, play_once, wheel
from tests.support.stack import Stack, fields_of
from tests.support.world import COLLECTION, EGGS, World


@pytest.fixture
async def campaign_id(stack: Any) -> str:
    return str((await make_campaign(stack))["id"])


async def test_game_reads_back_with_its_defaults(stack: Any, campaign_id: str) -> None:
    body = wheel(campaign_id, await make_prize(stack), ui={"theme": {"primary": "#123456"}})
    del body["status"]
    made = (await stack.admin("POST", "/admin/games", body)).data
    assert made["id"].startswith("game_")
    assert (made["revision"], made["status"]) == (1, "GAME_STATUS_DRAFT")
    assert (made["seed_generator"], made["validator"]) == ("none", "basic")
    assert made["wallet_scope"] == "WALLET_SCOPE_CAMPAIGN"
    assert made["access"] == "GAME_ACCESS_PLAYER"
    assert made["on_unavailable"] == "ON_UNAVAILABLE_LOSE"
    assert made["created_at"] > 0
    assert (await stack.admin("GET", f"/admin/games/{made['id']}")).data == made


@pytest.mark.parametrize(
    ("ui", "fields"),
    [
        ({"wheel": {"segments": [{}, 3, {"color": "red;"}]}}, ["ui.wheel.segments[1]", "ui.wheel.segments[2].color"]),
        ({"theme": {"primary": "teal"}}, []),
    ],
)
async def test_ui_is_stored_with_warnings(stack: Any, campaign_id: str, ui: dict[str, Any], fields: list[str]) -> None:
    made = await make_game(stack, campaign_id, await make_prize(stack), ui=ui)
    assert made["ui"] == ui and sorted(one["field"] for one in made.get("warnings", [])) == fields
    changed = (await stack.admin("PUT", f"/admin/games/{made['id']}", {"ui": {**ui, "more": 1}})).data
    assert (changed["ui"], changed.get("warnings")) == ({**ui, "more": 1}, made.get("warnings"))
    assert "warnings" not in (await stack.admin("GET", f"/admin/games/{made['id']}")).data
    checked = (await stack.admin("GET", f"/admin/campaigns/{campaign_id}/launch-check")).data["items"]
    found = [one["field"] for one in checked if "is shown without" in one["message"]]
    assert sorted(found) == [f"games/{made['id']}.{field}" for field in fields]
    assert (await stack.consumer("GET", f"/games/{made['id']}/render")).data["ui"] == {**ui, "more": 1}


async def test_segment_of_a_prize_that_the_game_cannot_award_is_a_warning(stack: Any, campaign_id: str) -> None:
    prize = await make_prize(stack)
    ui = {"wheel": {"segments": [{"prize_id": prize}, {"prize_id": "prize_none"}, {}]}}
    made = await make_game(stack, campaign_id, prize, ui=ui)
    assert [one["field"] for one in made["warnings"]] == ["ui.wheel.segments[1].prize_id"]
    checked = (await stack.admin("GET", f"/admin/campaigns/{campaign_id}/launch-check")).data["items"]
    assert any("prize_none" in one["message"] for one in checked if one["field"].startswith(f"games/{made['id']}"))


async def test_game_update_keeps_omitted_fields_and_makes_a_revision(stack: Any, campaign_id: str) -> None:
    made = await make_game(stack, campaign_id, rules={"max_plays_per_day": 3, "max_plays_per_user": 9})
    changed = (await stack.admin("PUT", f"/admin/games/{made['id']}", {"rules": {"max_plays_per_day": 1}})).data
    assert changed["revision"] == 2
    unset = dict.fromkeys(("requires_turn", "admits_guests", "verify_timing"), False)
    assert changed["rules"] == {"max_plays_per_user": 0, "max_plays_per_day": 1, **unset}
    stored = {name: value for name, value in made.items() if name not in ("rules", "revision", "updated_at")}
    assert {name: changed[name] for name in stored} == stored
    assert (await stack.core("PUT", f"/games/{made['id']}", {"game": {"ui": {"egg": 1}}})).data["game"]["revision"] == 3


async def test_game_cannot_change_its_campaign(stack: Any, campaign_id: str) -> None:
    made = await make_game(stack, campaign_id)
    other = await make_campaign(stack)
    refused = await stack.admin("PUT", f"/admin/games/{made['id']}", {"campaign_id": other["id"]})
    assert fields_of(refused) == ["campaign_id"]


async def test_rungs_get_ids_and_keep_them_over_updates(stack: Any, campaign_id: str) -> None:
    prize_id = await make_prize(stack)
    rungs = [
        {"name": "Five", "currency": "leaf", "threshold": 5, "prize_id": prize_id},
        {"name": "Ten", "currency": "leaf", "threshold": 10, "prize_id": prize_id},
    ]
    block = {"mode": "MILESTONE_MODE_CUMULATIVE_UNLOCK", "auto_grant": True, "rungs": rungs}
    made = await make_game(stack, campaign_id, milestones=block)
    named = [rung["id"] for rung in made["milestones"]["rungs"]]
    assert all(named)
    assert len(set(named)) == 2
    block["rungs"] = [rungs[1] | {"name": "Renamed"}, rungs[0], rungs[0] | {"threshold": 20}]
    changed = (await stack.admin("PUT", f"/admin/games/{made['id']}", {"milestones": block})).data
    ids = [rung["id"] for rung in changed["milestones"]["rungs"]]
    assert ids[:2] == [named[1], named[0]]
    assert ids[2] not in named
    assert (await stack.admin("PUT", f"/admin/games/{made['id']}", {"milestones": {}})).data["milestones"] is None


async def test_deleted_game_is_archived_once_it_was_played(stack: Any, campaign_id: str) -> None:
    prize_id = await make_prize(stack)
    unplayed = await make_game(stack, campaign_id, prize_id)
    played = await make_game(stack, campaign_id, prize_id)
    await play_once(stack, played["id"])
    assert (await stack.admin("DELETE", f"/admin/games/{unplayed['id']}")).data["archived"] is False
    assert (await stack.admin("GET", f"/admin/games/{unplayed['id']}")).reason == "UNKNOWN_GAME"
    assert (await stack.admin("DELETE", f"/admin/games/{played['id']}")).data["archived"] is True
    assert (await stack.admin("GET", f"/admin/games/{played['id']}")).data["status"] == "GAME_STATUS_ARCHIVED"
    assert (await stack.admin("GET", "/admin/games")).data["items"] == []
    archived = (await stack.admin("GET", "/admin/games", status="GAME_STATUS_ARCHIVED")).data["items"]
    assert [item["id"] for item in archived] == [played["id"]]


async def test_render_has_the_ui_and_the_prizes_and_never_the_config(own_world: World, stack: Stack) -> None:
    prize_id = await own_world.prize(total=1, name="Mug", type="goods", value=5)
    ui = {"theme": {"primary": "#123456"}, "egg": {"image": "egg.png"}, "anything": [1, {"at": None}]}
    config = {"tiers": [{"min": 71, "max": 93, "prize_group": "marker_group"}]}
    config |= {"prize_groups": {"marker_group": [{"prize_id": prize_id, "probability": 0.123456}]}}
    config |= {"max_score": 98_765}
    game_id = await own_world.game(EGGS, config, ui=ui, rules={"max_plays_per_day": 3})
    render = (await stack.consumer("GET", f"/games/{game_id}/render")).data
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
    await own_world.board(game_id=other_id)
    quest_id = await own_world.quest()
    assert (await offers(game_id), await offers(other_id)) == (["quests"], ["quests", "leaderboards"])
    board_id = await own_world.board()
    pack_id = await make_pack(own_world)
    draw_id = await make_draw(stack, own_world.campaign_id, prize_id)
    assert await offers(game_id) == ["quests", "leaderboards", "codes", "draws"]
    await stack.admin("DELETE", f"/admin/draws/{draw_id}")
    await stack.admin("PUT", f"/admin/packs/{pack_id}", {"status": "paused"})
    await stack.admin("PUT", f"/admin/quests/{quest_id}", {"status": "archived"})
    await stack.admin("DELETE", f"/admin/leaderboards/{board_id}")
    assert await offers(game_id) == []
