"""The auditor: continuously checks the data for discrepancies, within a fixed share of the database's time.

It runs several passes over each tenant. One follows changes: it reads the rows of a time window that no running
transaction can still add to (settled_at()), with a small overlap, and checks the affected players, plays, counters and
tasks. The others scan all objects of a kind repeatedly. The scans find changes without a timestamp, and check a prize's
stock and a campaign's days, which are too expensive to check at each change.

Each step checks a few objects in one snapshot (runtime/operations/conservation). The auditor then rests long enough to
stay within AUDIT_SHARE: under load it falls behind (`tombola_audit_behind_seconds`) and catches up later. After a long
step, a pass waits until the others have had as much time. Any number of processes may be on standby, but only one runs
at a time, since each would use the whole share. Each pass has a lease too, and stores its position with each step.
After a crash another process continues and repeats the last step; violations already recorded are deduplicated.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import asyncpg
import structlog
from prometheus_client import Gauge

import sql
from runtime.actors.engine import Engine
from runtime.errors import Fault
from runtime.events import Event
from runtime.operations.conservation.checks import (
    CHECKS,
    CONSERVATION,
    KINDS,
    STEP_KEYS,
    STEP_SECONDS_MAX,
    next_keys,
    record_result,
    run_checks,
)
from runtime.stores.database import HOME, Database, StoreUnavailable, at
from runtime.streams.backoff import stopped_within
from sql.migrate import NO_TENANT

_SQL: Final = sql.load("violations")

CHANGED: Final = "changed"
"""The pass that follows changes; the others are named after their kinds."""

STEP_SECONDS: Final = 0.05
"""Target duration of a step; the number of objects per step adapts to it."""

STEP_KEYS_MAX: Final = 2_000

FOLLOW_SECONDS: Final = 2.0
"""The interval between checks for changes."""

SCAN_PAUSE_SECONDS: Final = 60.0
"""The pause of a scan after it reaches the end."""

WINDOW_SECONDS: Final = 20.0
WINDOW_SECONDS_MAX: Final = 120.0
WINDOW_KEYS: Final = 5_000
"""Length of a time window: its keys are in memory. It doubles after a window with few keys, up to the maximum."""

LATE_SECONDS: Final = 2.0
"""Overlap of each window, for transactions that were just starting when settled_at() ran."""

LATER_SECONDS: Final = 60.0
"""settled_at() ignores transactions that have written nothing for ten seconds. Their later writes carry the time
at which they began. So every LATER_SECONDS a window starts 2 * LATER_SECONDS earlier. This assumes that no transaction
reads for LATER_SECONDS before its first write."""

TURN: Final = "turn"
"""The lease, of no tenant, of the running process."""

LEASE_SECONDS: Final = 60.0
"""How soon another process takes over after a crash. A step and its rest may take longer and lose the lease."""

TAKE_SECONDS: Final = 10.0
"""The interval between attempts to take a lease that another process has."""

IDLE_SECONDS: Final = 0.5
REPORT_SECONDS: Final = 5.0
"""The interval between counts of open violations."""

BEHIND: Final = Gauge("tombola_audit_behind_seconds", "Age of the oldest change that is not checked yet.", ["database"])
OPEN: Final = Gauge("tombola_violations_open", "Open violations, by check.", ["check", "database"])
BEHIND.labels(HOME)
for _name in CHECKS:
    OPEN.labels(_name, HOME)

Publish: TypeAlias = Callable[[list[Event]], object]
"""Publishes the events of new violations."""

log = structlog.get_logger(__name__)


async def run(engine: Engine, stop: asyncio.Event) -> None:
    """Audits every database until `stop`. Waits while one is down."""
    about = (engine.database, engine.publisher.events, engine.settings.audit_share)
    await asyncio.gather(*(at(part, Auditor(*about).run(stop)) for part in engine.database.parts))


class _LeaseLost(Exception):
    """The step took longer than its lease: another process has taken over."""


class Auditor:
    """Runs every pass of every tenant in turn."""

    def __init__(self, database: Database, publish: Publish, share: float = 1.0) -> None:
        self._database = database
        self._publish = publish
        self._share = share
        self._passes: dict[tuple[str, str], _Pass] = {}
        self._turn = _Lease(database, NO_TENANT, TURN)
        self._take_at = 0.0  # by time.monotonic
        self._report_at = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Audits until `stop`, then releases its leases. Logs database errors and continues."""
        while not stop.is_set():
            seconds = 0.0
            try:
                seconds = await self.turn(stop)
                await self._report_open()
            except (Fault, asyncpg.PostgresError) as error:
                log.warning("audit_paused", error=str(error))
            if not seconds:
                await stopped_within(stop, IDLE_SECONDS)
        await self.release()

    async def release(self) -> None:
        """Releases all leases, so that another process continues at once."""
        for lease in (*(audit_pass.lease for audit_pass in self._passes.values()), self._turn):
            with suppress(Fault, asyncpg.PostgresError, _LeaseLost):
                await lease.release()

    async def turn(self, stop: asyncio.Event) -> float:
        """Runs a step of each due pass. Returns the seconds used: 0 if another process has the lease.

        Only one process runs at a time, so that AUDIT_SHARE is the total.
        """
        spent = 0.0
        try:
            if await self._has_turn():
                for tenant_id in await self._database.tenants(_SQL["tenants"], ""):
                    for audit_pass in self._passes_of(tenant_id):
                        if stop.is_set():
                            return spent
                        seconds = await at(tenant_id, audit_pass.step())
                        if seconds:
                            spent += seconds
                            rest = seconds * (1 / self._share - 1)
                            await self._turn.extend(rest)
                            await stopped_within(stop, rest)
        except _LeaseLost:
            log.warning("audit_turn_lost")
        behind = max((one.behind_seconds for one in self._passes.values() if self._turn.held), default=0.0)
        BEHIND.labels(self._database.here().name).set(behind)
        return spent

    async def _has_turn(self) -> bool:
        if self._turn.held:
            await self._turn.extend(0.0)
        elif time.monotonic() >= self._take_at:
            self._take_at = time.monotonic() + TAKE_SECONDS
            await self._turn.take()
        return self._turn.held

    def _passes_of(self, tenant_id: str) -> list[_Pass]:
        found = []
        for name in (CHANGED, *KINDS):
            audit_pass = self._passes.get((tenant_id, name))
            if audit_pass is None:
                kind = _ChangeFollower if name == CHANGED else _Scan
                audit_pass = self._passes[tenant_id, name] = kind(self._database, self._publish, tenant_id, name)
            found.append(audit_pass)
        return found

    async def _report_open(self) -> None:
        if time.monotonic() < self._report_at:
            return
        self._report_at = time.monotonic() + REPORT_SECONDS
        counts = {row["check_name"]: row["open"] for row in await self._database.fetch(_SQL["open_counts"])}
        for name in CHECKS:
            OPEN.labels(name, self._database.here().name).set(counts.get(name, 0))


