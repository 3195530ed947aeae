"""Integration types: their providers, and the checks of their configs.

A type has the provider that a plugin registered, or a built-in one. Those of spreadsheet, sms, messaging and crm send
to the service that `config.service` names, and without it only log the event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from runtime.outgoing.channels import header_problems, include_problems, integration_config
from runtime.outgoing.connector import Connector
from runtime.outgoing.providers import (
    INTEGRATION_PROVIDERS,
    DeliveryRequest,
    Failed,
    IntegrationProvider,
    LoggedOutcome,
    Stubbed,
    webhook,
)
from runtime.outgoing.services import fields
from runtime.outgoing.services.crm import post_mapped, upsert_contact
from runtime.outgoing.services.csv_over_http import send_line
from runtime.outgoing.services.fields import Check, signing_secret
from runtime.outgoing.services.google_sheets import account_key, append_row
from runtime.outgoing.services.texting import discord, recipient_of, slack, sms_gateway, twilio
from runtime.outgoing.vault import SECRET_FIELDS

log = structlog.get_logger(__name__)

_COMMON: Final = frozenset({"service", "include", "consent"})


@dataclass(frozen=True, slots=True)
class Service:
    """A service. fields: the checks of its config's fields. secret: the check of its credential, which is required if
    `needs_secret`. reaches_player: it sends to the player's phone unless the config has `to`. needs_contact: it
    requires the player's contact.
    """

    send: IntegrationProvider
    fields: Mapping[str, Check]
    required: frozenset[str] = frozenset()
    secret: Check = signing_secret
    needs_secret: bool = False
    reaches_player: bool = False
    needs_contact: bool = False


_NUMBER: Final = fields.matching(r"\+[1-9][0-9]{6,14}", "must be a phone number in E.164 format, such as +49301234567")
_RECEIVER: Final[Mapping[str, Check]] = {"url": fields.url, "headers": fields.headers}
_TEXT: Final[Mapping[str, Check]] = {"text": fields.template}

SERVICES: Final[Mapping[str, Mapping[str, Service]]] = {
    "spreadsheet": {
        "google_sheets": Service(
            append_row,
            {
                "url": fields.url,
                "spreadsheet_id": fields.matching(r"[A-Za-z0-9_-]{10,200}", "must be the id in the spreadsheet's URL"),
                "sheet": fields.matching(r"[^\x00-\x1f]{1,100}", "must be the name of a sheet"),
                "columns": fields.columns,
            },
            required=frozenset({"spreadsheet_id"}),
            secret=account_key,
            needs_secret=True,
        ),
        "csv": Service(
            send_line,
            {**_RECEIVER, "columns": fields.columns, "method": fields.one_of("POST", "PUT")},
            required=frozenset({"url"}),
        ),
    },
    "sms": {
        "twilio": Service(
            twilio,
            {
                **_TEXT,
                "url": fields.url,
                "account_sid": fields.matching(r"AC[0-9a-f]{32}", "must be the SID of a Twilio account"),
                "from": fields.matching(
                    r"\+[1-9][0-9]{6,14}|MG[0-9a-f]{32}|[A-Za-z0-9 ]{1,11}",
                    "must be a phone number, a messaging service SID or an alphanumeric sender",
                ),
                "to": _NUMBER,
            },
            required=frozenset({"account_sid", "from", "text"}),
            secret=fields.token,
            needs_secret=True,
            reaches_player=True,
        ),
        "http": Service(
            sms_gateway,
            {
                **_RECEIVER,
                **_TEXT,
                "to": _NUMBER,
                "fields": fields.targets("to", "text"),
                "format": fields.one_of("json", "form"),
            },
            required=frozenset({"url", "text"}),
            reaches_player=True,
        ),
    },
    "messaging": {
        name: Service(send, _TEXT, required=frozenset({"text"}), secret=fields.url, needs_secret=True)
        for name, send in (("slack", slack), ("discord", discord))
    },
    "crm": {
        "hubspot": Service(
            upsert_contact,
            {"url": fields.url, "fields": fields.targets()},
            secret=fields.token,
            needs_secret=True,
            needs_contact=True,
        ),
        "json": Service(post_mapped, {**_RECEIVER, "fields": fields.targets()}, required=frozenset({"url", "fields"})),
    },
}
"""By integration type and `config.service`. A plugin's provider of the type replaces them."""


