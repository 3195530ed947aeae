import json
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import REGISTRY
from standardwebhooks import Webhook

from runtime.outgoing.schedule import JITTER, SCHEDULE_SECONDS, delay_seconds
from tests.support import deliveries
from tests.support.receiver import Receiver, status
from tests.support.rewards import Shelf
from tests.support.stack import TO_LOOPBACK
from tests.support.waiting import until

pytestmark = pytest.mark.settings(**TO_LOOPBACK)


def counted(outcome: str) -> float:
    return REGISTRY.get_sample_value("fulfillment_tasks_total", {"outcome": outcome}) or 0.0


async def test_task_on_the_stream_is_delivered_signed_and_once(stack: Any, engine: Any, receiver: Receiver) -> None:
    headers = {"X-Shop": "7", "Webhook-Id": "z"}
    prize_id = await deliveries.make_receiver_prize(engine, stack.tenant_id, receiver.url, headers=headers)
    before = counted("delivered")
    async with deliveries.working(engine, "deliveries"):
        task_id = await deliveries.make_task(engine, stack.tenant_id, prize_id)
        engine.publisher.tasks(stack.tenant_id, [task_id])
        got = await receiver.next()
        assert await deliveries.until_task(engine, task_id, "delivered") == ("delivered", "fulfilled")
    Webhook(deliveries.SECRET).verify(got.body, dict(got.headers))
    assert got.headers["webhook-id"] == got.json["id"] == task_id
    assert got.headers["X-Service-Signature"] == got.headers["webhook-signature"]
    assert got.headers["X-Shop"] == "7"
    assert got.json["type"] == "fulfillment.requested" and got.json["tenant_id"] == stack.tenant_id
    data = got.json["data"]
    assert data["prize"]["id"] == prize_id and data["player_id"] == "player_a"
    path, _, query = data["callback_url"].partition("?")
    assert path.endswith(f"/api/v1/fulfillment/tasks/{task_id}/callback")
    assert query.startswith(f"tenant_id={stack.tenant_id}&token=")
    assert len(receiver.all) == 1
    assert counted("delivered") == before + 1
    assert deliveries.SECRET not in got.body.decode()


async def test_failed_delivery_is_retried_on_schedule_then_dead(stack: Any, engine: Any, receiver: Receiver) -> None:
    receiver.replies = [status(500)] * (len(SCHEDULE_SECONDS) + 1)
    prize_id = await deliveries.make_receiver_prize(engine, stack.tenant_id, receiver.url)
    task_id = await deliveries.make_task(engine, stack.tenant_id, prize_id)
    before = counted("retry"), counted("dead")
    for attempt, pause in enumerate(SCHEDULE_SECONDS, 1):
        assert await deliveries.sweep(engine) == 1
        row = await engine.database.fetchrow(
            "SELECT status, attempts, last_error, extract(epoch FROM next_attempt_at - updated_at)::float8 AS pause"
            " FROM tasks WHERE task_id = $1",
            task_id,
        )
        assert (row["status"], row["attempts"], row["last_error"]) == ("retry", attempt, "HTTP 500")
        assert pause <= row["pause"] <= pause * (1 + JITTER)
        assert (await deliveries.state(engine, task_id))[1] == "fulfilling"
        assert await deliveries.sweep(engine) == 0, "not before its time"
        await deliveries.make_due(engine, task_id)
    await deliveries.sweep(engine)
    assert await deliveries.state(engine, task_id) == ("dead", "failed")
    assert (counted("retry"), counted("dead")) == (before[0] + len(SCHEDULE_SECONDS), before[1] + 1)
    assert {got.headers["webhook-id"] for got in receiver.all} == {task_id}


async def test_retry_after_longer_than_the_schedule_is_honoured(stack: Any, engine: Any, receiver: Receiver) -> None:
    receiver.replies = [status(429, Retry_After="120")]
    prize_id = await deliveries.make_receiver_prize(engine, stack.tenant_id, receiver.url)
    await deliveries.make_task(engine, stack.tenant_id, prize_id)
    await deliveries.sweep(engine)
    pause = "SELECT extract(epoch FROM next_attempt_at - updated_at)::float8 FROM tasks"
    assert await engine.database.fetchval(pause) == 120
    assert (delay_seconds(2, 1.0) or 0) >= SCHEDULE_SECONDS[1]


