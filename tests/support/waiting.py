"""Waiting for facts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def until(fact: Callable[[], Awaitable[bool]], seconds: float = 20.0) -> None:
    """Returns once the fact holds. TimeoutError where it does not come about."""
    async with asyncio.timeout(seconds):
        while not await fact():
            await asyncio.sleep(0.01)
