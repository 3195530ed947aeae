import asyncio
import base64
import hmac
import json
import time
from typing import Any
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

from runtime.metrics import FULFILLMENT_TASKS
from runtime.operations import API
from runtime.outgoing.channels import CALLBACK_SECONDS_MAX, CALLBACK_SECONDS_MIN
from runtime.outgoing.providers import CHANNEL_PROVIDERS, Awaiting
from runtime.streams import expiry
from tests.support.deliveries import SECRET, make_receiver_prize, make_task, signed, state, sweep, until_task, working
from tests.support.receiver import Receiver
from tests.support.stack import TO_LOOPBACK, Stack, fields_of
from tests.support.waiting import until
from tests.support.world import World


@pytest.fixture
async def task_id(stack: Any, engine: Any, receiver: Receiver) -> str:
    prize_id = await make_receiver_prize(engine, stack.tenant_id, receiver.url, "workflow")
    task_id = await make_task(engine, stack.tenant_id, prize_id)
    await sweep(engine)
    assert await state(engine, task_id) == ("awaiting", "fulfilling")
    return task_id


def token_of(stack: Any, task_id: str) -> str:
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    text = f"callback\n{stack.tenant_id}\n{task_id}".encode()
    return base64.urlsafe_b64encode(hmac.digest(key, text, "sha256")[:16]).decode().rstrip("=")


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
    token: str | None = None,
) -> tuple[int, dict[str, Any]]:
    """(HTTP status, data) of a callback to the URL that the workflow was sent, but for what is said otherwise."""
    query = {"tenant_id": tenant_id or stack.tenant_id, "token": token_of(stack, task_id) if token is None else token}
    path, headers = f"/fulfillment/tasks/{task_id}/callback", signed(body, id=id, at=at, secret=secret)
    answer = await stack.upload(path, sent or body.encode(), role="", headers=headers, **query)
    return answer.http, answer.envelope["data"]


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature", "X-Tenant-Id"])
async def test_callback_whose_header_is_no_text_is_refused(stack: Any, engine: Any, task_id: str, name: str) -> None:
    body = b'{"status": "delivered"}'
    headers = {one: text.encode() for one, text in signed(body.decode(), id="msg_1").items()} | {name: b"x\xff"}
    query = f"token={token_of(stack, task_id)}" + ("" if name == "X-Tenant-Id" else f"&tenant_id={stack.tenant_id}")
    path = f"{API}/fulfillment/tasks/{task_id}/callback?{query}"
    lines = [f"POST {path} HTTP/1.1".encode(), b"Host: x", b"Connection: close", b"Content-Length: %d" % len(body)]
    lines += [one.encode() + b": " + value for one, value in headers.items()]
    address = urlsplit(stack.process.admin_url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(b"\r\n".join([*lines, b"", body]))
    envelope = json.loads((await reader.read()).partition(b"\r\n\r\n")[2])
    writer.close()
    assert envelope["data"]["reason"] == "SIGNATURE_INVALID", envelope
    assert await state(engine, task_id) == ("awaiting", "fulfilling")


async def test_callback_error_is_text_that_can_be_shown(stack: Any, engine: Any, task_id: str) -> None:
    for wrong in ({"error": "\x1b[31mred"}, {"external_id": "a\nb"}, {"error": "x" * 501}):
        http, data = await call(stack, task_id, json.dumps({"status": "failed", **wrong}))
        assert (http, [row["field"] for row in data["violations"]]) == (400, list(wrong))
    assert await state(engine, task_id) == ("awaiting", "fulfilling")
    message = "Traceback:\n\tno such address"
    assert (await call(stack, task_id, json.dumps({"status": "failed", "error": message})))[0] == 200
    tasks = (await stack.admin("GET", "/admin/fulfillment/tasks")).data["items"]
    assert [task["last_error"] for task in tasks] == [message]
    http, data = await call(stack, task_id)
    assert (http, data["reason"]) == (422, "IDEMPOTENCY_MISMATCH"), "the id has reported the failure"
    assert (await call(stack, task_id, id="msg_2"))[0] == 200


@pytest.mark.fault("Callback replay", size="10 at once", figure="1 effect")
async def test_replayed_callback_has_one_effect(stack: Any, engine: Any, task_id: str) -> None:
    assert [http for http, _ in await asyncio.gather(*[call(stack, task_id) for _ in range(10)])] == [200] * 10
    fulfilled_at = await engine.database.fetchval("SELECT fulfilled_at FROM rewards")
    await call(stack, task_id)
    assert await engine.database.fetchval("SELECT fulfilled_at FROM rewards") == fulfilled_at
    assert (await call(stack, task_id, '{"status": "failed"}', id="msg_2"))[1]["reason"] == "ILLEGAL_TRANSITION"


@pytest.mark.fault("Callback replay", size="301 s old, a flipped bit, 10 more", figure="401")
async def test_unverified_callback_gets_one_answer_and_changes_nothing(stack: Any, engine: Any, task_id: str) -> None:
    body = b'{"status": "delivered"}'
    flipped = bytes([body[0], body[1] ^ 1]) + body[2:]
    wrong: list[dict[str, Any]] = [
        *({"sent": flipped}, {"sent": b"\xff\xfe"}, {"secret": "whsec_" + "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB"}),
        *({"at": time.time() - 301}, {"at": time.time() + 302}, {"id": "x" * 300}, {"tenant_id": "tenant_other"}),
        *({"body": " " * 20_000 + "{}"}, {"token": ""}, {"token": "\xe9"}, {"token": token_of(stack, "task_other")}),
    ]
    answers = [await call(stack, "task_unknown"), *[await call(stack, task_id, **one) for one in wrong]]
    assert {(http, data["reason"]) for http, data in answers} == {(401, "SIGNATURE_INVALID")}
    assert await state(engine, task_id) == ("awaiting", "fulfilling")


@pytest.mark.parametrize("body", ['{"status": "maybe"}', "{}", "[]", '{"status": "delivered", "more": 1}', "not json"])
async def test_callback_with_a_wrong_body_is_refused(stack: Any, engine: Any, task_id: str, body: str) -> None:
    http, _ = await call(stack, task_id, body)
    assert http == 400
    assert (await state(engine, task_id))[0] == "awaiting"


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
        await sweep(world.stack.engine)
        return not await world.database.fetchval("SELECT count(*) FROM tasks WHERE status <> 'awaiting'")

    await until(handed_over)
    rows = await world.database.fetch("SELECT task_id FROM tasks WHERE prize_id = $1 ORDER BY task_id", prize_id)
    assert len(rows) == len(players)
    return game_id, [row["task_id"] for row in rows]


async def let_pass(world: World, seconds: float) -> None:
    await world.database.execute("UPDATE tasks SET lease_until = lease_until - make_interval(secs => $1)", seconds)


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


async def test_prizes_callback_seconds_override_the_setting(own_world: World, stack: Stack, receiver: Receiver) -> None:
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
    fulfillment = {"channel": "webhook", "config": {"url": "http://203.0.113.7/"}}
    await own_world.round(await own_world.wheel(await own_world.prize(fulfillment=fulfillment)))
    # As a plugin's channel for people leaves it, or one that was changed to `manual` after the win.
    await own_world.database.execute("UPDATE prizes SET channel = 'manual', channel_config = '{}'")
    await own_world.database.execute("UPDATE tasks SET next_attempt_at = now()")
    await sweep(stack.engine)
    row = await own_world.database.fetchrow("SELECT status, lease_until FROM tasks")
    assert row is not None and tuple(row) == ("awaiting", None)
    assert await expiry.give_up_awaited(stack.engine) == 0
