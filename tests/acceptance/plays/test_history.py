"""GET /games/{id}/history/me: one's own plays, newest first, page by page."""

from __future__ import annotations

from tests.support.world import World


async def test_history_shows_a_play_as_it_was_answered(own_world: World) -> None:
    game_id = await own_world.wheel(await own_world.prize())
    session = await own_world.session(game_id)
    told = (await own_world.play(game_id, session, client_seed="luck")).data
    (play,) = (await own_world.history(game_id))["items"]
    shared = ("rewards", "metadata", "seed", "seed_hash")
    assert {name: play[name] for name in shared} == {name: told[name] for name in shared}
    assert (play["id"], play["game_id"], play["session_id"]) == (told["play_id"], game_id, session)
    assert (play["client_seed"], play["revision"]) == ("luck", 1)
    assert play["played_at"] > 0
