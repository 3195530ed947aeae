"""Events that integrations are sent: trying one out, sending one again or a made-up one, and their delivery log."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import asyncpg
import msgspec

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.delivery_log import Note
from runtime.actors.engine import Engine
from runtime.actors.idempotency import in_progress, replayed
from runtime.errors import Fault, Status, unknown
from runtime.events import Event, ReceivedEvent, new_event
from runtime.operations import audit, reading
from runtime.operations.campaigns.campaign_admin import not_to_write
from runtime.operations.checks import Checks
from runtime.operations.idempotent_writes import begin_again, keep, once
from runtime.outgoing.providers import ANSWER_CHARACTERS_MAX
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("integrations")

EMIT_WAIT_SECONDS: Final = 5.0
"""How long emit waits for the attempts that it began; longer ones continue in the background."""

EMIT_ABANDONED_SECONDS: Final = 30.0
"""An emit without a reply after this time is abandoned: its process is gone, and a retry takes over."""

UNTOLD: Final = -1
"""`dispatched` in the reply that an idempotency key holds until the dispatch is over."""


async def try_integration(engine: Engine, request: m.TestIntegrationRequest) -> m.IntegrationDeliveryReply:
    """Sends one integration an event of type integration_test, paused or not, once; what became of it.

    UNSPECIFIED where it takes long: the delivery log has it later.
    """
    tenant_id = tenant_of(request)
    row = await reading.to_write(engine.database, _SQL["get"], request, "integration", request.id)
    event = new_event(
        "integration_test",
        occurred_at=engine.clock.now(),
        tenant_id=tenant_id,
        merchant_id=row["merchant_id"],
        campaign_id=row["campaign_id"],
        data={"integration_id": request.id},
    )

    async def note_try(connection: asyncpg.Connection) -> None:
        await audit.record(connection, tenant_id, "integration.test", request.id, after={"event_id": event.id})

    await engine.database.transaction(note_try)
    delivery = await _became(event, request.id, engine.dispatcher.try_once(event, row))
    return m.IntegrationDeliveryReply(delivery=delivery)


async def resend_delivery(engine: Engine, request: m.ResendDeliveryRequest) -> m.IntegrationDeliveryReply:
    """Tells an integration an event of its log once more, paused or not, under the event's own id, by which its
    receiver knows it; what became of it. One that waits for its next try waits on where it fails.

    UNSPECIFIED where it takes long: the delivery log has it later. NOT_FOUND UNKNOWN_DELIVERY.
    """
    tenant_id = tenant_of(request)
    checks = Checks()
    checks.required("delivery_id", request.delivery_id)
    checks.raise_found()
    row = await reading.to_write(engine.database, _SQL["get"], request, "integration", request.id)
    of = (tenant_id, request.id, request.delivery_id, merchant_of(request))
    told = await engine.database.fetchrow(_SQL["delivery"], *of)
    if told is None:
        raise unknown("delivery", request.delivery_id)
    try:
        event: Event = msgspec.convert(told["event"], ReceivedEvent)
    except msgspec.ValidationError:
        what = "the event of this delivery cannot be read any more"
        raise Fault(Status.FAILED_PRECONDITION, "ILLEGAL_TRANSITION", what) from None

    async def note_try(connection: asyncpg.Connection) -> None:
        after = {"event_id": event.id, "delivery_id": request.delivery_id}
        await audit.record(connection, tenant_id, "integration.resend", request.id, after=after)

    await engine.database.transaction(note_try)
    attempt = engine.dispatcher.try_once(event, row, told["attempts"], again=told["status"] == "retry")
    delivery = await _became(event, request.id, attempt)
    delivery.id, delivery.created_at = request.delivery_id, told["created_at"]
    return m.IntegrationDeliveryReply(delivery=delivery)


async def _became(event: Event, integration_id: str, attempt: asyncio.Task[Note]) -> m.IntegrationDelivery:
    """The outcome of an attempt that was just begun; UNSPECIFIED where it takes longer than EMIT_WAIT_SECONDS."""
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
    """The beginning of the request body that carries the event."""
    return "" if event is None else msgspec.json.encode(event).decode()[:ANSWER_CHARACTERS_MAX]


async def emit_event(engine: Engine, request: m.EmitEventRequest) -> m.EmitEventReply:
    """Tells integrations of an event that did not happen, to try them out.

    `dispatched` counts those that matched and were attempted; a merchant's staff tells its merchant's own alone. The
    event says that it was emitted. Readers of the stream outside the service get it too; rankings and the hub's
    workers pass it by.
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
            raise await not_to_write(engine.database, request, request.campaign_id)
        merchant_id = row["merchant_id"]
    done = await once(engine, request, m.EmitEventReply, _event_begun)
    event_id: str = done.reply.event_id
    if done.repeated:
        if done.reply.dispatched != UNTOLD:
            first: m.EmitEventReply = done.reply
            return first
        if not await begin_again(engine, request, EMIT_ABANDONED_SECONDS):
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

    async def note(connection: asyncpg.Connection) -> None:
        after = {"type": event.type, "campaign_id": event.campaign_id}
        await audit.record(connection, scope.tenant_id, "event.emit", event.id, after=after)

    await engine.database.transaction(note)
    engine.publisher.outside(event)
    tasks = await engine.dispatcher.dispatch(event, of_merchant=scope.merchant_id)
    if tasks:
        await asyncio.wait(tasks, timeout=EMIT_WAIT_SECONDS)
    attempted = [task for task in tasks if not task.done() or task.result()]
    reply = m.EmitEventReply(event_id=event.id, dispatched=len(attempted))
    await keep(engine, request, reply)
    return reply


async def _event_begun(_: asyncpg.Connection) -> m.EmitEventReply:
    """The reply that the key holds before the dispatch: its event id, so that a retry of a broken emit reuses it."""
    return m.EmitEventReply(event_id=ids.make("evt"), dispatched=UNTOLD)


async def list_deliveries(
    engine: Engine, request: m.ListIntegrationDeliveriesRequest
) -> m.ListIntegrationDeliveriesReply:
    """What became of the newest events at an integration; a merchant's staff reads of its own campaigns' alone."""
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
