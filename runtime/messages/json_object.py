"""google.protobuf.Struct as a plain dict, both ways.

A Struct's numbers are doubles: whole ones come back as `int`, so that a payload means the same
over RPC as over REST. Integers beyond 2**53 lose their last digits on the RPC wire; the fields of
this type hold configuration and game payloads, never money.
"""

from __future__ import annotations

from typing import Any, Self

from .google.protobuf import ListValue, NullValue, Struct, Value
from .message_pool import default_message_pool

NULL = next(iter(NullValue))


class JsonObject(Struct):
    """The wrapper type that generated messages name in `unwrap`."""

    @classmethod
    def from_wrapped(cls, value: dict[str, Any]) -> Self:
        return cls(fields={key: _wrap(item) for key, item in value.items()})

    def to_wrapped(self) -> dict[str, Any]:
        return {key: _unwrap(item) for key, item in self.fields.items()}


def _wrap(value: Any) -> Value:
    match value:
        case None:
            return Value(null_value=NULL)
        case bool():
            return Value(bool_value=value)
        case int() | float():
            return Value(number_value=float(value))
        case str():
            return Value(string_value=value)
        case list() | tuple():
            return Value(list_value=ListValue(values=[_wrap(item) for item in value]))
        case dict():
            return Value(struct_value=Struct(fields={key: _wrap(item) for key, item in value.items()}))
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _unwrap(value: Value) -> Any:
    if value.number_value is not None:
        number = value.number_value
        return int(number) if number.is_integer() else number
    if value.string_value is not None:
        return value.string_value
    if value.bool_value is not None:
        return value.bool_value
    if value.struct_value is not None:
        return {key: _unwrap(item) for key, item in value.struct_value.fields.items()}
    if value.list_value is not None:
        return [_unwrap(item) for item in value.list_value.values]
    return None


__all__ = ["JsonObject", "default_message_pool"]
