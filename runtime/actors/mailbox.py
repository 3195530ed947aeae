"""Keyed actors: one mailbox per key, for as long as requests arrive, and one task per batch.

A batch takes the whole mailbox, up to the batch limit, so requests that arrive while a batch waits for the database are
processed together in the next one. Actors only save work. They guarantee nothing, because another process may run an
actor for the same key.

An actor has no task: requests and the ends of batches schedule the next batch. With a task that slept
between batches, a play in one of fifty games cost 1.09 times the CPU.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from functools import partial
from itertools import takewhile
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

    trace_id, caller: of the request (trace.py). A batch runs in the context of the request that scheduled it. holder:
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
    """scheduled: whether a batch is about to take the requests that wait."""

    __slots__ = ("state", "waiting", "scheduled", "batches")

    def __init__(self, state: State) -> None:
        self.state = state
        self.waiting: deque[Work[Request]] = deque()
        self.scheduled = False
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
        self._idle_until: dict[Key, float] = {}  # Equal durations: the first is due first.
        self._leaving: asyncio.TimerHandle | None = None
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
        work = Work(request, self._running_loop().create_future())
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

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            # Kept: asking for the running loop is a system call before Python 3.12.
            self._loop = asyncio.get_running_loop()
        return self._loop

    def _add(self, key: Key, box: _Box[Request, State], work: Work[Request]) -> None:
        work.holder = box
        box.waiting.append(work)
        self._schedule(key, box)

    async def drain(self) -> None:
        """Returns when every mailbox is empty and every batch has ended. A later request gets a new actor."""
        while any(box.waiting or box.batches for box in self._boxes.values()):
            batches = [batch for box in self._boxes.values() for batch in box.batches]
            await (asyncio.wait(batches, timeout=0.05) if batches else asyncio.sleep(0))
        self._boxes.clear()
        self._idle_until.clear()
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None

    def _schedule(self, key: Key, box: _Box[Request, State]) -> None:
        """Schedules a batch if requests wait and another one may run."""
        if box.waiting and not box.scheduled and len(box.batches) < self.overlap:
            box.scheduled = True
            # Not now: requests that arrive in this iteration of the event loop and the next share the batch.
            self._running_loop().call_soon(self._start, key, box)

    def _start(self, key: Key, box: _Box[Request, State]) -> None:
        batch = self._running_loop().create_task(self._process(key, box))
        box.batches.add(batch)
        batch.add_done_callback(partial(self._ended, key, box))

    def _ended(self, key: Key, box: _Box[Request, State], batch: asyncio.Task[None]) -> None:
        box.batches.discard(batch)
        self._schedule(key, box)
        self._rest(key, box)

    def _take(self, box: _Box[Request, State]) -> list[Work[Request]]:
        """Takes the requests of a batch out of the mailbox."""
        box.scheduled = False
        taken = [box.waiting.popleft() for _ in range(min(len(box.waiting), self._batch_limit))]
        return [work for work in taken if not work.expired]

    def _rest(self, key: Key, box: _Box[Request, State]) -> None:
        """Drops an actor that has nothing to do: at once if it is unneeded, otherwise after `idle_seconds`."""
        if box.waiting or box.batches:
            return
        self._idle_until.pop(key, None)  # So that it becomes the last.
        if self.is_unneeded(box.state):
            self._boxes.pop(key, None)
            return
        self._idle_until[key] = due = self._running_loop().time() + self._idle_seconds
        if self._leaving is None:
            # One timer for all: a timer per rest costs more than the mailbox itself.
            self._leaving = self._running_loop().call_at(due, self._drop_idle)

    def _drop_idle(self) -> None:
        loop, self._leaving = self._running_loop(), None
        now = loop.time()
        for key, _ in list(takewhile(lambda item: item[1] <= now, self._idle_until.items())):
            del self._idle_until[key]
            box = self._boxes[key]
            # A busy actor rests again later. No await in between: a request that arrived then would be lost.
            if not box.waiting and not box.batches:
                del self._boxes[key]
        if self._idle_until:
            self._leaving = loop.call_at(next(iter(self._idle_until.values())), self._drop_idle)

    async def _process(self, key: Key, box: _Box[Request, State]) -> None:
        """Processes one batch and makes sure that every request is answered or moved to another mailbox."""
        works = self._take(box)
        self._schedule(key, box)  # The rest, if more requests wait than one batch takes.
        if not works:
            return
        self._sizes.observe(len(works))
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
