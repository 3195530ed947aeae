"""Seed generator `drop_sequence`: `total_items` items, `interval_ms` apart, their types drawn by frequency."""

from __future__ import annotations

from typing import Any

from runtime.errors import invalid
from runtime.rules.base import Drop, DropSource
from runtime.rules.draw import Words, plan_key


def check_config(config: Any) -> None:
    """Refuse, on field `seed_generator`, a handler without drops."""
    if not isinstance(config, DropSource):
        raise invalid("seed_generator", "drop_sequence needs a reward handler with drops, such as collect_items")


def plan(config: DropSource, seed: bytes) -> tuple[Drop, ...]:
    """Item *j*, from 0, is `item_j` and falls at j x interval_ms; word *j* of the plan's key draws its type."""
    words = Words(plan_key(seed))
    return tuple(
        Drop(f"item_{j}", config.drop_type(words.word(j)), j * config.interval_ms) for j in range(config.total_items)
    )
