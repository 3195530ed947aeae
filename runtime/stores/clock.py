"""The clock: Postgres's time, read through its offset to the process's own monotonic clock.

A process whose wall clock is wrong, or is set while it runs, decides days, caps and expiries as
every other does. The offset is taken from each reply that carries the database's time; a reply
that took long says less, so the best one of late wins: as long as the others bear it out. One that
they contradict is of a time that is over (the machine stood still, the database is another's).
"""

from __future__ import annotations

import time
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

STALE_SECONDS: Final = 60.0
"""An offset older than this gives way to any newer one: clocks drift apart."""

DRIFT: Final = 0.001
"""Seconds by which two clocks may part in a second, at most: what they part by beyond it is no drift."""


class Clock:
    """Postgres's time. `sync` before the first `now`."""

    __slots__ = ("_offset", "_error", "_sent", "_synced")

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()
        self._error = float("inf")
        self._sent = self._synced = 0.0

    def sync(self, database_seconds: float, sent: float, received: float) -> None:
        """Takes one reading: the database's unix time, and `time.monotonic()` before and after asking.

        The quickest one counts. One that contradicts it beyond the errors of both counts however long it took. But
        none that was asked for earlier: its reply came late, perhaps from before the clocks parted.
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
    """The IANA time zone; KeyError (ZoneInfoNotFoundError) or ValueError where there is none."""
    return ZoneInfo(name)


class Days:
    """Local days of one time zone; the current one is kept, for it is asked at every play."""

    __slots__ = ("_zone", "_day", "_starts", "_ends")

    def __init__(self, timezone: str) -> None:
        self._zone = zone(timezone)
        self._day = date.min
        self._starts = self._ends = 0

    def at(self, unix_seconds: float) -> tuple[date, int]:
        """The local date, and the unix seconds of the midnight that ends it."""
        if not self._starts <= unix_seconds < self._ends:
            self._day = datetime.fromtimestamp(unix_seconds, self._zone).date()
            self._starts = self.starts(self._day)
            self._ends = self.starts(self._day + timedelta(days=1))
        return self._day, self._ends

    def starts(self, day: date) -> int:
        """Unix seconds of the midnight that begins a local day."""
        return int(datetime(day.year, day.month, day.day, tzinfo=self._zone).timestamp())
