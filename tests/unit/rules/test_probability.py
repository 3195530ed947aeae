from collections.abc import Callable
from typing import Any

import pytest

from runtime.rules import Award, Outcome

Play = Callable[..., Outcome]

CHANCES = {"prize_a": 0.25, "prize_b": 0.5, "prize_c": 0.125}
CONFIG = {"prizes": [{"prize_id": prize_id, "probability": chance} for prize_id, chance in CHANCES.items()]}


def test_word_picks_the_prize_and_its_index(play: Play) -> None:
    outcome = play("probability", CONFIG, words=[0.3])
    assert outcome.awards == [Award("prize_b", 1)] and outcome.credits == []
    assert outcome.metadata == {"slot_index": 1} and outcome.score == 0
    assert outcome.path == [["word", 0, 0.3], ["available", "prize_b", 1, True]]


GONE = {"prize_b": 0}


@pytest.mark.parametrize(
    ("word", "stock", "policy", "fallback"),
    [
        pytest.param(0.875, {}, "lose", "", id="the remainder"),
        pytest.param(0.3, GONE, "lose", "", id="an unavailable prize"),
        pytest.param(0.3, {**GONE, "prize_a": 0, "prize_c": 0}, "redraw", "", id="nothing to redraw"),
        pytest.param(0.9, GONE, "redraw", "", id="a lost draw is not drawn again"),
        *(pytest.param(0.3, {**GONE, "prize_f": 0}, "fallback", name) for name in ("prize_f", "prize_b", "")),
    ],
)
def test_draw_of_nothing_available_is_a_loss(play: Play, word: float, stock: Any, policy: str, fallback: str) -> None:
    rule = {"on_unavailable": policy, "fallback_prize_id": fallback}
    outcome = play("probability", CONFIG, words=[word], stock=stock, **rule)
    assert (outcome.awards, outcome.metadata) == ([], {"slot_index": -1})


@pytest.mark.parametrize(
    ("second_word", "prize"), [(0.0, "prize_a"), (0.66, "prize_a"), (0.67, "prize_c"), (1.0, "prize_c")]
)
def test_redraw_scales_what_is_available_to_one(play: Play, second_word: float, prize: str) -> None:
    outcome = play("probability", CONFIG, words=[0.3, second_word], stock={"prize_b": 0}, on_unavailable="redraw")
    assert outcome.awards == [Award(prize, 1)]
    assert outcome.path == [
        *(["word", 0, 0.3], ["available", "prize_b", 1, False], ["available", "prize_a", 1, True]),
        *(["available", "prize_c", 1, True], ["word", 1, second_word]),
    ]


def test_redraw_never_awards_a_prize_of_probability_zero(play: Play) -> None:
    config = {"prizes": [{"prize_id": "prize_a", "probability": 1}, {"prize_id": "prize_z", "probability": 0}]}
    assert play("probability", config, words=[0.5, 1.0], stock={"prize_a": 0}, on_unavailable="redraw").awards == []


def test_fallback_awards_the_named_prize(play: Play) -> None:
    rule = {"on_unavailable": "fallback", "fallback_prize_id": "prize_f"}
    outcome = play("probability", CONFIG, words=[0.3], stock={"prize_b": 0, "prize_f": 1}, **rule)
    assert outcome.awards == [Award("prize_f", 1)]
    assert outcome.path[-1] == ["available", "prize_f", 1, True]
    assert outcome.metadata == {"slot_index": -1}


def test_wheel_stops_at_the_segment_that_names_the_prize(play: Play) -> None:
    segments = ("prize_c", None, "prize_b", "prize_a", "prize_f", None)
    assert play("probability", CONFIG, words=[0.0], segments=segments).metadata == {"slot_index": 3}
    assert play("probability", CONFIG, words=[0.99], segments=segments).metadata == {"slot_index": 1}
    rule = {"on_unavailable": "fallback", "fallback_prize_id": "prize_f"}
    fallen_back = play("probability", CONFIG, words=[0.0], stock={"prize_a": 0}, segments=segments, **rule)
    assert fallen_back.metadata == {"slot_index": 4}
    rule = {"on_unavailable": "fallback", "fallback_prize_id": "prize_c"}
    assert play("probability", CONFIG, words=[0.0], stock={"prize_a": 0}, **rule).metadata == {"slot_index": 2}


@pytest.mark.parametrize(
    ("segments", "word", "slot"),
    [
        pytest.param(("prize_a", "prize_b", "prize_c"), 0.99, -1, id="loss on a wheel full of prizes"),
        pytest.param(("prize_a", "prize_c", None), 0.3, -1, id="prize that no segment names"),
        pytest.param((None,) * 5, 0.3, 1, id="unnamed segments in the order of prizes"),
        pytest.param((None,) * 5, 0.99, 3, id="loss after them"),
        pytest.param((None,) * 3, 0.99, -1, id="loss without a segment left"),
        pytest.param((None,) * 2, 0.8, -1, id="prize without a segment left"),
    ],
)
def test_wheel_points_at_its_own_result(play: Play, segments: tuple[str | None, ...], word: float, slot: int) -> None:
    assert play("probability", CONFIG, words=[word], segments=segments).metadata == {"slot_index": slot}
