"""Integrations as staff manage them: made, listed, changed, removed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import forbidden
from runtime.operations import audit, reading
from runtime.operations.campaigns.campaign_admin import check_merchant, not_to_write
from runtime.operations.checks import Checks, given, refuse_read_only, set_fields
from runtime.operations.idempotent_writes import create
from runtime.outgoing.channels import (
    as_given,
    header_problems,
    moved_secrets,
    receiver_config,
    to_check,
    with_kept,
    with_secret,
)
from runtime.outgoing.providers import INTEGRATION_PROVIDERS, STUBS, posts
from runtime.outgoing.vault import SECRET_FIELDS, integration_context, shown_config, vault_of
from runtime.wire.enums import token
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("integrations")

SETTABLE: Final = frozenset({"events", "config", "campaign_id", "status"})


async def create_integration(engine: Engine, request: m.CreateIntegrationRequest) -> m.IntegrationReply:
    """A new integration, active. Its secrets are sealed, and never read back.

    One that posts and is given no secret gets one, which this answer alone shows: `config.secret_once`. "" is none.
    """
    scope, wanted = request.scope, given(request.integration, "integration")
    assert scope is not None
    refuse_read_only(wanted, m.Integration())
    config, once = _signed(wanted, as_given(wanted.config), {})
    checks = Checks()
    if not wanted.type:
        checks.problem("type", "is required")
    _check(checks, wanted, config)
    checks.raise_found()
    integration_id = ids.make("integration")
    sealed = vault_of(engine.keyring.code).seal_config(config, integration_context(scope.tenant_id, integration_id))

    async def work(connection: asyncpg.Connection) -> m.IntegrationReply:
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
        return m.IntegrationReply(integration=_message(row, once))

    reply: m.IntegrationReply = (await create(engine, request, m.IntegrationReply, work)).reply
    return reply


async def list_integrations(engine: Engine, request: m.ListIntegrationsRequest) -> m.ListIntegrationsReply:
    """Integrations, the newest first, by type, campaign and status."""
    filters = (token(request.type), request.campaign_id, token(request.status), merchant_of(request))
    asked = (tenant_of(request), *filters)
    rows, pagination = await reading.page(engine, _SQL["list"], request, *asked, key="integration_id")
    logs_only = [m.IntegrationType[kind.upper()] for kind in STUBS if kind not in INTEGRATION_PROVIDERS.names()]
    return m.ListIntegrationsReply(items=[_message(row) for row in rows], pagination=pagination, logs_only=logs_only)


async def update_integration(engine: Engine, request: m.UpdateIntegrationRequest) -> m.IntegrationReply:
    """Sets the fields that are given; pauses and resumes it. What happens while it is paused is not told."""
    tenant_id, update = tenant_of(request), given(request.integration, "integration")
    context = integration_context(tenant_id, request.id)
    once: dict[str, str] = {}

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        await connection.fetchrow(_SQL["lock"], tenant_id, request.id)
        before = await reading.to_write(connection, _SQL["get"], request, "integration", request.id)
        wanted, stored = _message(before), dict(before["config"])
        names = set_fields(wanted, update, request.update_mask, SETTABLE)
        checks = Checks()
        if update.type and update.type != wanted.type:
            checks.problem("type", "cannot be changed")
        given_config = as_given(wanted.config)
        _check(checks, wanted, to_check(stored, given_config))
        checks.problems((f"config.{name}", wrong) for name, wrong in moved_secrets(stored, given_config))
        checks.raise_found()
        if "config" in names:
            given_config, shown = _signed(wanted, given_config, stored)
            once.update(shown)
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

    return m.IntegrationReply(integration=_message(await engine.database.transaction(work), once))


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


def _check(checks: Checks, wanted: m.Integration, config: dict[str, Any]) -> None:
    if not wanted.events:
        checks.problem("events", "is required")
    for index, type in enumerate(wanted.events):
        checks.required(f"events[{index}]", type)
    known = posts(token(wanted.type))
    problems = receiver_config(config) if known else header_problems(config.get("headers", {}))
    checks.problems((f"config.{path}".rstrip("."), wrong) for path, wrong in problems)


def _noted(row: Any) -> dict[str, Any]:
    return {**dict(row), "config": shown_config(row["config"])}


def _signed(
    wanted: m.Integration, config: dict[str, Any], before: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    return with_secret(config, before) if posts(token(wanted.type)) else (config, {})


def _message(row: Any, once: Mapping[str, str] = MappingProxyType({})) -> m.Integration:
    """once: what its config shows in this answer alone."""
    return m.Integration(
        id=row["integration_id"],
        type=m.IntegrationType[row["type"].upper()],
        events=list(row["events"]),
        config={**shown_config(row["config"]), **once},
        campaign_id=row["campaign_id"],
        status=m.IntegrationStatus[row["status"].upper()],
        created_at=row["created_at"],
        merchant_id=row["merchant_id"],
    )
