import hashlib
import hmac
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.rules import Award, Credit, Drop, Outcome, drop_sequence
from runtime.rules.handlers import collect_items
from runtime.rules.handlers.collect_items import parse

Play = Callable[..., Outcome]

CONFIG: dict[str, Any] = {
    "drops": [
        {"type": "gift", "prize_id": "prize_g", "frequency": 3, "max_catchable": 3},
        {"type": "star", "prize_id": "prize_s", "frequency": 1, "max_catchable": 1},
        {"type": "box", "prize_id": "prize_g", "frequency": 1, "max_catchable": 2},
        {"type": "bomb", "prize_id": "", "frequency": 2, "max_catchable": 0},
        {"type": "leaf", "frequency": 2, "max_catchable": 5},
    ],
    "total_items": 11,
    "interval_ms": 100,
}
TYPES = ["gift", "gift", "gift", "gift", "star", "star", "box", "box", "bomb", "leaf", "leaf"]
PLAN = tuple(Drop(f"item_{j}", type_, j * 100) for j, type_ in enumerate(TYPES))


def _caught(*numbers: int) -> dict[str, list[str]]:
    return {"caught_items": [f"item_{number}" for number in numbers]}


@pytest.mark.parametrize(
    ("caught", "awards", "counted"),
    [
        ((4, 0, 1), [("prize_s", 1), ("prize_g", 2)], {"star": 1, "gift": 2}),
        ((0, 1, 2, 3, 4, 5), [("prize_g", 3), ("prize_s", 1)], {"gift": 3, "star": 1}),
        *(((8, 9, 10), [], {"leaf": 2}), ((0, 0, 99), [("prize_g", 1)], {"gift": 1})),
    ],
    ids=["each counts one", "up to max_catchable", "decoys win nothing", "twice and outside the plan"],
)
def test_caught_items_count_for_their_prizes(play: Play, caught: Any, awards: Any, counted: dict[str, int]) -> None:
    outcome = play("collect_items", CONFIG, plan=PLAN, payload=_caught(*caught))
    assert outcome.awards == [Award(*award) for award in awards]
    assert (outcome.metadata, outcome.score) == ({"counted_items": counted}, sum(counted.values()))


def test_short_prize_is_awarded_up_to_its_stock(play: Play) -> None:
    short: dict[str, Any] = {"plan": PLAN, "payload": _caught(0, 1, 2, 4), "stock": {"prize_g": 2}}
    outcome = play("collect_items", CONFIG, **short)
    assert outcome.awards == [Award("prize_g", 2), Award("prize_s", 1)] and outcome.score == 4
    assert play("collect_items", CONFIG, on_unavailable="redraw", **short) == outcome


def test_fallback_stands_in_for_each_missing_unit(play: Play) -> None:
    rule = {"on_unavailable": "fallback", "fallback_prize_id": "prize_f"}
    caught = _caught(0, 1, 2, 4)
    outcome = play("collect_items", CONFIG, plan=PLAN, payload=caught, stock={"prize_g": 1, "prize_s": 0}, **rule)
    assert outcome.awards == [Award("prize_g", 1), Award("prize_f", 3)]
    scarce = play("collect_items", CONFIG, plan=PLAN, payload=caught, stock={"prize_g": 1, "prize_f": 1}, **rule)
    assert scarce.awards == [Award("prize_g", 1), Award("prize_s", 1), Award("prize_f", 1)]


def test_fallback_that_is_missing_or_unneeded_is_not_queried(play: Play) -> None:
    for fallback, left in (("", 1), ("prize_f", 9)):
        rule = {"on_unavailable": "fallback", "fallback_prize_id": fallback}
        outcome = play("collect_items", CONFIG, plan=PLAN, payload=_caught(0, 1), stock={"prize_g": left}, **rule)
        assert outcome.awards == [Award("prize_g", min(left, 2))]
        assert {step[1] for step in outcome.path} == {"prize_g"}


