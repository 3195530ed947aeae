"""Seed generator `none`: nothing is shown before the play but the seed's hash."""

from __future__ import annotations

from typing import Any

from runtime.errors import invalid
from runtime.rules.base import Drop, DropSource


def check_config(config: Any) -> None:
    """Refuse, on field `seed_generator`, a handler that needs a plan: no item could ever be caught."""
    if isinstance(config, DropSource):
        raise invalid("seed_generator", "this reward handler needs a drop plan; use drop_sequence")


def plan(config: Any, seed: bytes) -> tuple[Drop, ...]:
    """No plan."""
    return ()
