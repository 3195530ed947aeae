"""A bulkhead: a bounded number of attempts at one receiver, and a bounded queue before them.

    bulkhead = Bulkhead(places=16, wait_seconds=20.0)
    if await bulkhead.enter() is Entry.ENTERED:
        try: ...
        finally: bulkhead.leave()

So a receiver that is slow takes up its own places and no other's. Whoever finds no place queues for one, in
order of arrival, `wait_seconds` at most; and nobody queues where that is known to be in vain:

    queue_max      so many are queueing already
    stuck_seconds  nobody entered or left for so long: the receiver hangs
    shut_seconds   for so long after somebody waited in vain
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import Enum
from math import inf
from typing import TypeAlias


class Entry(Enum):
    """How `enter` ended: with a place, or without one because of the queue's length or of the wait's."""

    ENTERED = "entered"
    QUEUE_FULL = "queue full"
    TOO_LATE = "too late"


Waiter: TypeAlias = tuple[float, "asyncio.Future[Entry]"]
"""(when its wait is over, how it ended)"""


class Bulkhead:
    """The places at one receiver, in this process. Made and used within one event loop."""

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
        self._timer: asyncio.TimerHandle | None = None  # one for all that wait: they wait equally long

    async def enter(self) -> Entry:
        """Takes a place, waiting for one where it may be free soon. After ENTERED the caller must `leave`."""
        now = self._loop.time()
        if self._free:
            self._free -= 1
            self._moved_at = now
            return Entry.ENTERED
        if now < self._shut_until or now - self._moved_at > self._stuck_seconds:
            return Entry.TOO_LATE
        if len(self._queue) >= self._queue_max:
            return Entry.QUEUE_FULL
        told: asyncio.Future[Entry] = self._loop.create_future()
        waiter = (now + self._wait_seconds, told)
        self._queue.append(waiter)
        self._watch()
        try:
            return await told
        except asyncio.CancelledError:
            self._withdraw(waiter)
            raise

    def leave(self) -> None:
        """Gives a place back, to the one that waits longest."""
        self._moved_at = self._loop.time()
        while self._queue:
            if self._tell(self._queue.popleft(), Entry.ENTERED):
                return
        self._free += 1

    def _withdraw(self, waiter: Waiter) -> None:
        _, told = waiter
        if not told.cancelled() and told.result() is Entry.ENTERED:
            self.leave()  # It had been given a place already: without this, nobody would ever have it again.
        elif waiter in self._queue:
            self._queue.remove(waiter)

    def _tell(self, waiter: Waiter, entry: Entry) -> bool:
        """False where it is not waiting any more: it was cancelled, and did not run since."""
        _, told = waiter
        if told.done():
            return False
        told.set_result(entry)
        return True

    def _watch(self) -> None:
        if self._timer is None and self._queue:
            ends, _ = self._queue[0]
            self._timer = self._loop.call_at(ends, self._send_away)

    def _send_away(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._queue:
            ends, _ = waiter = self._queue[0]
            if ends > now:
                break
            self._queue.popleft()
            if self._tell(waiter, Entry.TOO_LATE):
                self._shut_until = now + self._shut_seconds
        self._watch()
