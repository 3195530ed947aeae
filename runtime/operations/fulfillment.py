"""Delivery tasks for operators and workflows: list, retry, and the callback that completes an awaited task.

Workers make the deliveries (runtime/streams/delivery.py). States: sql/fulfillment.sql.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.deliveries import publish_failed
from runtime.actors.engine import Engine
from runtime.actors.rewards import HOLDING, give_back, lock_reward, take_again
from runtime.errors import Fault, Status, invalid, unknown
from runtime.metrics import FULFILLMENT_TASKS
from runtime.operations import audit, reading
from runtime.operations.checks import TIME_MAX, Checks
from runtime.operations.idempotent_writes import once
from runtime.operations.row import REWARD_MANAGERS, SIGNED, STAFF, Command, Operation
from runtime.operations.signed import not_signed, signers
from runtime.outgoing.schedule import delays_seconds
from runtime.outgoing.signing import SignatureRefused, verify_callback_token
from runtime.outgoing.vault import prize_context
from runtime.wire.contacts import spellings
from runtime.wire.enums import token
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("fulfillment")


async def list_tasks(engine: Engine, request: m.ListTasksRequest) -> m.ListTasksReply:
    """Tasks, newest first. Filters: status, campaign, prize, the winner's full e-mail address or phone number, and
    creation time.

    A merchant's staff finds only tasks of the merchant's campaigns.
    """
    checks = Checks()
    checks.between("since", request.since, 0, TIME_MAX)
    checks.between("until", request.until, 0, TIME_MAX)
    checks.raise_found()
    statement = "list"
    filters: tuple[Any, ...] = (token(request.status), request.campaign_id, request.prize_id, merchant_of(request))
    if request.contact or request.since or request.until:
        statement = "search"
        contacts = spellings(request.contact) if request.contact else None
        made = ids.between("task", request.since, request.until)
        filters = (*filters, contacts, request.since, request.until, *made)
    rows, pagination = await reading.page(engine, _SQL[statement], request, tenant_of(request), *filters, key="task_id")
    return m.ListTasksReply(items=[task_message(row) for row in rows], pagination=pagination)


async def retry_task(engine: Engine, request: m.RetryTaskRequest) -> m.TaskReply:
    """Makes a task due now and restarts its retry schedule. A pending task stays unchanged.

    A retry with the same Idempotency-Key gets the first reply, whatever happened to the task since; only `last_error`
    is current.

    FAILED_PRECONDITION ILLEGAL_TRANSITION if the task is delivered, cancelled or being delivered. OUT_OF_STOCK if it
    is dead and another player has won its unit since.
    """
    tenant_id = tenant_of(request)

    async def work(connection: asyncpg.Connection) -> m.TaskReply:
        reward_id, before = await _lock(connection, tenant_id, request.id)
        row = await connection.fetchrow(_SQL["rearm"], tenant_id, request.id, merchant_of(request))
        if row is None:
            raise await reading.write_refusal(connection, _SQL["seen"], request, "task", request.id)
        if not row["rearmed"]:
            raise _illegal(row, "retry")
        if before == "failed":
            await retake(connection, tenant_id, reward_id)
        after = {"reward_id": reward_id, "player_id": row["player_id"], "status": row["status"]}
        await audit.record(connection, tenant_id, "task.retry", request.id, after=after)
        # Stored without last_error, the receiver's text: erasure clears that column, but not stored replies.
        return m.TaskReply(task=replace(task_message(row), last_error=""))

    reply: m.TaskReply = (await once(engine, request, m.TaskReply, work)).reply
    engine.publisher.tasks(tenant_id, [request.id])
    about = await engine.database.fetchrow(_SQL["about"], tenant_id, request.id)
    assert reply.task is not None and about is not None, "tasks are never removed"
    reply.task.last_error = about["last_error"]
    return reply


async def complete_task(engine: Engine, request: m.CompleteTaskRequest) -> m.TaskReply:
    """Handles a callback: the task was delivered, or an attempt failed. Repeating a callback has no effect.

    Delivered is final: a later failure is FAILED_PRECONDITION ILLEGAL_TRANSITION, as is any callback of a cancelled
    task. UNAUTHENTICATED SIGNATURE_INVALID if the callback's id was used for another task. INVALID_ARGUMENT
    IDEMPOTENCY_MISMATCH if it reported a failure before and now reports the delivery. OUT_OF_STOCK if a dead task is
    reported delivered and another player has won its unit since.
    """
    tenant_id = tenant_of(request)
    if request.status not in ("delivered", "failed"):
        raise invalid("status", "must be delivered or failed")
    report = (request.status, request.external_id, request.error, request.callback_id, delays_seconds())

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        reward_id, before = await _lock(connection, tenant_id, request.id)
        row = await connection.fetchrow(_SQL["complete"], tenant_id, request.id, *report)
        assert row is not None, "tasks are never removed"
        if row["outcome"] == "dead" and before in HOLDING:
            await give_back(connection, tenant_id, [reward_id])
        elif row["outcome"] == "delivered" and before == "failed":
            await retake(connection, tenant_id, reward_id)
        return row

    row = await engine.database.transaction(work)
    if row["misused"]:
        raise not_signed()
    if row["outcome"] is not None:
        FULFILLMENT_TASKS.labels(row["outcome"]).inc()
        await publish_failed(engine, tenant_id, [request.id] if row["outcome"] == "dead" else ())
    elif row["status"] == "cancelled" or (row["status"] == "delivered" and request.status == "failed"):
        raise _illegal(row, f"a callback {request.status!r}")
    elif request.status == "delivered" and row["status"] != "delivered":
        message = "this callback's id has reported a failure; report the delivery with a new id"
        raise Fault(Status.INVALID_ARGUMENT, "IDEMPOTENCY_MISMATCH", message, http_status=422)
    return m.TaskReply(task=task_message(row))


async def retake(connection: asyncpg.Connection, tenant_id: str, reward_id: str) -> None:
    """As take_again. Its audit entry tells the readers of a dossier that the unit was free in between."""
    await take_again(connection, tenant_id, reward_id)
    await audit.record(connection, tenant_id, "reward.retake", reward_id)


async def _lock(connection: asyncpg.Connection, tenant_id: str, task_id: str) -> tuple[str, str]:
    """Locks the stock, code and reward that the task's end may change. Returns (reward id, its stored state)."""
    about = await connection.fetchrow(_SQL["about"], tenant_id, task_id)
    if about is None:
        raise unknown("task", task_id)
    return about["reward_id"], await lock_reward(connection, tenant_id, about["reward_id"], about["prize_id"])


