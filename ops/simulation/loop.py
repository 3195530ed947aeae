"""The virtual event loop: no sockets and no waiting. Time jumps to the next timer, and a seed decides what runs next.

The scheduler picks at random among the ready callbacks. It keeps what asyncio guarantees: the callbacks of a future run
in the order in which they were added, on which waiters may rely. It does not keep the order in which different futures
were set, which no loop with sockets guarantees.

Everything runs in an `Incarnation`: one life of one process. A dead process executes no further step, not even
`finally` blocks; a suspended one keeps its ready callbacks until it resumes.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

STEP_SECONDS: Final = 0.000_002
"""Duration of a step: time always advances while something runs."""

STEPS_MAX: Final = 4_000_000
"""Maximum steps of a run; more indicate an endless loop."""


class Stuck(Exception):
    """Nothing is ready and no timer is left, or the steps never end."""


class Incarnation:
    """One life of a process. wall_seconds: offset of its host's clock; `alive`: only then does it run."""

    __slots__ = ("name", "number", "host", "alive", "still_until", "wall_seconds", "context")

    def __init__(self, host: str, number: int = 0) -> None:
        self.name = f"{host}/{number}"
        self.host = host
        self.number = number
        self.alive = True
        self.still_until = 0.0
        self.wall_seconds = 0.0
        context = copy_context()
        context.run(INCARNATION.set, self)
        self.context: Context = context


INCARNATION: ContextVar[Incarnation] = ContextVar("incarnation")

# Hashed by number instead of address, so that a set of them has the same order in every run.
_numbers = itertools.count()


class _Numbered:
    __slots__ = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.number = next(_numbers)  # type: ignore[misc]
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class _Task(_Numbered, asyncio.Task[Any]):
    __slots__ = ("number",)


class _Future(_Numbered, asyncio.Future[Any]):
    __slots__ = ("number",)


class _Handle(asyncio.Handle):
    """A callback, without asyncio's debugging data because many are created."""

    __slots__ = ()

    def __init__(self, callback: Callable[..., object], args: Any, loop: Any, context: Context | None) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = self._source_traceback = None


class _Timer(_Handle, asyncio.TimerHandle):
    """A callback at a given time."""

    __slots__ = ()

    def __init__(self, when: float, callback: Callable[..., object], args: Any, loop: Any, context: Any) -> None:
        super().__init__(callback, args, loop, context)
        self._when = when
        self._scheduled = False

    def cancel(self) -> None:
        self._cancelled = True


class SimulatedLoop(asyncio.BaseEventLoop):
    """The loop of one run. `shuffled` False: first in, first out, like asyncio's own."""

    def __init__(self, seed: str, *, shuffled: bool = True) -> None:
        super().__init__()
        global _numbers
        _numbers = itertools.count(1)
        self.now = 0.0
        self.steps = 0
        self._draw = Random(f"{seed}/schedule").random
        self._shuffled = shuffled
        self._ready: list[Any] = []
        self._scheduled: list[Any] = []
        self._order = itertools.count()
        self._timers: list[tuple[float, int, Any]] = []
        self.tasks: list[asyncio.Task[Any]] = []
        """Unfinished tasks, including those of dead processes: collecting these would run their `finally` blocks."""
        self.errors: list[dict[str, Any]] = []
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]
        self.set_exception_handler(lambda loop, context: self.errors.append(context))

    # -- asyncio's interface -------------------------------------------------------------------

    def time(self) -> float:
        return self.now

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(loop=self)

    def _make_task(self, loop: Any, coroutine: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
        task = _Task(coroutine, loop=self, **options)
        self.tasks.append(task)
        if len(self.tasks) > 4096:
            self.tasks = [one for one in self.tasks if not one.done()]
        return task

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, context)
        # Ties are broken by insertion order; heapq alone would compare the timers.
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def _check_closed(self) -> None:
        """Does nothing: tasks dropped after a run may still try to use the closed loop."""

    def _write_to_self(self) -> None:
        pass

    def _process_events(self, events: Any) -> None:
        pass

    # -- a step --------------------------------------------------------------------------------

    def _run_once(self) -> None:
        """Runs all steps until the end of the run."""
        while not self._stopping:  # type: ignore[attr-defined]
            handle = self._next()
            self.now += STEP_SECONDS
            self.steps += 1
            if self.steps > STEPS_MAX:
                raise Stuck(f"{self.steps} steps, and no end")
            try:
                handle._context.run(handle._callback, *handle._args)
            except Exception as error:
                self.call_exception_handler({"message": "a callback failed", "exception": error, "handle": handle})

    def _next(self) -> Any:
        while True:
            while not self._ready:
                self._jump()
            handle = self._choose()
            if handle._cancelled:
                continue
            incarnation = handle._context.get(INCARNATION)
            if incarnation is None:
                return handle
            if not incarnation.alive:
                continue
            if incarnation.still_until > self.now:
                self.call_at(incarnation.still_until, self._ready.append, handle)
                continue
            return handle

    def _choose(self) -> Any:
        ready = self._ready
        if len(ready) == 1 or not self._shuffled:
            return ready.pop(0)
        nth = int(self._draw() * len(ready))
        about = _future_of(ready[nth])
        if about is not None:
            nth = next(place for place, handle in enumerate(ready) if _future_of(handle) is about)
        return ready.pop(nth)

    def _jump(self) -> None:
        """Jumps to the next timer and makes all due timers ready."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        if not timers:
            raise Stuck("nothing is ready, and no timer is left")
        self.now = max(self.now, timers[0][0])
        while timers and timers[0][0] <= self.now:
            timer = heapq.heappop(timers)[2]
            if not timer._cancelled:
                self._ready.append(timer)

    # -- processes -----------------------------------------------------------------------------

    def spawn(self, incarnation: Incarnation, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task of a process. It never runs if the process is dead."""
        return self.create_task(work, context=incarnation.context.copy())

    def stand_still(self, incarnation: Incarnation, seconds: float) -> None:
        """Suspends a process, as by swapping, SIGSTOP or a paused machine."""
        incarnation.still_until = max(incarnation.still_until, self.now + seconds)

    def kill(self, incarnation: Incarnation) -> None:
        """The process executes no further step."""
        incarnation.alive = False

    def abandon(self) -> None:
        """Drops everything left after a run. What `finally` blocks do then no longer matters."""
        for task in self.tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.tasks, self._ready, self._timers, self.errors = [], [], [], []


def _future_of(handle: Any) -> Any:
    """The future whose callback this is; None for a task's step or a timer."""
    args = handle._args
    if args and isinstance(args[0], asyncio.Future):
        return args[0]
    return None
