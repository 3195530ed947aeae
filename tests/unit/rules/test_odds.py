"""Declared odds, and their comparison with what was drawn."""

import math
from random import Random

import pytest

from runtime.operations.reporting.odds_test import ALPHA, expected_range, log_ratio
from runtime.rules.base import GameRule
from runtime.rules.declared import Result, declared
from runtime.rules.handlers import lucky_item, score_to_tier

LIMIT = math.log(2 / ALPHA)


def plays_until_alarm(random: Random, chance: float, most: int) -> int | None:
    """When a game that declares 0.1 is reported, if it is looked at every ten plays."""
    count = 0
    for plays in range(1, most + 1):
        count += random.random() < chance
        if plays % 10 == 0 and log_ratio(count, plays, 0.1) >= LIMIT:
            return plays
    return None


def test_true_odds_raise_no_alarm_and_wrong_ones_do() -> None:
    random = Random(7)
    assert {plays_until_alarm(random, 0.1, 3_000) for _ in range(200)} == {None}
    found = [plays_until_alarm(random, 0.09, 60_000) for _ in range(20)]
    assert None not in found


def test_range_ends_where_the_ratio_reaches_the_limit() -> None:
    for plays, chance in ((10, 0.5), (10_000, 0.1), (10_000_000, 0.0001), (1_000, 0.999)):
        low, high = expected_range(plays, chance, 2)
        assert low <= plays * chance <= high
        assert all(log_ratio(count, plays, chance) < LIMIT for count in (low, high))
        outside = [count for count in (low - 1, high + 1) if 0 <= count <= plays]
        assert all(log_ratio(count, plays, chance) >= LIMIT for count in outside)
    assert expected_range(9, 0.0, 2) == (0, 0) and expected_range(9, 1.0, 2) == (9, 9)


TIERED = score_to_tier.parse(
    {
        "tiers": [{"min": 10, "max": 20, "prize_group": "some"}],
        "prize_groups": {"some": [{"prize_id": "mug", "probability": 0.25}]},
    }
)


@pytest.mark.parametrize(
    ("segments", "slot"), [(None, -1), ((None, None), 0), (("mug", None), 1)], ids=["no wheel", "of losses", "a wheel"]
)
def test_score_outside_all_tiers_always_loses(segments: tuple[str | None, ...] | None, slot: int) -> None:
    assert declared(TIERED, GameRule(segments=segments), {"score": 9}) == {Result("", "", slot): 1.0}


def test_score_in_a_tier_draws_from_its_group() -> None:
    found = declared(TIERED, GameRule(segments=("mug", None)), {"score": 10})
    assert found == {Result("mug", "", 0): 0.25, Result("", "", 1): 0.75}


def test_items_are_drawn_by_their_weights_and_caught_ones_declare_none() -> None:
    items = [
        {"item": "coin", "weight": 3, "quantity": 1, "slot_index": 0},
        {"item": "gem", "weight": 1, "quantity": 2, "slot_index": 1},
    ]
    found = declared(lucky_item.parse({"items": items}), GameRule(), {})
    assert found == {Result("", "coin", 0): 0.75, Result("", "gem", 1): 0.25}
    assert declared(None, GameRule(), {}) == {}, "caught items declare no odds"
