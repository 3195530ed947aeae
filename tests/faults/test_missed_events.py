import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from ops.servers.valkey import Valkey
from runtime.events import TYPES
from runtime.operations.budget_alerts import thresholds
from runtime.streams import backfill, expiry
from tests.support.deliveries import deliveries, event, register, sweep, working
from tests.support.guests import log_in, new_guest
from tests.support.receiver import Receiver, hang, receiving, status
from tests.support.resources import block, make_campaign, make_game, make_prize, one_of_every_event, play_once, rung
from tests.support.stack import OTHER_TENANT, TO_LOOPBACK, Stack
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, World

pytestmark = pytest.mark.settings(**TO_LOOPBACK)

EVENTS = 11
"""Of `one_of_every_event`: play, two prizes, claim, quest, board, code, a draw closed and drawn, log, violation."""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(backfill, "EVERY_SECONDS", 0.1)
    monkeypatch.setattr(backfill, "RETRY_SECONDS", 0.1)


async def points_of_a_rung_and_of_ranks(world: World, stack: Stack) -> None:
    many, few = [await world.prize(type="points", value=value) for value in (40, 1)]
    rungs = block(rung("one", 2, many), rung("two", 2, few), auto_grant=False)
    game_id = await world.game(COLLECTION, COINS, milestones=rungs)
    for player in ("ann", "bob"):
        await world.round(game_id, player)
    for name in ("one", "two"):
        assert (await world.redeem(game_id, name, "ann")).http == 200
    ranks = [{"from_rank": nth, "to_rank": nth, "prize_id": prize} for nth, prize in ((1, many), (2, few))]
    board = await world.board(game_id=game_id, prizes=ranks)
    assert (await stack.admin("POST", f"/admin/leaderboards/{board}/finalize", {})).http == 200


