"""What a process does beside its requests: its background jobs, on one scheduler (aiojobs).

A job that repeats is tried again at its next time; one that runs to its end is somebody's to start anew. Either
way a failure is logged and counted. What belongs to a request, a batch or a connection (mailboxes, the committer,
rates, the ephemeral store's lanes, a stream's reading) is not here but a task where it began: it ends with what it
belongs to, and a job here costs four times as much as a task (22 us).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import structlog
from aiojobs import Job, Scheduler
from prometheus_client import Counter

from runtime.errors import Fault, Status

CLOSE_SECONDS: Final = 1.0
"""What a job gets for ending once it is cancelled."""

FAILURES: Final = Counter("tombola_background_failures", "Failures of background jobs, by job.", ["job"])

log = structlog.get_logger(__name__)

Work = Callable[[], Awaitable[Any]]


class Background:
    """The process's scheduler. `close` when done."""

    def __init__(self) -> None:
        self._scheduler = Scheduler(limit=None, close_timeout=CLOSE_SECONDS)
        self._running: list[str] = []

    async def repeat(self, name: str, work: Work, every_seconds: float) -> None:
        """Does the work every so often until `close`, the first time after so long."""
        await self._scheduler.spawn(self._tracked(name, repeat(name, work, every_seconds)), name=name)

    async def run(self, name: str, work: Work) -> Job[None]:
        """Does the work once. The job ends as the work does, and raises nothing."""
        return await self._scheduler.spawn(self._tracked(name, _run(name, work)), name=name)

    async def close(self) -> None:
        """Cancels what still runs, and returns when it has ended, or had twice CLOSE_SECONDS to."""
        # Not awaited: the scheduler itself waits without end for a job that swallows its cancellation, and says
        # nothing of one that somebody had waited for.
        closing = asyncio.ensure_future(self._scheduler.close())
        await asyncio.wait([closing], timeout=2 * CLOSE_SECONDS)
        for name in self._running:
            FAILURES.labels(name).inc()
            log.error("background_job_not_closed", job=name)

    async def _tracked(self, name: str, job: Coroutine[Any, Any, None]) -> None:
        self._running.append(name)
        try:
            await job
        finally:
            self._running.remove(name)


async def repeat(name: str, work: Work, every_seconds: float, *, at_once: bool = False) -> None:
    """Does the work every so often until cancelled, whatever becomes of it."""
    if at_once:
        await _run(name, work)
    while True:
        await asyncio.sleep(every_seconds)
        await _run(name, work)


async def _run(name: str, work: Work) -> None:
    FAILURES.labels(name)  # Now: a series that appears only with its first event cannot be alerted on.
    await attempt(name, work())


async def attempt(name: str, work: Awaitable[Any], **subject: str) -> bool:
    """Does the job's work, or its work on one of many (`subject`): True where it was done.

    A failure is logged and counted, and goes no further: it hinders none of the others.
    """
    try:
        await work
    except Exception as error:
        FAILURES.labels(name).inc()
        if isinstance(error, Fault) and error.status is Status.UNAVAILABLE:
            log.warning("background_job_failed", job=name, error=error.message, **subject)  # a store that is away
        else:
            log.error("background_job_failed", job=name, exc_info=error, **subject)
        return False
    return True
