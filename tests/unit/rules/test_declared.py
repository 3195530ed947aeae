"""The chances that a configuration declares."""

from __future__ import annotations

import pytest

from runtime.rules.base import GameRule
from runtime.rules.declared import Result, declared
from runtime.rules.handlers import lucky_item, score_to_tier

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


def test_items_are_drawn_by_their_weights() -> None:
    items = [
        {"item": "coin", "weight": 3, "quantity": 1, "slot_index": 0},
        {"item": "gem", "weight": 1, "quantity": 2, "slot_index": 1},
    ]
    found = declared(lucky_item.parse({"items": items}), GameRule(), {})
    assert found == {Result("", "coin", 0): 0.75, Result("", "gem", 1): 0.25}


def test_caught_items_declare_no_odds() -> None:
    assert declared(None, GameRule(), {}) == {}
