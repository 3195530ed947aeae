"""Back-off pauses that end early at a stop."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Final

FIRST_SECONDS: Final = 0.1
LAST_SECONDS: Final = 5.0


class Backoff:
    """Exponential back-off up to LAST_SECONDS, with jitter; a stop ends a pause."""

    def __init__(self, first_seconds: float = FIRST_SECONDS) -> None:
        self._first = self._next = first_seconds

    def reset(self) -> None:
        """Resets to the shortest pause."""
        self._next = self._first

    async def wait(self, stop: asyncio.Event) -> None:
        """One pause."""
        seconds = self._next * random.uniform(0.5, 1.0)
        self._next = min(self._next * 2, LAST_SECONDS)
        await stopped_within(stop, seconds)


async def stopped_within(stop: asyncio.Event, seconds: float) -> bool:
    """Waits for `seconds` or until the stop. Returns whether it is stopping."""
    if not stop.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), seconds)
    return stop.is_set()
