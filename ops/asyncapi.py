"""The AsyncAPI document of the event streams, generated from the Structs of runtime/events.py."""

import inspect
import json
from typing import Any, Final

import msgspec

from runtime.events import DATA, EventData, ReceivedEvent

_ABOUT: Final = (
    "Events are appended to Redis Streams, one stream per shard; a tenant's events are always in the same one (CRC-32 "
    "of the tenant id modulo STREAM_SHARDS). Each message has the field `e`, the event as JSON. Read them with a "
    "separate consumer group (XREADGROUP), and acknowledge after processing. Delivery is at least once: deduplicate "
    "events by id. Streams are trimmed to STREAM_MAXLEN entries and STREAM_HOURS hours. A message that also has the "
    "field `outside` was sent by an operator as a test. Integrations of type webhook and workflow receive the same "
    "JSON by HTTP POST, with `contact` and `entry` in addition if their config includes them. Fields may be added, but "
    "are never renamed."
)


def document() -> dict[str, Any]:
    """The whole document."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Tombola events",
            "version": "1.0.0",
            "description": _ABOUT,
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"bus": {"host": "localhost:6379", "protocol": "redis", "description": "REDIS_URL."}},
        "channels": {
            "events": {
                "address": "tombola:events:{shard}",
                "title": "Events of a shard",
                "description": "The braces around the shard's number are part of the key (a cluster's hash tag): "
                "tombola:events:{0}.",
                "parameters": {"shard": {"description": "0 to STREAM_SHARDS - 1, within braces."}},
                "messages": {one.TYPE: _ref("messages", one.TYPE) for one in DATA},
            }
        },
        "operations": {
            "publish": {
                "action": "send",
                "channel": {"$ref": "#/channels/events"},
                "summary": "The events that Tombola appends.",
                "messages": [{"$ref": f"#/channels/events/messages/{one.TYPE}"} for one in DATA],
            }
        },
        "components": {"messages": {one.TYPE: _message(one) for one in DATA}, "schemas": _schemas()},
    }


def text() -> str:
    """The document as stored."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def _message(data: type[EventData]) -> dict[str, Any]:
    return {
        "name": data.TYPE,
        "summary": inspect.getdoc(data),
        "contentType": "application/json",
        "payload": _ref("schemas", data.TYPE),
    }


def _schemas() -> dict[str, Any]:
    """`event`, its types, and their data."""
    _, found = msgspec.json.schema_components((ReceivedEvent, *DATA), ref_template="#/components/schemas/{name}")
    event = found.pop(ReceivedEvent.__name__)
    del event["title"], event["description"]
    for schema in found.values():
        # A field with a default is always sent too.
        schema["required"] = list(schema["properties"])
        for shown in schema["properties"].values():
            shown.pop("default", None)
    types = {
        one.TYPE: {
            "allOf": [
                _ref("schemas", "event"),
                {
                    "type": "object",
                    "properties": {"type": {"const": one.TYPE}, "data": _ref("schemas", one.__name__)},
                },
            ]
        }
        for one in DATA
    }
    return {"event": event, **types, **found}


def _ref(kind: str, name: str) -> dict[str, str]:
    return {"$ref": f"#/components/{kind}/{name}"}


def markdown() -> str:
    """Each type of event with the fields of its `data`, for docs/reference/events.md."""
    made = []
    for struct in DATA:
        schemas = msgspec.json.schema(struct)
        fields = schemas["$defs"][struct.__name__]["properties"]
        rows = [f"| `{name}` | {_kind(field)} | {field.get('description', '')} |" for name, field in fields.items()]
        about = " ".join(str(inspect.getdoc(struct)).split())
        table = "\n".join(["| Field | Type | Meaning |", "|---|---|---|", *rows])
        made.append(f"## `{struct.TYPE}`\n\n{about}\n\n{table}\n")
    return "\n".join(made)


def _kind(field: dict[str, Any]) -> str:
    return "list" if field.get("type") == "array" else str(field.get("type", "object"))
