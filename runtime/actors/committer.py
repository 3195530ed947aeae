"""The committer: writes the decisions of many actors in one guarded statement.

An actor fills a `Changes` (changes.py) and awaits `Committer.commit`. Changes that wait for the same database at the
same time become one statement (sql/commit.sql), so fifty games of fifty tenants share a commit just as one busy game
does. The committer decides nothing: each part of the statement is conditional, and `Guarded` tells the actor that its
input has changed.

One tenant's conflict or lock does not block the others. A shared statement waits for row locks for at most
LOCK_TIMEOUT_MS. If it is refused or times out, nothing is committed, and each tenant's changes are committed by a
separate statement. A tenant whose separate statement is refused or slow commits alone for ALONE_SECONDS: its changes
that wait in the shared queue move to its own. Any other tenant returns to the shared queue with its first separate
commit. Otherwise one refusal would end shared commits for all busy tenants, at several times the cost.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final, NamedTuple

import asyncpg

from runtime import spans, trace
from runtime.actors.changes import Changes
from runtime.actors.mailbox import Mailboxes, Work
from runtime.actors.statement import statement_of
from runtime.errors import BalanceFull
from runtime.metrics import Histogram
from runtime.stores.database import Database, Guarded
from runtime.stores.databases import TenantMoved

OVERLAP: Final = 2
"""Concurrent commits of one lane, and batches of one game: one decides while the other waits."""

CATALOG: Final = "catalog"
"""The guard of commit.sql that refuses decisions made by an outdated catalogue."""

LOCK_TIMEOUT_MS: Final = 50
"""How long a shared statement waits for a row lock. Commits of other processes hold theirs for a few milliseconds."""

SLOW_SECONDS: Final = 0.5
"""A tenant's separate statement that takes longer has waited for a lock."""

ALONE_SECONDS: Final = 10.0
"""How long at least a tenant commits alone after its separate statement was refused or slow.

It then returns only after a separate commit, so a tenant whose rows are locked for minutes delays the others once.
"""

COMMIT_SECONDS: Final = Histogram("tombola_commit_seconds", "Time of the commit statement, with its connection.")
_COMMIT_SECONDS: Final = COMMIT_SECONDS.series()

Remaining = dict[str, int | None]
"""The remaining stock of each prize taken; None: unlimited."""


class Lane(NamedTuple):
    """A queue of commits to one database: of all tenants (tenant_id ""), or of one."""

    database: str
    tenant_id: str = ""


class Decided(NamedTuple):
    """The changes of one request, and their tenant."""

    tenant_id: str
    changes: Changes


class Committer(Mailboxes[Lane, Decided, Lane]):
    """Commits the changes of every tenant, `OVERLAP` statements at a time for each lane."""

    overlap = OVERLAP
    name = "commits"

    def __init__(self, database: Database, *, mailbox_limit: int, batch_limit: int, idle_seconds: float) -> None:
        super().__init__(limit=mailbox_limit, batch_limit=batch_limit, idle_seconds=idle_seconds)
        self._database = database
        self._alone: dict[str, float] = {}
        """The tenants that commit alone, and until when at least (monotonic)."""
        self._running: dict[str, list[float]] = {}
        """When the running separate statements of each tenant began, the oldest first."""

    def new_state(self, key: Lane) -> Lane:
        return key

    def commit(self, tenant_id: str, changes: Changes) -> asyncio.Future[Remaining]:
        """Commits all of the changes or none of them. OVERLOADED, at once, if too many wait.

        The future is the remaining stock of each prize taken. It fails with Guarded if a row has changed since the
        decision, BalanceFull, or StoreUnavailable if the outcome is unknown (`sent`) or nothing was committed.
        """
        lane = self._lane(tenant_id)
        if self.is_full(lane):  # Other tenants' changes must not get this one refused.
            lane = self._separate(lane.database, tenant_id)
        return self.post(lane, Decided(tenant_id, changes))

    def _lane(self, tenant_id: str) -> Lane:
        return Lane(self._database.of(tenant_id).name, tenant_id if tenant_id in self._alone else "")

    def _separate(self, database: str, tenant_id: str) -> Lane:
        """The tenant's own lane, also for its later changes until it returns."""
        self._alone.setdefault(tenant_id, 0.0)
        return Lane(database, tenant_id)

    async def process_batch(self, lane: Lane, works: list[Work[Decided]]) -> None:
        trace.tenant.set(lane.tenant_id)  # Applies to this batch's task only: the tenant's share of the connections.
        while works := self._still_here(lane, works):
            batch, works = _compatible(works, self._batch_limit)
            await self._commit_batch(lane, batch)

    def _still_here(self, lane: Lane, works: list[Work[Decided]]) -> list[Work[Decided]]:
        """The changes that belong to the lane. Others move to theirs: their tenant was moved, separated or returned."""
        here = []
        for work in works:
            if (own := self._lane(work.request.tenant_id)) == lane:
                here.append(work)
            else:
                self.move(own, work)
        return here

    async def _commit_batch(self, lane: Lane, works: list[Work[Decided]]) -> None:
        try:
            remaining = await (self._write_alone(lane, works) if lane.tenant_id else self._write(lane, works))
        except Exception as error:
            if not lane.tenant_id and _may_split(error) and not _are_of_several(works):
                self._keep_alone(works[0].request.tenant_id)
            if not lane.tenant_id and _is_of_one_tenant(error, works):
                for work in works:  # Not awaited here: a blocked tenant would block this lane.
                    self.move(self._separate(lane.database, work.request.tenant_id), work)
            elif len(works) > 1 and _may_split(error):
                for work in works:  # Each alone, so that only the one at fault is refused.
                    await self._commit_batch(lane, [work])
            else:
                for work in works:
                    work.refuse(error)
            return
        for work in works:
            work.answer(remaining.get(work.request.tenant_id, {}))

    def _keep_alone(self, tenant_id: str) -> None:
        self._alone[tenant_id] = time.monotonic() + ALONE_SECONDS

    async def _write_alone(self, lane: Lane, works: list[Work[Decided]]) -> dict[str, Remaining]:
        """Writes one tenant's changes, and decides whether it returns to the shared lane."""
        tenant_id, began = lane.tenant_id, time.monotonic()
        running = self._running.setdefault(tenant_id, [])
        running.append(began)
        try:
            remaining = await self._write(lane, works)
        except Exception:
            self._keep_alone(tenant_id)
            raise
        else:
            now = time.monotonic()
            if now - began > SLOW_SECONDS:
                self._keep_alone(tenant_id)
            elif running[0] == began and self._alone.get(tenant_id, 0.0) <= now:
                # Not while an older statement is running: it may wait for a lock.
                self._alone.pop(tenant_id, None)
            return remaining
        finally:
            running.remove(began)
            if not running:
                del self._running[tenant_id]

    async def _write(self, lane: Lane, works: list[Work[Decided]]) -> dict[str, Remaining]:
        tenants = _merged(works)
        database = self._database.of(next(iter(tenants)))
        sent = time.monotonic()
        text, arguments = statement_of(tenants, 0 if lane.tenant_id else LOCK_TIMEOUT_MS)

        def require_here() -> None:
            if any(self._database.of(tenant_id) is not database for tenant_id in tenants):
                raise TenantMoved

        try:
            with spans.of_commit(sum(len(changes.plays) for changes in tenants.values())):
                row = await database.fetchrow(text, *arguments, check=require_here)
        except asyncpg.DataError:
            if full := next((changes.full for changes in tenants.values() if changes.full), ""):
                raise BalanceFull(full) from None
            raise
        assert row is not None, "the commit statement always has its one row"
        received = time.monotonic()
        _COMMIT_SECONDS.observe(received - sent)
        database.clock.sync(row["now"], sent, received)
        remaining: dict[str, Remaining] = {}
        if prize_ids := row.get("prize_ids"):
            for tenant_id, prize_id, left in zip(row["stock_tenants"], prize_ids, row["remaining"], strict=True):
                remaining.setdefault(tenant_id, {})[prize_id] = left
        return remaining


