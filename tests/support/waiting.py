"""Waiting for facts."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

HANG_SECONDS: Final = 150.0
"""What has not come about by then never will: a ceiling, far above what a busy machine needs."""


async def until(fact: Callable[[], Awaitable[bool]]) -> None:
    """Returns once the fact holds. TimeoutError where it does not come about."""
    async with asyncio.timeout(HANG_SECONDS):
        while not await fact():
            await asyncio.sleep(0.01)
