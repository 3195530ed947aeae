"""What the streams lose, integrations hear all the same: from the rows, at least once; and what failed, again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ops.servers.valkey import Valkey
from runtime.events import TYPES
from runtime.streams import gaps
from tests.acceptance.test_integrations import deliveries, event, register
from tests.support.deliveries import working
from tests.support.guests import log_in, new_guest
from tests.support.milestones import block, rung
from tests.support.receiver import Receiver, status
from tests.support.resources import make_campaign, make_game, make_prize, play_once
from tests.support.stack import TO_LOOPBACK, Stack
from tests.support.waiting import until
from tests.support.world import World

pytestmark = pytest.mark.settings(**TO_LOOPBACK)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked for in rows is looked for at once."""
    monkeypatch.setattr(gaps, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(gaps, "EVERY_SECONDS", 0.1)
    monkeypatch.setattr(gaps, "RETRY_SECONDS", 0.1)


async def played(stack: Any) -> dict[str, Any]:
    """A play that wins, its reward claimed, a quest completed, a board finalized: the ids of each."""
    campaign = await make_campaign(stack)
    claimed_later = {"redemption_mode": "REDEMPTION_MODE_ON_CLAIM", "channel": "none"}
    prize_id = await make_prize(stack, campaign_id=campaign["id"], fulfillment=claimed_later)
    game = await make_game(stack, campaign["id"], prize_id)
    play = await play_once(stack, game["id"])
    [reward] = (await stack.consumer("GET", "/rewards/me", player="player_a")).data["items"]
    assert (await stack.consumer("POST", f"/rewards/{reward['id']}/claim", {}, player="player_a")).http == 200
    quest = {
        "campaign_id": campaign["id"],
        "name": "Visit",
        "type": "QUEST_TYPE_ONE_TIME",
        "turns": 1,
        "status": "QUEST_STATUS_ACTIVE",
    }
    quest_id = (await stack.admin("POST", "/admin/quests", quest)).data["id"]
    assert (await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player="player_a")).http == 200
    board = {
        "campaign_id": campaign["id"],
        "name": "Top",
        "metric": "LEADERBOARD_METRIC_PLAYS",
        "mode": "LEADERBOARD_MODE_SUM",
        "prizes": [{"from_rank": 1, "to_rank": 1, "prize_id": prize_id}],
    }
    board_id = (await stack.admin("POST", "/admin/leaderboards", board)).data["id"]
    assert (await stack.admin("POST", f"/admin/leaderboards/{board_id}/finalize", {})).http == 200
    return {"play_id": play["play_id"], "reward_id": reward["id"], "quest_id": quest_id, "board_id": board_id}


