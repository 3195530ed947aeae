"""Parses times as people write them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo


def expiry(text: str) -> int:
    """An expiry in Unix seconds, from Unix seconds, ISO 8601, or a last day (inclusive, UTC). 0: empty. -1: invalid."""
    text = text.strip()
    if not text:
        return 0
    if text.isascii() and text.isdigit():
        return int(text[:18])
    try:
        if len(text) == len("2026-12-31"):
            moment = datetime.combine(date.fromisoformat(text), datetime.min.time()) + timedelta(days=1)
        else:
            moment = datetime.fromisoformat(text)
        return max(-1, int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()))
    except (ValueError, OverflowError):
        return -1


def unix(at: datetime | None, zone: tzinfo = UTC) -> int:
    """A time in Unix seconds; `zone` applies if it has no offset. 0 for None."""
    return 0 if at is None else int((at if at.tzinfo else at.replace(tzinfo=zone)).timestamp())
