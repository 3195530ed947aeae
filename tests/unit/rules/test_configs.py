import copy
import json
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import jsonschema
import msgspec
import pytest

from runtime.errors import Fault
from runtime.http.docs.openapi import document
from runtime.rules import REWARD_HANDLERS, compose, schemas
from runtime.rules.reading import Part

Refusal = Callable[..., Fault]
Fields = Callable[[Fault], list[str]]

GOOD: dict[str, dict[str, Any]] = {
    "probability": {
        "prizes": [{"prize_id": "prize_a", "probability": 0.5}, {"prize_id": "prize_b", "probability": 0.5}]
    },
    "score_to_tier": {
        "tiers": [{"min": 9, "max": 9, "prize_group": "low"}, {"min": 10, "max": 99, "prize_group": "high"}],
        "prize_groups": {"low": [], "high": [{"prize_id": "prize_a", "probability": 1}]},
        "max_score": 99,
        "max_score_per_second": 5.5,
    },
    "collect_items": {
        "drops": [
            {"type": "gift", "prize_id": "prize_a", "frequency": 3, "max_catchable": 2},
            {"type": "bomb", "prize_id": "", "frequency": 1, "max_catchable": 0},
        ],
        "total_items": 20,
        "interval_ms": 500,
    },
    "moments": {"prizes": [{"prize_id": "prize_a"}] * 50},
    "lucky_item": {
        "items": [
            {"item": "coin", "weight": 1.5, "quantity": 10, "slot_index": 0},
            {"item": "gem", "weight": 0, "quantity": 1, "slot_index": 1},
        ]
    },
}

MISSING = object()

BAD: list[tuple[str, str, Any]] = [
    *(("probability", "prizes", MISSING), ("probability", "prizes", None)),
    ("probability", "prizes", [{"prize_id": "prize_a", "probability": 0}] * 1001),
    *(("probability", "prizes[1]", "prize_a"), ("probability", "prizes[1].prize_id", MISSING)),
    *(("probability", "prizes[1].prize_id", ""), ("probability", "prizes[1].prize_id", 7)),
    *(("probability", "prizes[1].prize_id", "a\0b"), ("probability", "prizes[1].prize_id", "x" * 201)),
    *(("probability", "prizes[1].probability", MISSING), ("probability", "prizes[1].probability", "0.5")),
    *(("probability", "prizes[1].probability", -0.1), ("probability", "prizes[1].probability", 1.1)),
    *(("probability", "prizes[1].probability", float("nan")), ("probability", "prizes[1].probability", 10**400)),
    *(("probability", "price", 1), ("score_to_tier", "tiers", MISSING), ("score_to_tier", "prize_groups", [])),
    *(("score_to_tier", "tiers[1].min", "10"), ("score_to_tier", "tiers[1].min", 9)),
    *(("score_to_tier", "tiers[1].max", 9), ("score_to_tier", "tiers[1].max", -(10**400))),
    *(("score_to_tier", "tiers[1].prize_group", "nowhere"), ("score_to_tier", "prize_groups.high", "prize_a")),
    *(("score_to_tier", "prize_groups.high[0].probability", 2), ("score_to_tier", "max_score", 1.5)),
    *(("score_to_tier", "max_score", -1), ("score_to_tier", "max_score_per_second", -1)),
    *(("collect_items", "drops", MISSING), ("collect_items", "drops", [])),
    *(("collect_items", "drops[1].type", "gift"), ("collect_items", "drops[1].frequency", -1)),
    *(("collect_items", "drops[1].frequency", 0.5), ("collect_items", "drops[1].max_catchable", -1)),
    *(("collect_items", "drops[1].max_catchable", MISSING), ("collect_items", "total_items", 0)),
    *(("collect_items", "total_items", 1001), ("collect_items", "interval_ms", 0)),
    *(("collect_items", "interval_ms", 2**70), ("moments", "prizes", [{"prize_id": "prize_a"}] * 51)),
    *(("lucky_item", "items", MISSING), ("lucky_item", "items", [])),
    ("lucky_item", "items", [{"item": "coin", "weight": 0, "quantity": 1, "slot_index": 0}]),
    *(("lucky_item", "items[1].weight", -1), ("lucky_item", "items[1].weight", 1e308)),
    *(("lucky_item", "items[1].quantity", 0), ("lucky_item", "items[1].slot_index", "0")),
]


