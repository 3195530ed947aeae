"""JSON Schemas of messages for the OpenAPI documents (JSON Schema 2020-12).

Response schemas use the fields that `runtime.wire.codec` writes and the `Shape`s of `runtime.http.views`; body
schemas use the fields that the codec reads. One `Schemas` builds one document's components.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from runtime import messages as m
from runtime.http.docs import free_form
from runtime.messages import comments
from runtime.wire.codec import LIMIT, QUERY_CHARACTERS_MAX, Int64As
from runtime.wire.schema import INT32, INT64, Field, Kind, fields_of
from runtime.wire.shape import AS_IT_IS, Shape

Schema = dict[str, Any]

_TIME: Final = re.compile(r".*(_at|_date)$|since|until")
_SHAPES_OWN: Final = {"guest_token": "The guest's token. Send it as a Bearer token to act as the guest."}
"""Descriptions of the fields that an edge adds."""


class Schemas:
    """Components by name, built on first use. `int64_as`: "number" on the edges, "quoted" on Core."""

    def __init__(self, int64_as: Int64As) -> None:
        self.components: dict[str, Schema] = {}
        self._int64_as = int64_as

    # -- answers -----------------------------------------------------------------------------

    def answer(self, message: Any, shape: Shape = AS_IT_IS) -> Schema:
        """A reference to a message's response schema. All fields but the shape's optional ones are required; later
        versions may add fields.
        """
        fields = fields_of(message)
        if shape.opened and len(fields) == 1:
            return self.answer(fields[shape.opened].type, shape.inner.get(shape.opened, AS_IT_IS))
        name = shape.name or message.__name__
        if name not in self.components:
            self.components[name] = {}  # Reserves the name, so that a recursive message ends here.
            self.components[name] = _described(message, self._shown(message, shape))
        return ref(name)

    def _shown(self, message: Any, shape: Shape) -> Schema:
        properties = {
            name: meaning(message, field)
            | self._answer_field(message, field, shape.inner.get(name, AS_IT_IS), always=name not in shape.optional)
            for name, field in fields_of(message).items()
            if name not in shape.without and name != shape.opened
        }
        if shape.also:
            properties = {also: properties[name] for also, name in shape.also.items()} | properties
        required = [name for name in properties if name not in shape.optional]
        if shape.opened:
            opened = fields_of(message)[shape.opened].type
            inner = self._shown(opened, shape.inner.get(shape.opened, AS_IT_IS))
            properties, required = inner["properties"] | properties, inner["required"] + required
        properties |= {name: {"description": _SHAPES_OWN[name], "type": "string"} for name in sorted(shape.added)}
        return {"type": "object", "properties": properties, "required": required}

    def _answer_field(self, message: Any, field: Field, shape: Shape, *, always: bool) -> Schema:
        if field.kind is Kind.MESSAGE:
            one = self.answer(field.type, shape)
            if not field.repeated and field.type is not m.Pagination and always:
                one = {"oneOf": [one, {"type": "null"}]}
        elif field.kind is Kind.MAP:
            one = {"type": "object", "additionalProperties": {"type": "integer", "format": "int32"}}
        else:
            one = self._plain(message, field)
        return {"type": "array", "items": one} if field.repeated else one

    # -- bodies ------------------------------------------------------------------------------

    def body(
        self,
        message: Any,
        name: str,
        *,
        closed: Collection[str] = (),
        partial: bool = False,
        inner: Mapping[str, Schema] | None = None,
    ) -> Schema:
        """A reference to a body schema: the message's fields without `closed`.

        partial: an update, which may omit required fields. inner: schemas that replace a field's own.
        """
        self.components[name] = self._body_schema(message, closed, partial, inner or {})
        return ref(name)

    def _body_schema(self, message: Any, closed: Collection[str], partial: bool, inner: Mapping[str, Schema]) -> Schema:
        fields = {name: field for name, field in fields_of(message).items() if name not in closed}
        properties: dict[str, Schema] = {}
        for name, field in fields.items():
            properties[name] = meaning(message, field, in_request=True) | (
                inner.get(name) or self._body_field(message, field)
            )
            if field.read_only:
                properties[name] = {**properties[name], "readOnly": True}
        schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        required = [] if partial else [name for name, field in fields.items() if field.required]
        return {**schema, "required": required} if required else schema

    def _body_field(self, message: Any, field: Field) -> Schema:
        if field.kind is Kind.MESSAGE:
            name = f"{field.type.__name__}Input"
            if name not in self.components:
                self.components[name] = {}
                self.components[name] = self._body_schema(field.type, (), False, {})
            one = ref(name)
        else:
            one = self._plain(message, field, in_request=True)
        if not field.repeated:
            return one
        least, most = {"minItems": 1} if field.required else {}, field.elements_max
        return {"type": "array", "items": one, **least, **({"maxItems": most} if most else {})}

    # -- query parameters --------------------------------------------------------------------

    def parameter(self, message: Any, field: Field) -> dict[str, Any]:
        """The query parameter for a field of the message."""
        parameter = {"name": field.name, "in": "query", "required": field.required}
        return parameter | meaning(message, field) | {"schema": self._query_schema(message, field)}

    def _query_schema(self, message: Any, field: Field) -> Schema:
        if field.name == "limit":
            return {"type": "integer", "minimum": LIMIT[0], "maximum": LIMIT[1], "default": 20}
        if field.kind is Kind.TEXT:
            return {"type": "string", "maxLength": min(field.most, QUERY_CHARACTERS_MAX)}
        return self._plain(message, field, in_request=True)

    # -- values ------------------------------------------------------------------------------

    def _plain(self, message: Any, field: Field, *, in_request: bool = False) -> Schema:
        match field.kind:
            case Kind.TEXT:
                return {"type": "string", **({"maxLength": field.most} if in_request else {})}
            case Kind.INT32:
                return {
                    "type": "integer",
                    "format": "int32",
                    "minimum": _least(field, in_request, INT32),
                    "maximum": INT32[1],
                }
            case Kind.INT64:
                return self._int64(field, in_request)
            case Kind.NUMBER:
                return {"type": "number", "format": "double"}
            case Kind.FLAG:
                return {"type": "boolean"}
            case Kind.ENUM:
                name = field.type.__name__
                self.components[name] = {"type": "string", "enum": [member.proto_name for member in field.type]}
                return ref(name)
            case _:
                return free_form.schema_of(message, field.name, self.components)

    def _int64(self, field: Field, in_request: bool) -> Schema:
        if self._int64_as == "quoted":
            sign = "" if in_request and field.least is not None else "-?"
            return {"type": "string", "pattern": f"^{sign}[0-9]{{1,19}}$"}
        return {"type": "integer", "format": "int64", "minimum": _least(field, in_request, INT64), "maximum": INT64[1]}


def meaning(message: Any, field: Field, *, in_request: bool = False) -> Schema:
    """A field's comment in game.proto as a `description`; empty if there is none."""
    text = comments.FIELDS.get(message.__name__, {}).get(field.name) or comments.NAMES.get(field.name, "")
    if field.kind is Kind.INT64 and _TIME.fullmatch(field.name) and "unix seconds" not in text.lower():
        text = f"{text} Unix seconds; 0 = unset.".strip()
    if in_request and field.lines:
        text = f"{text} May have several lines.".strip()
    return {"description": text} if text else {}


def _least(field: Field, in_request: bool, bounds: tuple[int, int]) -> int:
    """The minimum of a request's field. A response may hold any value, such as -1 for no limit."""
    return field.least if in_request and field.least is not None else bounds[0]


def ref(name: str) -> Schema:
    """A reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def _described(message: Any, schema: Schema) -> Schema:
    """Adds the message's comment in game.proto, if there is one."""
    comment = inspect.getdoc(message) or ""
    if not comment or comment.startswith(f"{message.__name__}("):  # the default docstring of a dataclass
        return schema
    return {"description": " ".join(comment.split()), **schema}
