from typing import Any

import pytest

from tests.support.stack import Stack, fields_of
from tests.support.world import COINS, COLLECTION, World, new_world


@pytest.fixture(scope="module", params=[True, False], ids=["short_path", "aiohttp"])
def module_extra_settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Runs the tests of a shared process on both ways to answer a POST."""
    return {"short_path": request.param}


async def test_wallet_scope_decides_which_games_share_a_wallet(module_stack: Stack) -> None:
    merchant_id = (await module_stack.admin("POST", "/admin/merchants", {"name": "Shop"})).data["id"]
    async with (
        new_world(module_stack, merchant_id=merchant_id) as one,
        new_world(module_stack, merchant_id=merchant_id) as two,
    ):
        for scope, shared in (("WALLET_SCOPE_CAMPAIGN", 2), ("WALLET_SCOPE_MERCHANT", 4), ("WALLET_SCOPE_TENANT", 4)):
            games = [await world.game(COLLECTION, COINS, wallet_scope=scope) for world in (one, two)]
            await one.round(games[0], player=scope)
            reply = (await two.round(games[1], player=scope)).data
            assert reply["balances"] == [{"currency": "coin", "balance": shared}]
        keys = {}
        for scope in ("CAMPAIGN", "MERCHANT", "TENANT"):
            wallet = await module_stack.consumer("GET", "/wallet", player=f"WALLET_SCOPE_{scope}")
            keys[scope] = {row["scope_key"] for row in wallet.data["items"]}
        broad = {"MERCHANT": {merchant_id}, "TENANT": {module_stack.tenant_id}}
        assert keys == {"CAMPAIGN": {one.campaign_id, two.campaign_id}, **broad}


async def test_history_shows_a_play_as_it_was_answered(own_world: World) -> None:
    game_id = await own_world.wheel(await own_world.prize())
    session = await own_world.session(game_id)
    reply = (await own_world.play(game_id, session, client_seed="luck")).data
    (play,) = (await own_world.history(game_id))["items"]
    shared = ("rewards", "metadata", "seed", "seed_hash")
    assert {name: play[name] for name in shared} == {name: reply[name] for name in shared}
    assert (play["id"], play["game_id"], play["session_id"]) == (reply["play_id"], game_id, session)
    assert (play["client_seed"], play["revision"], play["unavailable"]) == ("luck", 1, [])
    assert play["played_at"] > 0 and len(play["revision_hash"]) == 64 and play["revision_hash"][:32] in session


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
