"""Creates, lists, updates and deletes integrations, and rotates their secrets."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import forbidden, invalid
from runtime.operations import audit, reading
from runtime.operations.campaigns.campaign_admin import check_merchant, write_refusal
from runtime.operations.catalog import in_use
from runtime.operations.checks import Checks, provided, refuse_read_only, set_fields
from runtime.operations.idempotent_writes import create
from runtime.outgoing.channels import as_input, for_validation, leaked_secrets, with_secret, with_stored
from runtime.outgoing.integrations import SERVICES, config_problems, has_services, includes, posts
from runtime.outgoing.vault import SECRET_FIELDS, integration_context, shown_config, vault_of
from runtime.wire.enums import token
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("integrations")

SETTABLE: Final = frozenset({"events", "config", "campaign_id", "status"})


async def create_integration(engine: Engine, request: m.CreateIntegrationRequest) -> m.IntegrationReply:
    """Creates an integration, active by default. Its secrets are stored encrypted, and never returned.

    A webhook or workflow without a secret gets one, shown only in this reply: `config.secret_once`. Use "" for none.
    """
    scope, wanted = request.scope, provided(request.integration, "integration")
    assert scope is not None
    refuse_read_only(wanted, m.Integration())
    config, shown_once = _signed(wanted, as_input(wanted.config), {})
    checks = Checks()
    if not wanted.type:
        checks.problem("type", "is required")
    if wanted.type is m.IntegrationType.EMAIL:
        checks.problem("type", "must be another type: a campaign with messages has this integration")
    _check(checks, wanted, config, has_secret=_has_secret(config))
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
            token(wanted.status, "active"),
        )
        if row is None:
            raise await write_refusal(connection, request, wanted.campaign_id)
        await _check_consent(connection, scope.tenant_id, row)
        await audit.record(connection, scope.tenant_id, "integration.create", integration_id, after=_audit_facts(row))
        return m.IntegrationReply(integration=_message(row, shown_once))

    reply: m.IntegrationReply = (await create(engine, request, m.IntegrationReply, work)).reply
    return reply


async def list_integrations(engine: Engine, request: m.ListIntegrationsRequest) -> m.ListIntegrationsReply:
    """Lists integrations, newest first, filtered by type, campaign and status."""
    filters = (token(request.type), request.campaign_id, token(request.status), merchant_of(request))
    arguments = (tenant_of(request), *filters)
    rows, pagination = await reading.page(engine, _SQL["list"], request, *arguments, key="integration_id")
    logs_only = [m.IntegrationType[kind.upper()] for kind in SERVICES if has_services(kind)]
    return m.ListIntegrationsReply(items=[_message(row) for row in rows], pagination=pagination, logs_only=logs_only)


async def update_integration(engine: Engine, request: m.UpdateIntegrationRequest) -> m.IntegrationReply:
    """Sets the provided fields; pauses or resumes the integration. Events during a pause are never sent.

    A config without its secret or headers keeps them, unless `url` changes: then both must be sent again.
    """
    refuse_managed(request.id)
    tenant_id, update = tenant_of(request), provided(request.integration, "integration")
    context = integration_context(tenant_id, request.id)
    shown_once: dict[str, str] = {}

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        await connection.fetchrow(_SQL["lock"], tenant_id, request.id)
        before = await reading.for_update(connection, _SQL["get"], request, "integration", request.id)
        wanted, stored = _message(before), dict(before["config"])
        changed = set_fields(wanted, update, request.update_mask, SETTABLE)
        checks = Checks()
        if update.type and update.type != wanted.type:
            checks.problem("type", "cannot be changed")
        if update.merchant_id and update.merchant_id != wanted.merchant_id:
            checks.problem("merchant_id", "cannot be changed")
        config_input = as_input(wanted.config)
        has_secret = _has_secret(stored if SECRET_FIELDS[0] not in config_input else config_input)
        _check(checks, wanted, for_validation(stored, config_input), has_secret=has_secret)
        checks.problems((f"config.{name}", wrong) for name, wrong in leaked_secrets(stored, config_input))
        checks.raise_found()
        if "config" in changed:
            config_input, shown = _signed(wanted, config_input, stored)
            shown_once.update(shown)
            stored = with_stored(stored, vault_of(engine.keyring.code).seal_config(config_input, context))
        events = list(dict.fromkeys(wanted.events))
        fields = (wanted.campaign_id, events, stored, token(wanted.status), merchant_of(request))
        row = await connection.fetchrow(_SQL["update"], tenant_id, request.id, *fields)
        if row is None and not wanted.campaign_id:
            raise forbidden("integration", request.id)
        if row is None:
            raise await write_refusal(connection, request, wanted.campaign_id)
        if not changed.isdisjoint({"config", "campaign_id"}):
            await _check_consent(connection, tenant_id, row)
        await audit.record(
            connection,
            tenant_id,
            "integration.update",
            request.id,
            before=_audit_facts(before),
            after=_audit_facts(row),
        )
        return row

    return m.IntegrationReply(integration=_message(await engine.database.transaction(work), shown_once))


async def rotate_secret(engine: Engine, request: m.RotateSecretRequest) -> m.IntegrationReply:
    """Sets a new secret. Requests are signed with the previous one, too, so that a receiver can switch at any time
    (Standard Webhooks). Without a `secret`, the previous one ends. A service's credential has no such overlap.
    """
    refuse_managed(request.id)
    tenant_id, context = tenant_of(request), integration_context(tenant_of(request), request.id)

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        await connection.fetchrow(_SQL["lock"], tenant_id, request.id)
        before = await reading.for_update(connection, _SQL["get"], request, "integration", request.id)
        config = vault_of(engine.keyring.code).rotated(before["config"], request.secret, context)
        if not posts(before["type"]) and has_services(before["type"]):
            config.pop("previous_secret", None)
        checks = Checks()
        shown = {name: value for name, value in config.items() if name not in SECRET_FIELDS}
        given = shown | ({"secret": request.secret} if request.secret else {})
        _check(checks, _message(before), given, has_secret=_has_secret(config))
        checks.raise_found()
        row = await connection.fetchrow(_SQL["rotate"], tenant_id, request.id, config, merchant_of(request))
        if row is None:
            raise forbidden("integration", request.id)
        after = {**_audit_facts(row), "overlap": "previous_secret" in config}
        await audit.record(
            connection, tenant_id, "integration.rotate", request.id, before=_audit_facts(before), after=after
        )
        return row

    return m.IntegrationReply(integration=_message(await engine.database.transaction(work)))


async def delete_integration(engine: Engine, request: m.DeleteRequest) -> m.DeleteReply:
    """Deletes an integration and its delivery log. Its pending deliveries are cancelled."""
    refuse_managed(request.id)
    tenant_id = tenant_of(request)

    async def work(connection: asyncpg.Connection) -> None:
        # Locked first, so that the delete sees every delivery recorded until then.
        await connection.fetchrow(_SQL["lock"], tenant_id, request.id)
        row = await connection.fetchrow(_SQL["delete"], tenant_id, request.id, merchant_of(request))
        if row is None:
            raise await reading.write_refusal(connection, _SQL["exists"], request, "integration", request.id)
        await audit.record(connection, tenant_id, "integration.delete", request.id, before=_audit_facts(row))

    await engine.database.transaction(work)
    return m.DeleteReply(id=request.id)


def refuse_managed(integration_id: str) -> None:
    """FAILED_PRECONDITION IN_USE for the integration of a campaign's messages, which changes with them alone."""
    prefix, _, campaign_id = integration_id.partition("_")
    if prefix == "messages":
        raise in_use("integration", integration_id, [{"type": "messages of", "id": campaign_id, "name": campaign_id}])


