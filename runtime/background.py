"""Background jobs of a process, on one scheduler (aiojobs).

A repeated job runs again at its next time after a failure; a one-time job is not restarted here. Either way failures
are logged and counted. Work that belongs to a request, a batch or a connection (mailboxes, the committer, rate limits,
the ephemeral store's lanes, stream reads) runs in plain tasks that end with their owner: a job costs four times as much
as a task (22 us).
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
"""How long a cancelled job may take to end."""

# Not `job`: Prometheus has a label of that name, and would rename this one.
FAILURES: Final = Counter("tombola_background_failures", "Failures of background jobs, by job.", ["task"])

log = structlog.get_logger(__name__)

Work = Callable[[], Awaitable[Any]]


class Background:
    """The process's scheduler. `close` when done."""

    def __init__(self) -> None:
        self._scheduler = Scheduler(limit=None, close_timeout=CLOSE_SECONDS)
        self._running: list[str] = []

    async def repeat(self, name: str, work: Work, every_seconds: float) -> None:
        """Runs the work every `every_seconds` until `close`, first after one interval."""
        await self._scheduler.spawn(self._tracked(name, repeat(name, work, every_seconds)), name=name)

    async def run(self, name: str, work: Work) -> Job[None]:
        """Runs the work once. The job ends with the work and raises nothing."""
        return await self._scheduler.spawn(self._tracked(name, _run(name, work)), name=name)

    async def close(self) -> None:
        """Cancels running jobs; returns when they have ended, at the latest after twice CLOSE_SECONDS."""
        # Not awaited directly: the scheduler waits for ever for a job that swallows its cancellation, and does not
        # report a job that has a waiter.
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
    """Runs the work every `every_seconds` until cancelled, also after a failure."""
    if at_once:
        await _run(name, work)
    while True:
        await asyncio.sleep(every_seconds)
        await _run(name, work)


async def _run(name: str, work: Work) -> None:
    FAILURES.labels(name)  # Create the series now: one that first appears with a failure cannot be alerted on.
    await attempt(name, work())


async def attempt(name: str, work: Awaitable[Any], **subject: str) -> bool:
    """Runs a job's work, or its work on one `subject`. Returns whether it succeeded.

    A failure is logged and counted but not raised, so it does not block other subjects.
    """
    try:
        await work
    except Exception as error:
        FAILURES.labels(name).inc()
        if isinstance(error, Fault) and error.status is Status.UNAVAILABLE:
            log.warning("background_job_failed", job=name, error=error.message, **subject)  # A store is down.
        else:
            log.error("background_job_failed", job=name, exc_info=error, **subject)
        return False
    return True
