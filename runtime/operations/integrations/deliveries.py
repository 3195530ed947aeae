"""Deliveries to integrations: test one, resend one, emit a test event, and read the delivery log."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import asyncpg
import msgspec

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.delivery_log import LogEntry
from runtime.actors.engine import Engine
from runtime.actors.idempotency import in_progress, replayed
from runtime.errors import Fault, Status, unknown
from runtime.events import Event, ReceivedEvent, new_event
from runtime.operations import audit, reading
from runtime.operations.campaigns.campaign_admin import write_refusal
from runtime.operations.checks import Checks
from runtime.operations.idempotent_writes import claim_abandoned, once, store_reply
from runtime.operations.integrations.integration_admin import refuse_managed
from runtime.outgoing.providers import ANSWER_CHARACTERS_MAX
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("integrations")

EMIT_WAIT_SECONDS: Final = 5.0
"""How long emit waits for its attempts; slower ones continue in the background."""

EMIT_ABANDONED_SECONDS: Final = 30.0
"""An emit without a reply after this time is abandoned: its process has died, and a retry takes over."""

PENDING: Final = -1
"""`dispatched` in the reply stored under an idempotency key until the dispatch ends."""


async def try_integration(engine: Engine, request: m.TestIntegrationRequest) -> m.IntegrationDeliveryReply:
    """Sends an integration, paused or not, one event of type integration_test, without retries. Returns the outcome.

    The status is UNSPECIFIED if the attempt takes long; the delivery log has it later.
    """
    refuse_managed(request.id)
    tenant_id = tenant_of(request)
    row = await reading.for_update(engine.database, _SQL["get"], request, "integration", request.id)
    event = new_event(
        "integration_test",
        occurred_at=engine.clock.now(),
        tenant_id=tenant_id,
        merchant_id=row["merchant_id"],
        campaign_id=row["campaign_id"],
        data={"integration_id": request.id},
    )

    async def record_try(connection: asyncpg.Connection) -> None:
        await audit.record(connection, tenant_id, "integration.test", request.id, after={"event_id": event.id})

    with engine.dispatcher.place_for_try(tenant_id):
        await engine.database.transaction(record_try)
        delivery = await _outcome(event, request.id, engine.dispatcher.try_once(event, row))
    return m.IntegrationDeliveryReply(delivery=delivery)


async def resend_delivery(engine: Engine, request: m.ResendDeliveryRequest) -> m.IntegrationDeliveryReply:
    """Resends an event of the delivery log to an integration, paused or not, under the same event id, by which the
    receiver deduplicates it. Returns the outcome. If it fails, a scheduled retry stays scheduled.

    The status is UNSPECIFIED if the attempt takes long; the delivery log has it later. NOT_FOUND UNKNOWN_DELIVERY.
    """
    tenant_id = tenant_of(request)
    checks = Checks()
    checks.required("delivery_id", request.delivery_id)
    checks.raise_found()
    row = await reading.for_update(engine.database, _SQL["get"], request, "integration", request.id)
    key = (tenant_id, request.id, request.delivery_id, merchant_of(request))
    logged = await engine.database.fetchrow(_SQL["delivery"], *key)
    if logged is None:
        raise unknown("delivery", request.delivery_id)
    try:
        event: Event = msgspec.convert(logged["event"], ReceivedEvent)
    except msgspec.ValidationError:
        message = "the event of this delivery can no longer be read"
        raise Fault(Status.FAILED_PRECONDITION, "ILLEGAL_TRANSITION", message) from None

    async def record_try(connection: asyncpg.Connection) -> None:
        after = {"event_id": event.id, "delivery_id": request.delivery_id}
        await audit.record(connection, tenant_id, "integration.resend", request.id, after=after)

    with engine.dispatcher.place_for_try(tenant_id):
        await engine.database.transaction(record_try)
        attempt = engine.dispatcher.try_once(event, row, logged["attempts"], again=logged["status"] == "retry")
        delivery = await _outcome(event, request.id, attempt)
    delivery.id, delivery.created_at = request.delivery_id, logged["created_at"]
    return m.IntegrationDeliveryReply(delivery=delivery)


async def _outcome(event: Event, integration_id: str, attempt: asyncio.Task[LogEntry]) -> m.IntegrationDelivery:
    """The outcome of an attempt; UNSPECIFIED if it takes longer than EMIT_WAIT_SECONDS."""
    await asyncio.wait([attempt], timeout=EMIT_WAIT_SECONDS)
    delivery = m.IntegrationDelivery(
        integration_id=integration_id, event_id=event.id, event_type=event.type, created_at=event.occurred_at
    )
    if attempt.done():
        note = attempt.result()
        delivery.id, delivery.attempts = note.delivery_id, note.attempts
        delivery.status = m.IntegrationDeliveryStatus[note.status.upper()]
        delivery.delivered = note.status == "delivered"
        delivery.http_status, delivery.error, delivery.duration_ms = note.http_status, note.error, note.duration_ms
        delivery.request, delivery.answer = _body_of(note.event), note.answer
    return delivery


def _body_of(event: Any) -> str:
    return "" if event is None else msgspec.json.encode(event).decode()[:ANSWER_CHARACTERS_MAX]


async def emit_event(engine: Engine, request: m.EmitEventRequest) -> m.EmitEventReply:
    """Sends an artificial event to integrations, to test them.

    `dispatched` counts the matching integrations that were attempted. A merchant's staff reaches only that merchant's
    integrations. The event is marked as emitted. External readers of the stream get it too; rankings and the hub's
    workers ignore it.
    """
    scope = request.scope
    assert scope is not None
    checks = Checks()
    checks.required("type", request.type)
    checks.raise_found()
    merchant_id = scope.merchant_id
    if request.campaign_id:
        row = await engine.database.fetchrow(
            _SQL["campaign_merchant"], scope.tenant_id, request.campaign_id, scope.merchant_id
        )
        if row is None:
            raise await write_refusal(engine.database, request, request.campaign_id)
        merchant_id = row["merchant_id"]
    done = await once(engine, request, m.EmitEventReply, _pending_reply)
    event_id: str = done.reply.event_id
    if done.repeated:
        if done.reply.dispatched != PENDING:
            first: m.EmitEventReply = done.reply
            return first
        if not await claim_abandoned(engine, request, EMIT_ABANDONED_SECONDS):
            raise in_progress()
        replayed.set(False)
    event = new_event(
        request.type,
        id=event_id,
        occurred_at=engine.clock.now(),
        tenant_id=scope.tenant_id,
        merchant_id=merchant_id,
        campaign_id=request.campaign_id,
        data=request.data or {},
    )

    async def record_emit(connection: asyncpg.Connection) -> None:
        after = {"type": event.type, "campaign_id": event.campaign_id}
        await audit.record(connection, scope.tenant_id, "event.emit", event.id, after=after)

    await engine.database.transaction(record_emit)
    engine.publisher.outside(event)
    tasks = await engine.dispatcher.dispatch(event, of_merchant=scope.merchant_id)
    if tasks:
        await asyncio.wait(tasks, timeout=EMIT_WAIT_SECONDS)
    attempted = [task for task in tasks if not task.done() or task.result()]
    reply = m.EmitEventReply(event_id=event.id, dispatched=len(attempted))
    await store_reply(engine, request, reply)
    return reply


async def _pending_reply(_: asyncpg.Connection) -> m.EmitEventReply:
    """The reply stored under the key before the dispatch. Its event id lets a retry after a crash reuse the event."""
    return m.EmitEventReply(event_id=ids.make("evt"), dispatched=PENDING)


async def list_deliveries(
    engine: Engine, request: m.ListIntegrationDeliveriesRequest
) -> m.ListIntegrationDeliveriesReply:
    """Lists an integration's deliveries, newest first. A merchant's staff sees only events of its own campaigns."""
    filters = (tenant_of(request), request.id, merchant_of(request))
    await reading.one(engine, _SQL["exists"], request, "integration")
    rows, pagination = await reading.page(engine, _SQL["list_deliveries"], request, *filters, key="delivery_id")
    items = [
        m.IntegrationDelivery(
            id=row["delivery_id"],
            delivered=row["status"] == "delivered",
            status=m.IntegrationDeliveryStatus[row["status"].upper()],
            request=_body_of(row["event"]),
            **{name: row[name] for name in _DELIVERY_FIELDS},
        )
        for row in rows
    ]
    return m.ListIntegrationDeliveriesReply(items=items, pagination=pagination)


_DELIVERY_FIELDS: Final = (
    "integration_id",
    "event_id",
    "event_type",
    "attempts",
    "http_status",
    "error",
    "duration_ms",
    "answer",
    "next_attempt_at",
    "created_at",
)
"""Columns that are fields of the message."""