async def verify_callback(engine: Engine, request: m.VerifyCallbackRequest) -> m.VerifyCallbackReply:
    """Whether the prize's secret signed this callback, within the tolerance of the database's time, and made the
    token of its URL for this task.

    An unknown task and a prize without a secret get the same answer as a wrong signature.
    """
    tenant_id = tenant_of(request)
    row = await engine.database.fetchrow(_SQL["receiver"], tenant_id, request.id)
    if row is None:
        return m.VerifyCallbackReply(verified=False)
    try:
        secrets = signers(engine, request, row["channel_config"], prize_context(tenant_id, row["prize_id"]))
        verify_callback_token(secrets, tenant_id, request.id, request.token)
    except SignatureRefused:
        return m.VerifyCallbackReply(verified=False)
    return m.VerifyCallbackReply(verified=True)


def _illegal(row: Any, move: str) -> Fault:
    status = m.TaskStatus[row["status"].upper()]
    return Fault(
        Status.FAILED_PRECONDITION,
        "ILLEGAL_TRANSITION",
        f"task {row['task_id']} is {row['status']}: {move} is not allowed",
        task_status=status.proto_name,
    )


def task_message(row: Any) -> m.Task:
    return m.Task(
        id=row["task_id"],
        reward_id=row["reward_id"],
        prize_id=row["prize_id"],
        prize_name=row["prize_name"],
        campaign_id=row["campaign_id"],
        player_id=row["player_id"],
        channel=row["channel"],
        status=m.TaskStatus[row["status"].upper()],
        attempts=row["attempts"],
        last_error=row["last_error"],
        next_attempt_at=row["next_attempt_at"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


# -- rows ------------------------------------------------------------------------------------

COMPLETE_TASK: Final = Operation(
    "CompleteTask",
    "POST /fulfillment/tasks/{id}/callback",
    run=complete_task,
    admin=SIGNED,
    while_suspended=True,
    refusals=("IDEMPOTENCY_MISMATCH", "ILLEGAL_TRANSITION", "OUT_OF_STOCK"),
    example={"status": "delivered", "external_id": "shipment-1"},
)
VERIFY_CALLBACK: Final = Operation(
    "VerifyCallback",
    "POST /fulfillment/tasks/{id}/callback/verify",
    run=verify_callback,
    while_suspended=True,
    example={
        "webhook_id": "msg_1",
        "webhook_timestamp": "1767225600",
        "webhook_signature": "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
        "body": '{"status": "delivered"}',
        "token": "gXx6tFhVQb2ZsAq3cJ0m1w",
    },
)

ROWS: Final = (
    Operation(
        "ListTasks",
        "GET /fulfillment/tasks",
        run=list_tasks,
        admin=STAFF,
        command=Command(
            "deliveries list --status --campaign --prize --contact --since --until --most",
            "List deliveries, newest first; `tombola rewards show` has the request and the response.",
            help={
                "contact": "Only deliveries to the player with this full e-mail address or phone number.",
                "since": "Only deliveries created from this time on, such as 2026-03-01T09:00:00+01:00 (UTC without "
                "an offset).",
                "until": "Only deliveries created before this time.",
            },
            columns="id, reward=reward_id, channel, status, attempts, last error=last_error",
        ),
    ),
    Operation(
        "RetryTask",
        "POST /fulfillment/tasks/{id}/retry",
        run=retry_task,
        admin=REWARD_MANAGERS,
        refusals=("ILLEGAL_TRANSITION", "OUT_OF_STOCK"),
        example={},
        command=Command(
            "deliveries retry DELIVERY",
            "Retry a failed delivery now.",
            outcome="{delivery} will be retried",
        ),
    ),
    COMPLETE_TASK,
    VERIFY_CALLBACK,
)
