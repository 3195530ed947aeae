"""Campaigns: containers of games, prizes, quests and boards, with dates and a time zone."""

from __future__ import annotations

from typing import Final

from runtime.operations import samples
from runtime.operations.campaigns import archiving, hosts, message_samples, origins
from runtime.operations.campaigns.analytics import get_campaign_analytics
from runtime.operations.campaigns.campaign_admin import create_campaign, get_campaign, list_campaigns, update_campaign
from runtime.operations.campaigns.duplication import duplicate_campaign
from runtime.operations.campaigns.launch import GET_LAUNCH_CHECK
from runtime.operations.row import DESIGNERS, STAFF, Command, Operation
from runtime.wire.shape import Shape

ROWS: Final = (
    Operation(
        "CreateCampaign",
        "POST /campaigns",
        run=create_campaign,
        resource="campaign",
        admin=DESIGNERS,
        invalidates_cache=True,
        example={
            "name": "Spring sale",
            "status": "CAMPAIGN_STATUS_ACTIVE",
            "timezone": "Europe/Berlin",
            "start_date": samples.EARLIER,
            "end_date": samples.LATER,
            "settings": {"theme": {"primary": "#c2410c"}},
        },
    ),
    Operation("GetCampaign", "GET /campaigns/{id}", run=get_campaign, admin=STAFF),
    Operation(
        "ListCampaigns",
        "GET /campaigns",
        run=list_campaigns,
        admin=STAFF,
        command=Command(
            "campaigns list --q --status",
            "List campaigns, newest first.",
            columns="id, name, status, timezone, budget={budget:budget}, used={budget:used}",
        ),
    ),
    Operation(
        "UpdateCampaign",
        "PUT /campaigns/{id}",
        run=update_campaign,
        resource="campaign",
        admin=DESIGNERS,
        invalidates_cache=True,
        refusals=("STALE_REVISION", "ILLEGAL_TRANSITION", "HAS_HISTORY", "FROZEN", "CAMPAIGN_ARCHIVED"),
        example={"status": "CAMPAIGN_STATUS_PAUSED"},
    ),
    Operation(
        "DuplicateCampaign",
        "POST /campaigns/{id}/duplicate",
        run=duplicate_campaign,
        admin=DESIGNERS,
        lengthy=True,
        invalidates_cache=True,
        refusals=("SECRET_UNAVAILABLE",),
        example={"name": "Summer sale", "start_date": 1798761600},
        shape=Shape(opened="campaign", name="DuplicatedCampaign"),
    ),
    Operation(
        "GetCampaignAnalytics",
        "GET /campaigns/{id}/analytics",
        run=get_campaign_analytics,
        admin=STAFF,
        lengthy=True,
    ),
    GET_LAUNCH_CHECK,
    *archiving.ROWS,
    *origins.ROWS,
    *hosts.ROWS,
    *message_samples.ROWS,
)
