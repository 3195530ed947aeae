"""A stranger who asks for what is not there leaves nothing behind: no actor, no exception, no memory."""

from __future__ import annotations

import asyncio
import gc
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from runtime.actors.game.batch import GameActors
from runtime.errors import Fault
from tests.support.guests import new_guest
from tests.support.stack import Stack
from tests.support.world import World

REQUESTS = 2_000


@contextmanager
def collector_off() -> Iterator[None]:
    """What a cycle keeps alive stays alive for the length of the block."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def ask(stack: Stack, path: str, count: int) -> None:
    verb = "POST" if path == "start" else "GET"
    # One token for all: an edge remembers those that it has seen.
    headers = {"Authorization": f"Bearer {stack.token('ann')}"} if path == "milestones" else {}

    async def some(each: int) -> None:
        for _ in range(each):
            about = f"/games/game_{secrets.token_hex(8)}/{path}"
            answer = await stack.consumer(verb, about, {} if verb == "POST" else None, headers=headers)
            assert answer.reason == "UNKNOWN_GAME"

    await asyncio.gather(*(some(count // 10) for _ in range(10)))


@pytest.mark.parametrize("path", ["eligibility", "start", "render", "milestones"])
async def test_refused_request_leaves_no_actor_and_no_exception(world: World, path: str) -> None:
    stack = world.stack
    core = stack.process.core
    assert core is not None
    await ask(stack, path, 100)
    actors = len(core._actors[GameActors])
    with collector_off():
        before = gc.get_objects()
        objects, faults = len(before), sum(isinstance(one, Fault) for one in before)
        del before
        await ask(stack, path, REQUESTS)
        assert len(core._actors[GameActors]) == actors
        found = gc.get_objects()
        assert sum(isinstance(one, Fault) for one in found) - faults < 20
        # An exception that stays holds its traceback and frames: five objects a request. Other services run beside.
        assert len(found) - objects < 3 * REQUESTS


async def test_guest_refused_by_a_players_game_leaves_no_row(world: World) -> None:
    stack, closed, closing = world.stack, await world.wheel(), await world.wheel(access="public")
    guest = await new_guest(world, closing)
    assert (await stack.admin("PUT", f"/admin/games/{closing}", {"access": "GAME_ACCESS_PLAYER"})).code == "OK"
    played = {"session_id": guest.session, "payload": {}}
    for path, body in ((f"{closed}/redeem", {"milestone_id": "cup"}), (f"{closing}/play", played)):
        refused = await stack.consumer("POST", f"/games/{path}", body, headers=guest.bearer)
        assert refused.reason == "LOGIN_REQUIRED", path
    assert await world.database.fetch("SELECT FROM players WHERE player_id = $1", guest.player_id) == []
