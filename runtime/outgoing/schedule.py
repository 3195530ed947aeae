"""The retry schedule of failed deliveries."""

from __future__ import annotations

import random
from typing import Final

SCHEDULE_SECONDS: Final = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 36_000.0)
"""The pause before each retry (Standard Webhooks' schedule). A task that fails the last retry is dead."""

JITTER: Final = 0.1


def delays_seconds() -> list[float]:
    """The pauses with jitter. Jitter only lengthens them, so that a requested pause is never cut short."""
    return [pause * random.uniform(1.0, 1.0 + JITTER) for pause in SCHEDULE_SECONDS]


def delay_seconds(attempts: int, retry_after_seconds: float = 0.0) -> float | None:
    """The pause after attempt number `attempts` failed, at least `retry_after_seconds`. None: it was the last."""
    if attempts > len(SCHEDULE_SECONDS):
        return None
    return max(delays_seconds()[max(attempts, 1) - 1], retry_after_seconds)
