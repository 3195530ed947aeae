"""When units of a prize become free: the schedule of a prize's `release`.

| Kind | The units become free |
|---|---|
| TIMES | at the listed times |
| EVEN | at equal distances between two times |
| SEALED | at secret times between two times, derived from a seed |

Units that no play wins stay free, so the first play after an instant can win. `hours` limits EVEN and SEALED to some
hours of the week: the time outside them does not count.

Anyone can recompute the times of SEALED from the seed, which is revealed at the end: unit i is free from
floor(1000 * (open time at word(i) * total open seconds)) milliseconds on, with word(i) as in draw.py.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import accumulate
from typing import Any, Final, Protocol
from zoneinfo import ZoneInfo

from runtime.rules.draw import Words

TIMES: Final = "TIMES"
EVEN: Final = "EVEN"
SEALED: Final = "SEALED"
KINDS: Final = (TIMES, EVEN, SEALED)

_DAY_SECONDS: Final = 86_400

Terms = Mapping[str, Any]
"""`kind`, `units`, `starts_at`, `ends_at` (unix seconds), `times` ([at, units] of TIMES), `hours`
([[weekdays], from_hour, to_hour]; weekday 1: Monday) and their `timezone`."""


class Schedule(Protocol):
    """The units of a prize that are not free yet."""

    def held_back(self, now: float) -> int:
        """How many units become free after `now` (unix seconds)."""


class _Instants:
    """Units that become free at known instants."""

    def __init__(self, instants: Sequence[tuple[float, int]]) -> None:
        ordered = sorted(instants)
        self._ats = [at for at, _ in ordered]
        self._freed = [0, *accumulate(units for _, units in ordered)]

    def held_back(self, now: float) -> int:
        return self._freed[-1] - self._freed[bisect_right(self._ats, now)]


class _Even:
    """Units that become free one by one, each in the middle of its equal share of the open time."""

    def __init__(self, units: int, time: OpenTime) -> None:
        self._units = units
        self._time = time

    def held_back(self, now: float) -> int:
        return self._units - int(self._units * self._time.elapsed(now) / self._time.total + 0.5)


class OpenTime:
    """The time between two instants, without the hours in which nothing is released."""

    def __init__(self, terms: Terms) -> None:
        spans = _open_spans(terms)
        self._starts = array("d", (start for start, _ in spans))  # Two years of hours: as lists, four times the memory.
        self._ends = array("d", (end for _, end in spans))
        self._before = array("d", (0.0, *accumulate(end - start for start, end in spans)))
        self.total = self._before[-1]

    def elapsed(self, now: float) -> float:
        """The open seconds before `now`."""
        index = bisect_right(self._starts, now) - 1
        return 0.0 if index < 0 else self._before[index] + min(now, self._ends[index]) - self._starts[index]

    def at(self, elapsed: float) -> float:
        """The instant before which there are as many open seconds."""
        index = min(bisect_right(self._before, elapsed) - 1, len(self._starts) - 1)
        return self._starts[index] + elapsed - self._before[index]


def schedule(terms: Terms, seed: bytes) -> Schedule:
    """The schedule of a release. seed: the secret of a SEALED one."""
    if terms["kind"] == TIMES:
        return _Instants([(at, units) for at, units in terms["times"]])
    if terms["kind"] == EVEN:
        return _Even(terms["units"], OpenTime(terms))
    return _Instants([(at, 1) for at in sealed_instants(terms, seed)])


def sealed_instants(terms: Terms, seed: bytes) -> list[float]:
    """The instants of a SEALED release in unix seconds, to the millisecond, in the order of their words."""
    time, words = OpenTime(terms), Words(seed)
    return [int(1000 * time.at(words.word(i) * time.total)) / 1000 for i in range(terms["units"])]


def opening(prize_id: str, terms: Terms, seed: bytes) -> str:
    """The document that is revealed at the end: its SHA-256 is promised before. The seed prevents guesses."""
    return json.dumps(
        {"prize_id": prize_id, "release": terms, "seed": seed.hex()},
        ensure_ascii=False,
        separators=(",", ":"),
        sort_keys=True,
    )


def commitment(document: str) -> str:
    """The SHA-256 of an opening, in hex."""
    return hashlib.sha256(document.encode()).hexdigest()


def _open_spans(terms: Terms) -> list[tuple[float, float]]:
    """The open spans in order, with gaps between them."""
    starts, ends = float(terms["starts_at"]), float(terms["ends_at"])
    if not terms.get("hours"):
        return [(starts, ends)]
    zone = ZoneInfo(terms["timezone"])
    day, last = datetime.fromtimestamp(starts, zone).date(), datetime.fromtimestamp(ends, zone).date()
    hours = {
        weekday: sorted((first, end) for weekdays, first, end in terms["hours"] if weekday in weekdays)
        for weekday in range(1, 8)
    }
    spans: list[tuple[float, float]] = []
    while day <= last:
        midnight = _instant(day, 0, zone)
        is_plain = _instant(day, 24, zone) - midnight == _DAY_SECONDS
        for first, end in hours[day.isoweekday()]:
            opens, closes = midnight + 3600 * first, midnight + 3600 * end
            if not is_plain:  # Always correct, but slow: two years of hours would take a tenth of a second.
                opens, closes = _instant(day, first, zone), _instant(day, end, zone)
            start = max(opens, starts, spans[-1][1] if spans else starts)
            if start < (end_at := min(closes, ends)):
                touches = spans and start == spans[-1][1]
                spans.append((spans.pop()[0] if touches else start, end_at))
        day += timedelta(days=1)
    return spans


def _instant(day: date, hour: int, zone: ZoneInfo) -> float:
    day += timedelta(days=hour // 24)
    return datetime(day.year, day.month, day.day, hour % 24, tzinfo=zone).timestamp()
