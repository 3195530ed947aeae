"""Seed generator `none`: only the seed's hash is shown before the play."""

from __future__ import annotations

from typing import Any

from runtime.errors import invalid
from runtime.rules.base import Drop, DropSource


def check_config(config: Any) -> None:
    """Refuse, on field `seed_generator`, a handler that needs a plan: without one, no item could be caught."""
    if isinstance(config, DropSource):
        raise invalid("seed_generator", "this reward handler needs a drop plan; use drop_sequence")


def plan(config: Any, seed: bytes) -> tuple[Drop, ...]:
    return ()
