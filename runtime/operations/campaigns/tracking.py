"""Trackers of the hosted pages: Google Analytics 4, Google Tag Manager and the Meta pixel, behind a consent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from runtime import messages as m
from runtime.operations.checks import Checks

IDS: Final[Mapping[str, tuple[re.Pattern[str], str]]] = {
    "ga4": (re.compile(r"G-[A-Z0-9]{4,16}"), "must be a measurement ID such as G-AB12CD34EF"),
    "gtm": (re.compile(r"GTM-[A-Z0-9]{4,14}"), "must be a container ID such as GTM-AB12CD3"),
    "meta_pixel": (re.compile(r"[0-9]{5,20}"), "must be the pixel's ID, of digits"),
}
"""The valid ids of each tracker. They become part of scripts' addresses."""


def check(checks: Checks, campaign: m.Campaign) -> None:
    """Adds the problems of a campaign's trackers."""
    if not (tracking := campaign.tracking):
        return
    for name, (pattern, wrong) in IDS.items():
        if (value := getattr(tracking, name)) and not pattern.fullmatch(value):
            checks.problem(f"tracking.{name}", wrong)
    known = [one.id for one in campaign.entry.consents] if campaign.entry else []
    if tracking.consent not in known:
        choice = f"must be one of {', '.join(known)}" if known else "requires a consent of the entry form"
        checks.problem("tracking.consent", choice)


def check_container(checks: Checks, campaign: m.Campaign, before: Mapping[str, Any] | None, merchant_id: str) -> None:
    """Adds a problem for a new Tag Manager container without a host, or of a merchant's staff.

    A container's templates read the page's local storage, which holds logins: on a shared host, those of all tenants.
    """
    gtm = campaign.tracking.gtm if campaign.tracking else ""
    if not gtm or gtm == (before or {}).get("gtm"):
        return
    if merchant_id:
        checks.problem("tracking.gtm", "can only be set by the tenant's own staff")
    elif not campaign.hosts:
        checks.problem("tracking.gtm", "requires a host of the campaign's own: set hosts")


def stored(tracking: m.CampaignTracking | None) -> dict[str, str] | None:
    """The column; None without a tracker."""
    if not tracking or not any(getattr(tracking, name) for name in IDS):
        return None
    return {name: value for name in (*IDS, "consent") if (value := getattr(tracking, name))}


def from_stored(row: Mapping[str, Any] | None) -> m.CampaignTracking | None:
    return m.CampaignTracking(**row) if row else None
