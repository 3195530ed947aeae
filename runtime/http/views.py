"""What the edges show of Core's replies: flatter, with int64 as numbers (spec.md, "Surfaces").

A reply that wraps one thing is shown as that thing; a collection as `{items, pagination}`; a prize has its
`prize_id` beside the rest. How an edge's JSON differs from its message's own is said by a `Shape`, which
changes answers here and their schemas in `runtime.http.docs.openapi`: one cannot say what the other does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from runtime import messages as m
from runtime.operations import Operation
from runtime.wire.codec import View, view
from runtime.wire.schema import Kind, fields_of


@dataclass(frozen=True, slots=True)
class Shape:
    """How an edge shows a message: as its fields are, but for what is said here.

    opened: the field whose own fields stand in its place, before the others. also: a further name of a
    field, first of all. without: fields that are not shown. optional: fields that are left out while they
    hold nothing. added: texts that the edge itself may add. inner: fields whose messages have shapes.
    name: the schema's, where the message's own would be another's.
    """

    opened: str = ""
    also: Mapping[str, str] = field(default_factory=dict)
    without: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()
    inner: Mapping[str, Shape] = field(default_factory=dict)
    name: str = ""


AS_IT_IS: Final = Shape()
PRIZE: Final = Shape(also={"prize_id": "id"})

_BY_OPERATION: Final[Mapping[str, Shape]] = {
    "GetPublicCampaign": Shape(
        opened="campaign", inner={"games": Shape(without=frozenset({"ui"}), name="PublicGame")}, name="PublicCampaign"
    ),
    "FinalizeLeaderboard": Shape(opened="leaderboard", name="FinalizedLeaderboard"),
    # Without the guest's id, which its token says; without a plan where the game has none.
    "Start": Shape(
        without=frozenset({"guest_player_id"}), optional=frozenset({"drop_plan"}), added=frozenset({"guest_token"})
    ),
    "ListRankings": Shape(optional=frozenset({"me"})),
}


def shape_of(operation: Operation) -> Shape:
    """How the edges show an operation's reply."""
    if operation.name in _BY_OPERATION:
        return _BY_OPERATION[operation.name]
    fields = fields_of(operation.reply)
    rows = list(fields.values())
    if len(rows) == 1 and rows[0].kind is Kind.MESSAGE and not rows[0].repeated:
        return Shape(opened=rows[0].name, inner={rows[0].name: _of_message(rows[0].type)})
    if "items" in fields and fields["items"].type is m.Prize:
        return Shape(inner={"items": PRIZE})
    return AS_IT_IS


def _of_message(message: Any) -> Shape:
    return PRIZE if message is m.Prize else AS_IT_IS


def edge_view(operation: Operation) -> View:
    """The function that makes the edges' `data` of an operation's reply."""
    show, shape = view(operation.reply, "number"), shape_of(operation)
    if shape == AS_IT_IS:
        return show

    def shaped(reply: Any) -> dict[str, Any]:
        return apply(shape, show(reply))

    return shaped


def apply(shape: Shape, shown: dict[str, Any]) -> dict[str, Any]:
    """A message's own JSON, changed as its shape says."""
    for name, inner in shape.inner.items():
        held = shown[name]
        shown[name] = [apply(inner, item) for item in held] if isinstance(held, list) else apply(inner, held)
    for name in shape.without:
        del shown[name]
    for name in shape.optional:
        if not shown[name]:
            del shown[name]
    if shape.also:
        shown = {also: shown[name] for also, name in shape.also.items()} | shown
    if shape.opened:
        shown = shown.pop(shape.opened) | shown
    return shown
