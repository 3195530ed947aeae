"""POST /games/{id}/play: sessions, keys, and what many plays at once may do."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from tests.support.stack import Stack, refused
from tests.support.world import COINS, COLLECTION, EGGS, World, prize_ids

# -------------------------------------------------------------------- sessions


async def test_a_session_with_any_byte_flipped_is_forged(world: World) -> None:
    game_id = await world.wheel()
    session = await world.session(game_id)
    forged = [session[:nth] + chr(ord(session[nth]) ^ 1) + session[nth + 1 :] for nth in range(len(session))]
    forged += [session[:-1], session[:-4], session + "A", "sess_", "sess_!", session.removeprefix("sess_")]
    answers = await asyncio.gather(*(world.play(game_id, token) for token in forged))
    assert {refused(answer) for answer in answers} == {(403, "PERMISSION_DENIED", "SESSION_INVALID")}
    assert (await world.play(game_id, session)).http == 200


async def test_each_session_has_one_spelling(world: World) -> None:
    game_id = await world.wheel()
    session = await world.session(game_id)
    spellings = [session.upper(), session + " ", session + "=", f" {session}", session[:9] + "\n" + session[9:]]
    spellings += [session.replace(".", ".."), session.replace(".", "%2E"), session + ".", session[:63]]
    for spelling in spellings:
        assert (await world.play(game_id, spelling)).reason == "SESSION_INVALID", spelling
    assert (await world.play(game_id, session)).http == 200


async def test_a_session_is_of_one_player_and_one_game(world: World) -> None:
    game_id, other_game_id, open_game_id = await world.wheel(), await world.wheel(), await world.wheel(access="public")
    session, open_session = await world.session(game_id, "ann"), await world.session(open_game_id, "ann")
    for answer in (
        await world.play(game_id, session, "bob"),
        await world.play(other_game_id, session, "ann"),
    ):
        assert refused(answer) == (403, "PERMISSION_DENIED", "SESSION_INVALID")
    # A player's session plays no game for somebody without a token.
    for its, opened in ((game_id, session), (open_game_id, open_session)):
        assert refused(await world.play(its, opened, "")) == (401, "UNAUTHENTICATED", "TOKEN_MISSING")
    assert await world.plays() == []


async def test_a_play_asks_for_its_session_and_an_object(world: World, module_stack: Stack) -> None:
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


# -------------------------------------------------------------------- idempotency


async def test_fifty_plays_of_one_key_are_one_play(world: World) -> None:
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


async def test_a_key_with_another_body_is_refused(world: World) -> None:
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


async def test_a_refusal_leaves_its_key_free(world: World) -> None:
    game_id = await world.wheel(rules={"requires_turn": True})
    await world.turns("rea", 1)
    one, two = [await world.session(game_id, "rea") for _ in range(2)]
    assert (await world.play(game_id, one, "rea")).http == 200
    assert (await world.play(game_id, two, "rea", key="k3")).reason == "NO_TURNS"
    await world.turns("rea", 1)
    assert (await world.play(game_id, two, "rea", key="k3")).http == 200


async def test_core_answers_a_key_by_its_row_alone(world: World, module_stack: Stack) -> None:
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


# -------------------------------------------------------------------- together


async def test_games_that_share_a_prize_share_its_stock(world: World) -> None:
    prize_id = await world.prize(total=7)
    games = [await world.wheel(prize_id) for _ in range(5)]
    answers = await asyncio.gather(*(world.round(games[nth % 5], f"sharer_{nth}") for nth in range(60)))
    assert sum(len(answer.data["rewards"]) for answer in answers) == 7


async def test_games_that_share_a_wallet_lose_no_credit(world: World) -> None:
    games = [await world.game(COLLECTION, COINS) for _ in range(4)]
    answers = await asyncio.gather(*(world.round(games[nth % 4], "wil") for nth in range(40)))
    assert {answer.http for answer in answers} == {200}
    balance = await world.database.fetchval(
        "SELECT balance FROM balances WHERE player_id = 'wil' AND scope_key = $1", world.campaign_id
    )
    assert balance == 80


async def test_one_bad_play_fails_none_of_its_neighbours(world: World) -> None:
    config = {"tiers": [{"min": 0, "max": 9, "prize_group": "all"}], "prize_groups": {"all": []}}
    game_id = await world.game(EGGS, config)
    sessions = [await world.session(game_id, f"n{nth}") for nth in range(10)]
    payloads: list[dict[str, Any]] = [{"score": 1, "duration_ms": 1} if nth % 3 else {"score": -1} for nth in range(10)]
    answers = await asyncio.gather(
        *(world.play(game_id, s, f"n{nth}", payload=payloads[nth]) for nth, s in enumerate(sessions))
    )
    assert [answer.http for answer in answers] == [200 if nth % 3 else 400 for nth in range(10)]


async def test_a_change_of_the_game_counts_from_the_next_start_on(world: World, module_stack: Stack) -> None:
    first, second = await world.prize(), await world.prize()
    game_id = await world.wheel(first)
    session = await world.session(game_id)
    assert prize_ids(await world.round(game_id)) == [first]
    config = {"prizes": [{"prize_id": second, "probability": 1}]}
    (await module_stack.admin("PUT", f"/admin/games/{game_id}", {"handler_config": config})).data  # noqa: B018
    assert (await world.play(game_id, session)).reason == "GAME_CHANGED"
    assert prize_ids(await world.round(game_id)) == [second]
    plays = (await world.history(game_id))["items"]
    assert sorted(play["revision"] for play in plays) == [1, 2]
