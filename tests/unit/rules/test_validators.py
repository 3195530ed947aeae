from collections.abc import Callable
from typing import Annotated, Any

import pytest
from msgspec import Meta, field

from runtime.errors import Fault, Status
from runtime.rules import Drop, basic, drop_plan
from runtime.rules.handlers import collect_items, lucky_item, probability, score_to_tier
from runtime.rules.payloads import NETWORK_SLACK_MS
from runtime.rules.reading import MAX_ENTRIES, Name, Part, read

Refusal = Callable[..., Fault]
Fields = Callable[[Fault], list[str]]

SCORES = score_to_tier.parse({"tiers": [], "prize_groups": {}, "max_score": 1000, "max_score_per_second": 2.5})
UNLIMITED = score_to_tier.parse({"tiers": [], "prize_groups": {}})
DROP = {"type": "gift", "prize_id": "prize_g", "frequency": 1, "max_catchable": 1}
CATCHER = collect_items.parse({"drops": [DROP], "total_items": 10, "interval_ms": 1000})
PLAN = tuple(Drop(f"item_{j}", "gift", j * 1000) for j in range(10))


def test_play_uses_time_only_where_its_score_depends_on_time() -> None:
    payload = {"score": 25, "duration_ms": 10_000}
    assert basic.check(score_to_tier, SCORES, payload, (), 10_000) == 10_000
    for limitless in (UNLIMITED, object()):
        assert basic.check(score_to_tier, limitless, payload, (), 10_000) == 0
    assert basic.check(probability, None, {}, (), 10_000) == basic.check(lucky_item, None, {}, (), 0) == 0
    assert basic.check(collect_items, CATCHER, _caught(), (), 10_000) == 0, "as of a plugin's own payload"
    assert drop_plan.check(score_to_tier, UNLIMITED, payload, PLAN, 10_000) == 0
    assert drop_plan.check(collect_items, CATCHER, _caught("item_0"), PLAN, 10_000) == 0


def test_plausible_scores_are_accepted() -> None:
    basic.check(score_to_tier, SCORES, {"score": 25, "duration_ms": 10_000}, (), 10_000)
    basic.check(score_to_tier, SCORES, {"score": 1000, "duration_ms": 400_000}, (), 400_000)
    basic.check(score_to_tier, SCORES, {"score": 25.0, "duration_ms": 10_000.0}, (), 10_000)  # google.protobuf.Struct
    basic.check(score_to_tier, UNLIMITED, {"score": 10**9, "duration_ms": 10 + NETWORK_SLACK_MS}, (), 10)


def _caught(*items: Any) -> dict[str, Any]:
    return {"caught_items": list(items)}


def test_items_that_have_fallen_are_accepted() -> None:
    drop_plan.check(collect_items, CATCHER, _caught(), PLAN, 0)
    drop_plan.check(collect_items, CATCHER, _caught("item_3", "item_0"), PLAN, 3000 - NETWORK_SLACK_MS)


def _score(score: Any, duration_ms: Any = 10) -> dict[str, Any]:
    return {"score": score, "duration_ms": duration_ms}


Case = tuple[Any, str, str]


def _basic(named: str, *payloads: Any, handler: Any = score_to_tier, config: Any = UNLIMITED) -> list[Case]:
    return [((basic.check, handler, config, payload, (), 10), "VALIDATION", named) for payload in payloads]


def _fast(named: str, score: int, duration_ms: int) -> Case:
    return (basic.check, score_to_tier, SCORES, _score(score, duration_ms), (), 1_000_000), "IMPLAUSIBLE_SCORE", named


def _drop(named: str, *payloads: Any, reason: str = "VALIDATION", at: int = 10_000) -> list[Case]:
    return [((drop_plan.check, collect_items, CATCHER, payload, PLAN, at), reason, named) for payload in payloads]


