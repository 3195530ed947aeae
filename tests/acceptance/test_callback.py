"""The callback of workflows: signed over its raw body, within five minutes, with one effect."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks import Webhook

from runtime.operations import API
from tests.support.deliveries import SECRET, delivering, make_due, make_receiver_prize, make_task, state
from tests.support.receiver import Receiver
from tests.support.stack import TO_LOOPBACK

pytestmark = pytest.mark.settings(**TO_LOOPBACK)


@pytest.fixture
async def task_id(stack: Any, engine: Any, receiver: Receiver) -> str:
    """A task that awaits its workflow."""
    prize_id = await make_receiver_prize(engine, stack.tenant_id, receiver.url, "workflow")
    task_id = await make_task(engine, stack.tenant_id, prize_id)
    async with delivering(engine) as worker:
        await worker.sweep()
    assert await state(engine, task_id) == ("awaiting", "fulfilling")
    return task_id


async def call(
    stack: Any,
    task_id: str,
    body: str = '{"status": "delivered"}',
    *,
    id: str = "msg_1",
    at: float = 0,
    secret: str = SECRET,
    sent: bytes | None = None,
    tenant_id: str = "",
) -> tuple[int, dict[str, Any]]:
    """(HTTP status, data) of a callback signed as an independent workflow would."""
    when = datetime.fromtimestamp(int(at or time.time()), UTC)
    headers = {
        "webhook-id": id,
        "webhook-timestamp": str(int(when.timestamp())),
        "webhook-signature": Webhook(secret).sign(id, when, body),
    }
    url = f"{stack.process.admin_url}{API}/fulfillment/tasks/{task_id}/callback"
    query = {"tenant_id": tenant_id or stack.tenant_id}
    async with stack.http.post(url, params=query, data=sent or body.encode(), headers=headers) as answer:
        return answer.status, (await answer.json())["data"]


async def test_the_url_that_the_workflow_got_takes_its_callback(
    stack: Any, engine: Any, receiver: Receiver, task_id: str
) -> None:
    url = (await receiver.next()).json["data"]["callback_url"]
    assert url.partition("/api/v1")[2] == f"/fulfillment/tasks/{task_id}/callback?tenant_id={stack.tenant_id}"
    http, data = await call(stack, task_id, '{"status": "delivered", "external_id": "run-7"}')
    assert (http, data["status"], data["id"]) == (200, "TASK_STATUS_DELIVERED", task_id)
    assert await state(engine, task_id) == ("delivered", "fulfilled")
    assert await engine.database.fetchval("SELECT external_id FROM tasks") == "run-7"


async def test_a_replayed_callback_has_one_effect(stack: Any, engine: Any, task_id: str) -> None:
    answers = await asyncio.gather(*[call(stack, task_id) for _ in range(10)])
    assert [http for http, _ in answers] == [200] * 10
    fulfilled_at = await engine.database.fetchval("SELECT fulfilled_at FROM rewards")
    await call(stack, task_id)
    assert await engine.database.fetchval("SELECT fulfilled_at FROM rewards") == fulfilled_at


async def test_a_failed_callback_is_an_attempt_that_failed(stack: Any, engine: Any, task_id: str) -> None:
    http, data = await call(stack, task_id, '{"status": "failed", "error": "no such SKU"}')
    assert (http, data["status"], data["last_error"]) == (200, "TASK_STATUS_RETRY", "no such SKU")
    assert await state(engine, task_id) == ("retry", "fulfilling")
    # The next attempt awaits again; the old callback, replayed, is not its failure.
    await make_due(engine, task_id)
    async with delivering(engine) as worker:
        await worker.sweep()
    assert (await state(engine, task_id))[0] == "awaiting"
    assert (await call(stack, task_id, '{"status": "failed", "error": "no such SKU"}'))[1][
        "status"
    ] == "TASK_STATUS_AWAITING"
    assert (await call(stack, task_id, '{"status": "failed"}', id="msg_2"))[1]["status"] == "TASK_STATUS_RETRY"


async def test_the_last_attempts_failure_is_dead_and_a_late_delivery_still_counts(
    stack: Any, engine: Any, task_id: str
) -> None:
    await engine.database.execute("UPDATE tasks SET attempts = 8")
    assert (await call(stack, task_id, '{"status": "failed"}'))[1]["status"] == "TASK_STATUS_DEAD"
    assert await state(engine, task_id) == ("dead", "failed")
    assert (await call(stack, task_id, id="msg_2"))[1]["status"] == "TASK_STATUS_DELIVERED"
    assert await state(engine, task_id) == ("delivered", "fulfilled")
    http, data = await call(stack, task_id, '{"status": "failed"}', id="msg_3")
    assert (http, data["reason"]) == (400, "ILLEGAL_TRANSITION")


async def test_what_does_not_verify_changes_nothing_and_is_one_answer(stack: Any, engine: Any, task_id: str) -> None:
    body = b'{"status": "delivered"}'
    flipped = bytes([body[0], body[1] ^ 1]) + body[2:]
    other = "whsec_" + "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB"
    answers = [
        await call(stack, task_id, sent=flipped),
        await call(stack, task_id, sent=b"\xff\xfe"),
        await call(stack, task_id, secret=other),
        await call(stack, task_id, at=time.time() - 301),
        await call(stack, task_id, at=time.time() + 302),
        await call(stack, "task_unknown"),
        await call(stack, task_id, tenant_id="tenant_other"),
        await call(stack, task_id, id="x" * 300),
        await call(stack, task_id, body=" " * 20_000 + "{}"),
    ]
    assert {(http, data["reason"]) for http, data in answers} == {(401, "SIGNATURE_INVALID")}
    assert await state(engine, task_id) == ("awaiting", "fulfilling")


@pytest.mark.parametrize("body", ['{"status": "maybe"}', "{}", "[]", '{"status": "delivered", "more": 1}', "not json"])
async def test_a_signed_body_that_says_nothing_is_refused(stack: Any, engine: Any, task_id: str, body: str) -> None:
    http, _ = await call(stack, task_id, body)
    assert http == 400
    assert (await state(engine, task_id))[0] == "awaiting"


async def test_a_prize_without_a_secret_takes_no_callback(stack: Any, engine: Any, task_id: str) -> None:
    await engine.database.execute("UPDATE prizes SET channel_config = channel_config - 'secret'")
    assert (await call(stack, task_id))[0] == 401
