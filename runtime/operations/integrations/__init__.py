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
        confidential=True,
        refusals=("UNKNOWN_CAMPAIGN", "UNKNOWN_TENANT"),
        example={
            "type": "INTEGRATION_TYPE_WEBHOOK",
            "events": ["prize_won", "prize_claimed"],
            "config": {"url": samples.RECEIVER},
            "campaign_id": samples.CAMPAIGN,
        },
        command=Command(
            "integrations create FILE",
            "Create an integration from a YAML or JSON file with its fields: type, events, config, campaign_id.",
            help={"file": "The file."},
            outcome="{id}",
        ),
    ),
    Operation(
        "ListIntegrations",
        "GET /integrations",
        run=list_integrations,
        admin=STAFF,
        command=Command(
            "integrations list",
            "List integrations, newest first.",
            columns="id, type, status, events, url=config.url",
        ),
    ),
    Operation(
        "UpdateIntegration",
        "PUT /integrations/{id}",
        run=update_integration,
        resource="integration",
        admin=ADMINS,
        refusals=("UNKNOWN_CAMPAIGN", "IN_USE"),
        example={"status": "INTEGRATION_STATUS_PAUSED"},
        command=(
            Command(
                "integrations pause INTEGRATION",
                "Pause an integration. Events during the pause are not sent later.",
                sends={"status": "INTEGRATION_STATUS_PAUSED"},
                outcome="paused",
            ),
            Command(
                "integrations resume INTEGRATION",
                "Resume an integration, from the current events on.",
                sends={"status": "INTEGRATION_STATUS_ACTIVE"},
                outcome="active",
            ),
        ),
    ),
    Operation(
        "TestIntegration",
        "POST /integrations/{id}/test",
        run=try_integration,
        admin=ADMINS,
        lengthy=True,
        refusals=("IN_USE",),
        example={},
        command=Command(
            "integrations test INTEGRATION",
            "Send an integration a test event. Exits with 1 if it is not accepted.",
            outcome="{status} {http_status:some} {error}",
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
            "Resend an event from an integration's log with the same event id. Exits with 1 if it is not accepted.",
            help={"integration": "The integration's id.", "delivery": "The delivery's id, from `integrations log`."},
            outcome="{status} {http_status:some} {error}",
            unless="delivered",
        ),
    ),
    Operation(
        "RotateSecret",
        "POST /integrations/{id}/rotate",
        run=rotate_secret,
        admin=ADMINS,
        refusals=("IN_USE",),
        example={"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
        command=Command(
            "integrations rotate INTEGRATION --secret",
            "Sign with a new secret and the previous one; without --secret, end the previous one.",
            help={"integration": "The integration's id.", "secret": "The new secret."},
            outcome="{secret:signing}",
        ),
    ),
    Operation(
        "DeleteIntegration",
        "DELETE /integrations/{id}",
        run=delete_integration,
        admin=ADMINS,
        refusals=("IN_USE",),
        command=Command(
            "integrations remove INTEGRATION",
            "Remove an integration and its log. It receives no further events, including those still queued.",
            confirm="Remove {integration} and its log?",
            outcome="{integration} is removed",
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
            "List an integration's latest deliveries.",
            help={"most": ""},
            columns="id, event=event_id, type=event_type, status, answer={http_status:some} {error}, ms=duration_ms",
        ),
    ),
)
