"""Guests behind one address (an office, a school, a carrier) are strangers to each other."""

import asyncio
from collections.abc import Iterable
from typing import Any

import redis.asyncio

from tests.support.world import World

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
    first, second = await starts(world, game, 2)
    assert distinct([first["session_id"], second["session_id"]]) == 2
    assert distinct([first["guest_token"], second["guest_token"]]) == 2
    together = await asyncio.gather(*(starts(world, game, 1) for _ in range(20)))
    assert distinct(started["guest_token"] for (started,) in together) == 20


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
