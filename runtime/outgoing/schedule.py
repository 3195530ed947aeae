"""When a delivery that failed is tried again (design.md, "Money, rewards, delivery")."""

from __future__ import annotations

import random
from typing import Final

SCHEDULE_SECONDS: Final = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 36_000.0)
"""The pause before each next attempt; a task that fails after the last is dead (Standard Webhooks' schedule)."""

JITTER: Final = 0.1


def delays_seconds() -> list[float]:
    """The pauses with jitter, which only lengthens: a receiver that asks for a pause is given all of it."""
    return [pause * random.uniform(1.0, 1.0 + JITTER) for pause in SCHEDULE_SECONDS]


def delay_seconds(attempts: int, retry_after_seconds: float = 0.0) -> float | None:
    """The pause after the `attempts`th attempt failed; None: it was the last.

    A receiver that asks for longer is given longer.
    """
    if attempts > len(SCHEDULE_SECONDS):
        return None
    return max(delays_seconds()[max(attempts, 1) - 1], retry_after_seconds)
