"""Times that people write."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo


def expiry(text: str) -> int:
    """When it is over, in unix seconds: such seconds, ISO 8601, or a last day in UTC. 0: no text. -1: no time."""
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
    """A time in unix seconds, of this zone where it says no offset; 0 where there is none."""
    return 0 if at is None else int((at if at.tzinfo else at.replace(tzinfo=zone)).timestamp())
