"""Times of a campaign's file as days of the campaign: `day 1` is the day of its start_date, in its time zone.

campaign: {name: Advent calendar, timezone: Europe/Berlin, start_date: 2026-12-01T00:00:00+01:00}
games: [{name: Door 3, start_date: day 3, end_date: day 4}, {name: Noon, start_date: day 24 12:00}]
"""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from runtime.operations.checks import is_timezone
from runtime.operations.files.kinds import TIMES, Found

_DAY: Final = re.compile(r"day ([1-9]\d{0,3})(?: ([01]\d|2[0-3]):([0-5]\d))?")
_FREE_FORM: Final = frozenset({"ui", "settings", "handler_config", "config"})


class _NoStart(Exception):
    """The file counts days, but its campaign has no start."""


def with_times(file: dict[str, Any], found: Found) -> dict[str, Any]:
    """The file with its days as unix seconds. A problem if the campaign has no start to count from."""
    campaign = file.get("campaign")
    try:
        resolved: dict[str, Any] = _resolved(file, *_first_day(campaign if isinstance(campaign, dict) else {}))
    except _NoStart:
        found.append(("campaign.start_date", "is required, because the file counts its days from it"))
        return {"campaign": {name: value for name, value in file["campaign"].items() if name not in TIMES}}
    return resolved


def _first_day(campaign: dict[str, Any]) -> tuple[date | None, ZoneInfo]:
    start, named = campaign.get("start_date"), campaign.get("timezone")
    zone = ZoneInfo(named if isinstance(named, str) and is_timezone(named) else "UTC")
    try:
        moment = datetime.fromisoformat(start) if isinstance(start, str) else datetime.fromtimestamp(start or 0, zone)
        return (moment.astimezone(zone).date() if start else None), zone
    except (ValueError, TypeError, OverflowError):
        return None, zone  # The campaign's own check reports the time.


def _resolved(value: Any, first: date | None, zone: ZoneInfo) -> Any:
    if isinstance(value, list):
        return [_resolved(item, first, zone) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: item
        if name in _FREE_FORM
        else _seconds(item, first, zone)
        if name in TIMES and isinstance(item, str)
        else _resolved(item, first, zone)
        for name, item in value.items()
    }


def _seconds(text: str, first: date | None, zone: ZoneInfo) -> str | int:
    """The time of a day; another text as it is."""
    day = _DAY.fullmatch(text)
    if day is None:
        return text
    if first is None:
        raise _NoStart
    number, hour, minute = (int(part or 0) for part in day.groups())
    try:
        return int(datetime.combine(first + timedelta(days=number - 1), time(hour, minute), zone).timestamp())
    except OverflowError:
        return text  # After the year 9999: the check of times reports its field.
