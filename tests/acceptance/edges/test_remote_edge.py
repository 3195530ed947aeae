"""An admin edge in a process of its own, over RPC: what does not go through the table of operations alone."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from runtime.app import running
from runtime.operations import API
from tests.support.deliveries import make_receiver_prize, make_task, signed, state, sweep
from tests.support.receiver import Receiver
from tests.support.resources import make_prize
from tests.support.stack import TO_LOOPBACK, Stack

VOUCHER = {"fulfillment": {"redemption_mode": "REDEMPTION_MODE_ON_WIN", "channel": "voucher_code"}}


pytestmark = pytest.mark.settings(**TO_LOOPBACK)


@pytest.fixture
async def edge(stack: Stack) -> AsyncIterator[Stack]:
    settings = replace(stack.process.settings, database_url="", server_keys=(), code_keys=())
    settings = replace(settings, core_rpc_addresses=(stack.process.rpc_address,))
    async with running(settings, ["admin"]) as process:
        assert process.engine is None and process.core is None
        yield replace(stack, process=process)


async def test_codes_are_imported_in_parts(stack: Stack, edge: Stack) -> None:
    prize_id = await make_prize(stack, **VOUCHER)
    # As long as codes may be, and more than one call's: no part may exceed what a message may hold.
    codes = [f"{number:0128d}" for number in range(6_000)]
    lines = [*codes, codes[7], "has space"]
    path = f"/admin/prizes/{prize_id}/codes"
    said = (await edge.upload(path, "\n".join(lines), "text/plain")).data
    errors = [(one["line"], one["reason"]) for one in said.pop("errors")]
    assert errors == [(6_001, "duplicate"), (6_002, "contains white space or unprintable characters")]
    assert said == {"added": 6_000, "duplicates": 1, "invalid": 1, "available": 6_000}
    said = (await edge.admin("POST", path, {"codes": codes[:10]})).data
    assert (said["added"], said["duplicates"]) == (0, 10)


async def test_code_that_no_message_could_carry_is_one_wrong_line(stack: Stack, edge: Stack) -> None:
    for one in (stack, edge):
        prize_id = await make_prize(stack, **VOUCHER)
        body = b'{"codes": ["A-1", "half \\ud83d", "nothing\\u0000", "A-2"]}'
        said = (await one.upload(f"/admin/prizes/{prize_id}/codes", body, "application/json")).data
        assert (said["added"], [error["line"] for error in said["errors"]]) == (2, [2, 3])


async def test_callback_is_verified_by_core(stack: Stack, edge: Stack, receiver: Receiver) -> None:
    engine = stack.engine
    task_id = await make_task(
        engine, stack.tenant_id, await make_receiver_prize(engine, stack.tenant_id, receiver.url, "workflow")
    )
    await sweep(engine)
    assert await state(engine, task_id) == ("awaiting", "fulfilling")
    sent: str = (await receiver.next()).json["data"]["callback_url"]
    path = sent.partition(API)[2]

    async def call(body: str, text: str) -> tuple[int, dict[str, Any]]:
        answer = await edge.upload(path, body, role="", headers=signed(text, id="msg_1"))
        return answer.http, answer.envelope["data"]

    body = '{"status": "delivered", "external_id": "x-1"}'
    status, data = await call(body, body + " ")
    assert (status, data["reason"]) == (401, "SIGNATURE_INVALID")
    status, data = await call(body, body)
    assert (status, data["status"]) == (200, "TASK_STATUS_DELIVERED")
    assert await call(body, body) == (200, data), "again: the same answer"
    assert await state(engine, task_id) == ("delivered", "fulfilled")
