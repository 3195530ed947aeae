"""Entries while a campaign is closed: before its start, while it is paused, and after its end.

`campaign` is the row of `lock_campaign` (sql/entries.sql), which says whether the campaign is closed.
"""

from __future__ import annotations

import asyncpg

from runtime.errors import Fault, Status
from runtime.rules import entry as rules


def refuse_closed(campaign: asyncpg.Record) -> None:
    """The refusal of a start or a play in this state, CAMPAIGN_CLOSED, unless a claim or redeem requires the entry."""
    if not campaign["closed"] or campaign["admits_closed"]:
        return
    facts: dict[str, int] = {}
    match campaign["closed"]:
        case "announced":
            why, facts = "has not begun", {"opens_at": campaign["opens_at"]}
        case "paused":
            why = "is not active"
        case _:
            why, facts = "has ended", {"closed_at": campaign["closed_at"]} if campaign["closed_at"] else {}
    raise Fault(Status.FAILED_PRECONDITION, "CAMPAIGN_CLOSED", f"the campaign {why}", **facts)


def is_late(campaign: asyncpg.Record, before: asyncpg.Record | None, *, complete: bool) -> bool:
    """Whether the entry has no ticket in draws: it was created, or first completed, after the campaign's end. Claims
    and redeems admit it. CAMPAIGN_CLOSED if the campaign is closed and none requires the entry to be completed.
    """
    has_ended = bool(campaign["closed"] == "ended")
    if before is None or not campaign["closed"]:
        return has_ended
    completes = complete and not before["counted"] and bool(rules.missing_of(campaign["entry_needs"], before["given"]))
    if completes:
        refuse_closed(campaign)
    return has_ended and (completes or bool(before["late"]))
