"""Times that people write."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta


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