WRONG: list[Case] = [
    *_basic("score", {"score": 5}, handler=probability),
    *_basic("", None, [], "x", 1, True),
    *_basic("", None, [], "x", 1, True, handler=probability),
    *_basic("score", *map(_score, (True, "5", None, 1.5, -1, 2**63, float("nan"), float("inf"), [], {}))),
    *_basic("duration_ms", *(_score(1, duration) for duration in (0, -5, True, "9", 0.5, 2**64))),
    *_basic("score duration_ms", {}),
    *_basic("time score duration_ms", {"score": -1, "time": 3}),
    *(_fast("score", 1001, 1_000_000), _fast("score", 26, 10_000)),
    _fast("duration_ms", 1, 1_000_001 + NETWORK_SLACK_MS),
    *_drop(
        "caught_items[1]", *(_caught("item_0", one) for one in ("item_10", "item_00", "x" * 200)), reason="NOT_IN_PLAN"
    ),
    *_drop("caught_items[0]", _caught("item_3"), reason="NOT_IN_PLAN", at=2999 - NETWORK_SLACK_MS),
    *_drop("caught_items[1]", _caught("item_0", "")),
    *_drop("caught_items[2]", _caught("item_0", "item_1", "item_0")),
    *_drop("caught_items", {}, _caught(*["item_0"] * 1001), {"caught_items": None}, {"caught_items": "item_0"}),
    *_drop("caught_items[0]", *map(_caught, (0, "item_0\0", "\ud800", "x" * 201))),
    *_drop("score", {"caught_items": [], "score": 1}),
]


@pytest.mark.parametrize(("asked", "reason", "named"), WRONG)
def test_wrong_payload_is_refused_by_field(
    asked: Any, reason: str, named: str, refusal: Refusal, fields: Fields
) -> None:
    fault = refusal(*asked)
    assert (fault.status, fault.reason) == (Status.INVALID_ARGUMENT, reason)
    assert fields(fault) == ([f"payload.{name}" for name in named.split()] or ["payload"])


class Bounded(Part, frozen=True):
    whole: int = 0
    least: Annotated[int, Meta(ge=2)] = 2
    between: Annotated[int, Meta(ge=2, le=4)] = 2
    above: Annotated[float, Meta(gt=2)] = 3
    above_to: Annotated[float, Meta(gt=2, le=4)] = 3
    by_name: dict[Name, int] = field(default_factory=dict)


@pytest.mark.parametrize(
    "raw",
    [
        *({"whole": number} for number in (2.0**53, -(2.0**53), 2**63 - 1)),
        *({"least": 2}, {"between": 4}, {"above": 2.0000001}, {"above_to": 4}),
        {"by_name": {f"n{i}": i for i in range(MAX_ENTRIES)}},
    ],
)
def test_value_at_a_bound_is_accepted(raw: dict[str, Any]) -> None:
    (name,) = raw
    assert getattr(read(Bounded, raw, "x"), name) == raw[name]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"whole": 2.0**53 + 2}, "x.whole: must be a whole number"),
        ({"whole": 2**63}, "x.whole: must be a whole number"),
        ({"least": 1}, "x.least: must be a whole number of at least 2"),
        ({"between": 5}, "x.between: must be a whole number from 2 to 4"),
        ({"above": 2}, "x.above: must be a finite number above 2"),
        ({"above_to": 2}, "x.above_to: must be a finite number above 2, at most 4"),
        ({"above_to": 4.5}, "x.above_to: must be a finite number above 2, at most 4"),
        ({"by_name": {f"n{i}": i for i in range(MAX_ENTRIES + 1)}}, "x.by_name: must have at most 1000 entries"),
        ({"by_name": {"": 1}}, "x.by_name.: must not be empty"),
    ],
)
def test_value_beyond_a_bound_is_refused_with_its_bounds(raw: dict[str, Any], said: str, refusal: Refusal) -> None:
    rows = refusal(read, Bounded, raw, "x").facts["violations"]
    assert [f"{row['field']}: {row['description']}" for row in rows] == [said]
