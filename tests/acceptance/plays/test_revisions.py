import asyncio
import hashlib
import json
from typing import Any

import asyncpg
import pytest

from runtime.http.auth.tokens import Tokens
from runtime.rules import drop_sequence
from runtime.rules.handlers import collect_items
from tests.support.resources import make_campaign, make_game
from tests.support.shared import SharedService
from tests.support.stack import Answer, Stack
from tests.support.world import COINS, COLLECTION, EGGS, GIFTS, WHEEL, World

pytestmark = pytest.mark.settings(show_odds=True)


async def read(world: World, revision_hash: str) -> Answer:
    return await world.stack.consumer("GET", f"/revisions/{revision_hash}")


async def terms_of(world: World, started: dict[str, Any]) -> dict[str, Any]:
    shown = (await read(world, started["revision_hash"])).data
    assert hashlib.sha256(shown["terms"].encode()).hexdigest() == started["revision_hash"] == shown["revision_hash"]
    return dict(json.loads(shown["terms"]))


async def promised(world: World, game_id: str) -> int:
    return int(await world.database.fetchval("SELECT count(*) FROM promised_terms WHERE game_id = $1", game_id))


async def test_terms_are_read_by_their_hash_and_hash_to_it(world: World) -> None:
    """In every letter that a name may have: whoever checks it hashes the text as it came."""
    name = 'Tässe ☕ 😀 "\\ \u00e9 e\u0301 </b>'
    prize_id = await world.prize(name=name, value=0.1)
    odds = [{"prize_id": prize_id, "probability": chance} for chance in (1e-7, 0.1, 0.2, 5e-324)]
    coins = {"items": [{"item": name, "weight": 1e12, "quantity": 1, "slot_index": 0}, *COINS["items"]]}
    for game_id in (await world.game(WHEEL, {"prizes": odds}), await world.game(COLLECTION, coins)):
        terms = await terms_of(world, (await world.start(game_id)).data)
        assert terms["game_id"] == game_id
        game = (await world.stack.admin("GET", f"/admin/games/{game_id}")).data
        assert all(terms[field] == game[field] for field in ("handler_config", "reward_handler", "validator"))
        assert terms["prizes"] == ([[prize_id, name, "goods", 0.1]] if terms["reward_handler"] == "probability" else [])


async def test_terms_are_the_same_text_on_every_surface(world: World, module_stack: Stack) -> None:
    revision_hash = (await world.start(await world.wheel(await world.prize()))).data["revision_hash"]
    path = f"/revisions/{revision_hash}"
    reply = [(await module_stack.core("GET", path)).data["revision"]["terms"]]
    reply += [(await module_stack.admin("GET", f"/admin{path}")).data["terms"]]
    reply += [(await module_stack.consumer("GET", path, player=player)).data["terms"] for player in ("", "ann", "bob")]
    assert len(set(reply)) == 1


async def test_plan_is_made_again_from_its_terms_and_the_revealed_seed(world: World) -> None:
    drops = [
        {"type": "gold", "prize_id": await world.prize(), "frequency": 1, "max_catchable": 2},
        {"type": "coal", "prize_id": "", "frequency": 3, "max_catchable": 9},
    ]
    game_id = await world.game(GIFTS, {"drops": drops, "total_items": 20, "interval_ms": 1})
    started = (await world.start(game_id)).data
    config = (await terms_of(world, started))["handler_config"]
    seed = (await world.play(game_id, started["session_id"], payload={"caught_items": []})).data["seed"]
    plan = drop_sequence.plan(collect_items.parse(config), bytes.fromhex(seed))
    assert [(item["id"], item["type"]) for item in started["drop_plan"]] == [(drop.id, drop.type) for drop in plan]


async def test_terms_outlive_changes_and_the_game(world: World, module_stack: Stack) -> None:
    prize_id = await world.prize()
    played, unplayed = await world.wheel(prize_id), await world.wheel(prize_id)
    starts = [(await world.start(game_id)).data for game_id in (played, unplayed)]
    await world.play(played, starts[0]["session_id"])
    before = [await terms_of(world, started) for started in starts]
    assert (await module_stack.admin("PUT", f"/admin/prizes/{prize_id}", {"value": 9})).data
    odds = {"handler_config": {"prizes": [{"prize_id": prize_id, "probability": 0}]}}
    assert (await module_stack.admin("PUT", f"/admin/games/{played}", odds)).data
    for game_id, archived in ((played, True), (unplayed, False)):
        assert (await module_stack.admin("DELETE", f"/admin/games/{game_id}")).data["archived"] == archived
    assert [await terms_of(world, started) for started in starts] == before


