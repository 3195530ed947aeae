"""Single flight: concurrent requests for the same work share one execution and its result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any


class SingleFlight:
    """One task per key: callers share its result or error while it runs."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[Any]] = {}

    async def share(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """The result of `work`, started here or by an earlier caller. Cancelling a caller does not stop the work."""
        return await asyncio.shield(self.begin(key, work))

    def begin(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Task[Any]:
        """Starts `work` unless it is running."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.get_running_loop().create_task(work())
            task.add_done_callback(lambda done: self._ended(key, done))
        return task

    def under_way(self, key: Hashable) -> bool:
        """Whether work for the key is running."""
        return key in self._tasks

    async def drain(self) -> None:
        """Returns when nothing is running."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    def _ended(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        del self._tasks[key]
        if not task.cancelled():
            task.exception()  # Mark it as retrieved: there may be no waiting caller.
