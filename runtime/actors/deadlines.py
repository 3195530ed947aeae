"""When answers that do not come are given up: one timer for all that wait equally long.

A timer of its own costs an answer more than its way through the mailbox, and hardly any of them ever fires.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any


class Deadlines:
    """Gives up each watched answer that is not there after `seconds`. For one event loop."""

    def __init__(self, seconds: float, give_up: Callable[[asyncio.Future[Any]], None]) -> None:
        self._seconds = seconds
        self._give_up = give_up
        self._waiting: deque[tuple[float, asyncio.Future[Any]]] = deque()  # Equally long: so the first is due first.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ticking = False

    def watch(self, answer: asyncio.Future[Any]) -> None:
        """From now on it has `seconds`."""
        loop = self._loop
        if loop is None:
            # Kept: asking for the running loop is a system call before Python 3.12.
            loop = self._loop = asyncio.get_running_loop()
        waiting = self._waiting
        while waiting and waiting[0][1].done():
            waiting.popleft()
        waiting.append((loop.time() + self._seconds, answer))
        if not self._ticking:
            self._ticking = True
            loop.call_at(waiting[0][0], self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = self._waiting
        while waiting and (waiting[0][1].done() or waiting[0][0] <= loop.time()):
            _, answer = waiting.popleft()
            if not answer.done():
                self._give_up(answer)
        self._ticking = bool(waiting)
        if waiting:
            loop.call_at(waiting[0][0], self._tick, loop)
