"""Times as they are typed on a command line."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo


def unix(at: datetime | None, zone: tzinfo = UTC) -> int:
    """A time in unix seconds, of this zone where it says no offset; 0 where there is none."""
    return 0 if at is None else int((at if at.tzinfo else at.replace(tzinfo=zone)).timestamp())
