"""The edges' JSON form of Core's replies: flatter, with int64 as numbers.

A reply that wraps one resource is shown as that resource, a collection as `{items, pagination}`; a prize has an extra
`prize_id`. A `Shape`, from the operation row or derived from the message, describes the differences from the message's
own JSON. It is applied to responses here and to their schemas in `runtime.http.docs.openapi`, so that the two agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from runtime import messages as m
from runtime.operations import Operation
from runtime.wire.codec import View, view
from runtime.wire.schema import Kind, fields_of
from runtime.wire.shape import AS_IT_IS, Shape, apply

ALIASES: Final[Mapping[Any, Mapping[str, str]]] = {m.Prize: {"prize_id": "id"}}
"""An edge's alias -> the resource's field. Responses have both; requests may use either."""
EXTRA: Final = frozenset({"warnings"})
"""Reply fields shown alongside those of the wrapped resource, if they are not empty."""


def shape_of(operation: Operation) -> Shape:
    """How the edges' JSON of an operation's reply differs from the message's own. Default: derived from the message."""
    if operation.shape is not None:
        return operation.shape
    fields = fields_of(operation.reply)
    extra = EXTRA & fields.keys()
    rows = [field for name, field in fields.items() if name not in extra]
    if len(rows) == 1 and rows[0].kind is Kind.MESSAGE and not rows[0].repeated:
        return Shape(opened=rows[0].name, optional=extra, inner={rows[0].name: _of_message(rows[0].type)})
    if "items" in fields and fields["items"].type in ALIASES:
        return Shape(inner={"items": _of_message(fields["items"].type)})
    return AS_IT_IS


def _of_message(message: Any) -> Shape:
    return Shape(also=ALIASES[message]) if message in ALIASES else AS_IT_IS


def edge_view(operation: Operation) -> View:
    """The function that converts an operation's reply to the edges' `data`."""
    show, shape = view(operation.reply, "number"), shape_of(operation)
    if shape == AS_IT_IS:
        return show

    def shaped(reply: Any) -> dict[str, Any]:
        return apply(shape, show(reply))

    return shaped