def _is_of_one_tenant(error: Exception, works: list[Work[Decided]]) -> bool:
    """Whether a shared statement committed nothing, possibly because of one tenant or request only."""
    if isinstance(error, asyncpg.LockNotAvailableError | TenantMoved):
        return True
    if _are_of_several(works):
        return isinstance(error, Guarded | asyncpg.PostgresError | BalanceFull)
    return len(works) > 1 and _may_split(error)


def _are_of_several(works: list[Work[Decided]]) -> bool:
    """Whether the changes are of several tenants."""
    return any(work.request.tenant_id != works[0].request.tenant_id for work in works)


def _may_split(error: Exception) -> bool:
    """Whether one tenant's failed commit was rolled back and may succeed if its requests are committed separately.

    A catalogue conflict affects all of them: each would be refused in turn.
    """
    if isinstance(error, Guarded):
        return error.guard != CATALOG
    return isinstance(error, asyncpg.PostgresError | BalanceFull)


def _merged(works: list[Work[Decided]]) -> dict[str, Changes]:
    """The changes of each tenant."""
    tenants: dict[str, Changes] = {}
    shared: set[str] = set()
    for work in works:
        tenant_id, changes = work.request
        before = tenants.setdefault(tenant_id, changes)
        if before is changes:
            continue
        if tenant_id not in shared:
            # A request's own changes stay as they are: it may be committed again, alone.
            shared.add(tenant_id)
            tenants[tenant_id] = Changes(changes.catalog_version)
            tenants[tenant_id].absorb(before)
        tenants[tenant_id].absorb(changes)
    return tenants


def _compatible(works: list[Work[Decided]], plays_max: int) -> tuple[list[Work[Decided]], list[Work[Decided]]]:
    """Splits off the requests that can share a statement with the first. Returns (those, the rest)."""
    if len(works) == 1:
        return works, []
    batch: list[Work[Decided]] = []
    rest: list[Work[Decided]] = []
    seen: dict[str, Changes] = {}
    postponed: dict[str, Changes] = {}
    plays = 0
    for nth, work in enumerate(works):
        tenant_id, changes = work.request
        if batch and plays + len(changes.plays) > plays_max:
            rest += works[nth:]
            break
        before, later = seen.get(tenant_id), postponed.get(tenant_id)
        # A change that overlaps with a postponed one was decided after it: committed first, it would be refused.
        if before is not None and (
            changes.catalog_version != before.catalog_version
            or changes.overlaps(before)
            or (later is not None and changes.overlaps(later))
        ):
            rest.append(work)
            _add_keys(postponed, tenant_id, changes)
        else:
            _add_keys(seen, tenant_id, changes)
            batch.append(work)
            plays += len(changes.plays)
    return batch, rest


def _add_keys(keys: dict[str, Changes], tenant_id: str, changes: Changes) -> None:
    """Adds the keys that later changes of the tenant may overlap with."""
    own = keys.get(tenant_id)
    if own is None:
        own = keys[tenant_id] = Changes(changes.catalog_version)
    own.balances.update(changes.balances)
    own.turns.update(changes.turns)
    own.play_counts.update(changes.play_counts)
