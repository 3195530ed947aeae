"""The background jobs of Core.

A job whose work belongs to the installation runs in one Core process at a time (runtime/stores/leases.py). A process
that was suspended for longer than its lease may still run it beside the new holder. That is safe:

| Job | Because |
|---|---|
| counting, figures | the watermark's row is locked, and advances in the transaction that counts: no play counts twice |
| views | a set of counts is added in the statement that stores its id: no set is added twice |
| referrals | a payment is one conditional statement, and its numbers and contacts are unique rows |
| ending, draws | a board or draw closes by one conditional update, and each prize is paid by another |
| log | the log's row is locked, and a row has at most one leaf (a unique index) |
| stamps | a checkpoint has at most one stamp (its key) |
| limits | the tenant's mark is locked, and a threshold is marked by the statement that writes its event |
| asset removal | an object's key is used once, and a repeated delete has no effect |
| retention | idleness is checked again under the player's lock. A second erasure finds nothing to erase |
| stream trimming, login purge | a repeated delete has no effect |
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from runtime.actors import starts
from runtime.actors.engine import Engine
from runtime.operations import purging
from runtime.operations.assets import stored_objects
from runtime.operations.budget_alerts import thresholds
from runtime.operations.campaigns import analytics
from runtime.operations.desk import erasure
from runtime.operations.draws import lifecycle as draws
from runtime.operations.leaderboards import auto_finalize
from runtime.operations.log import appending, stamping
from runtime.operations.quests import referrals
from runtime.operations.reporting import counting, views
from runtime.stores import publisher


class Job(NamedTuple):
    """A job. `name` appears in logs and metrics. leased: one process at a time runs it."""

    name: str
    run: Callable[[Engine], Awaitable[None]]
    every_seconds: float
    leased: bool = True


def jobs() -> tuple[Job, ...]:
    """Core's jobs."""
    return (
        Job(analytics.JOB, analytics.count_all, analytics.EVERY_SECONDS),
        Job(counting.JOB, counting.count_all, analytics.EVERY_SECONDS),
        Job(auto_finalize.JOB, auto_finalize.finalize_all, auto_finalize.EVERY_SECONDS),
        Job(referrals.JOB, referrals.Payer().pay_all, referrals.EVERY_SECONDS),
        Job(draws.JOB, draws.finish_due, draws.EVERY_SECONDS),
        Job(thresholds.JOB, thresholds.check_all, thresholds.EVERY_SECONDS),
        Job(views.JOB, views.fold_all, views.EVERY_SECONDS),
        Job(erasure.JOB, erasure.retain, erasure.EVERY_SECONDS),
        Job(appending.JOB, appending.Appender().append_all, appending.EVERY_SECONDS),
        Job(stamping.JOB, stamping.stamp_all, stamping.EVERY_SECONDS),
        Job(stored_objects.JOB, stored_objects.remove_all, stored_objects.EVERY_SECONDS),
        Job("stream trimming", _trim, publisher.TRIM_SECONDS),
        Job(starts.JOB, _write_starts, starts.EVERY_SECONDS, leased=False),  # Counts of this process.
        Job("login purge", purging.purge, purging.PURGE_SECONDS),
    )


async def _trim(engine: Engine) -> None:
    """Deletes events older than STREAM_HOURS from the streams."""
    engine.publisher.trim(engine.clock.now(), engine.settings.stream_hours)


async def _write_starts(engine: Engine) -> None:
    await engine.starts.write()
