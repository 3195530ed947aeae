"""A bulkhead: bounds the concurrent attempts at one receiver, and the queue in front of them.

    bulkhead = Bulkhead(places=16, wait_seconds=20.0)
    if await bulkhead.enter() is Entry.ENTERED:
        try: ...
        finally: bulkhead.leave()

A slow receiver thus blocks only its own places. Without a free place, an attempt queues first-in, first-out for
up to `wait_seconds`. It is turned away at once if waiting is pointless:

    queue_max      the queue is full
    stuck_seconds  no attempt entered or left for this long: the receiver hangs
    shut_seconds   for this long after an attempt timed out in the queue
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import Enum
from math import inf
from typing import TypeAlias


class Entry(Enum):
    """The result of `enter`: a place, or none because the queue was full or the wait too long."""

    ENTERED = "entered"
    QUEUE_FULL = "queue full"
    TOO_LATE = "too late"


Waiter: TypeAlias = tuple[float, "asyncio.Future[Entry]"]
"""(deadline of the wait, its result)"""


class Bulkhead:
    """The places at one receiver, in this process. Bound to one event loop."""

    __slots__ = (
        "_free",
        "_loop",
        "_moved_at",
        "_queue",
        "_queue_max",
        "_shut_seconds",
        "_shut_until",
        "_stuck_seconds",
        "_timer",
        "_wait_seconds",
        "__weakref__",
    )

    def __init__(
        self,
        *,
        places: int,
        wait_seconds: float,
        queue_max: float = inf,
        stuck_seconds: float = inf,
        shut_seconds: float = 0.0,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._free = places
        self._wait_seconds = wait_seconds
        self._queue_max = queue_max
        self._stuck_seconds = stuck_seconds
        self._shut_seconds = shut_seconds
        self._queue: deque[Waiter] = deque()
        self._moved_at = self._loop.time()
        self._shut_until = 0.0
        self._timer: asyncio.TimerHandle | None = None  # One timer suffices: all waits are equally long.

    async def enter(self) -> Entry:
        """Takes a place, waiting for one if it may become free soon. After ENTERED the caller must `leave`."""
        now = self._loop.time()
        if self._free:
            self._free -= 1
            self._moved_at = now
            return Entry.ENTERED
        if now < self._shut_until or now - self._moved_at > self._stuck_seconds:
            return Entry.TOO_LATE
        if len(self._queue) >= self._queue_max:
            return Entry.QUEUE_FULL
        entry: asyncio.Future[Entry] = self._loop.create_future()
        waiter = (now + self._wait_seconds, entry)
        self._queue.append(waiter)
        self._start_timer()
        try:
            return await entry
        except asyncio.CancelledError:
            self._withdraw(waiter)
            raise

    def leave(self) -> None:
        """Releases a place; the longest-waiting attempt gets it."""
        self._moved_at = self._loop.time()
        while self._queue:
            if self._resolve(self._queue.popleft(), Entry.ENTERED):
                return
        self._free += 1

    def _withdraw(self, waiter: Waiter) -> None:
        _, entry = waiter
        if not entry.cancelled() and entry.result() is Entry.ENTERED:
            self.leave()  # It already had a place, which would otherwise leak.
        elif waiter in self._queue:
            self._queue.remove(waiter)

    def _resolve(self, waiter: Waiter, result: Entry) -> bool:
        """False if the waiter was cancelled, but its task has not run since."""
        _, entry = waiter
        if entry.done():
            return False
        entry.set_result(result)
        return True

    def _start_timer(self) -> None:
        if self._timer is None and self._queue:
            deadline, _ = self._queue[0]
            self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._queue:
            deadline, _ = waiter = self._queue[0]
            if deadline > now:
                break
            self._queue.popleft()
            if self._resolve(waiter, Entry.TOO_LATE):
                self._shut_until = now + self._shut_seconds
        self._start_timer()
