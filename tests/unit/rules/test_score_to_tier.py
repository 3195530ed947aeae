"""Egg-catcher: the score chooses the group, word 0 the prize within it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runtime.rules import Award, Outcome

Play = Callable[..., Outcome]

CONFIG = {
    "tiers": [
        {"min": 50, "max": 99, "prize_group": "silver"},
        {"min": 100, "max": 1000, "prize_group": "gold"},
        {"min": 10, "max": 20, "prize_group": "silver"},
    ],
    "prize_groups": {
        "silver": [{"prize_id": "prize_s", "probability": 0.5}],
        "gold": [{"prize_id": "prize_g", "probability": 0.1}, {"prize_id": "prize_h", "probability": 0.9}],
    },
}


@pytest.mark.parametrize(
    ("score", "tier", "group", "prize"),
    [
        (10, 2, "silver", "prize_s"),
        (20, 2, "silver", "prize_s"),
        (50, 0, "silver", "prize_s"),
        (99, 0, "silver", "prize_s"),
        (100, 1, "gold", "prize_h"),
        (1000, 1, "gold", "prize_h"),
    ],
)
def test_tier_includes_both_its_ends(play: Play, score: int, tier: int, group: str, prize: str) -> None:
    outcome = play("score_to_tier", CONFIG, words=[0.3], payload={"score": score, "duration_ms": 1})
    assert outcome.awards == [Award(prize, 1)]
    assert outcome.metadata == {"tier": tier, "prize_group": group, "slot_index": 1 if group == "gold" else 0}
    assert outcome.score == score


@pytest.mark.parametrize("score", [0, 9, 21, 49, 1001])
def test_score_in_no_tier_is_a_loss_that_draws_nothing(play: Play, score: int) -> None:
    outcome = play("score_to_tier", CONFIG, words=[], payload={"score": score, "duration_ms": 1})
    assert outcome.awards == []
    assert outcome.metadata == {"tier": -1, "prize_group": "", "slot_index": -1}
    assert outcome.path == []
    assert outcome.score == score


def test_score_in_no_tier_stops_at_the_first_segment_of_a_wheel_that_names_no_prize(play: Play) -> None:
    outcome = play("score_to_tier", CONFIG, words=[], payload={"score": 0, "duration_ms": 1}, segments=(None, None))
    assert outcome.metadata["slot_index"] == 0


def test_redraw_stays_within_the_group(play: Play) -> None:
    payload = {"score": 500, "duration_ms": 1}
    outcome = play(
        "score_to_tier", CONFIG, words=[0.05, 0.5], payload=payload, stock={"prize_g": 0}, on_unavailable="redraw"
    )
    assert outcome.awards == [Award("prize_h", 1)]
