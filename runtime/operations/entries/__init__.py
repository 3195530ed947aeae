"""Entries: what players fill in and consent to before they play or claim."""

from __future__ import annotations

from typing import Final

from runtime.operations import samples
from runtime.operations.entries.reading import add_entry, get_entry, list_player_entries, withdraw_consents
from runtime.operations.entries.submit import submit_entry
from runtime.operations.row import ADMINS, STAFF, Access, Command, Consumer, Operation, RoutePolicy
from runtime.wire.shape import Shape

ROWS: Final = (
    Operation(
        "SubmitEntry",
        "POST /campaigns/{id}/entry",
        run=submit_entry,
        consumer=Consumer(Access.EITHER, RoutePolicy.ACT),
        while_suspended=True,  # It checks that itself, and admits withdrawals of consents.
        lengthy=True,
        refusals=(
            "SUSPENDED",
            "NOT_ELIGIBLE",
            "LOGIN_REQUIRED",
            "CONSENT_CHANGED",
            "CAPTCHA_REQUIRED",
            "CAPTCHA_UNAVAILABLE",
            "CAMPAIGN_CLOSED",
            "UNKNOWN_TENANT",
        ),
        example={"fields": {}, "consents": {"news": True}, "locale": "en", "source": {"utm_source": "newsletter"}},
        shape=Shape(without=frozenset({"guest_player_id"}), added=frozenset({"guest_token"})),
    ),
    Operation("GetEntry", "GET /campaigns/{id}/entry", run=get_entry, consumer=Consumer(Access.PLAYER)),
    Operation("ListPlayerEntries", "GET /players/{id}/entries", run=list_player_entries, admin=STAFF),
    Operation(
        "AddEntry",
        "POST /players/{id}/entries",
        run=add_entry,
        admin=ADMINS,
        refusals=("NOT_ELIGIBLE", "CAMPAIGN_CLOSED", "ILLEGAL_TRANSITION", "UNKNOWN_CAMPAIGN"),
        example={
            "campaign_id": samples.CAMPAIGN,
            "fields": {},
            "consents": {"news": True},
            "reason": "a postcard",
            "source": {"utm_source": "postal"},
        },
    ),
    Operation(
        "WithdrawConsents",
        "POST /players/{id}/consents/withdraw",
        run=withdraw_consents,
        admin=ADMINS,
        while_suspended=True,
        refusals=("UNKNOWN_ENTRY",),
        example={"campaign_id": samples.CAMPAIGN, "consents": ["news"], "reason": "asked for by e-mail"},
        command=Command(
            "players withdraw PLAYER CAMPAIGN CONSENTS... --reason",
            "Withdraw a player's consents in a campaign.",
            help={
                "player": "The player's id.",
                "campaign": "The campaign's id.",
                "consents": "The ids of the consents.",
                "reason": "The reason, for the audit log.",
            },
        ),
    ),
)
