"""The periods of a quest, and whether it is open."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

import asyncpg

from runtime.errors import Fault, Status
from runtime.stores.clock import Days


class Period(NamedTuple):
    """name: 'once', '2026-11-21' or '2026-W47'. begins, resets_at: start and end in unix seconds, 0 = unlimited."""

    name: str
    begins: int
    resets_at: int


def period_at(type: str, timezone: str, now: float) -> Period:
    """The period of a quest of `type` that contains unix second `now` in the time zone."""
    if type == "one_time":
        return Period("once", 0, 0)
    days = Days(timezone)
    day, midnight = days.at(now)
    if type == "daily":
        return Period(day.isoformat(), days.starts(day), midnight)
    year, week, weekday = day.isocalendar()
    monday = day - timedelta(days=weekday - 1)
    return Period(f"{year}-W{week:02}", days.starts(monday), days.starts(monday + timedelta(days=7)))


def check_open(quest_id: str, row: asyncpg.Record, now: float) -> None:
    if row["campaign_status"] != "active":
        why = f"its campaign is {row['campaign_status']}"
    elif now < max(row["start_date"], row["campaign_start"]):
        why = "it has not started"
    elif any(0 < end <= now for end in (row["end_date"], row["campaign_end"])):
        why = "it has ended"
    else:
        return
    raise Fault(Status.FAILED_PRECONDITION, "QUEST_CLOSED", f"quest {quest_id} is closed: {why}")
