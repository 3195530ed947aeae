"""Keyed actors: one mailbox and one task per key, for as long as requests arrive.

A batch takes the whole mailbox, up to the batch limit, so requests that arrive while a batch waits for the database are
processed together in the next one. Actors only save work. They guarantee nothing, because another process may run an
actor for the same key.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from functools import partial
from typing import Any, ClassVar, Final, Generic, TypeVar
from weakref import WeakSet

import structlog
from prometheus_client import REGISTRY
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from runtime import trace
from runtime.errors import Fault, Status
from runtime.metrics import Histogram
from runtime.stores.database import Guarded, StoreUnavailable

Key = TypeVar("Key", bound=Hashable)
Request = TypeVar("Request")
State = TypeVar("State")

LATE: Final = "no answer in time; the request may have succeeded: retry with the same Idempotency-Key"

BATCH_SIZE: Final = Histogram(
    "tombola_batch_size", "Requests in a batch.", ["actors"], (1, 2, 4, 8, 16, 32, 64, 128, 256)
)

log = structlog.get_logger(__name__)


class Work(Generic[Request]):
    """A request that waits for its answer. Its batch must `answer` or `refuse` it.

    trace_id, caller: of the request (trace.py). An actor runs in the context of the request that woke it. holder:
    its current mailbox or batch.
    """

    __slots__ = ("request", "future", "trace_id", "caller", "holder")

    def __init__(self, request: Request, future: asyncio.Future[Any]) -> None:
        self.request = request
        self.future = future
        self.trace_id = trace.current.get()
        self.caller = trace.caller.get()
        self.holder: object = None

    def answer(self, reply: Any) -> None:
        # A cancelled waiter changes nothing: its work is done anyway.
        if not self.future.done():
            self.future.set_result(reply)

    def refuse(self, error: BaseException) -> None:
        if not self.future.done():
            if isinstance(error, Fault | Guarded):
                # Its frames refer to this work item, which refers to the error: a cycle that only the collector frees.
                error.__traceback__ = None
            self.future.set_exception(error)

    @property
    def answered(self) -> bool:
        return self.future.done()

    @property
    def expired(self) -> bool:
        """Whether it was refused while it waited (answer deadline); processing it is then useless."""
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
    """The actors of one kind, defined by a subclass.

    limit: requests that one mailbox holds. batch_limit: requests in one batch. An idle actor and its state are dropped
    after idle_seconds. answer_seconds: a request without an answer by then fails with UNAVAILABLE; None: no deadline.
    Each wait of a batch for the store is bounded, but waits and queued batches add up while the store is frozen. At the
    deadline, batches already started continue; requests still in the mailbox are skipped.
    """

    name: ClassVar[str] = "other"
    """The label of these actors in metrics."""

    overlap: ClassVar[int] = 1
    """Concurrent batches of one actor: one decides while another waits for the database."""

    def __init__(
        self, *, limit: int, batch_limit: int, idle_seconds: float, answer_seconds: float | None = None
    ) -> None:
        self._limit = limit
        self._batch_limit = batch_limit
        self._idle_seconds = idle_seconds
        self._deadlines = None if answer_seconds is None else Deadlines(answer_seconds)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._boxes: dict[Key, _Box[Request, State]] = {}
        self._sizes = BATCH_SIZE.series(self.name)
        DEPTHS.mailboxes.add(self)

    @abstractmethod
    def new_state(self, key: Key) -> State:
        """The initial state of a new actor."""

    @abstractmethod
    async def process_batch(self, state: State, works: list[Work[Request]]) -> None:
        """Processes a batch. An exception refuses the requests that are still unanswered."""

    def is_unneeded(self, state: State) -> bool:
        """Whether to drop the idle actor at once: its object does not exist. Invented ids must not fill memory."""
        return False

    def __len__(self) -> int:
        return len(self._boxes)

    def depths(self) -> Iterator[int]:
        """How many requests wait in each mailbox."""
        return (len(box.waiting) for box in self._boxes.values())

    @property
    def limit(self) -> int:
        """How many requests one mailbox holds; further ones are refused."""
        return self._limit

    def states(self) -> Iterator[State]:
        """The state of each live actor."""
        return (box.state for box in self._boxes.values())

    def post(self, key: Key, request: Request) -> asyncio.Future[Any]:
        """Puts a request into the key's mailbox. The future is its answer.

        UNAVAILABLE OVERLOADED, at once, if the mailbox is full.
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
        self._add(key, box, work)
        if self._deadlines is not None:
            self._deadlines.watch(work.future)
        return work.future

    def move(self, key: Key, work: Work[Request]) -> None:
        """Moves a posted request to another mailbox, even a full one."""
        box = self._boxes.get(key)
        if box is None:
            box = self._boxes[key] = _Box(self.new_state(key))
        self._add(key, box, work)

    def is_full(self, key: Key) -> bool:
        """Whether `post` refuses a request to this mailbox."""
        box = self._boxes.get(key)
        return box is not None and len(box.waiting) >= self._limit

    def _add(self, key: Key, box: _Box[Request, State], work: Work[Request]) -> None:
        work.holder = box
        box.waiting.append(work)
        if box.task is None:
            box.task = asyncio.get_running_loop().create_task(self._run(key, box))
        elif box.wake is not None and not box.wake.done():
            box.wake.set_result(None)

    async def drain(self) -> None:
        """Returns when every mailbox is empty and every batch has ended. A later request gets a new actor."""
        while busy := [box.task for box in self._boxes.values() if box.task is not None and not _idle(box)]:
            await asyncio.wait(busy, timeout=0.05)
        for box in self._boxes.values():
            if box.task is not None:
                box.task.cancel()
        # A cancelled actor left here would never answer, and a second drain would wait for it forever.
        self._boxes.clear()

    async def _run(self, key: Key, box: _Box[Request, State]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while box.waiting:
                taken = [box.waiting.popleft() for _ in range(min(len(box.waiting), self._batch_limit))]
                works = [work for work in taken if not work.expired]
                if not works:
                    continue
                self._sizes.observe(len(works))
                batch = loop.create_task(self._process(key, box, works))
                box.batches.add(batch)
                batch.add_done_callback(partial(self._ended, box))
                if len(box.batches) >= self.overlap:
                    await asyncio.wait(box.batches, return_when=asyncio.FIRST_COMPLETED)
            if not box.batches and self.is_unneeded(box.state):
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
        if box.wake is not None and not box.batches and self.is_unneeded(box.state):
            _wake(box.wake)

    async def _process(self, key: Key, box: _Box[Request, State], works: list[Work[Request]]) -> None:
        """Processes one batch and makes sure that every request is answered or moved to another mailbox."""
        batch = object()  # Not the mailbox: a request that was moved may be back in it.
        for work in works:
            work.holder = batch
        try:
            # For this batch's task only: its log lines and its commit's span are in the first request's trace.
            trace.current.set(works[0].trace_id)
            trace.caller.set(works[0].caller)
            await self.process_batch(box.state, works)
        except Exception as error:
            if not isinstance(error, Fault):
                log.exception("batch_failed", key=str(key))
            for work in works:
                if work.holder is batch:
                    work.refuse(error)
        else:
            for work in works:
                if not work.answered and work.holder is batch:
                    work.refuse(AssertionError("a batch did not answer a request"))


class Depths(Collector):
    """The requests that wait in mailboxes, counted at each scrape."""

    def __init__(self) -> None:
        self.mailboxes: WeakSet[Mailboxes[Any, Any, Any]] = WeakSet()
        REGISTRY.register(self)

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        waiting = GaugeMetricFamily("tombola_mailbox_waiting", "Requests in all mailboxes.", labels=["actors"])
        deepest = GaugeMetricFamily("tombola_mailbox_deepest", "Requests in the fullest mailbox.", labels=["actors"])
        limit = GaugeMetricFamily("tombola_mailbox_limit", "Requests that one mailbox holds.", labels=["actors"])
        kinds: dict[str, list[Mailboxes[Any, Any, Any]]] = {}
        for mailboxes in list(self.mailboxes):
            kinds.setdefault(mailboxes.name, []).append(mailboxes)
        for name, all_of_kind in kinds.items():
            depths = [depth for mailboxes in all_of_kind for depth in mailboxes.depths()]
            waiting.add_metric([name], sum(depths))
            deepest.add_metric([name], max(depths, default=0))
            limit.add_metric([name], all_of_kind[0].limit)
        yield from (waiting, deepest, limit)


DEPTHS: Final = Depths()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _idle(box: _Box[Any, Any]) -> bool:
    return not box.waiting and not box.batches and box.wake is not None


class Deadlines:
    """Fails each watched answer that is not set after `seconds`. For one event loop.

    All share one timer: a timer per answer costs more than the mailbox itself, and timers rarely fire.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: deque[tuple[float, asyncio.Future[Any]]] = deque()  # Equal durations: sorted by due time.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ticking = False

    def watch(self, answer: asyncio.Future[Any]) -> None:
        """Starts the deadline of an answer."""
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
