"""The model of Valkey is as the real one: commands and scripts drawn alike are answered alike."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
from redis.exceptions import ResponseError

from ops.simulation.valkey import ModelEphemeral, ModelValkey
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.ranking_sets import RankingSets
from runtime.stores.scores import Counted, Place, Score

PLAYERS = ("ann", "bob", "cid", "dee")
BOARD = ("tenant", "board")


@pytest.fixture
async def both(valkey_url: str, valkey_flush: None) -> AsyncIterator[tuple[Ephemeral, Ephemeral]]:
    real, model = Ephemeral(valkey_url), ModelEphemeral(ModelValkey())
    for one in (real, model):
        await one.start()
    yield real, model
    for one in (real, model):
        await one.close()


def drawn(random: Random) -> tuple[Any, ...]:
    key, field = random.choice(["{k}a", "{k}b"]), random.choice("xyz")
    commands: list[tuple[Any, ...]] = [
        ("PING",),
        ("SET", f"{key}s", field),
        ("SET", f"{key}s", field, "NX", "PX", 60_000),
        ("GET", f"{key}s"),
        ("INCR", f"{key}n"),
        ("HSET", f"{key}h", field, 1, "w", 2),
        ("HDEL", f"{key}h", field),
        ("HGET", f"{key}h", field),
        ("HMGET", f"{key}h", "x", "w", "nothing"),
        ("HLEN", f"{key}h"),
        ("ZADD", f"{key}z", random.choice([1, -2.5, "1e3"]), field),
        ("ZADD", f"{key}z", "NX", 7, field),
        ("ZREM", f"{key}z", field),
        ("ZRANK", f"{key}z", field),
        ("ZRANGE", f"{key}z", 0, random.choice([0, 1, -1])),
        ("ZCARD", f"{key}z"),
        ("EXPIRE", f"{key}z", 60),
        ("UNLINK", f"{key}s", f"{key}{random.choice('hz')}"),
        ("RENAME", "{k}az", "{k}bz"),
        ("XADD", f"{key}t", "MAXLEN", 3, "*", "e", field),
        ("XLEN", f"{key}t"),
        ("HGET", f"{key}s", field),
    ]
    return random.choice(commands)


async def answer(store: Ephemeral, command: tuple[Any, ...]) -> Any:
    try:
        reply = await store.run(*command)
    except ResponseError as error:
        return type(error).__name__
    return "an id" if command[0] == "XADD" else reply


async def test_commands_are_answered_as_by_valkey(both: tuple[Ephemeral, Ephemeral]) -> None:
    random = Random("commands")
    answered = set()
    for _ in range(2_000):
        command = drawn(random)
        real, model = [await answer(store, command) for store in both]
        assert model == real, command
        if real:
            answered.add(command[0])
    assert len(answered) == len({drawn(random)[0] for _ in range(2_000)}), "each of them found something"


def score(random: Random) -> Score:
    name = random.choice(["Ann", "Bob"])
    return Score(random.choice(PLAYERS), name, random.choice([-5, 0, 3, 2**62]), random.choice([1, 2]))


def row(one: Score, version: str, config: str, *, gone: bool) -> dict[str, Any]:
    shared = {"config": config, "version": version, "player_id": one.player_id, "display_name": one.display_name}
    return shared | {"score": None if gone else one.score, "achieved_us": one.achieved_us}


async def test_rankings_are_as_in_valkey(both: tuple[Ephemeral, Ephemeral]) -> None:
    random = Random("rankings")
    sets = [RankingSets(store) for store in both]
    outcomes = set()
    for nth in range(300):
        version, config = f"{nth - random.choice([0, 0, 2]):050d}", random.choice("aab")
        match random.choice(["replace", "write", "write", "write", "mark", "drop", "flush", "tear"]):
            case "replace":
                scores = {one.player_id: one for one in [score(random) for _ in range(random.choice([0, 3]))]}
                counted = Counted(BOARD[1], "active", config, version, float(nth), list(scores.values()))
                for one in sets:
                    await one.replace(BOARD[0], counted)
            case "write":
                rows = [row(score(random), version, config, gone=random.random() < 0.2)]
                replies = [await one.write(*BOARD, rows) for one in sets]
                assert replies[0] == replies[1]
                outcomes.add(replies[0])
            case "mark":
                for one in sets:
                    await one.mark(*BOARD, config, float(nth))
            case "drop" if random.random() < 0.2:
                for one in sets:
                    await one.drop(*BOARD)
            case "flush" if random.random() < 0.1:
                for store in both:
                    await store.run("FLUSHALL")
            case "tear" if random.random() < 0.2:
                for store in both:
                    await store.run("HDEL", "tombola:board:{tenant}:board:places", "ann")
        after = random.choice([None, Place(3, 1, "bob")])
        read = [await one.read(*BOARD, after, 10, "ann") for one in sets]
        assert read[0] == read[1]
        assert await sets[0].meta(*BOARD) == await sets[1].meta(*BOARD)
    assert outcomes == {0, 1, 2, 3}


async def test_a_store_that_went_away_is_down_at_once_and_up_when_it_is_back() -> None:
    server = ModelValkey()
    store = ModelEphemeral(server)
    await store.start()
    await store.run("SET", "a", "1")
    server.stop()
    assert not await store.ping()
    assert not store.up
    server.start()
    while not store.up:
        await probe(store)
    assert await store.run("GET", "a") is None
    await store.close()


async def probe(store: ModelEphemeral) -> None:
    [pipeline] = store._pipelines.values()
    assert pipeline._probe is not None
    await pipeline._probe
