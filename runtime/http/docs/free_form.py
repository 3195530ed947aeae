"""JSON Schemas of the fields that are free-form objects in game.proto: which of them it is, another field says.

`handler_config` and `metadata` go by the game's reward handler, `payload` by its validator, a prize's `config` by its
channel and an integration's by its type. `anyOf`, since plugins may add more, and an answer's may have further fields.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from runtime import messages as m
from runtime.rules import REWARD_HANDLERS
from runtime.rules.payloads import CaughtPayload, NoPayload, ScorePayload
from runtime.rules.schemas import camel, components_of

Schema = dict[str, Any]

OBJECT: Final[Schema] = {"type": "object", "additionalProperties": True}
UI: Final = "/api/v1/schemas/ui.json"
"""What the widget reads of `ui` (runtime/http/docs/pages.py)."""

_MEANS: Final = {
    "prizes": "The prizes, each with its probability.",
    "prize_id": "The prize's id; empty: nothing is won.",
    "probability": "How likely it is, from 0 to 1. All of a list together are at most 1; what is left is a loss.",
    "tiers": "Ranges of scores, each with the prizes that it draws from.",
    "prize_groups": "By name, the prizes of a tier.",
    "prize_group": "The name of the prizes that are drawn from; empty: none.",
    "min": "The least score of the tier.",
    "max": "The greatest score of the tier.",
    "max_score": "The greatest score that is accepted; left out: no limit.",
    "max_score_per_second": "The greatest score per second that is accepted; left out: no limit.",
    "drops": "The types of items that fall.",
    "type": "The name of the type.",
    "frequency": "How often it falls, compared with the others.",
    "max_catchable": "How many of it count in one play.",
    "total_items": "How many items fall in one play.",
    "interval_ms": "The time between two items, in milliseconds.",
    "items": "The items that are drawn from.",
    "item": "The item's name, which is the currency that it is credited in.",
    "weight": "How likely it is, compared with the others.",
    "quantity": "How many of it are credited.",
    "slot_index": "The segment or slot on which the page shows it; -1: none.",
    "score": "The score.",
    "duration_ms": "How long it took, in milliseconds.",
    "caught_items": "The ids of the items of the drop plan that were caught.",
    "tier": "The index of the tier; -1: none.",
    "counted_items": "How many of each type counted.",
    "url": "An http or https address, which every message is sent to.",
    "secret": "Signs what is sent. Write-only: it reads back as `secret_set`.",
    "secret_set": "Whether there is a secret.",
    "headers": "Further headers of what is sent. Each reads back as `***`.",
    "callback_seconds": "How long the workflow has to call back.",
}

_TEXT: Final[Schema] = {"type": "string"}
_WHOLE: Final[Schema] = {"type": "integer", "minimum": -1}
_COUNTS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}
_RECEIVER: Final[Schema] = {
    "url": {"type": "string", "format": "uri"},
    "secret": {"type": "string", "writeOnly": True},
    "secret_set": {"type": "boolean"},
    "headers": {"type": "object", "additionalProperties": _TEXT},
}

_METADATA: Final[dict[str, Schema]] = {
    "ProbabilityMetadata": {"slot_index": _WHOLE},
    "ScoreToTierMetadata": {"tier": _WHOLE, "prize_group": _TEXT, "slot_index": _WHOLE},
    "CollectItemsMetadata": {"counted_items": _COUNTS},
    "LuckyItemMetadata": {"item": _TEXT, "quantity": _WHOLE, "slot_index": _WHOLE},
}
_CONFIGS: Final[dict[str, Schema]] = {
    "WebhookConfig": _RECEIVER,
    "WorkflowConfig": {**_RECEIVER, "callback_seconds": {"type": "integer", "minimum": 1}},
}
_NONE: Final = "NoConfig"


def schema_of(message: Any, name: str, components: dict[str, Schema]) -> Schema:
    """The schema of a message's free-form field; what it refers to is added to `components`."""
    if name == "ui":
        return {**OBJECT, "externalDocs": {"description": "What the widget reads of it", "url": UI}}
    if name == "handler_config":
        return {"anyOf": [_handler_config(handler, components) for handler in REWARD_HANDLERS.names()]}
    if name == "payload":
        return {"anyOf": [*_payloads(components), OBJECT]}
    if name == "metadata":
        return {"anyOf": [*_added(_METADATA, components), OBJECT]}
    if name == "config" and message in (m.PrizeFulfillment, m.Integration):
        components[_NONE] = {"title": _NONE, "description": "Channels and types that need nothing.", "type": "object"}
        return {"anyOf": [*_added(_CONFIGS, components), _ref(_NONE)]}
    return dict(OBJECT)


def _handler_config(handler: str, components: dict[str, Schema]) -> Schema:
    schema, parts = components_of(handler, _ref("")["$ref"])
    own = f"{camel(handler)}Config"
    components |= {name: _described(part) for name, part in (parts | {own: {**schema, "title": own}}).items()}
    return _ref(own)


def _payloads(components: dict[str, Schema]) -> list[Schema]:
    kinds = (NoPayload, ScorePayload, CaughtPayload)
    _, parts = msgspec.json.schema_components(kinds, ref_template=_ref("{name}")["$ref"])
    components |= {name: _described(part) for name, part in parts.items()}
    return [_ref(kind.__name__) for kind in kinds]


def _added(kinds: dict[str, Schema], components: dict[str, Schema]) -> list[Schema]:
    for name, properties in kinds.items():
        components[name] = _described({"title": name, "type": "object", "properties": properties})
    return [_ref(name) for name in kinds]


def _described(schema: Schema) -> Schema:
    """With what each property's name means."""
    named = schema.get("properties", {})
    said = {name: {"description": _MEANS.get(name, f"`{name}` of a plugin."), **one} for name, one in named.items()}
    return {**schema, "properties": said} if said else schema


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}