def service_of(kind: str, config: Mapping[str, Any]) -> Service | None:
    """The built-in service that an integration of this type sends to, or None."""
    name = config.get("service")
    known = SERVICES.get(kind, {}) if INTEGRATION_PROVIDERS.get(kind) is None else {}
    return known.get(name) if isinstance(name, str) else None


def has_services(kind: str) -> bool:
    """Whether integrations of this type only log until their config names a service."""
    return kind in SERVICES and INTEGRATION_PROVIDERS.get(kind) is None


async def _to_service(kind: str, connector: Connector, request: DeliveryRequest) -> LoggedOutcome:
    if (service := service_of(kind, request.config)) is not None:
        return await service.send(connector, request)
    if name := request.config.get("service"):
        return Failed(f"unknown service {name!r}")
    log.info("stub_delivery", integration_type=kind, event_id=request.id, tenant_id=request.tenant_id)
    return Stubbed()


def integration_provider(kind: str) -> IntegrationProvider | None:
    """The provider of integrations of this type, or None."""
    if (registered := INTEGRATION_PROVIDERS.get(kind)) is not None or kind not in SERVICES:
        return registered

    async def provider(connector: Connector, request: DeliveryRequest) -> LoggedOutcome:
        return await _to_service(kind, connector, request)

    return provider


def limited_number(kind: str, config: Mapping[str, Any], body: Mapping[str, Any]) -> str:
    """The player's phone number that a service sends to; "" if it sends to none."""
    service = service_of(kind, config)
    return recipient_of(config, body) if service and service.reaches_player and not config.get("to") else ""


def posts(kind: str) -> bool:
    """Whether the type's provider POSTs every event as it is, so that its config must contain a receiver."""
    return INTEGRATION_PROVIDERS.get(kind) is webhook


def includes(kind: str) -> bool:
    """Whether the type's config may ask for a player's contact and entry."""
    return INTEGRATION_PROVIDERS.get(kind) is not None or has_services(kind)


def config_problems(kind: str, config: Mapping[str, Any], *, has_secret: bool) -> Iterable[tuple[str, str]]:
    """(path within the config, description) for each problem. has_secret: a secret is stored, or in the config."""
    if posts(kind):
        yield from integration_config(config)
    elif has_services(kind):
        yield from _service_problems(kind, config, has_secret=has_secret)
    else:
        yield from header_problems(config.get("headers", {}))
        yield from include_problems(config)


def _service_problems(kind: str, config: Mapping[str, Any], *, has_secret: bool) -> Iterable[tuple[str, str]]:
    if not any(config.values()):
        return
    if (service := service_of(kind, config)) is None:
        yield "service", f"must be one of {', '.join(SERVICES[kind])}"
        return
    yield from include_problems(config)
    yield from ((name, "is required") for name in sorted(service.required) if config.get(name) in (None, ""))
    for name, value in config.items():
        if (check := service.fields.get(name)) is not None:
            if value not in (None, "") or name not in service.required:
                yield from ((f"{name}{path}", wrong) for path, wrong in check(value))
        elif name in SECRET_FIELDS:
            if value != "":
                yield from ((name, wrong) for _, wrong in service.secret(value))
        elif name not in _COMMON:
            yield name, "unknown field"
    if service.needs_secret and not has_secret:
        yield SECRET_FIELDS[0], "is required"
    if "contact" not in (config.get("include") or []):
        if service.needs_contact:
            yield "include", "must have contact: the service identifies players by their e-mail address"
        elif service.reaches_player and not config.get("to"):
            yield "to", "is required, unless include has contact: then the player gets the message"