def test_available_quantity_is_found_by_binary_search(play: Play) -> None:
    drops = [{"type": "gift", "prize_id": "prize_g", "frequency": 1, "max_catchable": 10}]
    plan = tuple(Drop(f"item_{j}", "gift", j) for j in range(10))
    config = {"drops": drops, "total_items": 10, "interval_ms": 1}
    for left, queries in {10: [10], 9: [10, 5, 7, 8, 9], 5: [10, 5, 7, 6], 1: [10, 5, 2, 1], 0: [10, 5, 2, 1]}.items():
        path = play("collect_items", config, plan=plan, payload=_caught(*range(10)), stock={"prize_g": left}).path
        assert [quantity for _, _, quantity, _ in path] == queries


def test_fallback_that_was_caught_itself_is_not_given_beyond_its_stock(play: Play) -> None:
    rule = {"on_unavailable": "fallback", "fallback_prize_id": "prize_s"}
    caught = _caught(0, 1, 2, 4)
    plenty = play("collect_items", CONFIG, plan=PLAN, payload=caught, stock={"prize_g": 1, "prize_s": 9}, **rule)
    assert plenty.awards == [Award("prize_g", 1), Award("prize_s", 3)]
    scarce = play("collect_items", CONFIG, plan=PLAN, payload=caught, stock={"prize_g": 1, "prize_s": 2}, **rule)
    assert scarce.awards == [Award("prize_g", 1), Award("prize_s", 2)]


def test_most_of_a_play_is_the_best_of_the_falling_items_that_count() -> None:
    def most(config: dict[str, Any], **worth: int) -> float:
        def of(given: Award | Credit) -> float:
            assert isinstance(given, Award)
            return given.quantity * worth[given.prize_id]

        return collect_items.most(collect_items.parse(config), of)

    assert most(CONFIG, prize_g=10, prize_s=7) == 5 * 10 + 7
    for total, points in ((1, 10), (5, 50), (6, 57)):
        assert most(CONFIG | {"total_items": total}, prize_g=10, prize_s=7) == points, total
    assert most(CONFIG | {"total_items": 2}, prize_g=10, prize_s=70) == 80
    never = [{**drop, "frequency": 0} if drop["type"] == "gift" else drop for drop in CONFIG["drops"]]
    assert most(CONFIG | {"drops": never}, prize_g=10, prize_s=7) == 2 * 10 + 7
    assert set(collect_items.winnable(collect_items.parse(CONFIG | {"drops": never[:2]}))) == {"prize_s"}


def _config(frequencies: list[int], total_items: int, interval_ms: int = 250) -> dict[str, Any]:
    drops = [
        {"type": f"type_{i}", "prize_id": "prize_a", "frequency": frequency, "max_catchable": 1}
        for i, frequency in enumerate(frequencies)
    ]
    return {"drops": drops, "total_items": total_items, "interval_ms": interval_ms}


@given(
    *(st.binary(min_size=32, max_size=32), st.lists(st.integers(0, 1_000_000), min_size=1, max_size=8).filter(any)),
    *(st.integers(1, 60), st.integers(1, 5000)),
)
def test_plan_equals_independent_one(seed: bytes, frequencies: list[int], total_items: int, interval_ms: int) -> None:
    plan = drop_sequence.plan(parse(_config(frequencies, total_items, interval_ms)), seed)
    key = hmac.new(seed, b"plan", hashlib.sha256).digest()
    assert len(plan) == total_items
    for j, drop in enumerate(plan):
        word = float(Fraction(int(hmac.new(key, f":{j}".encode(), hashlib.sha256).hexdigest()[:16], 16), 2**64))
        total = sum(frequencies)
        i = next(i for i in range(len(frequencies)) if sum(frequencies[: i + 1]) / total > word)
        assert drop == Drop(f"item_{j}", f"type_{i}", j * interval_ms)