class _Lease:
    """A lease that one process has at a time. after, since: the stored position of its pass."""

    def __init__(self, database: Database, tenant_id: str, name: str) -> None:
        self.tenant_id = tenant_id
        self.name = name
        self.after = ""
        self.since = datetime.min
        self._database = database
        self._until: datetime | None = None
        self._held_until = 0.0  # The same, by time.monotonic.

    @property
    def held(self) -> bool:
        return self._until is not None

    async def take(self) -> asyncpg.Record | None:
        """Takes the lease and returns its row. None if another process has it, or the pass rests."""
        sent_at = time.monotonic()
        row = await self._database.fetchrow(_SQL["lease"], self.tenant_id, self.name, LEASE_SECONDS)
        if row is not None:
            self.after, self.since, self._until = row["after_key"], row["seen_until"], row["leased_until"]
            self._held_until = sent_at + LEASE_SECONDS
        return row

    async def store(self, seconds: float) -> None:
        """Stores the position and extends the lease. _LeaseLost."""
        sent_at = time.monotonic()
        about = (self.tenant_id, self.name, self.after, self.since, seconds, self._until)
        self._until = await self._database.fetchval(_SQL["advance"], *about)
        self._held_until = sent_at + seconds
        if self._until is None:
            raise _LeaseLost

    async def extend(self, seconds: float) -> None:
        """Extends the lease to cover `seconds` and half a lease, if it ends earlier."""
        if time.monotonic() + seconds + LEASE_SECONDS / 2 > self._held_until:
            await self.store(seconds + LEASE_SECONDS)

    async def release(self) -> None:
        """Releases the lease at once."""
        if self.held:
            await self.store(0.0)
            self.forget()

    def forget(self) -> None:
        """Marks the lease as not ours, without writing."""
        self._until = None


