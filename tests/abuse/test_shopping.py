"""Guests: strangers to each other behind one address, and cheap to a farmer of them only until they play."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
import redis.asyncio

from tests.support.world import World


async def test_guest_gets_a_row_only_by_playing(world: World) -> None:
    game_id = await world.wheel(await world.prize(), access="public")
    before = await world.count("players")
    trips = world.database.round_trips
    for _ in range(20):
        started = (await world.start(game_id, "")).data
        assert (await world.eligibility(game_id, ""))["can_play"]
    assert await world.count("players") == before
    assert world.database.round_trips - trips < 20  # What is remembered of the game is compared once a second.
    token = {"Authorization": f"Bearer {started['guest_token']}"}
    again = (await world.start(game_id, "", **token)).data  # Known by its token, and still without a play.
    assert await world.count("players") == before
    assert (await world.play(game_id, again["session_id"], "", headers=token)).http == 200
    assert (await world.play(game_id, started["session_id"], "")).http == 200
    query = "SELECT auth_method, plays FROM players JOIN game_players USING (tenant_id, player_id) WHERE game_id = $1"
    assert [tuple(row) for row in await world.database.fetch(query, game_id)] == [("guest", 2)]


async def test_guest_session_adds_no_database_query(world: World) -> None:
    game_id = await world.wheel(await world.prize(), access="public")
    await world.round(game_id, "")
    trips = []
    for _ in range(4):  # Background jobs of the service ask the database as well, now and then.
        before = world.database.round_trips
        assert (await world.play(game_id, (await world.start(game_id, "")).data["session_id"], "")).http == 200
        trips.append(world.database.round_trips - before)
    assert min(trips) <= 3  # A look, a commit, and the look of a second that has passed.


@pytest.mark.parametrize("first", ["profile", "quest", "login"])
async def test_guest_is_recorded_as_a_guest_whatever_its_first_action(world: World, first: str) -> None:
    started = (await world.start(await world.wheel(await world.prize(), access="public"), "")).data
    token = {"Authorization": f"Bearer {started['guest_token']}"}
    guest = started["session_id"].rpartition(".")[2]
    match first:
        case "profile":
            answer = await world.stack.consumer("PUT", "/players/me", {"display_name": "Gus"}, headers=token)
            assert answer.http == 200
        case "quest":
            path = f"/quests/{await world.quest()}/complete"
            assert (await world.stack.consumer("POST", path, {}, headers=token)).http == 200
        case "login":
            contact = {"type": "CONTACT_TYPE_EMAIL", "value": f"{guest}@example.com"}
            body = {"contact": contact, "guest_player_id": guest}
            assert (await world.stack.core("POST", "/players/resolve", body)).http == 200
    row = await world.database.fetchrow("SELECT auth_method, merged_into FROM players WHERE player_id = $1", guest)
    assert row is not None and row["auth_method"] == "guest"
    assert (row["merged_into"] is not None) == (first == "login")


@pytest.mark.settings(rate_limits=True, rate_guest_per_second=0.001, rate_guest_burst=5)
async def test_new_guests_of_one_address_are_limited_to_the_rate_of_one_player(own_world: World) -> None:
    game_id = await own_world.wheel(access="public")
    answers = [await own_world.start(game_id, "") for _ in range(8)]
    assert [answer.http for answer in answers] == [200] * 5 + [429] * 3
    assert (answers[-1].reason, answers[-1].envelope["data"]["policy"]) == ("RATE_LIMITED", "guest")
    assert int(answers[-1].headers["Retry-After"]) > 1
    token = {"Authorization": f"Bearer {answers[0].data['guest_token']}"}
    assert (await own_world.start(game_id, "", **token)).http == 200
    assert (await own_world.start(game_id, "ann")).http == 200


KEY = "the-same-key"


async def starts(world: World, game: str, count: int) -> list[dict[str, Any]]:
    header = {"Idempotency-Key": KEY}
    return [(await world.start(game, "", **header)).data for _ in range(count)]


def guest(started: dict[str, Any]) -> dict[str, str]:
    return {"Authorization": f"Bearer {started['guest_token']}"}


def distinct(values: Iterable[Any]) -> int:
    return len(set(values))


async def test_idempotency_key_gives_no_other_clients_session_or_token(world: World) -> None:
    game = await world.wheel(access="public")
    together = await asyncio.gather(*(starts(world, game, 2) for _ in range(20)))
    for given in ("session_id", "guest_token"):
        assert distinct(started[given] for both in together for started in both) == 40


async def test_start_is_replayed_only_to_the_token_that_it_gave(world: World) -> None:
    game = await world.wheel(access="public")
    first, second = await starts(world, game, 2)
    for started in (first, second):
        again = await world.start(game, "", **guest(started), **{"Idempotency-Key": KEY})
        shown = {name: value for name, value in started.items() if name != "guest_token"}
        assert (again.data, again.headers.get("Idempotency-Replayed")) == (shown, "true")


async def test_stores_hold_no_guest_token(world: World, valkey_url: str) -> None:
    game = await world.wheel(access="public")
    (started,) = await starts(world, game, 1)
    again = await world.start(game, "", **guest(started), **{"Idempotency-Key": KEY})
    assert again.headers["Idempotency-Replayed"] == "true"  # So the answer is there.
    async with redis.asyncio.Redis.from_url(valkey_url) as valkey:
        held = [await valkey.get(key) for key in await valkey.keys("{*}k:*")]
    assert any(started["session_id"].encode() in value for value in held)
    assert not any(started["guest_token"].encode() in value for value in held)


async def test_guests_behind_one_address_may_use_the_same_key(world: World) -> None:
    game = await world.wheel(await world.prize(), access="public")
    sessions = [started["session_id"] for started in await starts(world, game, 2)]
    played = await asyncio.gather(*(world.play(game, session, "", key=KEY) for session in sessions))
    assert [answer.http for answer in played] == [200, 200]
    assert distinct(answer.data["play_id"] for answer in played) == 2
    again = await world.play(game, sessions[0], "", key=KEY)
    assert again.data == played[0].data
    assert again.headers["Idempotency-Replayed"] == "true"
