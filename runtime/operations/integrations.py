"""Integrations: who is told of events. Made, listed, removed; tried out with an event of one's own."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import asyncpg
import msgspec

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.dispatcher import Note
from runtime.actors.engine import Engine
from runtime.actors.idempotency import in_progress
from runtime.errors import Fault, Status, forbidden, unknown
from runtime.events import Event, ReceivedEvent, new_event
from runtime.operations import audit, reading, samples
from runtime.operations.campaigns.campaign_admin import check_merchant, not_to_write
from runtime.operations.checks import Checks, given, set_fields
from runtime.operations.idempotent_writes import begin_again, keep, once
from runtime.operations.row import ADMINS, STAFF, Command, Operation
from runtime.outgoing.channels import header_problems, moved_secrets, receiver_config, to_check, with_kept
from runtime.outgoing.providers import ANSWER_CHARACTERS_MAX, posts
from runtime.outgoing.vault import SECRET_FIELDS, integration_context, shown_config, vault_of
from runtime.wire.enums import token
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("integrations")

SETTABLE: Final = frozenset({"events", "config", "campaign_id", "status"})

EMIT_WAIT_SECONDS: Final = 5.0
"""How long emit waits for the attempts it began; those that last longer go on without it."""

EMIT_ABANDONED_SECONDS: Final = 30.0
"""After this an emit that has not answered never will: its process is gone."""

UNTOLD: Final = -1
"""`dispatched` as a key keeps it until everybody is told."""


async def create_integration(engine: Engine, request: m.CreateIntegrationRequest) -> m.IntegrationReply:
    """A new integration, active. Its secrets are sealed, and never read back."""
    scope, wanted = request.scope, given(request.integration, "integration")
    assert scope is not None
    config = wanted.config or {}
    checks = Checks()
    if not wanted.type:
        checks.problem("type", "is required")
    _check(checks, wanted, config)
    checks.raise_found()
    integration_id = ids.make("integration")
    sealed = vault_of(engine.keyring.code).seal_config(config, integration_context(scope.tenant_id, integration_id))

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        await check_merchant(connection, checks, request, wanted.merchant_id)
        checks.raise_found()
        row = await connection.fetchrow(
            _SQL["insert"],
            scope.tenant_id,
            integration_id,
            wanted.merchant_id or scope.merchant_id,
            wanted.campaign_id,
            token(wanted.type),
            list(dict.fromkeys(wanted.events)),
            sealed,
            scope.merchant_id,
        )
        if row is None:
            raise await not_to_write(connection, request, wanted.campaign_id)
        await audit.record(connection, scope.tenant_id, "integration.create", integration_id, after=_noted(row))
        return row

    return m.IntegrationReply(integration=_message(await engine.database.transaction(work)))


async def list_integrations(engine: Engine, request: m.ListIntegrationsRequest) -> m.ListIntegrationsReply:
    """Integrations, the newest first, by type, campaign and status."""
    filters = (token(request.type), request.campaign_id, token(request.status), merchant_of(request))
    asked = (tenant_of(request), *filters)
    rows, pagination = await reading.page(engine, _SQL["list"], request, *asked, key="integration_id")
    return m.ListIntegrationsReply(items=[_message(row) for row in rows], pagination=pagination)


async def update_integration(engine: Engine, request: m.UpdateIntegrationRequest) -> m.IntegrationReply:
    """Sets the fields that are given; pauses and resumes it. What happens while it is paused is not told."""
    tenant_id, update = tenant_of(request), given(request.integration, "integration")
    context = integration_context(tenant_id, request.id)

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        await connection.fetchrow(_SQL["lock"], tenant_id, request.id)
        before = await reading.to_write(connection, _SQL["get"], request, "integration", request.id)
        wanted, stored = _message(before), dict(before["config"])
        names = set_fields(wanted, update, request.update_mask, SETTABLE)
        checks = Checks()
        if update.type and update.type != wanted.type:
            checks.problem("type", "cannot be changed")
        given_config = {name: value for name, value in (wanted.config or {}).items() if name != "secret_set"}
        _check(checks, wanted, to_check(stored, given_config))
        checks.problems((f"config.{name}", wrong) for name, wrong in moved_secrets(stored, given_config))
        checks.raise_found()
        if "config" in names:
            stored = with_kept(stored, vault_of(engine.keyring.code).seal_config(given_config, context))
        events = list(dict.fromkeys(wanted.events))
        fields = (wanted.campaign_id, events, stored, token(wanted.status), merchant_of(request))
        row = await connection.fetchrow(_SQL["update"], tenant_id, request.id, *fields)
        if row is None and not wanted.campaign_id:
            raise forbidden("integration", request.id)
        if row is None:
            raise await not_to_write(connection, request, wanted.campaign_id)
        await audit.record(
            connection, tenant_id, "integration.update", request.id, before=_noted(before), after=_noted(row)
        )
        return row

    return m.IntegrationReply(integration=_message(await engine.database.transaction(work)))


async def rotate_secret(engine: Engine, request: m.RotateSecretRequest) -> m.IntegrationReply:
    """Signs with a new secret, and for the time being with the one before, too: a receiver takes either (Standard
    Webhooks), so it is told the new one whenever it likes. Without a `secret` the one before ends.
    """
    tenant_id, context = tenant_of(request), integration_context(tenant_of(request), request.id)

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        await connection.fetchrow(_SQL["lock"], tenant_id, request.id)
        before = await reading.to_write(connection, _SQL["get"], request, "integration", request.id)
        config = vault_of(engine.keyring.code).rotated(before["config"], request.secret, context)
        checks = Checks()
        shown = {name: value for name, value in config.items() if name not in SECRET_FIELDS}
        _check(checks, _message(before), shown | ({"secret": request.secret} if request.secret else {}))
        checks.raise_found()
        row = await connection.fetchrow(_SQL["rotate"], tenant_id, request.id, config, merchant_of(request))
        if row is None:
            raise forbidden("integration", request.id)
        after = {**_noted(row), "overlap": "previous_secret" in config}
        await audit.record(connection, tenant_id, "integration.rotate", request.id, before=_noted(before), after=after)
        return row

    return m.IntegrationReply(integration=_message(await engine.database.transaction(work)))


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
    """What became of an attempt that was begun just now; UNSPECIFIED where it takes long."""
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
    """How the body of the request that tells an event begins."""
    return "" if event is None else msgspec.json.encode(event).decode()[:ANSWER_CHARACTERS_MAX]


async def delete_integration(engine: Engine, request: m.DeleteRequest) -> m.DeleteReply:
    """Removes an integration and its delivery log; nobody is told on its behalf of what happens after."""
    tenant_id = tenant_of(request)

    async def work(connection: asyncpg.Connection) -> None:
        # First, so that the statement sees what was noted of it until then.
        await connection.fetchrow(_SQL["lock"], tenant_id, request.id)
        row = await connection.fetchrow(_SQL["delete"], tenant_id, request.id, merchant_of(request))
        if row is None:
            raise await reading.not_to_write(connection, _SQL["exists"], request, "integration", request.id)
        await audit.record(connection, tenant_id, "integration.delete", request.id, before=_noted(row))

    await engine.database.transaction(work)
    return m.DeleteReply(id=request.id)


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
    """What a key keeps before anybody is told: the id, so that an emit that broke off is told under the same one."""
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


def _check(checks: Checks, wanted: m.Integration, config: dict[str, Any]) -> None:
    if not wanted.events:
        checks.problem("events", "is required")
    for index, type in enumerate(wanted.events):
        checks.required(f"events[{index}]", type)
    known = posts(token(wanted.type))
    problems = receiver_config(config) if known else header_problems(config.get("headers", {}))
    checks.problems((f"config.{path}".rstrip("."), wrong) for path, wrong in problems)


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
"""Columns that are a delivery's fields as they are."""


