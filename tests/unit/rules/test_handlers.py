from collections.abc import Callable

import pytest

from runtime.rules import Award, Credit, Outcome
from runtime.rules.handlers import lucky_item

Play = Callable[..., Outcome]

CONFIG = {
    "tiers": [
        *({"min": 50, "max": 99, "prize_group": "silver"}, {"min": 100, "max": 1000, "prize_group": "gold"}),
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
        *((10, 2, "silver", "prize_s"), (20, 2, "silver", "prize_s"), (50, 0, "silver", "prize_s")),
        *((99, 0, "silver", "prize_s"), (100, 1, "gold", "prize_h"), (1000, 1, "gold", "prize_h")),
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
    assert (outcome.awards, outcome.path, outcome.score) == ([], [], score)
    assert outcome.metadata == {"tier": -1, "prize_group": "", "slot_index": -1}
    for lost, words in ((score, []), (50, [0.9])):
        options = {"payload": {"score": lost, "duration_ms": 1}, "segments": (None, None, None)}
        slot = play("score_to_tier", CONFIG, words=words, **options).metadata["slot_index"]
        assert slot == 2, "after the prizes of the longest group"


def test_redraw_stays_within_the_group(play: Play) -> None:
    options = {"payload": {"score": 500, "duration_ms": 1}, "stock": {"prize_g": 0}, "on_unavailable": "redraw"}
    assert play("score_to_tier", CONFIG, words=[0.05, 0.5], **options).awards == [Award("prize_h", 1)]


ITEMS = {
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
    outcome = play("lucky_item", ITEMS, words=[word])
    assert outcome.credits == [Credit(item, quantity)]
    assert outcome.metadata == {"item": item, "quantity": quantity, "slot_index": slot_index}
    assert (outcome.awards, outcome.score, outcome.path) == ([], 0, [["word", 0, word]])


def test_most_of_a_play_is_the_most_valuable_drawable_item() -> None:
    def most(**worth: int) -> float:
        def of(given: Award | Credit) -> float:
            assert isinstance(given, Credit)
            return given.quantity * worth[given.item]

        return lucky_item.most(lucky_item.parse(ITEMS), of)

    assert most(ruby=1, coin=1, never=1000) == 50 and most(ruby=1, coin=6, never=1000) == 60
    assert list(lucky_item.currencies(lucky_item.parse(ITEMS))) == ["ruby", "coin", "never"]


@pytest.mark.parametrize(
    ("free", "rule", "won"),
    [
        *(({"car": 1}, {}, "car"), ({"car": 0}, {}, "mug"), ({"car": 0, "mug": 0}, {}, None)),
        ({"car": 0, "mug": 0}, {"on_unavailable": "fallback", "fallback_prize_id": "sticker"}, "sticker"),
    ],
)
def test_first_free_prize_is_won(play: Play, free: dict[str, int], rule: dict[str, str], won: str | None) -> None:
    config = {"prizes": [{"prize_id": "car"}, {"prize_id": "mug"}]}
    outcome = play("moments", config, stock=free, segments=("mug", None, "car"), **rule)
    assert outcome.awards == ([Award(won, 1)] if won else [])
    assert outcome.metadata["slot_index"] == {"car": 2, "mug": 0, None: 1, "sticker": -1}[won]
    assert outcome.path[0] == ["available", "car", 1, won == "car"]
