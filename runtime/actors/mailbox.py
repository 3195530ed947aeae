"""Keyed actors: one mailbox and one task per key, for as long as there is mail.

A batch takes the whole mailbox, up to the batch limit, so that work which arrives while a batch waits
for the database is done together in the next. That is all that an actor is for: it makes things
cheap. It never makes them right, since another process may run an actor of the same key.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Hashable, Iterator
from functools import partial
from typing import Any, ClassVar, Final, Generic, TypeVar

import structlog

from runtime import trace
from runtime.errors import Fault, Status
from runtime.stores.database import Guarded, StoreUnavailable

Key = TypeVar("Key", bound=Hashable)
Request = TypeVar("Request")
State = TypeVar("State")

LATE: Final = "there was no answer in time; it may be done all the same: ask again under the same Idempotency-Key"

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


class Mailboxes(ABC, Generic[Key, Request, State]):
    """The actors of one kind; a subclass says which.

    limit bounds what one mailbox holds, batch_limit what one batch takes. An actor's state leaves with the actor after
    idle_seconds. answer_seconds: after so long an answer is given up, UNAVAILABLE; None: never. Each wait of a batch
    for the store is bounded, but a batch has several, and behind it others wait: while the store is frozen they would
    add up. What the actor has begun by then goes on; what it has not, it leaves.
    """

    overlap: ClassVar[int] = 1
    """How many batches of one actor may be under way at once: one decides while another waits for the database."""

    def __init__(
        self, *, limit: int, batch_limit: int, idle_seconds: float, answer_seconds: float | None = None
    ) -> None:
        self._limit = limit
        self._batch_limit = batch_limit
        self._idle_seconds = idle_seconds
        self._deadlines = None if answer_seconds is None else Deadlines(answer_seconds)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._boxes: dict[Key, _Box[Request, State]] = {}

    @abstractmethod
    def new_state(self, key: Key) -> State:
        """What a new actor of this key remembers."""

    @abstractmethod
    async def process_batch(self, state: State, works: list[Work[Request]]) -> None:
        """Does the work. What it raises refuses those of its works that it left unanswered."""

    def is_futile(self, state: State) -> bool:
        """Whether the actor leaves at once: ids are anybody's to invent, and what is not there needs no actor."""
        return False

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
            box = self._boxes[key] = _Box(self.new_state(key))
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
        if self._deadlines is not None:
            self._deadlines.watch(work.future)
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
                if len(box.batches) >= self.overlap:
                    await asyncio.wait(box.batches, return_when=asyncio.FIRST_COMPLETED)
            if not box.batches and self.is_futile(box.state):
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
        if box.wake is not None and not box.batches and self.is_futile(box.state):
            _wake(box.wake)

    async def _process(self, key: Key, state: State, works: list[Work[Request]]) -> None:
        """One batch, which leaves no work without an answer."""
        try:
            await self.process_batch(state, works)
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


class Deadlines:
    """Gives up each watched answer that is not there after `seconds`. For one event loop.

    One timer for all: a timer of its own costs an answer more than its way through the mailbox, and hardly any fires.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
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
                answer.set_exception(StoreUnavailable(LATE, sent=True))
        self._ticking = bool(waiting)
        if waiting:
            loop.call_at(waiting[0][0], self._tick, loop)
