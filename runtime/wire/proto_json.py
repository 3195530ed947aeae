"""Converts the alternative input forms of proto3's JSON mapping to the one that Core reads: lowerCamelCase names, enums
by number, and quoted numbers (protobuf.dev, "ProtoJSON Format").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from runtime.wire.schema import Field, Kind, fields_of, memo

_NUMBER: Final = re.compile(r"-?\d{1,400}(\.\d{1,400})?([eE][+-]?\d{1,3})?", re.ASCII)
_WHOLE: Final = re.compile(r"-?\d{1,19}", re.ASCII)


def rewritten(message: Any, value: dict[str, Any]) -> dict[str, Any]:
    """A parsed body in Core's form. Invalid values stay as they are, to be refused under their own names."""
    fields, found = _by_both_names(message), {}
    for name, item in value.items():
        field = fields.get(name)
        if field is None or (name != field.name and field.name in value):
            found[name] = item  # Sent under both names: the alternative one is refused.
        elif field.repeated and isinstance(item, list):
            found[field.name] = [_value(field, one) for one in item]
        else:
            found[field.name] = _value(field, item)
    return found


def rewritten_query(message: Any, query: Mapping[str, str]) -> dict[str, str]:
    """Query parameters in Core's form, the scope's included. If a parameter is sent under both names, Core's own wins:
    a gateway in front of Core that enforces the tenant may know only that name.
    """
    fields = _by_both_names(message)
    found: dict[str, str] = {}
    for name, text in query.items():
        outer, _, inner = name.partition(".")
        own, value = name, text
        if (field := fields.get(outer)) is not None:
            nested = _by_both_names(field.type).get(inner) if inner and field.kind is Kind.MESSAGE else None
            own = ".".join(filter(None, (field.name, nested.name if nested is not None else inner)))
            if not inner and field.kind is Kind.ENUM and _WHOLE.fullmatch(text):
                value = _names(field.type).get(int(text), text)
        if own == name or own not in query:
            found.setdefault(own, value)
    return found


def _value(field: Field, item: Any) -> Any:
    match field.kind:
        case Kind.MESSAGE if isinstance(item, dict):
            return rewritten(field.type, item)
        case Kind.ENUM if type(item) is int:
            return _names(field.type).get(item, item)
        case Kind.INT32 if isinstance(item, str) and _WHOLE.fullmatch(item):
            return int(item)
        case Kind.NUMBER if isinstance(item, str) and _NUMBER.fullmatch(item):
            return float(item)
        case _:
            return item


@memo
def _by_both_names(message: Any) -> dict[str, Field]:
    fields = fields_of(message).values()
    return {_camel(field.name): field for field in fields} | {field.name: field for field in fields}


@memo
def _names(enum: Any) -> dict[int, str]:
    return {int(member): member.proto_name for member in enum}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
