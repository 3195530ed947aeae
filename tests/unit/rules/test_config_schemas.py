"""What the schemas of handlers' configs take is what the handlers read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import jsonschema
import pytest

from runtime.http.docs.openapi import document
from runtime.rules import REWARD_HANDLERS, schemas
from runtime.rules.reading import Part

CHANCES = [{"prize_id": "prize_1", "probability": 0.5}]
TAKEN: dict[str, dict[str, Any]] = {
    "probability": {"prizes": CHANCES},
    "score_to_tier": {"tiers": [{"min": 1, "max": 9, "prize_group": "good"}], "prize_groups": {"good": CHANCES}},
    "collect_items": {
        "drops": [{"type": "egg", "frequency": 1, "max_catchable": 1}],
        "total_items": 2,
        "interval_ms": 9,
    },
    "moments": {"prizes": [{"prize_id": "p"}]},
    "lucky_item": {"items": [{"item": "coin", "weight": 1, "quantity": 2, "slot_index": 0}]},
}


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
    schema = schemas.schema_of(name)
    assert schema is not None
    check = jsonschema.Draft202012Validator(schema)
    handler = REWARD_HANDLERS.get(name)
    assert handler is not None and handler.parse(TAKEN[name])
    check.validate(TAKEN[name])
    for wrong in ({}, {**TAKEN[name], "other": 1}, dict.fromkeys(TAKEN[name], "text")):
        assert not check.is_valid(wrong)


def test_unknown_handler_has_no_schema() -> None:
    assert schemas.schema_of("none_such") is None


def test_plugin_handler_has_a_schema_and_is_listed_in_openapi(plugin: ModuleType) -> None:
    schema = schemas.schema_of("double_or_nothing")
    assert schema is not None and schema["required"] == ["prize_id"] and schema["title"] == "double_or_nothing"
    taken = document("admin")["components"]["schemas"]
    assert taken["DoubleOrNothingConfig"]["required"] == ["prize_id"]
    refs = [one["$ref"].rpartition("/")[2] for one in taken["CreateGameBody"]["properties"]["handler_config"]["anyOf"]]
    assert refs == [
        "CollectItemsConfig",
        "DoubleOrNothingConfig",
        "LuckyItemConfig",
        "MomentsConfig",
        "ProbabilityConfig",
        "ScoreToTierConfig",
    ]
    assert taken["ProbabilityConfig"]["properties"]["prizes"]["items"]["$ref"].endswith("/ProbabilityPrizeChance")


def test_plugin_config_of_its_own_type_has_an_object_schema(plugin: ModuleType) -> None:
    plugin.Config = object()  # type: ignore[attr-defined]
    schema = schemas.schema_of("double_or_nothing")
    assert schema is not None and schema["type"] == "object" and "properties" not in schema