async def test_events_missed_without_valkey_reach_each_integration(
    own_world: World, stack: Stack, receiver: Receiver, valkey_server: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Covers each canonical type, and points of a rung and of ranks, with the stream's data and id."""
    integration_id = await register(stack, receiver, *TYPES)
    events: list[Any] = []
    monkeypatch.setattr(stack.engine.publisher, "events", events.extend)
    valkey_server.kill()
    try:
        await one_of_every_event(stack)
        assert len(events) == EVENTS
        await points_of_a_rung_and_of_ranks(own_world, stack)
    finally:
        valkey_server.start()
    async with working(stack.engine, "integrations"):
        log = await deliveries(stack, integration_id, len(events))
    want = {one.id: msgspec.to_builtins(one) for one in events}
    points = [one.data for one in events[EVENTS:] if one.type == "prize_won"]
    found = sorted((one.milestone_id, one.rank) for one in points)
    assert found == [("", 1), ("", 2), ("one", 0), ("two", 0)]
    got = {one.json["id"]: one.json for one in receiver.all}
    assert got.keys() == want.keys() and len(receiver.all) == len(events), "once each"
    for id, one in got.items():
        assert {**one, "trace_id": "", "occurred_at": 0} == {**want[id], "trace_id": "", "occurred_at": 0}
    assert {row["status"] for row in log} == {"INTEGRATION_DELIVERY_STATUS_DELIVERED"}


async def test_backfill_repeats_no_sent_event(stack: Any, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    integration_id = await register(stack, receiver, *TYPES)
    monkeypatch.setattr(backfill, "GRACE_SECONDS", 3600.0)
    async with working(stack.engine, "integrations"):
        await one_of_every_event(stack)
        await deliveries(stack, integration_id, EVENTS)
    await look_back(stack, monkeypatch)
    assert len(receiver.all) == len({one.json["id"] for one in receiver.all}) == EVENTS


async def test_backfill_in_chunks_skips_nothing(
    stack: Any, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "CHUNK", 3)
    monkeypatch.setattr(stack.engine.publisher, "events", list)  # They are lost.
    integration_id = await register(stack, receiver, "play_completed")
    game = await make_game(stack, (await make_campaign(stack))["id"], await make_prize(stack))
    plays = [(await play_once(stack, game["id"], player=f"player_{nth}"))["play_id"] for nth in range(16)]
    # Eight of one commit, and so of one time; then one a second.
    await stack.database.execute(
        "UPDATE plays AS p SET played_at = now() - make_interval(secs => 2 + greatest(n.nth - 8, 0))"
        " FROM unnest($1::text[]) WITH ORDINALITY AS n (play_id, nth) WHERE p.play_id = n.play_id",
        plays,
    )
    await stack.database.execute("UPDATE integrations SET active_since = now() - interval '20 seconds'")
    stop, dispatch = asyncio.Event(), stack.engine.dispatcher.dispatch_missing

    async def dispatch_and_stop(*arguments: Any) -> None:
        stop.set()
        await dispatch(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(backfill, "PASS_SECONDS", 60.0)
        patch.setattr(stack.engine.dispatcher, "dispatch_missing", dispatch_and_stop)
        await backfill.Backfill(stack.engine, stop)._catch_up(stack.tenant_id)
    assert len(await deliveries(stack, integration_id, 3)) == 3, "it ends after its chunk"
    monkeypatch.setattr(backfill, "PASS_SECONDS", 1.0)
    async with working(stack.engine, "integrations"):
        await deliveries(stack, integration_id, 16)
    assert sorted(one.json["data"]["play_id"] for one in receiver.all) == sorted(plays)


async def test_backfill_repeats_no_quest_of_a_merged_guest(
    own_world: World, stack: Stack, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    game_id = await own_world.wheel(await own_world.prize(), access="public")
    quest_id = await own_world.quest()
    integration_id = await register(stack, receiver, "quest_completed")
    guest = await new_guest(own_world, game_id)
    monkeypatch.setattr(backfill, "GRACE_SECONDS", 3600.0)
    async with working(stack.engine, "integrations"):
        assert (await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, headers=guest.bearer)).code == "OK"
        await deliveries(stack, integration_id, 1)
    await own_world.round(game_id, await log_in(stack, guest))
    await look_back(stack, monkeypatch)
    assert [one.json["data"]["player_id"] for one in receiver.all] == [guest.player_id]


@pytest.mark.parametrize("how", ["an attempt", "no callback"])
async def test_failed_delivery_is_emitted_once_by_stream_or_backfill(
    own_world: World, stack: Stack, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    integration_id = await register(stack, receiver, "delivery_failed")
    events: list[Any] = []
    publish = stack.engine.publisher.events
    channel = "webhook" if how == "an attempt" else "workflow"
    elsewhere = {"channel": channel, "config": {"url": receiver.url}}
    await own_world.round(await own_world.wheel(await own_world.prize(fulfillment=elsewhere)))

    async def give_up() -> str:
        receiver.replies = [status(410 if how == "an attempt" else 204)]
        await sweep(stack.engine)
        if how == "no callback":
            await stack.database.execute("UPDATE tasks SET lease_until = now()")
            assert await expiry.give_up_awaited(stack.engine) == 1
        return str(await stack.database.fetchval("SELECT task_id FROM tasks WHERE status = 'dead'"))

    # Lost by the stream, and found in the row.
    monkeypatch.setattr(stack.engine.publisher, "events", events.extend)
    task_id = await give_up()
    assert [(one.type, one.data.task_id) for one in events] == [("delivery_failed", task_id)]
    async with working(stack.engine, "integrations"):
        await deliveries(stack, integration_id, 1)
    monkeypatch.setattr(stack.engine.publisher, "events", publish)
    monkeypatch.setattr(backfill, "GRACE_SECONDS", 3600.0)
    assert (await stack.admin("POST", f"/admin/fulfillment/tasks/{task_id}/retry", {})).http == 200
    async with working(stack.engine, "integrations"):
        assert await give_up() == task_id
        await deliveries(stack, integration_id, 2)
    await look_back(stack, monkeypatch)
    got = [one.json for one in receiver.all if one.json["type"] == "delivery_failed"]
    assert [one["data"]["task_id"] for one in got] == [task_id] * 2
    assert got[0]["id"] == events[0].id and len({one["id"] for one in got}) == 2


async def test_budget_alert_is_emitted_once_by_stream_or_backfill(
    own_world: World, stack: Stack, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thresholds, "REST", 0.0)
    integration_id = await register(stack, receiver, "campaign.budget_reached", "prizes.low_stock")
    events: list[Any] = []
    publish = stack.engine.publisher.events
    prize_id = await own_world.prize(value=90, currency="EUR", total=3, low_stock_at=2)
    budget = {"budget": {"amount": 100, "currency": "EUR"}}
    assert (await stack.admin("PUT", f"/admin/campaigns/{own_world.campaign_id}", budget)).code == "OK"
    game = await own_world.wheel(prize_id)
    # Lost by the stream, and found in the rows.
    await own_world.round(game)
    monkeypatch.setattr(stack.engine.publisher, "events", events.extend)
    await thresholds.check_all(stack.engine)
    async with working(stack.engine, "integrations"):
        await deliveries(stack, integration_id, 2)
    want = {one.id: msgspec.to_builtins(one) for one in events}
    assert {one.json["id"]: one.json for one in receiver.all} == want
    assert {one["type"] for one in want.values()} == {"campaign.budget_reached", "prizes.low_stock"}
    # Brought by the stream, and not repeated from the rows.
    monkeypatch.setattr(stack.engine.publisher, "events", publish)
    monkeypatch.setattr(backfill, "GRACE_SECONDS", 3600.0)
    await own_world.round(game)
    await stack.database.execute("UPDATE limit_marks SET next_at = now()")
    async with working(stack.engine, "integrations"):
        await thresholds.check(stack.engine, stack.tenant_id, every_seconds=0)
        await deliveries(stack, integration_id, 3)
    await look_back(stack, monkeypatch)
    assert [one.json["data"].get("percent") for one in receiver.all[2:]] == [100]


async def test_failed_attempt_is_retried_on_the_schedule(stack: Any, receiver: Receiver) -> None:
    receiver.replies = [status(500)]
    integration_id = await register(stack, receiver, "prize_won")
    async with working(stack.engine, "integrations"):
        stack.engine.publisher.events([event(stack, data={"n": 1})])
        first = await receiver.next()
        [row] = await deliveries(stack, integration_id, 1)
        shown = [row[name] for name in ("status", "attempts", "http_status", "delivered")]
        assert shown == ["INTEGRATION_DELIVERY_STATUS_RETRY", 1, 500, False]
        assert row["next_attempt_at"] >= row["created_at"] + 5
        await stack.database.execute("UPDATE integration_deliveries SET next_attempt_at = now()")
        again = await receiver.next()
        await until(lambda: ended(stack, "delivered"))
    assert again.headers["webhook-id"] == first.headers["webhook-id"] and again.body == first.body


async def test_slow_receiver_does_not_delay_the_backfill_of_others(stack: Stack, receiver: Receiver) -> None:
    slow = replace(stack, tenant_id=OTHER_TENANT)  # the first to be looked at
    async with receiving() as hanging:
        hanging.replies = [hang] * 100
        integration_id = await register(slow, hanging, "play_completed")
        await register(stack, receiver, "play_completed")
        for one in (slow, stack):
            campaign = await make_campaign(one)
            await play_once(one, (await make_game(one, campaign["id"], await make_prize(one)))["id"])
        stack.engine.ephemeral.post("FLUSHALL")
        async with working(stack.engine, "integrations"):
            await hanging.next()
            await receiver.next()
            assert not (await slow.admin("GET", f"/admin/integrations/{integration_id}/deliveries")).data["items"], (
                "the other's attempt is still under way"
            )
            hanging.closing.set()
            await deliveries(slow, integration_id, 1)


async def test_flush_ignores_notes_added_during_flush(stack: Stack, receiver: Receiver) -> None:
    """Otherwise a pass under constant load would wait until its lease expires."""
    dispatcher, over = stack.engine.dispatcher, asyncio.Event()
    row = {"integration_id": await register(stack, receiver, "prize_won")}

    async def go_on() -> None:
        while not over.is_set():
            dispatcher._skipped(row, event(stack), 0, "left alone")
            await asyncio.sleep(0)

    one = event(stack)
    dispatcher._skipped(row, one, 0, "left alone")
    going = asyncio.create_task(go_on())
    await asyncio.wait_for(dispatcher.log.wait_until_written(), 30)
    count = await stack.database.fetchval("SELECT count(*) FROM integration_deliveries WHERE event_id = $1", one.id)
    over.set()
    await going
    assert count == 1 and not dispatcher.log.lost


async def look_back(stack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "GRACE_SECONDS", 0.0)
    happened = await stack.database.fetchval("SELECT clock_timestamp()")
    query = "SELECT backfilled_until > $2 FROM event_marks WHERE tenant_id = $1"

    async def passed() -> bool:
        return bool(await stack.database.fetchval(query, stack.tenant_id, happened))

    assert not await passed()
    async with working(stack.engine, "integrations"):
        await until(passed)


async def ended(stack: Any, status: str) -> bool:
    return bool(await stack.database.fetchval("SELECT bool_and(status = $1) FROM integration_deliveries", status))
