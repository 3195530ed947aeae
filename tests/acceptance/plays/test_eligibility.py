"""GET /games/{id}/eligibility: what start would say, without starting."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.support.stack import Stack
from tests.support.world import World, new_world

ZONE = ZoneInfo("Asia/Kathmandu")  # 5 h 45 min ahead: no whole hour hides a mistake


@pytest.fixture
async def kathmandu(stack: Stack) -> AsyncIterator[World]:
    async with new_world(stack, timezone="Asia/Kathmandu") as kathmandu:
        yield kathmandu


def next_midnight() -> int:
    tomorrow = datetime.now(ZONE).date() + timedelta(days=1)
    return int(datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=ZONE).timestamp())


async def test_eligibility_without_limits_is_open(kathmandu: World) -> None:
    assert await kathmandu.eligibility(await kathmandu.wheel()) == {
        "can_play": True,
        "reason": "",
        "remaining_turns": 0,
        "free_plays_remaining": -1,
        "resets_at": 0,
        "starts_at": 0,
    }


async def test_closed_game_says_its_state_in_eligibility_and_render(kathmandu: World, stack: Stack) -> None:
    """A start is refused for CAMPAIGN_CLOSED or GAME_INACTIVE."""
    mug = await kathmandu.prize(total=1)
    game_id, campaign, now = await kathmandu.wheel(mug, access="public"), kathmandu.campaign_id, int(time.time())

    async def said(**change: Any) -> list[str]:
        """What eligibility and render say after the change, the same of somebody and of nobody."""
        body = {"status": "active", "start_date": 0, "end_date": 0, **change}
        assert (await stack.admin("PUT", f"/admin/campaigns/{campaign}", body)).http == 200
        told = [await kathmandu.eligibility(game_id, player) for player in ("ann", "")]
        rendered = [(await stack.consumer("GET", f"/games/{game_id}/render")).data]
        rendered += (await stack.consumer("GET", f"/public/campaigns/{campaign}")).data["games"]
        assert {one["starts_at"] for one in rendered} == {body["start_date"]}
        assert {one["timezone"] for one in rendered} == {"Asia/Kathmandu"}
        assert {one["starts_at"] for one in told} == {body["start_date"] if body["start_date"] > now else 0}
        started = await kathmandu.start(game_id)
        assert {one["can_play"] for one in told} == {started.http == 200}
        return sorted({one["reason"] for one in (*told, *rendered)})

    assert await said() == [""]
    assert await said(start_date=now + 86_400) == ["NOT_STARTED"]
    assert await said(status="paused") == ["PAUSED"]
    assert (await kathmandu.start(game_id)).reason == "CAMPAIGN_CLOSED"
    assert await said(start_date=now - 9) == [""]
    assert (await kathmandu.round(game_id)).data["rewards"]
    assert await said() == ["SOLD_OUT"], "it is told, and forbids nothing"
    await stack.admin("PUT", f"/admin/games/{game_id}", {"status": "paused"})
    assert (await kathmandu.eligibility(game_id))["reason"] == "PAUSED"
    await stack.admin("PUT", f"/admin/games/{game_id}", {"status": "active"})
    assert await said(status="ended") == ["ENDED"]


async def test_eligibility_counts_free_plays_then_turns(kathmandu: World) -> None:
    game_id = await kathmandu.wheel(rules={"max_plays_per_day": 2})
    await kathmandu.turns("ann", 1)
    seen = [await kathmandu.eligibility(game_id)]
    for _ in range(3):
        assert (await kathmandu.round(game_id)).data
        seen.append(await kathmandu.eligibility(game_id))
    assert [(e["can_play"], e["free_plays_remaining"], e["remaining_turns"]) for e in seen] == [
        (True, 2, 1),
        (True, 1, 1),
        (True, 0, 1),
        (False, 0, 0),
    ]
    assert (seen[-1]["reason"], seen[-1]["resets_at"]) == ("CAP_DAY", next_midnight())


async def test_eligibility_makes_no_player_row(kathmandu: World) -> None:
    """The first play must make the row although the game actor has cached the player."""
    game_id = await kathmandu.wheel()
    rows = "SELECT count(*) FROM players WHERE tenant_id = $1 AND player_id = 'asker'"
    await kathmandu.eligibility(game_id, "asker")
    assert await kathmandu.database.fetchval(rows, kathmandu.stack.tenant_id) == 0
    await kathmandu.round(game_id, "asker")
    assert await kathmandu.database.fetchval(rows, kathmandu.stack.tenant_id) == 1
