"""Enums between their two forms: the value on the wire, and the bare lower-case token that is stored (spec.md, 6)."""

from __future__ import annotations

from typing import Any, TypeVar

E = TypeVar("E")


def token(value: Any, default: str = "") -> str:
    """An enum's stored form, the bare lower-case token; `default` where it is unset (0)."""
    return str(value.name).lower() if value else default


def enum(kind: type[E], stored: str) -> E:
    """The enum value of a stored token."""
    return kind[stored.upper()]  # type: ignore[index,no-any-return]
