"""Leases of background jobs: each job runs in one process at a time.

A job that sweeps all tenants would otherwise run in every process, and its load on the database would grow with the
number of processes. A process takes a job's lease when the job is due, and renews its leases every RENEW_SECONDS, also
during a long run. The leases of a dead process expire by the database's clock after LEASE_SECONDS, and another process
takes over. A process that stops releases its leases. A job runs per database, under a lease there.

A lease saves work but excludes nothing: a process that is suspended during a run continues it beside the new holder. So
every job must be correct if it runs twice at once. Each takes a row lock or writes conditionally; runtime/jobs.py
says which.
"""

from __future__ import annotations

import time
from typing import Final

import sql
from runtime import ids
from runtime.background import Work
from runtime.stores.database import Database
from sql.migrate import NO_TENANT

LEASE_SECONDS: Final = 30.0
"""How long a dead process's jobs wait, at most, until another process may run them."""

RENEW_SECONDS: Final = LEASE_SECONDS / 3

_SQL: Final = sql.load("leases")


class Leases:
    """The leases of this process. Call `renew` every RENEW_SECONDS, and `release` at the end."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._holder_id = ids.make("holder")
        self._by_database: dict[str, dict[str, float]] = {}

    @property
    def _held_until(self) -> dict[str, float]:
        """When the leases in the chosen database end: by job, by time.monotonic; 0: another process holds it."""
        return self._by_database.setdefault(self._database.here().name, {})

    async def run(self, job: str, work: Work) -> None:
        """Runs the work unless another process holds the job's lease. Takes the lease if it is free."""
        if time.monotonic() >= self._held_until.setdefault(job, 0.0):
            await self.renew()
        if time.monotonic() < self._held_until[job]:
            await work()

    async def renew(self) -> None:
        """Takes or renews the leases of the jobs that this process runs, with one statement."""
        jobs = list(self._held_until)
        if not jobs:
            return
        # Counted from before the statement, so a lease never ends here later than in the database.
        until = time.monotonic() + LEASE_SECONDS
        rows = await self._database.fetch(_SQL["acquire"], NO_TENANT, jobs, self._holder_id, LEASE_SECONDS)
        held = {row["job"] for row in rows}
        self._held_until.update({job: until if job in held else 0.0 for job in jobs})

    async def release(self) -> None:
        """Releases all leases, so that another process continues at once."""
        self._held_until.clear()
        await self._database.execute(_SQL["release"], NO_TENANT, self._holder_id)
