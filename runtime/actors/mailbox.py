"""Keyed actors: one mailbox and one task per key, for as long as there is mail.

A batch takes the whole mailbox, up to the batch limit, so that work which arrives while a batch waits
for the database is done together in the next. That is all that an actor is for: it makes things
cheap. It never makes them right, since another process may run an actor of the same key.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar

import structlog

from runtime import trace
from runtime.errors import Fault, Status
from runtime.stores.database import Guarded

Key = TypeVar("Key")
Request = TypeVar("Request")
State = TypeVar("State")

log = structlog.get_logger(__name__)


class Work(Generic[Request]):
    """A request that waits for its answer. Its batch must `answer` or `refuse` it.

    trace_id: of the request. A batch runs in the context of whoever woke its actor, so it is kept here.
    """

    __slots__ = ("request", "future", "trace_id")

    def __init__(self, request: Request, future: asyncio.Future[Any]) -> None:
        self.request = request
        self.future = future
        self.trace_id = trace.current.get()

    def answer(self, reply: Any) -> None:
        # A waiter that was cancelled changes nothing: its work was done all the same.
        if not self.future.done():
            self.future.set_result(reply)

    def refuse(self, error: BaseException) -> None:
        if not self.future.done():
            if isinstance(error, Fault | Guarded):
                # Its frames hold this work, and the work its error: a circle that only the collector could break.
                error.__traceback__ = None
            self.future.set_exception(error)

    @property
    def answered(self) -> bool:
        return self.future.done()

    @property
    def given_up(self) -> bool:
        """True where it was refused while it waited: doing it now would be for nobody."""
        return self.future.done() and not self.future.cancelled()


class _Box(Generic[Request, State]):
    __slots__ = ("state", "waiting", "wake", "task", "batches")

    def __init__(self, state: State) -> None:
        self.state = state
        self.waiting: deque[Work[Request]] = deque()
        self.wake: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None
        self.batches: set[asyncio.Task[None]] = set()


class Mailboxes(Generic[Key, Request, State]):
    """The actors of one kind.

    process_batch(state, works) does the work; what it raises refuses those of its works that it left
    unanswered. new(key) makes an actor's state, which leaves with the actor after idle_seconds.
    An actor that is `futile` leaves at once: ids are anybody's to invent, and what is not there needs no actor.
    limit bounds what one mailbox holds, batch_limit what one batch takes. overlap: how many batches of one
    actor may be under way at once, so that one decides while another waits for the database.
    """

    def __init__(
        self,
        process_batch: Callable[[State, list[Work[Request]]], Awaitable[None]],
        new: Callable[[Key], State],
        *,
        limit: int,
        batch_limit: int,
        idle_seconds: float,
        overlap: int = 1,
        futile: Callable[[State], bool] = lambda state: False,
    ) -> None:
        self._overlap = overlap
        self._futile = futile
        self._process_batch = process_batch
        self._new = new
        self._limit = limit
        self._batch_limit = batch_limit
        self._idle_seconds = idle_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._boxes: dict[Key, _Box[Request, State]] = {}

    def __len__(self) -> int:
        return len(self._boxes)

    def states(self) -> Iterator[State]:
        """What each actor that is there remembers."""
        return (box.state for box in self._boxes.values())

    def post(self, key: Key, request: Request) -> asyncio.Future[Any]:
        """Puts a request into the key's mailbox; the future is its answer.

        UNAVAILABLE OVERLOADED, at once, where the mailbox is full.
        """
        box = self._boxes.get(key)
        if box is None:
            box = self._boxes[key] = _Box(self._new(key))
        if len(box.waiting) >= self._limit:
            raise Fault(
                Status.UNAVAILABLE, "OVERLOADED", "too many requests are waiting; try again", retry_after_seconds=1
            )
        loop = self._loop
        if loop is None:
            # Kept: asking for the running loop is a system call before Python 3.12.
            loop = self._loop = asyncio.get_running_loop()
        work = Work(request, loop.create_future())
        box.waiting.append(work)
        if box.task is None:
            box.task = loop.create_task(self._run(key, box))
        elif box.wake is not None and not box.wake.done():
            box.wake.set_result(None)
        return work.future

    async def drain(self) -> None:
        """Returns when every mailbox is empty and every batch has ended."""
        while busy := [box.task for box in self._boxes.values() if box.task is not None and not _idle(box)]:
            await asyncio.wait(busy, timeout=0.05)
        for box in list(self._boxes.values()):
            if box.task is not None:
                box.task.cancel()

    async def _run(self, key: Key, box: _Box[Request, State]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while box.waiting:
                taken = [box.waiting.popleft() for _ in range(min(len(box.waiting), self._batch_limit))]
                works = [work for work in taken if not work.given_up]
                if not works:
                    continue
                batch = loop.create_task(self._process(key, box.state, works))
                box.batches.add(batch)
                batch.add_done_callback(partial(self._ended, box))
                if len(box.batches) >= self._overlap:
                    await asyncio.wait(box.batches, return_when=asyncio.FIRST_COMPLETED)
            if not box.batches and self._futile(box.state):
                del self._boxes[key]
                return
            box.wake = loop.create_future()
            timer = loop.call_later(self._idle_seconds, _wake, box.wake)
            try:
                await box.wake
            finally:
                timer.cancel()
                box.wake = None
            # No await between this check and the delete: a request posted in between would be lost.
            if not box.waiting and not box.batches:
                del self._boxes[key]
                return

    def _ended(self, box: _Box[Request, State], batch: asyncio.Task[None]) -> None:
        box.batches.discard(batch)
        if box.wake is not None and not box.batches and self._futile(box.state):
            _wake(box.wake)

    async def _process(self, key: Key, state: State, works: list[Work[Request]]) -> None:
        """One batch, which leaves no work without an answer."""
        try:
            await self._process_batch(state, works)
        except Exception as error:
            if not isinstance(error, Fault):
                log.exception("batch_failed", key=str(key))
            for work in works:
                work.refuse(error)
        else:
            for work in works:
                if not work.answered:
                    work.refuse(AssertionError("a batch left a request without an answer"))


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _idle(box: _Box[Any, Any]) -> bool:
    return not box.waiting and not box.batches and box.wake is not None
