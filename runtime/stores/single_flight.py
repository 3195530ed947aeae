"""Single flight: work that several callers want at once is done once, and its result is shared."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any


class SingleFlight:
    """One task per key: whoever asks while it is under way shares its result, or its error."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[Any]] = {}

    async def share(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """The result of `work`, begun here or by an earlier caller. A caller that is cancelled stops nothing."""
        return await asyncio.shield(self.begin(key, work))

    def begin(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Task[Any]:
        """Begins `work` where it is not under way."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.get_running_loop().create_task(work())
            task.add_done_callback(lambda done: self._ended(key, done))
        return task

    def under_way(self, key: Hashable) -> bool:
        """Whether `share` and `begin` would begin nothing."""
        return key in self._tasks

    async def drain(self) -> None:
        """Returns when nothing is under way."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    def _ended(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        del self._tasks[key]
        if not task.cancelled():
            task.exception()  # Seen: nobody may be waiting for it.
