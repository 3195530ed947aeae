"""What each Core process repeats in the background."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from runtime.actors import starts
from runtime.actors.engine import Engine
from runtime.operations import purging
from runtime.operations.budget_alerts import thresholds
from runtime.operations.campaigns import analytics
from runtime.operations.desk import erasure
from runtime.operations.leaderboards import ending
from runtime.operations.reporting import counting
from runtime.stores import publisher


class Job(NamedTuple):
    """`name` is its name in logs and metrics."""

    name: str
    run: Callable[[Engine], Awaitable[None]]
    every_seconds: float


def jobs() -> tuple[Job, ...]:
    """Core's jobs."""
    return (
        Job(analytics.JOB, analytics.count_all, analytics.EVERY_SECONDS),
        Job(counting.JOB, counting.count_all, analytics.EVERY_SECONDS),
        Job(ending.JOB, ending.finalize_all, ending.EVERY_SECONDS),
        Job(thresholds.JOB, thresholds.look_all, thresholds.EVERY_SECONDS),
        Job(erasure.JOB, erasure.retain, erasure.EVERY_SECONDS),
        Job("stream trimming", _trim, publisher.TRIM_SECONDS),
        Job(starts.JOB, _keep_starts, starts.EVERY_SECONDS),
        Job("login purge", purging.purge, purging.PURGE_SECONDS),
    )


async def _trim(engine: Engine) -> None:
    """Takes events off their streams that are older than STREAM_HOURS."""
    engine.publisher.trim(engine.clock.now(), engine.settings.stream_hours)


async def _keep_starts(engine: Engine) -> None:
    await engine.starts.keep()
