"""Converts enums between the value on the wire and the lower-case token that is stored."""

from __future__ import annotations

from typing import Any, TypeVar

E = TypeVar("E")


def token(value: Any, default: str = "") -> str:
    """An enum's stored form, the lower-case token; `default` if it is unset (0)."""
    return str(value.name).lower() if value else default


def enum(kind: type[E], stored: str) -> E:
    """The enum value of a stored token."""
    return kind[stored.upper()]  # type: ignore[index,no-any-return]
