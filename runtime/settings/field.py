"""A field of the settings: one environment variable."""

from __future__ import annotations

from dataclasses import Field, field
from typing import Any

from runtime.settings.kinds import Kind


def setting(kind: Kind, default: str, meaning: str, *, secret: bool = False, needed_by: str = "") -> Any:
    """A field with `default`, parsed like the variable. `needed_by`: roles that do not start without the setting."""
    metadata = {"kind": kind, "default": default, "meaning": meaning, "secret": secret, "needed_by": needed_by}
    return field(default=kind.parse(default), metadata=metadata)


def variable(item: Field[Any]) -> str:
    """The environment variable of a field of `Settings`."""
    return item.name.upper()
