"""GET /games/{id}/history/me: one's own plays, newest first, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.acceptance.conftest import Stack
from tests.acceptance.world import World, new_world


@pytest.fixture
async def world(stack: Stack) -> AsyncIterator[World]:
    async with new_world(stack) as world:
        yield world


async def test_pages_hold_every_play_once_newest_first(world: World) -> None:
    game_id = await world.wheel(await world.prize())
    played = [(await world.round(game_id)).data["play_id"] for _ in range(7)]
    await world.round(game_id, player="bob")
    seen: list[str] = []
    cursor = ""
    for _ in range(4):
        page = await world.history(game_id, limit=2, **({"cursor": cursor} if cursor else {}))
        seen += [play["id"] for play in page["items"]]
        cursor = page["pagination"]["next_cursor"]
        assert page["pagination"]["has_more"] == bool(cursor) == (len(seen) < 7)
    # Sessions of one millisecond are of one age: their order is nobody's promise.
    assert sorted(seen) == sorted(played)
    assert seen == sorted(seen, reverse=True)


async def test_a_play_of_history_is_what_the_player_was_told(world: World) -> None:
    game_id = await world.wheel(await world.prize())
    session = await world.session(game_id)
    told = (await world.play(game_id, session, client_seed="luck")).data
    (play,) = (await world.history(game_id))["items"]
    shared = ("rewards", "metadata", "seed", "seed_hash")
    assert {name: play[name] for name in shared} == {name: told[name] for name in shared}
    assert (play["id"], play["game_id"], play["session_id"]) == (told["play_id"], game_id, session)
    assert (play["client_seed"], play["revision"]) == ("luck", 1)
    assert play["played_at"] > 0


async def test_a_cursor_of_another_player_is_refused(world: World, stack: Stack) -> None:
    game_id = await world.wheel()
    for player in ("ann", "ann", "bob"):
        await world.round(game_id, player)
    cursor = (await world.history(game_id, limit=1))["pagination"]["next_cursor"]
    theirs = await stack.consumer("GET", f"/games/{game_id}/history/me", player="bob", cursor=cursor)
    assert (theirs.http, theirs.code) == (400, "INVALID_ARGUMENT")


async def test_history_needs_a_player(world: World, stack: Stack) -> None:
    answer = await stack.consumer("GET", f"/games/{await world.wheel()}/history/me")
    assert (answer.http, answer.reason) == (401, "TOKEN_MISSING")