def _changed(config: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(config)
    *way, last = [int(step) if step.isdigit() else step for step in path.replace("[", ".").replace("]", "").split(".")]
    place: Any = changed
    for step in way:
        place = place[step]
    if value is MISSING:
        del place[last]
    else:
        place[last] = value
    return changed


@pytest.mark.parametrize("handler", GOOD)
def test_good_config_is_accepted_and_names_its_prizes(handler: str) -> None:
    rules = REWARD_HANDLERS.require(handler, "reward_handler")
    config = rules.parse(GOOD[handler])
    for path, prize_id in rules.prizes(config):
        place: Any = {"handler_config": GOOD[handler]}
        for step in path.replace("[", ".").replace("]", "").split("."):
            place = place[int(step)] if step.isdigit() else place[step]
        assert place == prize_id
    doubles = json.loads(json.dumps(GOOD[handler]), parse_int=float)
    assert rules.parse(doubles) == config, "google.protobuf.Struct carries every number as a double"


@pytest.mark.parametrize(("handler", "path", "value"), BAD, ids=lambda value: None)
def test_bad_field_is_named(handler: str, path: str, value: Any, refusal: Refusal, fields: Fields) -> None:
    fault = refusal(REWARD_HANDLERS.require(handler, "reward_handler").parse, _changed(GOOD[handler], path, value))
    assert f"handler_config.{path}" in fields(fault) and fault.reason == "VALIDATION"


@pytest.mark.parametrize("raw", [None, [], "x", 5])
def test_config_that_is_not_an_object_is_refused(raw: Any, refusal: Refusal, fields: Fields) -> None:
    for name in REWARD_HANDLERS.names():
        assert fields(refusal(REWARD_HANDLERS.require(name, "").parse, raw)) == ["handler_config"]


def test_violations_are_all_reported_at_once(refusal: Refusal, fields: Fields) -> None:
    raw = {"prizes": [{"prize_id": "", "probability": 2}, {"probability": "x", "extra": 1}], "more": {}}
    assert fields(refusal(REWARD_HANDLERS.require("probability", "").parse, raw)) == [
        *("handler_config.more", "handler_config.prizes[0].prize_id", "handler_config.prizes[0].probability"),
        *("handler_config.prizes[1].extra", "handler_config.prizes[1].prize_id"),
        "handler_config.prizes[1].probability",
    ]


def test_answer_to_hostile_names_stays_small_and_encodable(refusal: Refusal) -> None:
    raw = {"prizes": [{"x" * 100_000: 1, "\ud800": 2} for _ in range(1000)]}
    fault = refusal(REWARD_HANDLERS.require("probability", "").parse, raw)
    assert len(fault.facts["violations"]) == 100 and len(msgspec.json.encode(fault.data)) < 50_000


@pytest.mark.parametrize(
    ("generator", "handler", "validator", "expected"),
    [
        *(("none", handler, "basic", []) for handler in ("probability", "score_to_tier", "lucky_item")),
        ("drop_sequence", "collect_items", "drop_plan", []),
        ("drop_sequence", "probability", "basic", ["seed_generator"]),
        ("none", "collect_items", "drop_plan", ["seed_generator"]),
        ("drop_sequence", "collect_items", "basic", ["validator"]),
        ("none", "lucky_item", "drop_plan", ["validator"]),
        ("drop_sequence", "lucky_item", "drop_plan", ["seed_generator", "validator"]),
        ("x", "y", "z", ["seed_generator", "reward_handler", "validator"]),
    ],
)
def test_pairings_of_the_spec_fit_and_other_parts_are_named(
    generator: str, handler: str, validator: str, expected: list[str], refusal: Refusal, fields: Fields
) -> None:
    if expected:
        assert fields(refusal(compose, generator, handler, validator, GOOD.get(handler, {}))) == expected
    else:
        rules = compose(generator, handler, validator, GOOD[handler])
        assert bool(rules.seed_generator.plan(rules.config, b"seed")) is (generator == "drop_sequence")


def test_probabilities_may_be_over_one_by_their_rounding_alone(refusal: Refusal, fields: Fields) -> None:
    def chances(over: float) -> list[dict[str, Any]]:
        return [{"prize_id": "prize_a", "probability": 1}, {"prize_id": "prize_b", "probability": over}]

    parse = REWARD_HANDLERS.require("probability", "").parse
    parse({"prizes": chances(1e-9)})
    assert fields(refusal(parse, {"prizes": chances(2e-9)})) == ["handler_config.prizes"]
    groups = {"tiers": [], "prize_groups": {"gold": chances(2e-9)}}
    fault = refusal(REWARD_HANDLERS.require("score_to_tier", "").parse, groups)
    assert "(100.0000002 %)" in fault.facts["violations"][0]["description"]
    assert fields(fault) == ["handler_config.prize_groups.gold"]


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    class Config(Part, frozen=True):
        prize_id: str

    module = ModuleType("double_or_nothing")
    module.Config = Config  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "double_or_nothing", module)
    monkeypatch.setitem(REWARD_HANDLERS._things, "double_or_nothing", module)
    yield module


@pytest.mark.parametrize("name", REWARD_HANDLERS.names())
def test_config_fits_its_schema_exactly_if_the_handler_accepts_it(name: str) -> None:
    check = jsonschema.Draft202012Validator(schemas.schema_of(name))
    handler = REWARD_HANDLERS.get(name)
    assert handler is not None and handler.parse(GOOD[name])
    check.validate(GOOD[name])
    for wrong in ({}, {**GOOD[name], "other": 1}, dict.fromkeys(GOOD[name], "text")):
        assert not check.is_valid(wrong)


def test_plugin_config_of_its_own_type_has_an_object_schema(plugin: ModuleType) -> None:
    assert schemas.schema_of("none_such") is None
    plugin.Config = object()  # type: ignore[attr-defined]
    schema = schemas.schema_of("double_or_nothing")
    assert schema is not None and schema["type"] == "object" and "properties" not in schema


def test_plugin_handler_has_a_schema_and_is_listed_in_openapi(plugin: ModuleType) -> None:
    schema = schemas.schema_of("double_or_nothing")
    assert schema is not None and schema["required"] == ["prize_id"] and schema["title"] == "double_or_nothing"
    taken = document("admin")["components"]["schemas"]
    assert taken["DoubleOrNothingConfig"]["required"] == ["prize_id"]
    refs = [one["$ref"].rpartition("/")[2] for one in taken["CreateGameBody"]["properties"]["handler_config"]["anyOf"]]
    assert refs == [
        *("CollectItemsConfig", "DoubleOrNothingConfig", "LuckyItemConfig", "MomentsConfig", "ProbabilityConfig"),
        "ScoreToTierConfig",
    ]
    assert taken["ProbabilityConfig"]["properties"]["prizes"]["items"]["$ref"].endswith("/ProbabilityPrizeChance")
