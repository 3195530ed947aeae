"""Collection: a weighted pick credits a wallet currency."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runtime.rules import Award, Credit, Outcome
from runtime.rules.handlers import lucky_item

Play = Callable[..., Outcome]

CONFIG = {
    "items": [
        {"item": "ruby", "weight": 1, "quantity": 2, "slot_index": 4},
        {"item": "coin", "weight": 2.5, "quantity": 10, "slot_index": 0},
        {"item": "ruby", "weight": 0.5, "quantity": 50, "slot_index": 7},
        {"item": "never", "weight": 0, "quantity": 1, "slot_index": 1},
    ]
}


@pytest.mark.parametrize(
    ("word", "item", "quantity", "slot_index"),
    [(0.0, "ruby", 2, 4), (0.2499, "ruby", 2, 4), (0.25, "coin", 10, 0), (0.875, "ruby", 50, 7), (1.0, "ruby", 50, 7)],
)
def test_pick_credits_its_item(play: Play, word: float, item: str, quantity: int, slot_index: int) -> None:
    outcome = play("lucky_item", CONFIG, words=[word])
    assert outcome.credits == [Credit(item, quantity)]
    assert outcome.metadata == {"item": item, "quantity": quantity, "slot_index": slot_index}
    assert (outcome.awards, outcome.score, outcome.path) == ([], 0, [["word", 0, word]])


def test_most_of_a_play_is_the_most_valuable_drawable_item() -> None:
    def most(**worth: int) -> float:
        def of(given: Award | Credit) -> float:
            assert isinstance(given, Credit)
            return given.quantity * worth[given.item]

        return lucky_item.most(lucky_item.parse(CONFIG), of)

    assert most(ruby=1, coin=1, never=1000) == 50
    assert most(ruby=1, coin=6, never=1000) == 60


def test_currencies_name_each_item_once() -> None:
    assert list(lucky_item.currencies(lucky_item.parse(CONFIG))) == ["ruby", "coin", "never"]
