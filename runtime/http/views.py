"""What the edges show of Core's replies: flatter, with int64 as numbers (spec.md, "Surfaces").

A reply that wraps one thing is shown as that thing; a collection as `{items, pagination}`; a prize has its
`prize_id` beside the rest. How an edge's JSON differs from its message's own is said by a `Shape` (the
row's, or one that follows from the message), which changes answers here and their schemas in
`runtime.http.docs.openapi`: one cannot say what the other does not.
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
"""What the edges call a resource's field -> the field (contract.md, "Core messages"); shown beside it, and taken."""
BESIDE: Final = frozenset({"warnings"})
"""Fields of replies that stand beside those of the one thing that a reply wraps, where they hold something."""


def shape_of(operation: Operation) -> Shape:
    """How the edges show an operation's reply."""
    if operation.shape is not None:
        return operation.shape
    fields = fields_of(operation.reply)
    beside = BESIDE & fields.keys()
    rows = [field for name, field in fields.items() if name not in beside]
    if len(rows) == 1 and rows[0].kind is Kind.MESSAGE and not rows[0].repeated:
        return Shape(opened=rows[0].name, optional=beside, inner={rows[0].name: _of_message(rows[0].type)})
    if "items" in fields and fields["items"].type in ALIASES:
        return Shape(inner={"items": _of_message(fields["items"].type)})
    return AS_IT_IS


def _of_message(message: Any) -> Shape:
    return Shape(also=ALIASES[message]) if message in ALIASES else AS_IT_IS


def edge_view(operation: Operation) -> View:
    """The function that makes the edges' `data` of an operation's reply."""
    show, shape = view(operation.reply, "number"), shape_of(operation)
    if shape == AS_IT_IS:
        return show

    def shaped(reply: Any) -> dict[str, Any]:
        return apply(shape, show(reply))

    return shaped
