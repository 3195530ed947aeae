"""POST /games/{id}/play: sessions, keys, and what many plays at once may do."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.support.stack import Stack, refused
from tests.support.world import World


async def test_session_of_another_spelling_is_refused(world: World) -> None:
    game_id = await world.wheel()
    session = await world.session(game_id)
    spellings = [session[:-1], session[:63], session.removeprefix("sess_"), session.upper(), session + "="]
    spellings += [session + ".", session + " ", f" {session}", session.replace(".", "..")]
    for spelling in spellings:
        assert (await world.play(game_id, spelling)).reason == "SESSION_INVALID", spelling
    assert (await world.play(game_id, session)).http == 200


async def test_session_of_another_player_or_game_is_refused(world: World) -> None:
    game_id, other_game_id, open_game_id = await world.wheel(), await world.wheel(), await world.wheel(access="public")
    session, open_session = await world.session(game_id, "ann"), await world.session(open_game_id, "ann")
    for answer in (
        await world.play(game_id, session, "bob"),
        await world.play(other_game_id, session, "ann"),
    ):
        assert refused(answer) == (403, "PERMISSION_DENIED", "SESSION_INVALID")
    for its, opened in ((game_id, session), (open_game_id, open_session)):
        assert refused(await world.play(its, opened, "")) == (401, "UNAUTHENTICATED", "TOKEN_MISSING")
    assert await world.plays() == []


async def test_play_without_session_or_with_a_wrong_field_is_refused(world: World, module_stack: Stack) -> None:
    game_id = await world.wheel()
    session = await world.session(game_id)
    for body, code in (
        ({"payload": {}}, "INVALID_ARGUMENT"),
        ({"session_id": session, "payload": []}, "INVALID_ARGUMENT"),
        ({"session_id": session, "payload": {"score": 1}}, "INVALID_ARGUMENT"),
        ({"session_id": session, "payload": {}, "player_id": "bob"}, "INVALID_ARGUMENT"),
        ({"session_id": session, "payload": {}, "client_seed": "x" * 201}, "INVALID_ARGUMENT"),
        ({"session_id": session, "payload": {}, "client_seed": "\0"}, "INVALID_ARGUMENT"),
    ):
        answer = await module_stack.consumer("POST", f"/games/{game_id}/play", body, player="ann")
        assert answer.code == code, (body, answer.envelope)
    assert await world.plays() == []


async def test_plays_of_one_key_at_once_are_one_play(world: World) -> None:
    game_id = await world.wheel(await world.prize(), rules={"max_plays_per_user": 1})
    session = await world.session(game_id)
    answers = await asyncio.gather(*(world.play(game_id, session, key="k1") for _ in range(50)))
    told = Counter(answer.http for answer in answers)
    assert told[200] >= 1
    assert told[200] + told[409] == 50
    assert {answer.reason for answer in answers if answer.http == 409} <= {"IDEMPOTENCY_IN_PROGRESS"}
    replays = [await world.play(game_id, session, key="k1") for _ in range(2)]
    assert all(replay.headers["Idempotency-Replayed"] == "true" for replay in replays)
    datas = [answer.data for answer in [*answers, *replays] if answer.http == 200]
    assert all(data == datas[0] for data in datas)
    assert len(await world.plays()) == 1


async def test_key_with_another_body_is_refused(world: World) -> None:
    game_id = await world.wheel()
    session = await world.session(game_id)
    (await world.play(game_id, session, key="k2")).data  # noqa: B018
    for more in ({"client_seed": "x"}, {"payload": {"a": 1}}):
        answer = await world.play(game_id, session, key="k2", **more)
        assert refused(answer) == (422, "INVALID_ARGUMENT", "IDEMPOTENCY_MISMATCH")
    other = await world.play(game_id, await world.session(game_id), key="k2")
    assert refused(other) == (422, "INVALID_ARGUMENT", "IDEMPOTENCY_MISMATCH")
    # Another player's key of the same name is another key.
    assert (await world.round(game_id, "bob", key="k2")).http == 200


async def test_key_of_a_refused_play_stays_free(world: World) -> None:
    game_id = await world.wheel(rules={"requires_turn": True})
    await world.turns("rea", 1)
    one, two = [await world.session(game_id, "rea") for _ in range(2)]
    assert (await world.play(game_id, one, "rea")).http == 200
    assert (await world.play(game_id, two, "rea", key="k3")).reason == "NO_TURNS"
    await world.turns("rea", 1)
    assert (await world.play(game_id, two, "rea", key="k3")).http == 200


async def test_key_is_answered_by_core_from_the_row_alone(world: World, module_stack: Stack) -> None:
    """Core has no ephemeral answers: what it replays, it replays from the play's row."""
    game_id = await world.wheel(await world.prize(), rules={"max_plays_per_user": 1})
    session = (await module_stack.core("POST", f"/games/{game_id}/start", {"player_id": "kim"})).data["session_id"]
    body = {"player_id": "kim", "session_id": session, "payload": {}, "idempotency_key": "k4"}
    answers = await asyncio.gather(*(module_stack.core("POST", f"/games/{game_id}/play", body) for _ in range(50)))
    assert all(answer.data == answers[0].data for answer in answers)
    assert len(await world.plays()) == 1
    other = await module_stack.core("POST", f"/games/{game_id}/play", {**body, "client_seed": "x"})
    assert refused(other) == (422, "INVALID_ARGUMENT", "IDEMPOTENCY_MISMATCH")
    unkeyed = await module_stack.core("POST", f"/games/{game_id}/play", {**body, "idempotency_key": ""})
    assert refused(unkeyed) == (409, "ALREADY_EXISTS", "SESSION_PLAYED")


async def test_stock_is_shared_by_the_games_of_a_prize(world: World) -> None:
    prize_id = await world.prize(total=7)
    games = [await world.wheel(prize_id) for _ in range(5)]
    answers = await asyncio.gather(*(world.round(games[nth % 5], f"sharer_{nth}") for nth in range(60)))
    assert sum(len(answer.data["rewards"]) for answer in answers) == 7
