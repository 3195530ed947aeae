import re
import time
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime import ids
from runtime.stores.clock import DRIFT, STALE_SECONDS, Clock, Days
from runtime.stores.history import History

ZONES = ("UTC", "Europe/Paris", "America/New_York", "Asia/Kathmandu", "Pacific/Kiritimati", "Australia/Lord_Howe")


def off_by(clock: Clock) -> float:
    return clock.now() - time.monotonic()


def synced(took: float) -> tuple[Clock, float]:
    clock, sent = Clock(), time.monotonic()
    clock.sync(1_000_000.0, sent, sent + took)
    return clock, sent


def test_databases_time_replaces_the_machines() -> None:
    clock, sent = synced(0.2)
    # In the middle between asking and hearing.
    assert off_by(clock) == pytest.approx(1_000_000.0 - (sent + 0.1), abs=0.01)


def test_slow_reading_does_not_replace_a_quick_one() -> None:
    clock, sent = synced(0.002)
    good = off_by(clock)
    clock.sync(1_000_004.9, sent, sent + 5.0)
    assert off_by(clock) == pytest.approx(good, abs=0.01)
    clock.sync(2_000_000.0, sent, sent + 0.001)
    assert off_by(clock) == pytest.approx(2_000_000.0 - sent, abs=0.01)


def test_stale_reading_is_replaced_by_any_newer_one() -> None:
    clock, sent = synced(0.001)
    later = sent + STALE_SECONDS + 10
    clock.sync(3_000_000.0, later, later + 2.0)
    assert off_by(clock) == pytest.approx(3_000_000.0 - (later + 1.0), abs=0.01)


@pytest.mark.parametrize("jump", [3600.0, -3600.0, 2.0])
def test_reading_that_contradicts_what_is_known_replaces_it_though_it_took_longer(jump: float) -> None:
    clock, sent = synced(0.001)
    later = sent + 5.0  # far from stale
    clock.sync(1_000_005.0 + jump, later, later + 1.0)
    assert off_by(clock) == pytest.approx(1_000_000.0 + jump - sent - 0.5, abs=0.01)
    # And from there on as before: what is quicker says more.
    clock.sync(1_000_007.0 + jump, later + 2.0, later + 2.0)
    assert off_by(clock) == pytest.approx(1_000_000.0 + jump - sent, abs=0.01)


def test_drift_of_two_clocks_is_no_contradiction() -> None:
    clock, sent = synced(0.0)
    clock.sync(1_000_030.0 + 0.02 + 0.001, sent + 30.0, sent + 30.002)
    assert off_by(clock) == pytest.approx(1_000_000.0 - sent, abs=0.002)


def test_reading_asked_for_before_the_clocks_parted_does_not_bring_the_old_time_back() -> None:
    clock, sent = synced(0.01)
    clock.sync(1_003_600.5, sent + 0.5, sent + 0.52)
    # Stamped before the machine stood still, heard after it.
    clock.sync(1_000_000.3, sent + 0.3, sent + 0.6)
    clock.sync(1_000_000.3, sent + 0.3, sent + 0.301)
    assert off_by(clock) == pytest.approx(1_003_600.0 - sent, abs=0.02)


@given(
    readings=st.lists(
        st.tuples(st.floats(0.01, 20), st.floats(0, 2), st.floats(0, 1), st.sampled_from([0, 0, 0, 0, 300, -300])),
        min_size=1,
        max_size=20,
    )
)
def test_clock_stays_within_the_error_of_its_latest_reading(readings: list[tuple[float, float, float, int]]) -> None:
    clock, sent, jumped = Clock(), time.monotonic(), 0.0
    began = sent
    for pause, took, part, jump in readings:
        sent += pause
        jumped += jump
        # Anywhere between asking and hearing, the database looked at its own clock, which is right.
        clock.sync(1_000_000.0 + jumped + (sent + part * took - began), sent, sent + took)
        sent += took
        assert abs(off_by(clock) - (1_000_000.0 + jumped - began)) <= 2 * took + 2 * STALE_SECONDS * DRIFT + 0.01