@pytest.mark.parametrize(("http", "ended"), [(410, "dead"), (400, "retry"), (302, "retry"), (201, "delivered")])
async def test_delivery_ends_by_the_answer(stack: Any, engine: Any, receiver: Receiver, http: int, ended: str) -> None:
    receiver.replies = [status(http, Location="http://169.254.169.254/latest/meta-data")]
    prize_id = await deliveries.make_receiver_prize(engine, stack.tenant_id, receiver.url)
    task_id = await deliveries.make_task(engine, stack.tenant_id, prize_id)
    await deliveries.sweep(engine)
    assert (await deliveries.state(engine, task_id))[0] == ended


async def test_delivery_shows_requests_and_answers_without_secrets(stack: Any, engine: Any, receiver: Receiver) -> None:
    async def repeats(got: Any) -> web.StreamResponse:
        return web.Response(
            status=503, text=f"{deliveries.SECRET} {got.headers['webhook-signature']} {got.json['data']}" + "x" * 3000
        )

    async def thanks(_: Any) -> web.StreamResponse:
        return web.Response(text="thank you")

    receiver.replies = [repeats, thanks]
    prize_id = await deliveries.make_receiver_prize(engine, stack.tenant_id, receiver.url)
    task_id = await deliveries.make_task(engine, stack.tenant_id, prize_id)
    reward_id = await engine.database.fetchval("SELECT reward_id FROM tasks WHERE task_id = $1", task_id)

    async def delivery() -> dict[str, Any]:
        return dict((await stack.admin("GET", f"/admin/rewards/{reward_id}")).data["delivery"])

    before = await delivery()
    assert (before["task"]["id"], before["task"]["status"]) == (task_id, "TASK_STATUS_PENDING")
    assert (before["request"], before["answer"], before["tried_at"]) == ("", "", 0), "nothing was sent"
    await deliveries.sweep(engine)
    failed = await delivery()
    sent = json.loads(failed["request"])
    token = receiver.all[0].json["data"]["callback_url"].partition("&token=")[2]
    sent["data"]["callback_url"] = sent["data"]["callback_url"].replace("****", token)
    assert sent == receiver.all[0].json and token and token not in failed["request"]
    assert len(failed["answer"]) == 2048 and failed["answer"].startswith("**** **** {'reward'")
    for text in (failed["answer"], failed["task"]["last_error"]):
        assert token not in text and deliveries.SECRET.removeprefix("whsec_") not in text
    assert failed["tried_at"] >= failed["task"]["created_at"] and failed["duration_ms"] >= 0
    await deliveries.make_due(engine, task_id)
    await deliveries.sweep(engine)
    done = await delivery()
    assert (done["task"]["status"], done["answer"]) == ("TASK_STATUS_DELIVERED", "thank you")
    assert (done["request"], done["task"]["attempts"]) == (failed["request"], 2)
    first = {name: failed[name] for name in ("tried_at", "duration_ms", "answer")}
    assert done["earlier"] == [first | {"error": failed["task"]["last_error"]}] and failed["earlier"] == []


async def test_dead_task_is_retried_by_an_admin(stack: Any, engine: Any, receiver: Receiver) -> None:
    receiver.replies = [status(410)]
    prize_id = await deliveries.make_receiver_prize(engine, stack.tenant_id, receiver.url)
    task_id = await deliveries.make_task(engine, stack.tenant_id, prize_id)
    async with deliveries.working(engine, "deliveries"):
        await deliveries.until_task(engine, task_id, "dead")
        listed = await stack.admin("GET", "/admin/fulfillment/tasks", status="TASK_STATUS_DEAD", prize=prize_id)
        [item] = listed.data["items"]
        assert (item["id"], item["last_error"], item["attempts"]) == (task_id, "HTTP 410", 1)
        armed = await stack.admin("POST", f"/admin/fulfillment/tasks/{task_id}/retry", {})
        assert armed.data["status"] == "TASK_STATUS_PENDING"
        assert await deliveries.until_task(engine, task_id, "delivered") == ("delivered", "fulfilled")
    again = await stack.admin("POST", f"/admin/fulfillment/tasks/{task_id}/retry", {})
    assert (again.http, again.reason) == (400, "ILLEGAL_TRANSITION")
    unknown = await stack.admin("POST", "/admin/fulfillment/tasks/task_x/retry", {})
    assert (unknown.http, unknown.reason) == (404, "UNKNOWN_TASK")


async def test_rewards_expire_in_the_deliveries_worker(stack: Any, engine: Any) -> None:
    shelf = await Shelf(engine, stack.tenant_id).open()
    reward_id = await shelf.reward(await shelf.prize(), expires_in_seconds=-1)
    async with deliveries.working(engine, "deliveries"):
        await until(lambda: shelf.row(reward_id), lambda row: row["status"] == "expired")
