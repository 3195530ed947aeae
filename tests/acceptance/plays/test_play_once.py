"""POST /games/{id}/play: sessions, keys, and what many plays at once may do."""

from __future__ import annotations

import asyncio

from tests.support.stack import Stack, refused
from tests.support.world import World


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
