"""A player's time: what earlier plays leave of it for one of a session."""

from __future__ import annotations

from typing import Final

import pytest

from runtime.actors.game.timing import AHEAD_MS, begins_ms, left_ms
from runtime.rules import NETWORK_SLACK_MS, basic, probability, score_to_tier

NOW: Final = 1_000_000


def left(busy_until: int, issued_ms: int) -> int:
    return left_ms(begins_ms(busy_until, issued_ms, NOW), NOW)


@pytest.mark.parametrize(
    ("busy_until", "issued_ms", "ms"),
    [
        (0, NOW - 5_000, 5_000),
        (NOW - 9_000, NOW - 5_000, 5_000),
        (NOW - 2_000, NOW - 5_000, 2_000),
        (NOW, NOW - 5_000, 0),
        (NOW + AHEAD_MS - NETWORK_SLACK_MS, NOW - 5_000, 0),
        (NOW + AHEAD_MS, NOW - 5_000, -NETWORK_SLACK_MS),
        (NOW + AHEAD_MS + NETWORK_SLACK_MS, NOW - 5_000, -2 * NETWORK_SLACK_MS),
        (NOW + AHEAD_MS + NETWORK_SLACK_MS + 1, NOW - 5_000, 5_000),
        (NOW + 10 * AHEAD_MS, NOW - 5_000, 5_000),
    ],
    ids=["none", "before it", "in it", "all of it", "ahead", "too far ahead", "farthest", "set back", "far back"],
)
def test_a_play_is_told_of_the_time_that_earlier_ones_have_left(busy_until: int, issued_ms: int, ms: int) -> None:
    assert left(busy_until, issued_ms) == ms


def test_plays_at_once_take_no_more_than_the_time_that_passed_and_the_slack_of_a_few() -> None:
    issued_ms, busy_until, took = NOW - 60_000, 0, []
    while len(took) < 1_000 and (ms := left(busy_until, issued_ms) + NETWORK_SLACK_MS) > 0:
        busy_until = begins_ms(busy_until, issued_ms, NOW) + ms
        took.append(ms)
    assert sum(took) == 60_000 + AHEAD_MS


def test_time_is_taken_where_a_longer_play_may_score_more() -> None:
    rated, free = [
        score_to_tier.parse({"tiers": [], "prize_groups": {}, "max_score_per_second": rate}) for rate in (2.5, 0)
    ]
    payload = {"score": 2, "duration_ms": 1_000.0}
    assert basic.check(score_to_tier, rated, payload, (), 1_000) == 1_000
    assert basic.check(score_to_tier, free, payload, (), 1_000) == 0
    assert basic.check(probability, None, {}, (), 1_000) == 0
