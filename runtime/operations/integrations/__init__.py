"""Integrations: receivers of a tenant's events."""

from __future__ import annotations

from typing import Final

from runtime.operations import samples
from runtime.operations.integrations.deliveries import emit_event, list_deliveries, resend_delivery, try_integration
from runtime.operations.integrations.integration_admin import (
    create_integration,
    delete_integration,
    list_integrations,
    rotate_secret,
    update_integration,
)
from runtime.operations.row import ADMINS, STAFF, Command, Operation

ROWS: Final = (
    Operation(
        "CreateIntegration",
        "POST /integrations",
        run=create_integration,
        resource="integration",
        admin=ADMINS,
        confides=True,
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
