"""A farmer who starts again and again to find a plan worth playing finds the same one."""

from __future__ import annotations

import json

import pytest

from tests.support.world import GIFTS, World

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_two_hundred_starts_show_one_plan_and_no_play_can_be_skipped(world: World) -> None:
    drops = [
        {"type": "star", "prize_id": await world.prize(), "frequency": 1, "max_catchable": 1},
        {"type": "leaf", "prize_id": await world.prize(), "frequency": 999, "max_catchable": 1},
    ]
    game_id = await world.game(GIFTS, {"drops": drops, "total_items": 20, "interval_ms": 1})
    plans = {json.dumps((await world.start(game_id)).data["drop_plan"]) for _ in range(200)}
    assert len(plans) == 1
    first = await world.session(game_id)
    assert (await world.round(game_id, payload={"caught_items": []})).http == 200
    assert (await world.play(game_id, first, payload={"caught_items": []})).reason == "SESSION_PLAYED"
