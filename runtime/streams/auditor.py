"""The auditor: looks whether everything adds up, all the time, and never at more of the database than its share.

It has ways to go in each tenant. One follows what changes: it reads whatever began in a stretch of time that is over
for everybody (settled_at()), and a little of the stretch before, and looks at the players, plays, counters and tasks
of it. The others go around everything of a kind, again and again: what leaves no time behind is found by these, as are
a prize's stock and a campaign's days, which cost too much to be counted at each change.

Every step is a few things by one snapshot (runtime/operations/conservation), after which the auditor rests for as long
as keeps it within AUDIT_SHARE: so where much happens it falls behind (`tombola_audit_behind_seconds`), and catches up
later. A way that had a long step waits until the others have had as much. Any number of processes may stand by: one at
a time has the turn, or each would take the share anew. It is one at a time on a way too, and where it got to is kept
with each step. One that dies leaves its turn and its ways to the next, which does the last step over; what it finds is
then known.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import asyncpg
import structlog
from prometheus_client import Gauge

import sql
from runtime.actors.engine import Engine
from runtime.errors import Fault
from runtime.operations.conservation.checks import (
    CHECKS,
    CONSERVATION,
    KINDS,
    STEP_KEYS,
    STEP_SECONDS_MAX,
    look,
    next_keys,
    note,
)
from runtime.stores.database import Database, StoreUnavailable
from runtime.streams.backoff import stopped_within
from sql.migrate import NOBODYS

_SQL: Final = sql.load("violations")

CHANGED: Final = "changed"
"""The way along what happens; the others are named after their kinds."""

STEP_SECONDS: Final = 0.05
"""How long a step is to take: as many things are looked at as that is enough for."""

STEP_KEYS_MAX: Final = 2_000

FOLLOW_SECONDS: Final = 2.0
"""How often it is looked for changes."""

AROUND_SECONDS: Final = 60.0
"""How long a way around rests when it is at its end."""

STRETCH_SECONDS: Final = 20.0
STRETCH_SECONDS_MAX: Final = 120.0
STRETCH_KEYS: Final = 5_000
"""How long a stretch of time is: its keys are held in memory. Longer after one with few of them, up to the most."""

LATE_SECONDS: Final = 2.0
"""How far back each stretch begins, for transactions that were just beginning when settled_at() looked."""

LATER_SECONDS: Final = 60.0
"""settled_at() waits for nobody who has written nothing for ten seconds. What such a one writes at last has the time at
which it began: so every so often a stretch begins twice as far back. Each statement has
DATABASE_STATEMENT_TIMEOUT_SECONDS (1.2), and no transaction of Core's reads fifty times before it writes."""

TURN: Final = "turn"
"""The mark, of no tenant, of whose turn it is."""

LEASE_SECONDS: Final = 60.0
"""How soon another process goes on where one died. A step and its rest may take longer: its way is then another's."""

ELSEWHERE_SECONDS: Final = 10.0
"""How soon a way that another process was on is asked for again."""

IDLE_SECONDS: Final = 0.5
TELL_SECONDS: Final = 5.0
"""How often it is counted what is open."""

BEHIND: Final = Gauge("tombola_audit_behind_seconds", "How long ago what happened then was looked at, at most.")
OPEN: Final = Gauge("tombola_violations_open", "Violations that nobody has closed, by their check.", ["check"])
for _name in CHECKS:
    OPEN.labels(_name)

log = structlog.get_logger(__name__)


async def run(engine: Engine, stop: asyncio.Event) -> None:
    """Audits until `stop`. A database that is away is waited for."""
    await Auditor(engine.database, engine.settings.audit_share).run(stop)


class _LeaseLost(Exception):
    """The step took longer than its lease: another process is on the way."""


