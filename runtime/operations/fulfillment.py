"""Tasks as operators and workflows see them: list, re-arm, and the callback that ends an awaited one.

The delivery itself is the workers' (runtime/streams/delivery.py). States: sql/fulfillment.sql.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.deliveries import tell_failed
from runtime.actors.engine import Engine
from runtime.actors.rewards import HOLDING, give_back, hold, take_again
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
    """Tasks, the newest first, by status, campaign, prize, a whole contact of the winner's and when they were made.

    By a contact a merchant's staff finds those of its own campaigns alone.
    """
    checks = Checks()
    checks.between("since", request.since, 0, TIME_MAX)
    checks.between("until", request.until, 0, TIME_MAX)
    checks.raise_found()
    statement = "list"
    asked: tuple[Any, ...] = (token(request.status), request.campaign_id, request.prize_id, merchant_of(request))
    if request.contact or request.since or request.until:
        statement = "search"
        contacts = spellings(request.contact) if request.contact else None
        made = ids.between("task", request.since, request.until)
        asked = (*asked, contacts, request.since, request.until, *made)
    rows, pagination = await reading.page(engine, _SQL[statement], request, tenant_of(request), *asked, key="task_id")
    return m.ListTasksReply(items=[task_message(row) for row in rows], pagination=pagination)


async def retry_task(engine: Engine, request: m.RetryTaskRequest) -> m.TaskReply:
    """Makes a task due now, with its whole schedule before it. A pending one stays as it is.

    With an Idempotency-Key a retry answers as the first time, whatever became of the task since; but for `last_error`,
    which is the task's of now.

    FAILED_PRECONDITION ILLEGAL_TRANSITION for one that is delivered, cancelled or being delivered; OUT_OF_STOCK
    for a dead one whose unit somebody else has won since.
    """
    tenant_id = tenant_of(request)

    async def work(connection: asyncpg.Connection) -> m.TaskReply:
        reward_id, before = await _hold(connection, tenant_id, request.id)
        row = await connection.fetchrow(_SQL["rearm"], tenant_id, request.id, merchant_of(request))
        if row is None:
            raise await reading.not_to_write(connection, _SQL["seen"], request, "task", request.id)
        if not row["rearmed"]:
            raise _illegal(row, "retry")
        if before == "failed":
            await take_again(connection, tenant_id, reward_id)
        after = {"reward_id": reward_id, "player_id": row["player_id"], "status": row["status"]}
        await audit.record(connection, tenant_id, "task.retry", request.id, after=after)
        # Kept without the receiver's text, which an erasure takes from the row: it is told as it is by then.
        return m.TaskReply(task=replace(task_message(row), last_error=""))

    reply: m.TaskReply = (await once(engine, request, m.TaskReply, work)).reply
    engine.publisher.tasks(tenant_id, [request.id])
    about = await engine.database.fetchrow(_SQL["about"], tenant_id, request.id)
    assert reply.task is not None and about is not None, "tasks are never removed"
    reply.task.last_error = about["last_error"]
    return reply


async def complete_task(engine: Engine, request: m.CompleteTaskRequest) -> m.TaskReply:
    """What a callback says: the task was delivered, or an attempt of it failed. Saying it again changes nothing.

    Delivered is final: a failure after it is FAILED_PRECONDITION ILLEGAL_TRANSITION, and so is anything of
    a cancelled task. UNAUTHENTICATED SIGNATURE_INVALID where the callback's id was used for another task.
    OUT_OF_STOCK: a delivery of a dead one whose unit somebody else has won since.
    """
    tenant_id = tenant_of(request)
    if request.status not in ("delivered", "failed"):
        raise invalid("status", "must be delivered or failed")
    told = (request.status, request.external_id, request.error, request.callback_id, delays_seconds())

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        reward_id, before = await _hold(connection, tenant_id, request.id)
        row = await connection.fetchrow(_SQL["complete"], tenant_id, request.id, *told)
        assert row is not None, "tasks are never removed"
        if row["outcome"] == "dead" and before in HOLDING:
            await give_back(connection, tenant_id, [reward_id])
        elif row["outcome"] == "delivered" and before == "failed":
            await take_again(connection, tenant_id, reward_id)
        return row

    row = await engine.database.transaction(work)
    if row["misused"]:
        raise not_signed()
    if row["outcome"] is not None:
        FULFILLMENT_TASKS.labels(row["outcome"]).inc()
        await tell_failed(engine, tenant_id, [request.id] if row["outcome"] == "dead" else ())
    elif row["status"] == "cancelled" or (row["status"] == "delivered" and request.status == "failed"):
        raise _illegal(row, f"a callback {request.status!r}")
    return m.TaskReply(task=task_message(row))


async def _hold(connection: asyncpg.Connection, tenant_id: str, task_id: str) -> tuple[str, str]:
    """Locks what a task's end may move: stock, code, reward. (The reward, its stored state.)"""
    about = await connection.fetchrow(_SQL["about"], tenant_id, task_id)
    if about is None:
        raise unknown("task", task_id)
    return about["reward_id"], await hold(connection, tenant_id, about["reward_id"], about["prize_id"])


async def verify_callback(engine: Engine, request: m.VerifyCallbackRequest) -> m.VerifyCallbackReply:
    """Whether the secret of the task's prize signed this callback, within the tolerance of the database's time.

    And made the token of its URL, for this task.
    An unknown task and a prize without a secret verify nothing, and answer no differently.
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
        f"task {row['task_id']} is {row['status']}: {move} does not apply",
        task_status=status.proto_name,
    )


def task_message(row: Any) -> m.Task:
    """The message of a row of `list`."""
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
    unsuspended=True,
    refusals=("ILLEGAL_TRANSITION", "OUT_OF_STOCK"),
    example={"status": "delivered", "external_id": "shipment-1"},
)
VERIFY_CALLBACK: Final = Operation(
    "VerifyCallback",
    "POST /fulfillment/tasks/{id}/callback/verify",
    run=verify_callback,
    unsuspended=True,
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
            "List deliveries, the newest first; `tombola rewards show` has what was sent and how it was answered.",
            help={
                "contact": "Only those to whom this e-mail address or phone number belongs, whole.",
                "since": "Only those made from this time on, such as 2026-03-01T09:00:00+01:00 (UTC where it says "
                "no offset).",
                "until": "Only those made before this time.",
            },
            columns="id, reward=reward_id, way=channel, status, attempts, what went wrong last=last_error",
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
            "Try a delivery again that failed, now.",
            says="{delivery} is tried again",
        ),
    ),
    COMPLETE_TASK,
    VERIFY_CALLBACK,
)
