"""What the streams lose, integrations hear all the same: from the rows, at least once; and what failed, again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime
from typing import Any

import asyncpg
import msgspec
import pytest

import sql
from ops.servers.valkey import Valkey
from runtime.actors import delivery_log
from runtime.actors.dispatcher import Happened
from runtime.errors import Fault, Status
from runtime.events import TYPES
from runtime.operations.budget_alerts import thresholds
from runtime.outgoing.schedule import delays_seconds
from runtime.streams import backfill, expiry
from tests.support.deliveries import delivering, working
from tests.support.guests import log_in, new_guest
from tests.support.integrations import deliveries, event, register
from tests.support.leaderboards import make_board
from tests.support.milestones import block, rung
from tests.support.receiver import Receiver, hang, receiving, status
from tests.support.resources import make_campaign, make_game, make_prize, one_of_every_event, play_once
from tests.support.stack import OTHER_TENANT, TO_LOOPBACK, Stack
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, World

pytestmark = pytest.mark.settings(**TO_LOOPBACK)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked for in rows is looked for at once."""
    monkeypatch.setattr(backfill, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(backfill, "EVERY_SECONDS", 0.1)
    monkeypatch.setattr(backfill, "RETRY_SECONDS", 0.1)


async def test_events_missed_without_valkey_reach_each_integration(
    stack: Any, receiver: Receiver, valkey_server: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Covers each canonical type, with the stream's data and id."""
    integration_id = await register(stack, receiver, *TYPES)
    told: list[Any] = []
    monkeypatch.setattr(stack.engine.publisher, "events", told.extend)
    valkey_server.kill()
    try:
        await one_of_every_event(stack)
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


async def test_backfill_repeats_no_event_of_the_stream(
    stack: Any, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    integration_id = await register(stack, receiver, *TYPES)
    monkeypatch.setattr(backfill, "GRACE_SECONDS", 3600.0)
    async with working(stack.engine, "integrations"):
        await one_of_every_event(stack)
        await deliveries(stack, integration_id, 6)
    monkeypatch.setattr(backfill, "GRACE_SECONDS", 0.0)
    happened = await now(stack)
    assert not await passed(stack, happened)
    async with working(stack.engine, "integrations"):
        await until(lambda: passed(stack, happened))
    assert len(receiver.all) == len({one.json["id"] for one in receiver.all}) == 6


async def test_backfill_of_several_chunks_and_passes_skips_nothing(
    stack: Any, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "CHUNK", 3)
    monkeypatch.setattr(backfill, "PASS_SECONDS", 1.0)
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
    await stack.database.execute("UPDATE integrations SET heard_from = now() - interval '20 seconds'")
    async with working(stack.engine, "integrations"):
        await deliveries(stack, integration_id, 16)
    assert sorted(one.json["data"]["play_id"] for one in receiver.all) == sorted(plays)


async def test_backfill_repeats_no_quest_of_a_merged_guest(
    own_world: World, stack: Stack, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    game_id = await own_world.wheel(await own_world.prize(), access="public")
    quest = {"campaign_id": own_world.campaign_id, "name": "Q", "turns": 3, "type": "one_time", "status": "active"}
    quest_id = (await stack.admin("POST", "/admin/quests", quest)).data["id"]
    integration_id = await register(stack, receiver, "quest_completed")
    guest = await new_guest(own_world, game_id)
    monkeypatch.setattr(backfill, "GRACE_SECONDS", 3600.0)
    async with working(stack.engine, "integrations"):
        assert (await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, headers=guest.bearer)).code == "OK"
        await deliveries(stack, integration_id, 1)
    await own_world.round(game_id, await log_in(stack, guest))
    monkeypatch.setattr(backfill, "GRACE_SECONDS", 0.0)
    happened = await now(stack)
    assert not await passed(stack, happened)
    async with working(stack.engine, "integrations"):
        await until(lambda: passed(stack, happened))
    assert [one.json["data"]["player_id"] for one in receiver.all] == [guest.player_id]


async def test_backfill_emits_a_rung_that_a_play_crossed(stack: Any, receiver: Receiver, valkey_server: Valkey) -> None:
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


async def points_of_a_rung_and_of_ranks(world: World, stack: Stack) -> None:
    """Points by two rungs that are redeemed, and by two ranks of a board."""
    many, few = [await world.prize(type="points", value=value) for value in (40, 1)]
    rungs = block(rung("one", 2, many), rung("two", 2, few), auto_grant=False)
    game_id = await world.game(COLLECTION, COINS, milestones=rungs)
    for player in ("ann", "bob"):
        await world.round(game_id, player)
    for name in ("one", "two"):
        assert (await world.redeem(game_id, name, "ann")).http == 200
    ranks = [{"from_rank": nth, "to_rank": nth, "prize_id": prize} for nth, prize in ((1, many), (2, few))]
    board = await make_board(stack, world.campaign_id, metric="plays", game_id=game_id, prizes=ranks)
    assert (await stack.admin("POST", f"/admin/leaderboards/{board['id']}/finalize", {})).http == 200


async def test_backfill_emits_points_under_the_ids_of_the_stream(
    own_world: World, stack: Stack, receiver: Receiver, valkey_server: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    integration_id = await register(stack, receiver, "prize_won")
    told: list[Any] = []
    monkeypatch.setattr(stack.engine.publisher, "events", told.extend)
    valkey_server.kill()
    try:
        await points_of_a_rung_and_of_ranks(own_world, stack)
    finally:
        valkey_server.start()
    want = {one.id: msgspec.to_builtins(one.data) for one in told if one.type == "prize_won"}
    assert sorted((data["milestone_id"], data["rank"]) for data in want.values()) == [
        ("", 1),
        ("", 2),
        ("one", 0),
        ("two", 0),
    ]
    async with working(stack.engine, "integrations"):
        await deliveries(stack, integration_id, 4)
    assert {one.json["id"]: one.json["data"] for one in receiver.all} == want
    assert len(receiver.all) == 4, "once each"


async def test_backfill_repeats_no_points_of_the_stream(
    own_world: World, stack: Stack, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    integration_id = await register(stack, receiver, "prize_won")
    monkeypatch.setattr(backfill, "GRACE_SECONDS", 3600.0)
    async with working(stack.engine, "integrations"):
        await points_of_a_rung_and_of_ranks(own_world, stack)
        await deliveries(stack, integration_id, 4)
    happened = await now(stack)
    monkeypatch.setattr(backfill, "GRACE_SECONDS", 0.0)
    async with working(stack.engine, "integrations"):
        await until(lambda: passed(stack, happened))
    assert len(receiver.all) == len({one.json["id"] for one in receiver.all}) == 4


@pytest.mark.parametrize("how", ["an attempt", "no callback"])
async def test_failed_delivery_is_emitted_once_by_stream_or_backfill(
    own_world: World, stack: Stack, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    integration_id = await register(stack, receiver, "delivery_failed")
    told: list[Any] = []
    publish = stack.engine.publisher.events
    channel = "webhook" if how == "an attempt" else "workflow"
    elsewhere = {"channel": channel, "config": {"url": receiver.url}}
    await own_world.round(await own_world.wheel(await own_world.prize(fulfillment=elsewhere)))

    async def give_up() -> str:
        receiver.replies = [status(410 if how == "an attempt" else 204)]
        async with delivering(stack.engine) as worker:
            await worker.sweep()
        if how == "no callback":
            await stack.database.execute("UPDATE tasks SET lease_until = now()")
            assert await expiry.give_up_awaited(stack.engine) == 1
        return str(await stack.database.fetchval("SELECT task_id FROM tasks WHERE status = 'dead'"))

    # Lost by the stream, and found in the row.
    monkeypatch.setattr(stack.engine.publisher, "events", told.extend)
    task_id = await give_up()
    assert [(one.type, one.data.task_id) for one in told] == [("delivery_failed", task_id)]
    async with working(stack.engine, "integrations"):
        await deliveries(stack, integration_id, 1)
    # Retried, and given up once more: another event, which the stream brings and the rows do not repeat.
    monkeypatch.setattr(stack.engine.publisher, "events", publish)
    monkeypatch.setattr(backfill, "GRACE_SECONDS", 3600.0)
    assert (await stack.admin("POST", f"/admin/fulfillment/tasks/{task_id}/retry", {})).http == 200
    async with working(stack.engine, "integrations"):
        assert await give_up() == task_id
        await deliveries(stack, integration_id, 2)
    happened = await now(stack)
    monkeypatch.setattr(backfill, "GRACE_SECONDS", 0.0)
    async with working(stack.engine, "integrations"):
        await until(lambda: passed(stack, happened))
    got = [one.json for one in receiver.all if one.json["type"] == "delivery_failed"]
    assert [one["data"]["task_id"] for one in got] == [task_id] * 2
    assert got[0]["id"] == told[0].id and len({one["id"] for one in got}) == 2


async def test_budget_alert_is_emitted_once_by_stream_or_backfill(
    own_world: World, stack: Stack, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thresholds, "REST", 0.0)
    integration_id = await register(stack, receiver, "campaign.budget_reached", "prizes.low_stock")
    told: list[Any] = []
    publish = stack.engine.publisher.events
    prize_id = await own_world.prize(value=90, currency="EUR", total=3, low_stock_at=2)
    budget = {"budget": {"amount": 100, "currency": "EUR"}}
    assert (await stack.admin("PUT", f"/admin/campaigns/{own_world.campaign_id}", budget)).code == "OK"
    game = await own_world.wheel(prize_id)
    # Lost by the stream, and found in the rows.
    await own_world.round(game)
    monkeypatch.setattr(stack.engine.publisher, "events", told.extend)
    await thresholds.look_all(stack.engine)
    async with working(stack.engine, "integrations"):
        await deliveries(stack, integration_id, 2)
    want = {one.id: msgspec.to_builtins(one) for one in told}
    assert {one.json["id"]: one.json for one in receiver.all} == want
    assert {one["type"] for one in want.values()} == {"campaign.budget_reached", "prizes.low_stock"}
    # Brought by the stream, and not repeated from the rows.
    monkeypatch.setattr(stack.engine.publisher, "events", publish)
    monkeypatch.setattr(backfill, "GRACE_SECONDS", 3600.0)
    await own_world.round(game)
    await stack.database.execute("UPDATE limit_marks SET next_at = now()")
    async with working(stack.engine, "integrations"):
        await thresholds.look(stack.engine, stack.tenant_id, every_seconds=0)
        await deliveries(stack, integration_id, 3)
    happened = await now(stack)
    monkeypatch.setattr(backfill, "GRACE_SECONDS", 0.0)
    async with working(stack.engine, "integrations"):
        await until(lambda: passed(stack, happened))
    assert [one.json["data"].get("percent") for one in receiver.all[2:]] == [100]


async def test_backfill_starts_at_the_integrations_creation(stack: Any, receiver: Receiver) -> None:
    first = await register(stack, receiver, "play_completed")
    campaign = await make_campaign(stack)
    game = await make_game(stack, campaign["id"], await make_prize(stack))
    await play_once(stack, game["id"])
    second = await register(stack, receiver, "play_completed")
    await play_once(stack, game["id"])
    await stack.engine.ephemeral.run("FLUSHALL")
    happened = await now(stack)
    async with working(stack.engine, "integrations"):
        await until(lambda: passed(stack, happened))
        assert len(await deliveries(stack, first, 2)) == 2
        assert len(await deliveries(stack, second, 1)) == 1
    assert len(receiver.all) == 3


async def test_failed_attempt_is_retried_on_the_schedule(stack: Any, receiver: Receiver) -> None:
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


async def test_event_is_dead_after_its_last_attempt(stack: Any, receiver: Receiver) -> None:
    receiver.replies = [status(500)] * 50
    await register(stack, receiver, "prize_won")
    async with working(stack.engine, "integrations"):
        stack.engine.publisher.events([event(stack)])
        await until(lambda: ended(stack, "retry"))
        await stack.database.execute("UPDATE integration_deliveries SET attempts = 7, next_attempt_at = now()")
        await until(lambda: ended(stack, "dead"))
    assert len(receiver.all) == 2


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


async def test_backfill_waits_for_events_in_flight(stack: Stack) -> None:
    """A stream that comes late tells of the same: the mark does not pass it until the log has it, or it is lost
    where the process ends."""
    dispatcher = stack.engine.dispatcher
    async with receiving() as hanging:
        hanging.replies = [hang]
        await register(stack, hanging, "prize_won")
        one = event(stack)
        await dispatcher.dispatch(one)
        await hanging.next()
        missing = asyncio.create_task(
            dispatcher.tell_missing(stack.tenant_id, [Happened(one, stack.engine.clock.now())])
        )
        assert not (await asyncio.wait({missing}, timeout=0.5))[0], "the first attempt is under way"
        hanging.closing.set()
        await missing
        await dispatcher.log.written()
    rows = await stack.database.fetch("SELECT event_id, attempts FROM integration_deliveries")
    assert [tuple(row) for row in rows] == [(one.id, 1)] and len(hanging.all) == 1


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
    await asyncio.wait_for(dispatcher.log.written(), 30)
    noted = await stack.database.fetchval("SELECT count(*) FROM integration_deliveries WHERE event_id = $1", one.id)
    over.set()
    await going
    assert noted == 1 and dispatcher.log.lost == 0


@pytest.mark.own_service
async def test_lost_notes_are_counted_and_later_ones_written(stack: Stack, receiver: Receiver) -> None:
    """After any error, a caller that waits for the notes must ask again."""
    dispatcher = stack.engine.dispatcher
    row = {"integration_id": await register(stack, receiver, "prize_won")}
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(delivery_log, "_write", lambda *_: 1 / 0)
        dispatcher._skipped(row, event(stack), 0, "left alone")
        await dispatcher.log.written()
    assert dispatcher.log.lost == 1
    dispatcher._skipped(row, event(stack), 0, "left alone")
    await dispatcher.log.written()
    assert await stack.database.fetchval("SELECT count(*) FROM integration_deliveries") == 1


@pytest.mark.own_service
async def test_late_message_is_not_handled_until_the_log_has_it(stack: Stack, receiver: Receiver) -> None:
    """The watermark may have passed the event, so only its log row causes a retry."""
    dispatcher = stack.engine.dispatcher
    receiver.replies = [status(500)] * 2
    await register(stack, receiver, "prize_won")
    await stack.database.execute("UPDATE integrations SET heard_from = now() - interval '1 hour'")
    late = event(stack, occurred_at=stack.engine.clock.now() - 60)
    async with stack.database.connection() as rival, rival.transaction():
        await rival.execute("LOCK TABLE integration_deliveries IN EXCLUSIVE MODE")
        with pytest.raises(Fault) as refused:
            await dispatcher.tell_all([late])
        assert refused.value.status is Status.UNAVAILABLE
    await dispatcher.tell_all([late])
    rows = await stack.database.fetch("SELECT event_id, status FROM integration_deliveries")
    assert [tuple(row) for row in rows] == [(late.id, "retry")] and len(receiver.all) == 2


async def test_resumed_integration_gets_no_events_of_its_pause(stack: Stack, receiver: Receiver) -> None:
    """This also holds if a late event arrives after the integration has resumed."""
    path = f"/admin/integrations/{await register(stack, receiver, 'prize_won')}"
    # It has listened for long: only that it was paused keeps it from what happened meanwhile.
    await stack.database.execute("UPDATE integrations SET heard_from = now() - interval '1 hour'")
    assert (await stack.admin("PUT", path, {"status": "INTEGRATION_STATUS_PAUSED"})).code == "OK"
    missed = [event(stack, occurred_at=stack.engine.clock.now() - ago) for ago in (60, 5)]
    stack.engine.publisher.events(missed)
    assert (await stack.admin("PUT", path, {"status": "INTEGRATION_STATUS_ACTIVE"})).code == "OK"
    stack.engine.publisher.events([heard := event(stack)])
    async with working(stack.engine, "integrations"):
        assert (await receiver.next()).json["id"] == heard.id
        await deliveries(stack, path.rpartition("/")[2], 1)
    assert len(receiver.all) == 1


async def test_pass_with_an_expired_lease_does_not_end_the_next_lease(stack: Stack, receiver: Receiver) -> None:
    """Otherwise it would end the next lease early, and a third pass would begin beside it."""
    await register(stack, receiver, "play_completed")
    statements = sql.load("gaps")

    async def lease() -> Any:
        return await stack.database.fetchrow(statements["lease"], stack.tenant_id, 0.0, 10.0, 60.0)

    async def keep(mark: Any) -> Any:
        until = mark["leased_until"]
        return await stack.database.fetchval(statements["keep"], stack.tenant_id, mark["told_until"], 0.0, until)

    first = await lease()
    assert first is not None and await lease() is None, "one at a time"
    await stack.database.execute("UPDATE event_marks SET leased_until = now()")
    second = await lease()
    assert await keep(first) is None and await lease() is None
    assert await keep(second) is not None and await lease() is not None


async def test_event_is_not_retried_for_longer_than_the_schedule(stack: Stack, receiver: Receiver) -> None:
    """This holds even after few attempts, because a failing receiver gets only one attempt per half minute."""
    receiver.replies = [status(500)] * 50
    await register(stack, receiver, "prize_won")
    async with working(stack.engine, "integrations"):
        stack.engine.publisher.events([event(stack)])
        await until(lambda: ended(stack, "retry"))
        await stack.database.execute(
            "UPDATE integration_deliveries SET created_at = now() - interval '2 days', next_attempt_at = now()"
        )
        await until(lambda: ended(stack, "dead"))
    row = await stack.database.fetchrow("SELECT attempts, next_attempt_at FROM integration_deliveries")
    assert row is not None and tuple(row) == (2, None)


async def test_receiver_pause_request_is_honoured(stack: Stack, receiver: Receiver) -> None:
    receiver.replies = [status(503, Retry_After="600")]
    integration_id = await register(stack, receiver, "prize_won")
    async with working(stack.engine, "integrations"):
        stack.engine.publisher.events([event(stack)])
        [row] = await deliveries(stack, integration_id, 1)
    assert row["next_attempt_at"] >= row["created_at"] + 599


async def test_unreadable_stored_event_fails_alone(stack: Stack, receiver: Receiver) -> None:
    """For example one stored by another version. The other events are delivered."""
    receiver.replies = [status(500)] * 2
    integration_id = await register(stack, receiver, "prize_won")
    async with working(stack.engine, "integrations"):
        bad, good = event(stack), event(stack)
        stack.engine.publisher.events([bad, good])
        await deliveries(stack, integration_id, 2)
        await stack.database.execute(
            "UPDATE integration_deliveries SET event = '{\"odd\": 1}' WHERE event_id = $1", bad.id
        )
        await stack.database.execute("UPDATE integration_deliveries SET next_attempt_at = now()")
        await until(lambda: none_waits(stack))
    log = {row["event_id"]: row for row in await deliveries(stack, integration_id, 2)}
    assert log[good.id]["status"] == "INTEGRATION_DELIVERY_STATUS_DELIVERED"
    assert log[bad.id]["status"] == "INTEGRATION_DELIVERY_STATUS_DEAD"
    assert "cannot be read" in log[bad.id]["error"]


async def test_delivery_log_keeps_what_the_backfill_may_repeat(stack: Stack, receiver: Receiver) -> None:
    """Otherwise a delayed watermark would repeat thousands of events."""
    integration_id = await register(stack, receiver, "prize_won")
    await stack.database.execute(
        "INSERT INTO integration_deliveries (tenant_id, integration_id, delivery_id, event_id, event_type, status,"
        " created_at) SELECT $1, $2, 'delivery_' || n, 'evt_' || n, 'prize_won', 'delivered', now() - interval '1 hour'"
        " FROM generate_series(1, 1500) AS n",
        stack.tenant_id,
        integration_id,
    )
    counts = []
    for told in ("2 hours", "1 minute"):
        await stack.database.execute(
            "INSERT INTO event_marks VALUES ($1, now() - $2::text::interval, now()) ON CONFLICT (tenant_id)"
            " DO UPDATE SET told_until = excluded.told_until",
            stack.tenant_id,
            told,
        )
        await stack.database.execute(
            sql.load("integrations")["prune_deliveries"], stack.tenant_id, integration_id, 1000
        )
        counts.append(await stack.database.fetchval("SELECT count(*) FROM integration_deliveries"))
    assert counts == [1500, 1001]


async def test_deleted_integration_gets_no_notes(stack: Stack, receiver: Receiver, pool: asyncpg.Pool) -> None:
    integration_id = await register(stack, receiver, "prize_won")
    noted = (["dead"], [1], [None], [0], ["gone"], [1], [0.0], [""])
    row = ([integration_id], ["delivery_1"], ["evt_1"], ["prize_won"], *noted)
    async with pool.acquire() as connection:
        async with connection.transaction():
            await connection.execute(
                sql.load("integrations")["note_deliveries"], stack.tenant_id, *row, delays_seconds(), 1e5
            )
            deleting = asyncio.create_task(stack.admin("DELETE", f"/admin/integrations/{integration_id}"))
            await until(lambda: somebody_waits(stack))
        assert (await deleting).code == "OK"
    assert await stack.database.fetchval("SELECT count(*) FROM integration_deliveries") == 0


async def somebody_waits(stack: Stack) -> bool:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    return bool(await stack.database.fetchval(waiting))


async def none_waits(stack: Stack) -> bool:
    return not await stack.database.fetchval("SELECT count(*) FROM integration_deliveries WHERE status = 'retry'")


async def now(stack: Any) -> datetime:
    """The time by which it is all in the rows that has happened until here."""
    found: datetime = await stack.database.fetchval("SELECT clock_timestamp()")
    return found


async def passed(stack: Any, happened: datetime) -> bool:
    """Whether all until then has been looked for in the rows, and who missed some of it told."""
    query = "SELECT told_until > $2 FROM event_marks WHERE tenant_id = $1"
    return bool(await stack.database.fetchval(query, stack.tenant_id, happened))


async def ended(stack: Any, status: str) -> bool:
    return bool(await stack.database.fetchval("SELECT bool_and(status = $1) FROM integration_deliveries", status))
