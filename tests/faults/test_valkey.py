"""Valkey killed or emptied: sessions and idempotency keys are answered the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from ops.servers.valkey import Valkey
from tests.support.milestones import block, rung
from tests.support.stack import AS_SHIPPED, Answer, Stack
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, World, new_world


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    """A server of this module's own, since the tests here end and freeze it."""
    server = Valkey(tmp_path_factory.mktemp("valkey") / "valkey")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def valkey_url(server: Valkey) -> str:
    return server.url


@pytest.fixture(scope="module")
def module_extra_settings() -> dict[str, Any]:
    # Rates hold, and are high enough for a test: they are part of what must not fail with the store.
    return {
        "redis_timeout_seconds": AS_SHIPPED["redis_timeout_seconds"],
        "rate_limits": True,
        "rate_player_burst": 10_000,
        "rate_ip_burst": 10_000,
        "rate_player_per_second": 10_000.0,
        "rate_ip_per_second": 10_000.0,
    }


@pytest.fixture
async def world(module_stack: Stack, server: Valkey) -> AsyncIterator[World]:
    await until(lambda: is_ready(module_stack))
    async with new_world(module_stack) as world:
        yield world
    revive(server)


def revive(server: Valkey) -> None:
    try:
        server.thaw()
    except RuntimeError:
        server.start()


async def readiness(stack: Stack) -> tuple[int, str]:
    async with stack.http.get(f"{stack.process.core_url}/readyz") as answer:
        return answer.status, answer.headers.get("X-Failed-Check", "")


async def is_ready(stack: Stack) -> bool:
    return (await readiness(stack))[0] == 200


async def test_played_session_is_recorded_per_session(world: World) -> None:
    """The store holds played sessions; a key shared by two sessions would refuse the second."""
    game_id = await world.wheel()
    for player in ("ann", "player_01m7ysgt9p004anxg6rcy3ng2k", "p" * 100):
        sessions = [await world.session(game_id, player) for _ in range(3)]
        for _ in range(2):
            played = [(await world.play(game_id, session, player)).reason for session in sessions]
        assert played == ["SESSION_PLAYED"] * 3
        assert len(await world.plays()) % 3 == 0


async def test_key_is_answered_with_the_same_bytes_without_valkey(
    world: World, server: Valkey, module_stack: Stack
) -> None:
    mug = await world.prize(codes=["V-1", "V-2"])
    rungs = block(rung("mug", 2, mug), mode="SPEND_EXCHANGE", auto_grant=False)
    game_id = await world.game(COLLECTION, COINS, milestones=rungs)
    session = await world.session(game_id)

    def said(answer: Answer) -> str:
        return json.dumps(answer.data)

    played, redeemed = [], []
    played.append(said(await world.play(game_id, session, key="same")))
    redeemed.append(said(await world.redeem(game_id, "mug", key="buy")))
    for lose in (lambda: server.command("FLUSHALL"), server.kill):
        await asyncio.to_thread(lose)
        played.append(said(await world.play(game_id, session, key="same")))
        redeemed.append(said(await world.redeem(game_id, "mug", key="buy")))
        mismatch = await world.play(game_id, session, key="same", client_seed="other")
        assert (mismatch.http, mismatch.reason) == (422, "IDEMPOTENCY_MISMATCH")
        again = await world.play(game_id, session)
        assert (again.http, again.reason) == (409, "SESSION_PLAYED")
    assert len(set(played)) == len(set(redeemed)) == 1
    await asyncio.to_thread(server.start)
    await until(lambda: is_ready(module_stack))
