from typing import Any

from runtime.wire.schema import INT32, INT64, Field, Kind, fields_of

TEXT = "ü\u20ac\U0001f381"
VALUES: dict[Kind, Any] = {Kind.TEXT: TEXT, Kind.INT32: INT32[0], Kind.INT64: INT64[1], Kind.FLAG: True}
VALUES |= {Kind.OBJECT: {"a": [1, 2.5, None, {"b": True}], "ü": "x"}, Kind.MAP: {"a": 1}, Kind.NUMBER: 0.1}


def filled(message: Any) -> Any:
    def value(field: Field) -> Any:
        match field.kind:
            case Kind.MESSAGE:
                return filled(field.type)
            case Kind.ENUM:
                return list(field.type)[-1]
            case kind:
                return VALUES[kind]

    return message(
        **{name: [value(field)] * 2 if field.repeated else value(field) for name, field in fields_of(message).items()}
    )
