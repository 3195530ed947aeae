"""Guests behind one address (an office, a school, a carrier) are strangers to each other."""

import asyncio
from collections.abc import Iterable
from typing import Any

import redis.asyncio

from tests.support.stack import Answer
from tests.support.world import GIFTS, World

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


async def test_json_that_differs_only_in_its_bytes_is_the_same_request(world: World, module_stack: Any) -> None:
    drops = [{"type": "gold", "prize_id": await world.prize(), "frequency": 1, "max_catchable": 9}]
    game = await world.game(GIFTS, {"drops": drops, "total_items": 3, "interval_ms": 1})
    session = await world.session(game)
    url = f"{module_stack.process.consumer_url}/api/v1/games/{game}/play"
    sent = {
        "Authorization": f"Bearer {module_stack.token('ann')}",
        "Idempotency-Key": KEY,
        "Content-Type": "application/json",
    }
    bodies = (
        f'{{"session_id": "{session}", "payload": {{"caught_items": []}}}}',
        f'{{"payload":{{"caught_items":[]}},"session_id":"{session}"}}',
        f'{{"payload": {{"caught_it\\u0065ms": [ ]}}, "session_id": "{session}", "client_seed": ""}}\n',
    )
    answers: list[Answer] = []
    for body in bodies:
        async with module_stack.http.post(url, data=body, headers=sent) as answer:
            answers.append(Answer(answer.status, answer.headers, await answer.json()))
    assert [answer.data["play_id"] for answer in answers] == [answers[0].data["play_id"]] * 3
    assert [answer.headers.get("Idempotency-Replayed") for answer in answers] == [None, "true", "true"]
    other = await world.play(game, session, key=KEY, payload={"caught_items": ["x"]})
    assert (other.http, other.reason) == (422, "IDEMPOTENCY_MISMATCH")
