"""Identifiers: prefixed, unique, and in the order in which they were made."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime import ids


def test_id_has_its_prefix_and_26_characters() -> None:
    assert re.fullmatch(r"reward_[0-9a-hjkmnp-tv-z]{26}", ids.make("reward"))


def test_ids_rise_and_never_repeat() -> None:
    made = [ids.make("x") for _ in range(50_000)]
    assert len(set(made)) == len(made)
    assert made == sorted(made)


def test_ids_rise_also_when_the_clock_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ids.make("x")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 3600)
    made = [ids.make("x") for _ in range(3000)]
    assert [before, *made] == sorted({before, *made})


def test_id_carries_its_time() -> None:
    before = int(time.time() * 1000)
    at = ids.unix_ms(ids.make("x").removeprefix("x_"))
    # Ids that were made ahead of time within one millisecond borrow from the next ones.
    assert before - 1 <= at


@given(st.integers(0, 2**48 - 1))
def test_ulid_gives_back_its_milliseconds(ms: int) -> None:
    ulid = ids.ulid_at(ms / 1000)
    assert len(ulid) == 26
    assert ids.unix_ms(ulid) == int(ms / 1000 * 1000)


@given(st.integers(0, 2**45), st.integers(0, 2**45))
def test_ulids_sort_by_their_time(one: int, two: int) -> None:
    if int(one / 1000 * 1000) < int(two / 1000 * 1000):
        assert ids.ulid_at(one / 1000) < ids.ulid_at(two / 1000)


def test_ulids_of_one_moment_differ() -> None:
    made = {ids.ulid_at(1_780_000_000.0) for _ in range(4000)}
    assert len(made) == 4000


def test_wrong_ulid_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        ids.unix_ms("!" * 26)
