import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Final

HANG_SECONDS: Final = 150.0
"""What has not come about by then never will: a ceiling, far above what a busy machine needs."""


async def until(read: Callable[[], Any], fits: Callable[[Any], Any] = bool) -> None:
    """Reads until the value fits. TimeoutError after HANG_SECONDS."""
    async with asyncio.timeout(HANG_SECONDS):
        while not fits(await found if inspect.isawaitable(found := read()) else found):
            await asyncio.sleep(0.01)