class _Pass(ABC):
    """A pass over a tenant's rows, run by one process at a time."""

    def __init__(self, database: Database, publish: Publish, tenant_id: str, name: str) -> None:
        self.tenant_id = tenant_id
        self.name = name
        self.lease = _Lease(database, tenant_id, name)
        self._database = database
        self._publish = publish
        self.behind_seconds = 0.0
        self._due_at = 0.0  # By time.monotonic.
        self._owed = 0.0  # Seconds that a long step took from the other passes.
        self._counts: dict[str, int] = {}  # Objects per step, by kind.

    async def step(self) -> float:
        """Runs a step if one is due. Returns its duration."""
        if self._owed > 0.0:
            self._owed -= STEP_SECONDS
            return 0.0
        if time.monotonic() < self._due_at:
            return 0.0
        began = time.perf_counter()
        try:
            if self.lease.held or await self._take():
                await self._step()
        except _LeaseLost:
            log.warning("audit_lease_lost", tenant_id=self.tenant_id, audit_pass=self.name)
            self._rest(TAKE_SECONDS)
        except (Fault, asyncpg.PostgresError) as error:
            log.warning("audit_step_failed", tenant_id=self.tenant_id, audit_pass=self.name, error=str(error))
            self._due_at = time.monotonic() + FOLLOW_SECONDS
        seconds = time.perf_counter() - began
        self._owed = max(0.0, seconds - STEP_SECONDS)
        return seconds

    @abstractmethod
    async def _step(self) -> None:
        """Checks the next objects of this pass and stores its position. Called under the lease.

        Raises _LeaseLost or store errors: the step is then repeated.
        """

    async def _begin(self, row: asyncpg.Record) -> None:  # noqa: B027  one subclass needs nothing
        """Called after the lease is taken."""

    async def _take(self) -> bool:
        """Takes the lease. False if another process has it, or the pass rests."""
        row = await self.lease.take()
        if row is None:
            self.behind_seconds = 0.0  # The other process reports it.
            self._rest(TAKE_SECONDS)
            return False
        try:
            await self._begin(row)
        except BaseException:
            self.lease.forget()  # Taken again after this lease has expired.
            raise
        return True

    async def _check(self, kind: str, keys: list[str]) -> None:
        """Checks some objects, records violations, and adapts the number of objects per step."""
        count = self._count(kind)
        try:
            result = await run_checks(self._database, self.tenant_id, kind, keys)
        except (StoreUnavailable, asyncpg.PostgresError) as error:
            late = isinstance(error.__cause__, TimeoutError)
            if isinstance(error, StoreUnavailable) and not late:
                raise
            self._counts[kind] = max(1, count // 4)
            if len(keys) > 1:
                raise
            # One object cannot be checked: continue with the others.
            log.error("audit_object_skipped", tenant_id=self.tenant_id, kind=kind, key=keys[0], exc_info=error)
            return
        self._publish(await record_result(self._database, self.tenant_id, result))
        if result.seconds > 2 * STEP_SECONDS:
            self._counts[kind] = max(1, count // 2)
        elif result.seconds < STEP_SECONDS / 2 and len(keys) == count:
            self._counts[kind] = min(STEP_KEYS_MAX, 2 * count)

    def _count(self, kind: str) -> int:
        return self._counts.get(kind, STEP_KEYS)

    def _rest(self, seconds: float) -> None:
        self.lease.forget()
        self._due_at = time.monotonic() + seconds


class _Scan(_Pass):
    """Scans all objects of the kind that is its name."""

    async def _step(self) -> None:
        kind = self.name
        keys = await next_keys(self._database, self.tenant_id, kind, self.lease.after, self._count(kind))
        if keys:
            await self._check(kind, keys)
            self.lease.after = keys[-1]
            await self.lease.store(LEASE_SECONDS)
        else:
            self.lease.after = ""
            await self.lease.store(SCAN_PAUSE_SECONDS)
            self._rest(SCAN_PAUSE_SECONDS)


class _ChangeFollower(_Pass):
    """Follows changes, one time window after another."""

    def __init__(self, database: Database, publish: Publish, tenant_id: str, name: str) -> None:
        super().__init__(database, publish, tenant_id, name)
        self._window_seconds = WINDOW_SECONDS
        self._todo: dict[str, list[str]] = {}
        self._until = datetime.min
        self._caught_up = False
        self._widened_at = -LATER_SECONDS  # by time.monotonic

    async def _begin(self, row: asyncpg.Record) -> None:
        """Reads the changes of the next window."""
        settled = max(row["settled_at"], self.lease.since)
        self.behind_seconds = (settled - self.lease.since).total_seconds()
        self._until = min(settled, self.lease.since + timedelta(seconds=self._window_seconds))
        self._caught_up = self._until == settled
        self._todo = {}
        if self._until > self.lease.since:
            late = LATE_SECONDS
            if time.monotonic() - self._widened_at >= LATER_SECONDS:
                self._widened_at = time.monotonic()
                late = 2 * LATER_SECONDS
            since = self.lease.since - timedelta(seconds=late)
            async with self._database.connection() as connection:
                about = (self.tenant_id, since, self._until)
                rows = await connection.fetch(CONSERVATION[CHANGED], *about, timeout=STEP_SECONDS_MAX)
            for row in rows:
                self._todo.setdefault(row["kind"], []).append(row["id"])
            longer = min(2 * self._window_seconds, WINDOW_SECONDS_MAX)
            self._window_seconds = longer if len(rows) < WINDOW_KEYS else WINDOW_SECONDS

    async def _step(self) -> None:
        kind = next((kind for kind, keys in self._todo.items() if keys), None)
        if kind is not None:
            keys = self._todo[kind][-self._count(kind) :]
            await self._check(kind, keys)
            del self._todo[kind][-len(keys) :]
            await self.lease.store(LEASE_SECONDS)
            return
        pause = FOLLOW_SECONDS if self._caught_up else 0.0
        self.lease.since = self._until
        await self.lease.store(pause)
        self._rest(pause)
