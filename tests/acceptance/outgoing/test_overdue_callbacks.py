"""Deliveries that await a callback: one that does not come in time ends them, once, and what they held comes back."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from runtime.metrics import FULFILLMENT_TASKS
from runtime.outgoing.channels import CALLBACK_SECONDS_MAX, CALLBACK_SECONDS_MIN
from runtime.outgoing.providers import CHANNEL_PROVIDERS, Awaiting
from runtime.streams import expiry
from tests.support.deliveries import delivering, state, until_task, working
from tests.support.receiver import Receiver
from tests.support.stack import TO_LOOPBACK, Stack, fields_of
from tests.support.waiting import until
from tests.support.world import World

DAY = 86_400
pytestmark = pytest.mark.settings(**TO_LOOPBACK, callback_seconds=3 * DAY)


async def awaiting(
    world: World, receiver: Receiver, *players: str, total: int = 0, **config: Any
) -> tuple[str, list[str]]:
    """A game of a prize that a workflow delivers, won by these players and handed over: (it, their tasks)."""
    fulfillment = {"channel": "workflow", "config": {"url": receiver.url, "secret": "whsec_" + "A" * 32, **config}}
    prize_id = await world.prize(total=total, fulfillment=fulfillment)
    game_id = await world.wheel(prize_id)
    for player in players:
        assert (await world.round(game_id, player)).data["rewards"]

    async def handed_over() -> bool:
        # Also what was put back because the receiver had enough.
        await world.database.execute("UPDATE tasks SET next_attempt_at = now() WHERE status = 'retry'")
        async with delivering(world.stack.engine) as worker:
            await worker.sweep()
        return not await world.database.fetchval("SELECT count(*) FROM tasks WHERE status <> 'awaiting'")

    await until(handed_over)
    rows = await world.database.fetch("SELECT task_id FROM tasks WHERE prize_id = $1 ORDER BY task_id", prize_id)
    assert len(rows) == len(players)
    return game_id, [row["task_id"] for row in rows]


async def let_pass(world: World, seconds: float) -> None:
    await world.database.execute("UPDATE tasks SET lease_until = lease_until - make_interval(secs => $1)", seconds)


async def call(stack: Stack, task_id: str, said: str = "delivered", id: str = "c1") -> Any:
    return await stack.core("POST", f"/fulfillment/tasks/{task_id}/callback", {"status": said, "callback_id": id})


def dead() -> float:
    return float(FULFILLMENT_TASKS.labels("dead")._value.get())


async def test_overdue_callback_fails_its_delivery(own_world: World, stack: Stack, receiver: Receiver) -> None:
    game_id, [task_id] = await awaiting(own_world, receiver, "ann", total=1)
    before = dead()
    await let_pass(own_world, 3 * DAY - 60)
    assert await expiry.give_up_awaited(stack.engine) == 0
    await let_pass(own_world, 60)
    with capture_logs() as logs:
        assert await expiry.give_up_awaited(stack.engine) == 1
    assert [(line["event"], line["task_id"]) for line in logs] == [("callback_overdue", task_id)]
    assert await state(stack.engine, task_id) == ("dead", "failed")
    assert dead() == before + 1
    [task] = (await stack.admin("GET", "/admin/fulfillment/tasks", status="TASK_STATUS_DEAD")).data["items"]
    assert (task["id"], task["last_error"], task["next_attempt_at"]) == (task_id, expiry.NO_CALLBACK, 0)
    assert (await own_world.round(game_id, "bob")).data["rewards"]


async def test_overdue_callback_is_found_by_the_worker(own_world: World, stack: Stack, receiver: Receiver) -> None:
    _, [task_id] = await awaiting(own_world, receiver, "ann")
    await let_pass(own_world, 3 * DAY)
    async with working(stack.engine, "deliveries"):
        assert await until_task(stack.engine, task_id, "dead") == ("dead", "failed")


async def test_callback_seconds_of_a_prize_override_the_setting(
    own_world: World, stack: Stack, receiver: Receiver
) -> None:
    _, [short] = await awaiting(own_world, receiver, "ann", callback_seconds=60)
    _, [usual] = await awaiting(own_world, receiver, "ann")
    await let_pass(own_world, 60)
    assert await expiry.give_up_awaited(stack.engine) == 1
    assert (await state(stack.engine, short))[0] == "dead"
    assert (await state(stack.engine, usual))[0] == "awaiting"


async def test_callback_seconds_out_of_bounds_or_of_another_channel_are_refused(stack: Stack) -> None:
    async def make(channel: str, seconds: Any) -> Any:
        config = {"url": "https://hooks.example/x", "callback_seconds": seconds}
        body = {"name": "Mug", "type": "goods", "fulfillment": {"channel": channel, "config": config}}
        return await stack.admin("POST", "/admin/prizes", body)

    wrong = [CALLBACK_SECONDS_MIN - 1, CALLBACK_SECONDS_MAX + 1, "60", True, None, -1]
    named = [fields_of(await make("workflow", seconds)) for seconds in wrong] + [fields_of(await make("webhook", 60))]
    assert named == [["fulfillment.config.callback_seconds"]] * 7
    assert (await make("workflow", 60)).data["fulfillment"]["config"]["callback_seconds"] == 60


async def test_manual_delivery_is_awaited_for_ever(own_world: World, stack: Stack) -> None:
    request: Any = None
    assert await CHANNEL_PROVIDERS.require("manual", "channel")(request, request) == Awaiting(seconds=0)
    game_id = await own_world.wheel(
        await own_world.prize(fulfillment={"channel": "webhook", "config": {"url": "http://203.0.113.7/"}})
    )
    await own_world.round(game_id)
    # As a plugin's channel for people leaves it, or one that was changed to `manual` after the win.
    await own_world.database.execute("UPDATE tasks SET channel = 'manual', next_attempt_at = now()")
    async with delivering(stack.engine) as worker:
        await worker.sweep()
    row = await own_world.database.fetchrow("SELECT status, lease_until FROM tasks")
    assert row is not None and tuple(row) == ("awaiting", None)
    assert await expiry.give_up_awaited(stack.engine) == 0


async def test_retry_by_hand_is_awaited_anew(own_world: World, stack: Stack, receiver: Receiver) -> None:
    _, [task_id] = await awaiting(own_world, receiver, "ann", total=1)
    await let_pass(own_world, 3 * DAY)
    await expiry.give_up_awaited(stack.engine)
    assert (await stack.admin("POST", f"/admin/fulfillment/tasks/{task_id}/retry", {})).http == 200
    async with delivering(stack.engine) as worker:
        await worker.sweep()
    assert await state(stack.engine, task_id) == ("awaiting", "fulfilling")
    assert await expiry.give_up_awaited(stack.engine) == 0
    assert (await call(stack, task_id)).data["task"]["status"] == "TASK_STATUS_DELIVERED"
