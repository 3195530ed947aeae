"""The clock: Postgres's time, from its offset to the process's monotonic clock.

A process with a wrong or changing wall clock therefore decides days, caps and expiries as every other process does.
Each reply that carries the database's time gives an offset. A slow reply is less precise, so the most precise recent
one is used, unless newer readings contradict it: then it is outdated (the machine was suspended, or the database
moved).
"""

from __future__ import annotations

import time
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

STALE_SECONDS: Final = 60.0
"""An offset older than this is replaced by any newer one: clocks drift."""

DRIFT: Final = 0.001
"""The maximum drift of two clocks, in seconds per second; a larger difference has another cause."""


class Clock:
    """Postgres's time. `sync` before the first `now`."""

    __slots__ = ("_offset", "_error", "_sent", "_synced")

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()
        self._error = float("inf")
        self._sent = self._synced = 0.0

    def sync(self, database_seconds: float, sent: float, received: float) -> None:
        """Takes one reading: the database's unix time, and `time.monotonic()` before and after the query.

        The fastest reading is used. A reading that contradicts it by more than both errors replaces it, however slow it
        was. A reading sent earlier never does: its reply was delayed, perhaps from before the clocks diverged.
        """
        error = (received - sent) / 2
        offset = database_seconds - (sent + error)
        age = received - self._synced
        apart = abs(offset - self._offset) - error - self._error
        if age > STALE_SECONDS or (sent >= self._sent and (error <= self._error or apart > age * DRIFT)):
            self._offset = offset
            self._error, self._sent, self._synced = error, sent, received

    def now(self) -> float:
        """Unix seconds."""
        return time.monotonic() + self._offset


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """The IANA time zone; KeyError (ZoneInfoNotFoundError) or ValueError if it does not exist."""
    return ZoneInfo(name)


class Days:
    """Local days of one time zone. Caches the current day, because every play reads it."""

    __slots__ = ("_zone", "_day", "_starts", "_ends")

    def __init__(self, timezone: str) -> None:
        self._zone = zone(timezone)
        self._day = date.min
        self._starts = self._ends = 0

    def at(self, unix_seconds: float) -> tuple[date, int]:
        """The local date, and the midnight that ends it (unix seconds)."""
        if not self._starts <= unix_seconds < self._ends:
            self._day = datetime.fromtimestamp(unix_seconds, self._zone).date()
            self._starts = self.starts(self._day)
            self._ends = self.starts(self._day + timedelta(days=1))
        return self._day, self._ends

    def starts(self, day: date) -> int:
        """The midnight that begins a local day (unix seconds)."""
        return int(datetime(day.year, day.month, day.day, tzinfo=self._zone).timestamp())