class Auditor:
    """Every way of every tenant, taken in turn."""

    def __init__(self, database: Database, share: float = 1.0) -> None:
        self._database = database
        self._share = share
        self._ways: dict[tuple[str, str], _Way] = {}
        self._turn = _Lease(database, NOBODYS, TURN)
        self._ask_at = 0.0  # by time.monotonic
        self._tell_at = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Goes on until `stop`, and leaves its ways to the others then."""
        while not stop.is_set():
            seconds = 0.0
            try:
                seconds = await self.turn(stop)
                await self._tell_open()
            except (Fault, asyncpg.PostgresError) as error:
                log.warning("audit_waits", error=str(error))
            if not seconds:
                await stopped_within(stop, IDLE_SECONDS)
        await self.leave()

    async def leave(self) -> None:
        """Lets others go on at once."""
        for lease in (*(way.lease for way in self._ways.values()), self._turn):
            with suppress(Fault, asyncpg.PostgresError, _LeaseLost):
                await lease.leave()

    async def turn(self, stop: asyncio.Event) -> float:
        """A step of each way that is due one; how many seconds they took: 0 where another process has the turn.

        One has it of all, so that AUDIT_SHARE is what all of them take together.
        """
        spent = 0.0
        try:
            if await self._has_turn():
                for row in await self._database.fetch(_SQL["tenants"], ""):
                    for way in self._ways_of(row["tenant_id"]):
                        if stop.is_set():
                            return spent
                        seconds = await way.step()
                        if seconds:
                            spent += seconds
                            rest = seconds * (1 / self._share - 1)
                            await self._turn.keep_through(rest)
                            await stopped_within(stop, rest)
        except _LeaseLost:
            log.warning("audit_turn_lost")
        BEHIND.set(max((way.behind_seconds for way in self._ways.values() if self._turn.held), default=0.0))
        return spent

    async def _has_turn(self) -> bool:
        if self._turn.held:
            await self._turn.keep_through(0.0)
        elif time.monotonic() >= self._ask_at:
            self._ask_at = time.monotonic() + ELSEWHERE_SECONDS
            await self._turn.take()
        return self._turn.held

    def _ways_of(self, tenant_id: str) -> list[_Way]:
        found = []
        for name in (CHANGED, *KINDS):
            way = self._ways.get((tenant_id, name))
            if way is None:
                made = _Following if name == CHANGED else _Around
                way = self._ways[tenant_id, name] = made(self._database, tenant_id, name)
            found.append(way)
        return found

    async def _tell_open(self) -> None:
        if time.monotonic() < self._tell_at:
            return
        self._tell_at = time.monotonic() + TELL_SECONDS
        counts = {row["check_name"]: row["open"] for row in await self._database.fetch(_SQL["open_counts"])}
        for name in CHECKS:
            OPEN.labels(name).set(counts.get(name, 0))


class _Lease:
    """A mark that one process holds at a time. after, since: where it is on its way, as is kept."""

    def __init__(self, database: Database, tenant_id: str, name: str) -> None:
        self.tenant_id = tenant_id
        self.name = name
        self.after = ""
        self.since = datetime.min
        self._database = database
        self._until: datetime | None = None
        self._held_until = 0.0  # the same, by time.monotonic

    @property
    def held(self) -> bool:
        return self._until is not None

    async def take(self) -> asyncpg.Record | None:
        """The mark, which is this process's now. None where another one has it, or it rests."""
        asked_at = time.monotonic()
        mark = await self._database.fetchrow(_SQL["take"], self.tenant_id, self.name, LEASE_SECONDS)
        if mark is not None:
            self.after, self.since, self._until = mark["after_key"], mark["seen_until"], mark["leased_until"]
            self._held_until = asked_at + LEASE_SECONDS
        return mark

    async def keep(self, seconds: float) -> None:
        """Keeps where it is, and holds it for so long. _LeaseLost."""
        asked_at = time.monotonic()
        about = (self.tenant_id, self.name, self.after, self.since, seconds, self._until)
        self._until = await self._database.fetchval(_SQL["keep"], *about)
        self._held_until = asked_at + seconds
        if self._until is None:
            raise _LeaseLost

    async def keep_through(self, seconds: float) -> None:
        """Has it for so long, and half a lease more: asks for that only where it is less."""
        if time.monotonic() + seconds + LEASE_SECONDS / 2 > self._held_until:
            await self.keep(seconds + LEASE_SECONDS)

    async def leave(self) -> None:
        """Lets another process go on at once."""
        if self.held:
            await self.keep(0.0)
            self.forget()

    def forget(self) -> None:
        """Takes it for another's from now on."""
        self._until = None


