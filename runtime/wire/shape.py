"""How an edge's JSON differs from its message's own: flatter, with other names, with less."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


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


def apply(shape: Shape, shown: dict[str, Any]) -> dict[str, Any]:
    """A message's own JSON, changed as its shape says."""
    for name, inner in shape.inner.items():
        held = shown[name]
        if held is None:
            continue
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
