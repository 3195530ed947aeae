"""GET /games/{id}/history/me: one's own plays, newest first, page by page."""

from __future__ import annotations

from tests.support.stack import Stack
from tests.support.world import World


async def test_history_pages_hold_every_play_once_newest_first(own_world: World) -> None:
    game_id = await own_world.wheel(await own_world.prize())
    played = [(await own_world.round(game_id)).data["play_id"] for _ in range(7)]
    await own_world.round(game_id, player="bob")
    seen: list[str] = []
    cursor = ""
    for _ in range(4):
        page = await own_world.history(game_id, limit=2, **({"cursor": cursor} if cursor else {}))
        seen += [play["id"] for play in page["items"]]
        cursor = page["pagination"]["next_cursor"]
        assert page["pagination"]["has_more"] == bool(cursor) == (len(seen) < 7)
    # Sessions of one millisecond are of one age: their order is nobody's promise.
    assert sorted(seen) == sorted(played)
    assert seen == sorted(seen, reverse=True)


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


async def test_history_cursor_of_another_player_is_refused(own_world: World, stack: Stack) -> None:
    game_id = await own_world.wheel()
    for player in ("ann", "ann", "bob"):
        await own_world.round(game_id, player)
    cursor = (await own_world.history(game_id, limit=1))["pagination"]["next_cursor"]
    theirs = await stack.consumer("GET", f"/games/{game_id}/history/me", player="bob", cursor=cursor)
    assert (theirs.http, theirs.code) == (400, "INVALID_ARGUMENT")