async def test_terms_are_never_rewritten_by_the_database(world: World) -> None:
    game_id = await world.wheel(await world.prize())
    started = (await world.start(game_id)).data
    for rewrite in ("UPDATE promised_terms SET game_id = 'x'", "DELETE FROM promised_terms", "TRUNCATE promised_terms"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await world.database.execute(rewrite)
    assert (await terms_of(world, started))["game_id"] == game_id
    with pytest.raises(asyncpg.CheckViolationError):
        change = "INSERT INTO promised_terms (tenant_id, revision_hash, game_id, terms) VALUES ('t', $1, 'g', '{}')"
        await world.database.execute(change, "0" * 64)


async def test_start_among_rival_changes_names_stored_terms(world: World, module_stack: Stack) -> None:
    prize_id = await world.prize()
    game_id = await world.wheel(prize_id)
    hashes: set[str] = set()
    changing = True

    async def change() -> None:
        nonlocal changing
        for nth in range(15):
            odds = {"prizes": [{"prize_id": prize_id, "probability": nth / 20}]}
            assert (await module_stack.admin("PUT", f"/admin/games/{game_id}", {"handler_config": odds})).data
            assert (await module_stack.admin("PUT", f"/admin/prizes/{prize_id}", {"value": nth})).data
        changing = False

    async def start(player: str) -> None:
        while changing:
            hashes.add((await world.start(game_id, player)).data["revision_hash"])

    await asyncio.gather(change(), *(start(f"player_{n}") for n in range(4)))
    assert len(hashes) > 3
    for revision_hash in hashes:
        assert (await read(world, revision_hash)).data["game_id"] == game_id


async def test_start_of_stored_terms_costs_no_further_round_trip(world: World) -> None:
    """Also the first one after another of the tenant's things was changed, which has the game read again."""
    game_id = await world.wheel(await world.prize())
    await world.start(game_id)
    stale, trips = await world.prize(), []
    for value in range(5):
        assert (await world.stack.admin("PUT", f"/admin/prizes/{stale}", {"value": value})).data
        before = world.database.round_trips
        await world.start(game_id)
        trips.append(world.database.round_trips - before)
    # The game, its prizes, and its players and stock: nothing for its terms. Background jobs may add to some counts.
    assert min(trips) <= 3, trips


async def test_terms_that_no_start_promised_are_not_stored(world: World, module_stack: Stack) -> None:
    game_id = await world.wheel(await world.prize(), status="draft")
    assert (await world.start(game_id)).reason == "UNKNOWN_GAME"
    assert await promised(world, game_id) == 0
    assert (await module_stack.admin("PUT", f"/admin/games/{game_id}", {"status": "active"})).data
    started = (await world.start(game_id)).data
    assert await promised(world, game_id) == 1
    path = f"/admin/games/{game_id}"
    assert (await module_stack.admin("PUT", path, {"on_unavailable": "redraw"})).data
    assert (await module_stack.admin("PUT", path, {"on_unavailable": "lose"})).data
    assert (await world.start(game_id)).data["revision_hash"] == started["revision_hash"]
    assert await promised(world, game_id) == 1


async def test_terms_of_another_merchants_game_are_read_by_players(world: World, module_stack: Stack) -> None:
    own, other = [(await module_stack.admin("POST", "/admin/merchants", {"name": "Shop"})).data["id"] for _ in range(2)]
    campaign = await make_campaign(module_stack, merchant_id=other)
    game = await make_game(module_stack, campaign["id"], await world.prize())
    revision_hash = (await world.start(game["id"])).data["revision_hash"]
    token = Tokens.of(module_stack.process.settings).mint(
        "ann", tenant_id=module_stack.tenant_id, merchant_id=own, seconds=60
    )
    headers = {"Authorization": f"Bearer {token}"}
    answer = await module_stack.consumer("GET", f"/revisions/{revision_hash}", headers=headers)
    assert answer.data["revision_hash"] == revision_hash


async def test_players_see_terms_only_where_they_see_odds(module_service: SharedService) -> None:
    """As the setting is unless an operator says otherwise: a render hides handler_config, so does all the rest."""
    async with module_service.own_stack() as stack:
        world = World(stack, (await make_campaign(stack))["id"])
        tiers = {"tiers": [{"min": 0, "max": 9, "prize_group": "a"}], "prize_groups": {"a": []}, "max_score": 98_765}
        game_id = await world.game(EGGS, tiers)
        revision_hash = (await world.start(game_id)).data["revision_hash"]
        said = []
        for revision in (revision_hash, "0" * 64):
            answer = await stack.consumer("GET", f"/revisions/{revision}", player="ann")
            said.append((answer.http, answer.reason, answer.envelope["message"].replace(revision, "")))
        assert said[0] == said[1] and said[0][:2] == (404, "UNKNOWN_REVISION")
        assert "98765" in (await stack.admin("GET", f"/admin/revisions/{revision_hash}")).data["terms"]
        played = await world.round(game_id, payload={"score": 9, "duration_ms": 9})
        receipt = f"/plays/{played.data['play_id']}/receipt"
        assert (await stack.consumer("GET", receipt, player="ann")).data["terms"] == ""
        assert "98765" in (await stack.admin("GET", f"/admin{receipt}")).data["terms"]