def test_day_ends_where_the_next_begins() -> None:
    days = Days("America/New_York")
    noon = datetime(2026, 3, 8, 12, tzinfo=ZoneInfo("America/New_York"))  # clocks go forward that night
    day, ends = days.at(noon.timestamp())
    assert (day, ends - days.starts(day)) == (date(2026, 3, 8), 23 * 3600)
    assert days.at(ends) == (date(2026, 3, 9), days.starts(date(2026, 3, 10)))
    assert days.at(ends - 0.001)[0] == date(2026, 3, 8)
    day, ends = days.at(datetime(2026, 11, 1, 1, tzinfo=ZoneInfo("America/New_York")).timestamp())
    assert ends - days.starts(day) == 25 * 3600


@given(zone=st.sampled_from(ZONES), seconds=st.lists(st.integers(0, 4_000_000_000), min_size=1, max_size=5))
def test_moment_lies_in_its_day_whatever_was_asked_before(zone: str, seconds: list[int]) -> None:
    days = Days(zone)
    for moment in seconds:
        day, ends = days.at(moment)
        assert day == datetime.fromtimestamp(moment, UTC).astimezone(ZoneInfo(zone)).date()
        assert days.starts(day) <= moment < ends == days.starts(day + timedelta(days=1))


def test_unknown_zone_is_a_key_error() -> None:
    with pytest.raises((KeyError, ValueError)):
        Days("Mars/Olympus_Mons")


def test_ids_have_a_prefix_and_26_characters_and_rise() -> None:
    assert re.fullmatch(r"reward_[0-9a-hjkmnp-tv-z]{26}", ids.make("reward"))
    made = [ids.make("x") for _ in range(50_000)]
    assert len(set(made)) == len(made)
    assert made == sorted(made)
    with pytest.raises(ValueError, match="invalid literal"):
        ids.unix_ms("!" * 26)


def test_ids_rise_also_when_the_clock_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ids.make("x")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 3600)
    made = [ids.make("x") for _ in range(3000)]
    assert [before, *made] == sorted({before, *made})


def test_id_carries_its_time() -> None:
    before = int(time.time() * 1000)
    # Ids that were made ahead of time within one millisecond borrow from the next ones.
    assert before - 1 <= ids.unix_ms(ids.make("x").removeprefix("x_"))


@given(st.integers(0, 2**48 - 1))
def test_ulid_gives_back_its_milliseconds(ms: int) -> None:
    ulid = ids.ulid_at(ms / 1000)
    assert len(ulid) == 26
    assert ids.unix_ms(ulid) == int(ms / 1000 * 1000)


@pytest.mark.parametrize(
    ("before", "now", "continues"),
    [
        (History("7.16384.00000001", 100), History("7.16384.00000001", 100), True),
        (History("7.16384.00000001", 100), History("7.16384.00000001", 101), True),
        # A copy of the same files from before, as a disk's snapshot is: what was written since is not there.
        (History("7.16384.00000001", 100), History("7.16384.00000001", 99), False),
        # Restored to a point in time, or promoted: another timeline.
        (History("7.16384.00000001", 100), History("7.16384.00000002", 101), False),
        # Another server, or tables made anew.
        (History("7.16384.00000001", 100), History("8.16384.00000001", 101), False),
        (History("7.16384.00000001", 100), History("7.24576.00000001", 101), False),
    ],
)
def test_history_continues_only_as_itself_and_forward(before: History, now: History, continues: bool) -> None:
    assert now.continues(before) is continues
    assert now.continues(History.parse(str(before))) is continues


@pytest.mark.parametrize("text", ["", "x", "7.16384.00000001", "7.16384.00000001:", "7.16384.00000001:-5", "a:b:c"])
def test_unreadable_history_is_continued_by_none(text: str) -> None:
    assert not History("7.16384.00000001", 100).continues(History.parse(text))