def _noted(row: Any) -> dict[str, Any]:
    return {**dict(row), "config": shown_config(row["config"])}


def _message(row: Any) -> m.Integration:
    return m.Integration(
        id=row["integration_id"],
        type=m.IntegrationType[row["type"].upper()],
        events=list(row["events"]),
        config=shown_config(row["config"]),
        campaign_id=row["campaign_id"],
        status=m.IntegrationStatus[row["status"].upper()],
        created_at=row["created_at"],
        merchant_id=row["merchant_id"],
    )


# -- rows ------------------------------------------------------------------------------------


ROWS: Final = (
    Operation(
        "CreateIntegration",
        "POST /integrations",
        run=create_integration,
        resource="integration",
        admin=ADMINS,
        refusals=("UNKNOWN_CAMPAIGN", "UNKNOWN_TENANT"),
        example={
            "type": "INTEGRATION_TYPE_WEBHOOK",
            "events": ["prize_won", "prize_claimed"],
            "config": {"url": samples.RECEIVER},
            "campaign_id": samples.CAMPAIGN,
        },
        command=Command(
            "integrations create FILE",
            "Make an integration of a file of its fields, as YAML or JSON: type, events, config, campaign_id.",
            help={"file": "Where they are."},
            says="{id}",
        ),
    ),
    Operation(
        "ListIntegrations",
        "GET /integrations",
        run=list_integrations,
        admin=STAFF,
        command=Command(
            "integrations list",
            "List integrations, the newest first.",
            columns="id, type, status, events, url=config.url",
        ),
    ),
    Operation(
        "UpdateIntegration",
        "PUT /integrations/{id}",
        run=update_integration,
        resource="integration",
        admin=ADMINS,
        refusals=("UNKNOWN_CAMPAIGN",),
        example={"status": "INTEGRATION_STATUS_PAUSED"},
        command=(
            Command(
                "integrations pause INTEGRATION",
                "Tell an integration nothing until it is resumed; what happens meanwhile is not told later.",
                sends={"status": "INTEGRATION_STATUS_PAUSED"},
                says="paused",
            ),
            Command(
                "integrations resume INTEGRATION",
                "Tell an integration again what happens from now on.",
                sends={"status": "INTEGRATION_STATUS_ACTIVE"},
                says="active",
            ),
        ),
    ),
    Operation(
        "TestIntegration",
        "POST /integrations/{id}/test",
        run=try_integration,
        admin=ADMINS,
        lengthy=True,
        example={},
        command=Command(
            "integrations test INTEGRATION",
            "Send an integration one event, now. Ends with 1 where it did not take it.",
            says="{status} {http_status:some} {error}",
            unless="delivered",
        ),
    ),
    Operation(
        "ResendDelivery",
        "POST /integrations/{id}/resend",
        run=resend_delivery,
        admin=ADMINS,
        lengthy=True,
        refusals=("UNKNOWN_DELIVERY", "ILLEGAL_TRANSITION"),
        example={"delivery_id": "delivery_01k0"},
        command=Command(
            "integrations resend INTEGRATION DELIVERY",
            "Tell an integration an event of its log once more, under the same event id. Ends with 1 "
            "where it did not take it.",
            help={"integration": "Its id.", "delivery": "The delivery's id, as `integrations log` shows it."},
            says="{status} {http_status:some} {error}",
            unless="delivered",
        ),
    ),
    Operation(
        "RotateSecret",
        "POST /integrations/{id}/rotate",
        run=rotate_secret,
        admin=ADMINS,
        example={"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
        command=Command(
            "integrations rotate INTEGRATION --secret",
            "Sign with a new secret, and with the one before, too; without --secret that one ends.",
            help={"integration": "Its id.", "secret": "The new one."},
            says="{secret:signing}",
        ),
    ),
    Operation(
        "DeleteIntegration",
        "DELETE /integrations/{id}",
        run=delete_integration,
        admin=ADMINS,
        command=Command(
            "integrations remove INTEGRATION",
            "Remove an integration and its log: it is told nothing more of what happens, nor of what "
            "is still to be told.",
            confirm="Remove {integration} and its log?",
            says="{integration} is removed",
        ),
    ),
    Operation(
        "EmitEvent",
        "POST /integrations/emit",
        run=emit_event,
        admin=ADMINS,
        lengthy=True,
        refusals=("UNKNOWN_CAMPAIGN", "UNKNOWN_TENANT", "IDEMPOTENCY_IN_PROGRESS"),
        example={"type": "prize_won", "campaign_id": samples.CAMPAIGN, "data": {"test": True}},
    ),
    Operation(
        "ListIntegrationDeliveries",
        "GET /integrations/{id}/deliveries",
        run=list_deliveries,
        admin=STAFF,
        command=Command(
            "integrations log INTEGRATION --most=50",
            "Show what became of the newest events at an integration.",
            help={"most": ""},
            columns="id, event=event_id, type=event_type, status, answer={http_status:some} {error}, ms=duration_ms",
        ),
    ),
)
