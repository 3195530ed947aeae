"""The one clock, and the local days of its time zones."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.stores.clock import STALE_SECONDS, Clock, Days

ZONES = ("UTC", "Europe/Paris", "America/New_York", "Asia/Kathmandu", "Pacific/Kiritimati", "Australia/Lord_Howe")


def off_by(clock: Clock) -> float:
    """How far the clock is from the monotonic one."""
    return clock.now() - time.monotonic()


def test_the_databases_time_replaces_the_machines() -> None:
    clock = Clock()
    sent = time.monotonic()
    clock.sync(1_000_000.0, sent, sent + 0.2)
    # In the middle between asking and hearing.
    assert off_by(clock) == pytest.approx(1_000_000.0 - (sent + 0.1), abs=0.01)


def test_a_slow_reading_does_not_replace_a_quick_one() -> None:
    clock = Clock()
    sent = time.monotonic()
    clock.sync(1_000_000.0, sent, sent + 0.002)
    good = off_by(clock)
    clock.sync(1_000_009.0, sent, sent + 5.0)
    assert off_by(clock) == pytest.approx(good, abs=0.01)
    clock.sync(2_000_000.0, sent, sent + 0.001)
    assert off_by(clock) == pytest.approx(2_000_000.0 - sent, abs=0.01)


def test_any_reading_replaces_one_that_is_old() -> None:
    clock = Clock()
    sent = time.monotonic()
    clock.sync(1_000_000.0, sent, sent + 0.001)
    later = sent + STALE_SECONDS + 10
    clock.sync(3_000_000.0, later, later + 2.0)
    assert off_by(clock) == pytest.approx(3_000_000.0 - (later + 1.0), abs=0.01)


def test_a_day_ends_where_the_next_begins() -> None:
    days = Days("America/New_York")
    noon = datetime(2026, 3, 8, 12, tzinfo=ZoneInfo("America/New_York"))  # clocks go forward that night
    day, ends = days.at(noon.timestamp())
    assert (day, ends - days.starts(day)) == (date(2026, 3, 8), 23 * 3600)
    assert days.at(ends) == (date(2026, 3, 9), days.starts(date(2026, 3, 10)))
    assert days.at(ends - 0.001)[0] == date(2026, 3, 8)
    autumn = datetime(2026, 11, 1, 1, tzinfo=ZoneInfo("America/New_York"))
    day, ends = days.at(autumn.timestamp())
    assert ends - days.starts(day) == 25 * 3600


@given(zone=st.sampled_from(ZONES), seconds=st.lists(st.integers(0, 4_000_000_000), min_size=1, max_size=5))
def test_a_moment_lies_in_its_day_whatever_was_asked_before(zone: str, seconds: list[int]) -> None:
    days = Days(zone)
    for moment in seconds:
        day, ends = days.at(moment)
        assert day == datetime.fromtimestamp(moment, UTC).astimezone(ZoneInfo(zone)).date()
        assert days.starts(day) <= moment < ends == days.starts(day + timedelta(days=1))


def test_an_unknown_zone_is_a_key_error() -> None:
    with pytest.raises((KeyError, ValueError)):
        Days("Mars/Olympus_Mons")