def _has_secret(config: Mapping[str, Any]) -> bool:
    return bool(config.get(SECRET_FIELDS[0]))


def _check(checks: Checks, wanted: m.Integration, config: dict[str, Any], *, has_secret: bool) -> None:
    if not wanted.events:
        checks.problem("events", "is required")
    for index, type in enumerate(wanted.events):
        checks.required(f"events[{index}]", type)
    problems = config_problems(token(wanted.type), config, has_secret=has_secret)
    checks.problems((f"config.{path}".rstrip("."), wrong) for path, wrong in problems)


async def _check_consent(connection: asyncpg.Connection, tenant_id: str, row: Any) -> None:
    """INVALID_ARGUMENT if an integration of one campaign names a consent for which its entry form does not ask."""
    consent = row["config"].get("consent")
    if consent and row["campaign_id"] and includes(row["type"]):
        known = await connection.fetchval(_SQL["consents"], tenant_id, row["campaign_id"])
        if consent not in known:
            choice = f"must be one of {', '.join(known)}" if known else "must first be added as a consent"
            raise invalid("config.consent", f"{choice}: the campaign's entry form does not ask for it")


def _audit_facts(row: Any) -> dict[str, Any]:
    return {**dict(row), "config": shown_config(row["config"])}


def _signed(
    wanted: m.Integration, config: dict[str, Any], before: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    return with_secret(config, before) if posts(token(wanted.type)) else (config, {})


def _message(row: Any, shown_once: Mapping[str, str] = MappingProxyType({})) -> m.Integration:
    """shown_once: fields that its config shows only in this reply."""
    return m.Integration(
        id=row["integration_id"],
        type=m.IntegrationType[row["type"].upper()],
        events=list(row["events"]),
        config={**shown_config(row["config"]), **shown_once},
        campaign_id=row["campaign_id"],
        status=m.IntegrationStatus[row["status"].upper()],
        created_at=row["created_at"],
        merchant_id=row["merchant_id"],
    )
