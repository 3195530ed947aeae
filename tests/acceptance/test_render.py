"""GET /games/{id}/render: what a widget may know of a game, and nothing of how it decides."""

from __future__ import annotations

from tests.support.stack import Stack
from tests.support.world import EGGS, World


async def test_a_render_has_the_ui_and_the_prizes_and_never_the_config(own_world: World, stack: Stack) -> None:
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
    assert render["prizes"] == [{"prize_id": prize_id, "name": "Mug", "type": "goods", "value": 5, "available": True}]
    told = str(render)
    for identifier in (game_id, prize_id, own_world.campaign_id):  # an id may hold any two digits
        told = told.replace(identifier, "")
    for secret in ("handler_config", "marker_group", "0.123456", "98765", "71"):
        assert secret not in told


async def test_a_prize_that_is_gone_shows_as_not_available(own_world: World, stack: Stack) -> None:
    game_id = await own_world.wheel(await own_world.prize(total=1))
    assert (await own_world.round(game_id)).data["rewards"]
    assert stack.process.core is not None
    answer = await stack.core("GET", f"/games/{game_id}/render")
    assert [prize["available"] for prize in answer.data["render"]["prizes"]] == [False]