class _Way(ABC):
    """A way through a tenant's rows, on which one process is at a time."""

    def __init__(self, database: Database, tenant_id: str, name: str) -> None:
        self.tenant_id = tenant_id
        self.name = name
        self.lease = _Lease(database, tenant_id, name)
        self._database = database
        self.behind_seconds = 0.0
        self._due_at = 0.0  # by time.monotonic
        self._owed = 0.0  # seconds that a long step took from the other ways
        self._counts: dict[str, int] = {}  # how many things of a kind are a step

    async def step(self) -> float:
        """A step, where it is due; how many seconds it took."""
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
            log.warning("audit_lease_lost", tenant_id=self.tenant_id, way=self.name)
            self._rest(ELSEWHERE_SECONDS)
        except (Fault, asyncpg.PostgresError) as error:
            log.warning("audit_step_failed", tenant_id=self.tenant_id, way=self.name, error=str(error))
            self._due_at = time.monotonic() + FOLLOW_SECONDS
        seconds = time.perf_counter() - began
        self._owed = max(0.0, seconds - STEP_SECONDS)
        return seconds

    @abstractmethod
    async def _step(self) -> None:
        """What a step does, which holds the way. Raises _LeaseLost, or what the stores say: it is done again."""

    async def _begin(self, mark: asyncpg.Record) -> None:  # noqa: B027  one of the two needs nothing
        """What it does when it has taken the way."""

    async def _take(self) -> bool:
        """Holds the way. False where another process is on it, or it rests."""
        mark = await self.lease.take()
        if mark is None:
            self.behind_seconds = 0.0  # The other process says it.
            self._rest(ELSEWHERE_SECONDS)
            return False
        try:
            await self._begin(mark)
        except BaseException:
            self.lease.forget()  # It is taken anew, when this lease is over.
            raise
        return True

    async def _look(self, kind: str, keys: list[str]) -> None:
        """Looks at some things, notes what is wrong with them, and learns how many are enough for a step."""
        count = self._count(kind)
        try:
            looked = await look(self._database, self.tenant_id, kind, keys)
        except (StoreUnavailable, asyncpg.PostgresError) as error:
            late = isinstance(error.__cause__, TimeoutError)
            if isinstance(error, StoreUnavailable) and not late:
                raise
            self._counts[kind] = max(1, count // 4)
            if len(keys) > 1:
                raise
            # One thing that nobody can look at: the others are looked at all the same.
            log.error("audit_passed_by", tenant_id=self.tenant_id, kind=kind, key=keys[0], exc_info=error)
            return
        await note(self._database, self.tenant_id, looked)
        if looked.seconds > 2 * STEP_SECONDS:
            self._counts[kind] = max(1, count // 2)
        elif looked.seconds < STEP_SECONDS / 2 and len(keys) == count:
            self._counts[kind] = min(STEP_KEYS_MAX, 2 * count)

    def _count(self, kind: str) -> int:
        return self._counts.get(kind, STEP_KEYS)

    def _rest(self, seconds: float) -> None:
        self.lease.forget()
        self._due_at = time.monotonic() + seconds


class _Around(_Way):
    """Around everything of a kind: its name."""

    async def _step(self) -> None:
        kind = self.name
        keys = await next_keys(self._database, self.tenant_id, kind, self.lease.after, self._count(kind))
        if keys:
            await self._look(kind, keys)
            self.lease.after = keys[-1]
            await self.lease.keep(LEASE_SECONDS)
        else:
            self.lease.after = ""
            await self.lease.keep(AROUND_SECONDS)
            self._rest(AROUND_SECONDS)


class _Following(_Way):
    """Along what happens, a stretch of time after the other."""

    def __init__(self, database: Database, tenant_id: str, name: str) -> None:
        super().__init__(database, tenant_id, name)
        self._stretch_seconds = STRETCH_SECONDS
        self._todo: dict[str, list[str]] = {}
        self._until = datetime.min
        self._caught_up = False
        self._looked_back_at = -LATER_SECONDS  # by time.monotonic

    async def _begin(self, mark: asyncpg.Record) -> None:
        """Reads what changed in the next stretch."""
        settled = max(mark["settled_at"], self.lease.since)
        self.behind_seconds = (settled - self.lease.since).total_seconds()
        self._until = min(settled, self.lease.since + timedelta(seconds=self._stretch_seconds))
        self._caught_up = self._until == settled
        self._todo = {}
        if self._until > self.lease.since:
            late = LATE_SECONDS
            if time.monotonic() - self._looked_back_at >= LATER_SECONDS:
                self._looked_back_at = time.monotonic()
                late = 2 * LATER_SECONDS
            since = self.lease.since - timedelta(seconds=late)
            async with self._database.connection() as connection:
                about = (self.tenant_id, since, self._until)
                rows = await connection.fetch(CONSERVATION[CHANGED], *about, timeout=STEP_SECONDS_MAX)
            for row in rows:
                self._todo.setdefault(row["kind"], []).append(row["id"])
            longer = min(2 * self._stretch_seconds, STRETCH_SECONDS_MAX)
            self._stretch_seconds = longer if len(rows) < STRETCH_KEYS else STRETCH_SECONDS

    async def _step(self) -> None:
        kind = next((kind for kind, keys in self._todo.items() if keys), None)
        if kind is not None:
            keys = self._todo[kind][-self._count(kind) :]
            await self._look(kind, keys)
            del self._todo[kind][-len(keys) :]
            await self.lease.keep(LEASE_SECONDS)
            return
        pause = FOLLOW_SECONDS if self._caught_up else 0.0
        self.lease.since = self._until
        await self.lease.keep(pause)
        self._rest(pause)
