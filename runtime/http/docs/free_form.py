"""JSON Schemas of game.proto's free-form objects. Another field selects the schema.

The game's reward handler selects `handler_config` and `metadata`, its validator `payload`, a prize's channel and an
integration's type `config`. The schemas use `anyOf`, because plugins may add more and responses may have extra fields.
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
"""The schema of the parts of `ui` that the widget reads (runtime/http/docs/pages.py)."""

_MEANS: Final = {
    "prizes": "The prizes, each with its probability.",
    "prize_id": "The prize's id; empty: a loss.",
    "probability": "The probability, from 0 to 1. The sum of a list is at most 1; the remainder is a loss.",
    "tiers": "Score ranges, each with the prizes that it draws from.",
    "prize_groups": "The prizes of the tiers, by group name.",
    "prize_group": "The name of the group to draw from; empty: none.",
    "min": "The tier's minimum score.",
    "max": "The tier's maximum score.",
    "max_score": "The maximum score accepted; omitted: no limit.",
    "max_score_per_second": "The maximum score per second accepted; omitted: no limit.",
    "drops": "The types of falling items.",
    "type": "The name of the type.",
    "frequency": "How often the type falls, relative to the others.",
    "max_catchable": "How many items of the type count in one play.",
    "total_items": "How many items fall in one play.",
    "interval_ms": "The time between two items, in milliseconds.",
    "items": "The items to draw from.",
    "item": "The item's name, which is also the currency that it is credited in.",
    "weight": "The item's probability, relative to the others.",
    "quantity": "How many units are credited.",
    "slot_index": "The segment or slot that the page shows; -1: none.",
    "score": "The score.",
    "duration_ms": "The duration of the play, in milliseconds.",
    "caught_items": "The ids of the caught items, from the drop plan.",
    "tier": "The index of the tier; -1: none.",
    "counted_items": "How many items of each type counted.",
    "url": "The http or https URL that receives every message.",
    "secret": "The key that signs messages. Write-only: reads return `secret_set` instead.",
    "secret_set": "Whether a secret is set.",
    "headers": "Extra request headers. Reads return each value as `***`.",
    "callback_seconds": "How many seconds the workflow has to call back.",
    "service": "The service that receives the events. Without it, they are only logged.",
    "spreadsheet_id": "The id in the spreadsheet's URL.",
    "sheet": "The sheet's name; omitted: the first one.",
    "columns": "The paths of the row's cells, such as `data.prize_id`.",
    "method": "POST sends each line; PUT writes a file of one line, named after the event.",
    "account_sid": "The SID of the Twilio account.",
    "from": "The sending number, messaging service or alphanumeric sender.",
    "to": "The number that gets every message; omitted: the player's.",
    "text": "The message, with placeholders such as `{data.name}`.",
    "format": "The format of the request's body.",
    "fields": "The receiver's fields, each with the path of its value. Dots in a name nest.",
    "include": "What the event says about its player: contact, entry.",
    "consent": "The id of the entry form's consent that permits it.",
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
_INCLUDE: Final[Schema] = {
    "include": {"type": "array", "items": {"enum": ["contact", "entry"]}},
    "consent": _TEXT,
}
_PATHS: Final[Schema] = {"type": "object", "additionalProperties": _TEXT}
_COLUMNS: Final[Schema] = {"type": "array", "items": _TEXT}
_HIDDEN: Final[Schema] = {name: _RECEIVER[name] for name in ("secret", "secret_set")}


def _service(name: str, properties: Schema) -> Schema:
    return {"service": {"const": name}, **properties, **_INCLUDE}


_SERVICES: Final[dict[str, Schema]] = {
    "GoogleSheetsConfig": _service(
        "google_sheets", {"spreadsheet_id": _TEXT, "sheet": _TEXT, "columns": _COLUMNS, **_HIDDEN}
    ),
    "CsvConfig": _service("csv", {**_RECEIVER, "method": {"enum": ["POST", "PUT"]}, "columns": _COLUMNS}),
    "TwilioConfig": _service("twilio", {"account_sid": _TEXT, "from": _TEXT, "to": _TEXT, "text": _TEXT, **_HIDDEN}),
    "SmsGatewayConfig": _service(
        "http", {**_RECEIVER, "to": _TEXT, "text": _TEXT, "format": {"enum": ["json", "form"]}, "fields": _PATHS}
    ),
    "SlackConfig": _service("slack", {"text": _TEXT, **_HIDDEN}),
    "DiscordConfig": _service("discord", {"text": _TEXT, **_HIDDEN}),
    "HubSpotConfig": _service("hubspot", {"fields": _PATHS, **_HIDDEN}),
    "JsonConfig": _service("json", {**_RECEIVER, "fields": _PATHS}),
}
_NONE: Final = "NoConfig"


def schema_of(message: Any, name: str, components: dict[str, Schema]) -> Schema:
    """The schema of a message's free-form field. Adds the schemas that it refers to to `components`."""
    if name == "ui":
        return {**OBJECT, "externalDocs": {"description": "The parts that the widget reads", "url": UI}}
    if name == "handler_config":
        return {"anyOf": [_handler_config(handler, components) for handler in REWARD_HANDLERS.names()]}
    if name == "payload":
        return {"anyOf": [*_payloads(components), OBJECT]}
    if name == "metadata":
        return {"anyOf": [*_added(_METADATA, components), OBJECT]}
    if name == "config" and message in (m.PrizeFulfillment, m.Integration):
        about = "Channels and types without configuration."
        components[_NONE] = {"title": _NONE, "description": about, "type": "object"}
        services = _added(_SERVICES, components) if message is m.Integration else []
        return {"anyOf": [*_added(_CONFIGS, components), *services, _ref(_NONE)]}
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
    """Adds each property's description, by name."""
    named = schema.get("properties", {})
    described = {
        name: {"description": _MEANS.get(name, f"`{name}` of a plugin."), **one} for name, one in named.items()
    }
    return {**schema, "properties": described} if described else schema


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}
