"""The differences between an edge's JSON and the message's own: flatter, with aliases, with fewer fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Shape:
    """How an edge's JSON differs from the message's.

    opened: a field replaced by its own fields, before the others. also: alias -> field, shown first. without: hidden
    fields. optional: fields omitted if empty. added: strings that the edge itself may add. inner: shapes of nested
    messages by field. name: the schema's name, if the message's own name would clash.
    """

    opened: str = ""
    also: Mapping[str, str] = field(default_factory=dict)
    without: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()
    inner: Mapping[str, Shape] = field(default_factory=dict)
    name: str = ""


AS_IT_IS: Final = Shape()


def apply(shape: Shape, shown: dict[str, Any]) -> dict[str, Any]:
    """Applies a shape to a message's own JSON."""
    for name, inner in shape.inner.items():
        nested = shown[name]
        if nested is None:
            continue
        shown[name] = [apply(inner, item) for item in nested] if isinstance(nested, list) else apply(inner, nested)
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
