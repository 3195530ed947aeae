"""What a start promises: the seed, what decides, and the session, in one hash that the play is held to."""

from __future__ import annotations

import hashlib
from typing import Any

from runtime.actors.game.snapshot import load_game
from tests.support.world import COINS, COLLECTION, GIFTS, WHEEL, World


def is_kept(started: dict[str, Any], played: dict[str, Any]) -> bool:
    seed_hash = hashlib.sha256(bytes.fromhex(played["seed"])).hexdigest()
    promised = f"{seed_hash}:{started['revision_hash']}:{started['session_id']}"
    return hashlib.sha256(promised.encode()).hexdigest() == str(started["commitment"])


async def gifts(world: World, **fields: Any) -> str:
    drops = [
        {"type": "star", "prize_id": await world.prize(), "frequency": 3, "max_catchable": 5},
        {"type": "bomb", "prize_id": await world.prize(), "frequency": 5, "max_catchable": 5},
    ]
    return await world.game(GIFTS, {"drops": drops, "total_items": 12, "interval_ms": 1}, **fields)


async def test_commitment_of_a_start_is_kept_by_its_play(world: World) -> None:
    for game_id in (await world.wheel(await world.prize()), await world.game(COLLECTION, COINS), await gifts(world)):
        started = (await world.start(game_id)).data
        payload = {"caught_items": []} if "drop_plan" in started else {}
        played = (await world.play(game_id, started["session_id"], payload=payload)).data
        assert is_kept(started, played)
        assert started["revision_hash"][:32] in started["session_id"]


async def test_change_of_looks_or_stock_keeps_the_commitment(world: World) -> None:
    prize_id = await world.prize(total=5)
    game_id = await world.wheel(prize_id)
    started = (await world.start(game_id)).data
    looks = {"ui": {"theme": {"primary": "red"}}}
    assert (await world.stack.admin("PUT", f"/admin/games/{game_id}", looks)).http == 200
    assert (await world.stack.admin("PUT", f"/admin/prizes/{prize_id}", {"stock": {"total": 9}})).http == 200
    assert is_kept(started, (await world.play(game_id, started["session_id"])).data)


async def test_committed_play_is_replayed_after_a_change_of_its_terms(world: World) -> None:
    prize_id = await world.prize()
    game_id = await world.wheel(prize_id)
    session = await world.session(game_id)
    played = (await world.play(game_id, session, key="k")).data
    odds = await world.stack.admin("PUT", f"/admin/games/{game_id}", {"handler_config": {"prizes": []}})
    assert odds.http == 200
    body = {"player_id": "ann", "session_id": session, "payload": {}, "idempotency_key": "k"}
    again = await world.stack.core("POST", f"/games/{game_id}/play", body)
    assert again.data["play_id"] == played["play_id"]
    assert (await world.play(game_id, session)).reason == "SESSION_PLAYED"


async def test_plan_stays_the_same_until_it_is_played(world: World) -> None:
    game_id = await gifts(world)
    first, second = [(await world.start(game_id)).data for _ in range(2)]
    assert first["session_id"] != second["session_id"]
    assert (first["drop_plan"], first["seed_hash"]) == (second["drop_plan"], second["seed_hash"])
    payload = {"caught_items": []}
    assert is_kept(second, (await world.play(game_id, second["session_id"], payload=payload)).data)
    answer = await world.play(game_id, first["session_id"], payload=payload)
    assert (answer.code, answer.reason) == ("ALREADY_EXISTS", "SESSION_PLAYED")
    third = (await world.start(game_id)).data
    assert third["seed_hash"] != first["seed_hash"]
    others = (await world.start(game_id, "bob")).data
    assert others["seed_hash"] not in (first["seed_hash"], third["seed_hash"])


async def test_game_without_a_plan_has_several_sessions_open(world: World) -> None:
    game_id = await world.wheel(await world.prize())
    started = [(await world.start(game_id)).data for _ in range(3)]
    assert len({one["seed_hash"] for one in started}) == 3
    for one in reversed(started):
        assert is_kept(one, (await world.play(game_id, one["session_id"])).data)


async def test_play_answers_the_next_session_where_asked(world: World) -> None:
    game_id = await gifts(world, rules={"max_plays_per_user": 3})
    started = (await world.start(game_id)).data
    payload = {"caught_items": []}
    for nth in range(3):
        played = (await world.play(game_id, started["session_id"], payload=payload, next=True)).data
        assert is_kept(started, played)
        assert ("next" in played) == (nth < 2)  # After the last a start would be refused.
        started = played.get("next", started)
    assert "drop_plan" in started
    plain = await world.wheel()
    played = (await world.round(plain, next=True)).data
    assert "drop_plan" not in played["next"]
    assert "next" not in (await world.play(plain, played["next"]["session_id"])).data


async def test_retry_gets_the_same_next_session_from_the_database(world: World) -> None:
    game_id = await world.game(WHEEL, {"prizes": []})
    body = {"player_id": "ann", "session_id": await world.session(game_id), "idempotency_key": "n", "next": True}
    one, two = [await world.stack.core("POST", f"/games/{game_id}/play", body) for _ in range(2)]
    assert one.data["next"]["session_id"] and one.data == two.data


async def test_start_and_play_keep_to_their_round_trips(world: World) -> None:
    game_id = await gifts(world)
    await world.round(game_id, payload={"caught_items": []})
    store, database = world.stack.engine.ephemeral, world.database
    asked, told = [], []
    for _ in range(5):
        before = database.round_trips, store.round_trips
        started = (await world.start(game_id)).data
        played = await world.play(game_id, started["session_id"], payload={"caught_items": []}, next=True)
        assert played.http == 200
        asked.append(database.round_trips - before[0])
        told.append(store.round_trips - before[1])
    # What is done beside, every second, may fall into one of them.
    # One statement commits; a snapshot that is a second old is compared with the catalogue once.
    assert min(asked) <= 2, asked
    # Each is admitted in one pipeline; what is kept of the session, and the events, go in others off the path.
    assert min(told) <= 8, told


async def test_terms_are_stored_for_active_games_alone(world: World) -> None:
    prize = await world.prize()
    for status, kept in (("GAME_STATUS_DRAFT", 0), ("GAME_STATUS_PAUSED", 0), ("GAME_STATUS_ACTIVE", 1)):
        game = await world.wheel(prize, status=status)
        for _ in range(2):
            snapshot = await load_game(world.stack.database, world.stack.tenant_id, game)
            asked = (snapshot.revision_hash, game)
            count = "SELECT count(*) FROM promised_terms WHERE revision_hash = $1 AND game_id = $2"
            assert await world.stack.database.fetchval(count, *asked) == kept, status