async def test_what_happens_while_valkey_is_away_reaches_each_integration(
    stack: Any, receiver: Receiver, valkey_server: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the five types, with the data and the id that the stream would have carried."""
    integration_id = await register(stack, receiver, *TYPES)
    told: list[Any] = []
    monkeypatch.setattr(stack.engine.publisher, "events", told.extend)
    valkey_server.kill()
    try:
        await played(stack)
        assert len(told) == 6, "a play, two prizes, a claim, a quest, a board"
    finally:
        valkey_server.start()
    async with working(stack.engine, "integrations"):
        log = await deliveries(stack, integration_id, 6)
    want = {one.id: msgspec.to_builtins(one) for one in told}
    got = {one.json["id"]: one.json for one in receiver.all}
    assert got.keys() == want.keys() and len(receiver.all) == 6, "once each"
    for id, one in got.items():
        assert {**one, "trace_id": "", "occurred_at": 0} == {**want[id], "trace_id": "", "occurred_at": 0}
    assert {row["status"] for row in log} == {"INTEGRATION_DELIVERY_STATUS_DELIVERED"}


async def test_what_the_stream_brought_is_not_told_again_from_the_rows(
    stack: Any, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    integration_id = await register(stack, receiver, *TYPES)
    monkeypatch.setattr(gaps, "GRACE_SECONDS", 3600.0)
    async with working(stack.engine, "integrations"):
        await played(stack)
        await deliveries(stack, integration_id, 6)
    monkeypatch.setattr(gaps, "GRACE_SECONDS", 0.0)
    async with working(stack.engine, "integrations"):
        await until(lambda: passed(stack))
    assert len(receiver.all) == len({one.json["id"] for one in receiver.all}) == 6


async def test_a_guests_completion_that_was_told_of_is_not_told_again_as_the_players(
    own_world: World, stack: Stack, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    game_id = await own_world.wheel(await own_world.prize(), access="public")
    quest = {"campaign_id": own_world.campaign_id, "name": "Q", "turns": 3, "type": "one_time", "status": "active"}
    quest_id = (await stack.admin("POST", "/admin/quests", quest)).data["id"]
    integration_id = await register(stack, receiver, "quest_completed")
    guest = await new_guest(own_world, game_id)
    monkeypatch.setattr(gaps, "GRACE_SECONDS", 3600.0)
    async with working(stack.engine, "integrations"):
        assert (await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, headers=guest.bearer)).code == "OK"
        await deliveries(stack, integration_id, 1)
    await own_world.round(game_id, await log_in(stack, guest))
    monkeypatch.setattr(gaps, "GRACE_SECONDS", 0.0)
    async with working(stack.engine, "integrations"):
        await until(lambda: passed(stack))
    assert [one.json["data"]["player_id"] for one in receiver.all] == [guest.player_id]


async def test_a_rung_that_a_play_crossed_is_told_of_from_the_rows(
    stack: Any, receiver: Receiver, valkey_server: Valkey
) -> None:
    campaign = await make_campaign(stack)
    mug, points = await make_prize(stack), await make_prize(stack, type="points", value=5)
    ladder = block(rung("first", 5, mug, "points"))
    game = await make_game(stack, campaign["id"], points, milestones=ladder)
    await register(stack, receiver, "prize_won")
    valkey_server.kill()
    try:
        await play_once(stack, game["id"])
    finally:
        valkey_server.start()
    async with working(stack.engine, "integrations"):
        got = [(await receiver.next()).json for _ in range(2)]
    assert {one["data"]["prize_id"] for one in got} == {mug, points}
    assert len({one["id"] for one in got}) == 2


async def test_what_happened_before_an_integration_was_made_is_not_told(stack: Any, receiver: Receiver) -> None:
    first = await register(stack, receiver, "play_completed")
    campaign = await make_campaign(stack)
    game = await make_game(stack, campaign["id"], await make_prize(stack))
    await play_once(stack, game["id"])
    second = await register(stack, receiver, "play_completed")
    await play_once(stack, game["id"])
    stack.process.engine.ephemeral.post("FLUSHALL")
    async with working(stack.engine, "integrations"):
        assert len(await deliveries(stack, first, 2)) == 2
        assert len(await deliveries(stack, second, 1)) == 1
        await until(lambda: passed(stack))
    assert len(receiver.all) == 3


async def test_a_failed_attempt_is_tried_again_on_the_schedule(stack: Any, receiver: Receiver) -> None:
    receiver.replies = [status(500)]
    integration_id = await register(stack, receiver, "prize_won")
    async with working(stack.engine, "integrations"):
        stack.engine.publisher.events([event(stack, data={"n": 1})])
        first = await receiver.next()
        [row] = await deliveries(stack, integration_id, 1)
        assert (row["status"], row["attempts"], row["http_status"], row["delivered"]) == (
            "INTEGRATION_DELIVERY_STATUS_RETRY",
            1,
            500,
            False,
        )
        assert row["next_attempt_at"] >= row["created_at"] + 5
        await stack.database.execute("UPDATE integration_deliveries SET next_attempt_at = now()")
        again = await receiver.next()
        await until(lambda: ended(stack, "delivered"))
    assert again.headers["webhook-id"] == first.headers["webhook-id"] and again.body == first.body


async def test_the_last_try_that_fails_is_the_last(stack: Any, receiver: Receiver) -> None:
    receiver.replies = [status(500)] * 50
    await register(stack, receiver, "prize_won")
    async with working(stack.engine, "integrations"):
        stack.engine.publisher.events([event(stack)])
        await until(lambda: ended(stack, "retry"))
        await stack.database.execute("UPDATE integration_deliveries SET attempts = 7, next_attempt_at = now()")
        await until(lambda: ended(stack, "dead"))
    assert len(receiver.all) == 2


async def passed(stack: Any) -> bool:
    """Whether all that has happened by now has been looked for in the rows."""
    row = await stack.database.fetchrow(
        "SELECT told_until >= (SELECT max(played_at) FROM plays) AND leased_until > now() - interval '5 s' AS passed"
        " FROM event_marks"
    )
    return row is not None and bool(row["passed"])


async def ended(stack: Any, status: str) -> bool:
    return bool(await stack.database.fetchval("SELECT bool_and(status = $1) FROM integration_deliveries", status))
