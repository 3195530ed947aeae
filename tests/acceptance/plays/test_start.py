"""POST /games/{id}/start: a session, a promise of the draw, and a plan that tells nothing of it."""

from __future__ import annotations

import hashlib
import time

from tests.support.stack import Stack
from tests.support.world import World


async def test_start_promises_a_draw_and_tells_its_expiry(own_world: World) -> None:
    game_id = await own_world.wheel(await own_world.prize())
    started = (await own_world.start(game_id)).data
    assert started.keys() == {"session_id", "seed_hash", "expires_at", "commitment", "revision_hash"}
    assert started["session_id"].startswith("sess_")
    assert len(bytes.fromhex(started["seed_hash"])) == 32
    assert 890 <= started["expires_at"] - time.time() <= 910
    played = (await own_world.play(game_id, started["session_id"])).data
    for part in (played["seed"][:16], played["seed"][-16:]):
        assert part not in started["session_id"] + started["seed_hash"]
    assert hashlib.sha256(bytes.fromhex(played["seed"])).hexdigest() == started["seed_hash"] == played["seed_hash"]


async def test_start_writes_no_play_and_makes_the_player(own_world: World) -> None:
    game_id = await own_world.wheel()
    sessions = {await own_world.session(game_id) for _ in range(5)}
    assert len(sessions) == 5
    assert await own_world.count("plays") == 0
    assert await own_world.database.fetchval("SELECT auth_method FROM players WHERE player_id = 'ann'") == "external"


async def test_guest_of_a_public_game_gets_a_token_of_its_own(own_world: World, stack: Stack) -> None:
    game_id = await own_world.wheel(await own_world.prize(), access="public", rules={"max_plays_per_user": 1})
    started = (await own_world.start(game_id, player="")).data
    bearer = {"Authorization": f"Bearer {started['guest_token']}"}
    # The session names the guest: no token is needed beside it.
    assert (await own_world.play(game_id, started["session_id"], player="")).data["rewards"]
    again = await stack.consumer("POST", f"/games/{game_id}/start", {}, headers=bearer)
    assert (again.code, again.reason) == ("FAILED_PRECONDITION", "CAP_USER")
    mine = await stack.consumer("GET", f"/games/{game_id}/history/me", headers=bearer)
    assert len(mine.data["items"]) == 1
    # The next one without a token is another guest.
    assert (await own_world.start(game_id, player="")).data["guest_token"] != started["guest_token"]


async def test_start_without_a_token_is_refused_on_a_players_game(own_world: World) -> None:
    answer = await own_world.start(await own_world.wheel(), player="")
    assert (answer.http, answer.code, answer.reason) == (401, "UNAUTHENTICATED", "TOKEN_MISSING")
    assert await own_world.count("players") == 0


async def test_core_answers_starts_and_plays_with_the_same_fields(own_world: World, stack: Stack) -> None:
    game_id = await own_world.wheel(await own_world.prize())
    started = (await stack.core("POST", f"/games/{game_id}/start", {"player_id": "ann"})).data
    assert started["expires_at"] == str(int(started["expires_at"]))
    body = {"player_id": "ann", "session_id": started["session_id"], "payload": {}}
    played = (await stack.core("POST", f"/games/{game_id}/play", body)).data
    assert played["seed_hash"] == started["seed_hash"]
    assert len(played["rewards"]) == 1
