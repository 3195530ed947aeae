"""The delivery log of integrations: the outcome of each event at each integration.

Entries are written after the attempts, many in one statement, so the log delays nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple

import asyncpg
import msgspec
import structlog

import sql
from runtime import ids
from runtime.errors import Fault
from runtime.events import Event, erase_personal_data, personal_data_in
from runtime.outgoing.providers import (
    ANSWER_CHARACTERS_MAX,
    Delivered,
    Failed,
    Ignored,
    LoggedOutcome,
    Skipped,
    storable,
)
from runtime.outgoing.schedule import SCHEDULE_SECONDS, delays_seconds
from runtime.stores.database import Database, StoreUnavailable

_SQL: Final = sql.load("integrations")

LOG_KEPT: Final = 1_000
"""Log entries retained per integration. Also retained: messages except skipped ones, pending retries, and entries that
deduplicate events: those of the last ten minutes and all since the tenant's watermark (runtime/streams/backfill.py).
"""

TRIED_SECONDS: Final = sum(SCHEDULE_SECONDS)
"""The longest time an event is retried (about 28 hours). It also ends the retries of events that an open breaker skips,
so the log of a dead receiver stays bounded. `end_retries` ends those that wait behind the breaker.
"""

ENTRIES_MAX: Final = 500

PAUSES_SECONDS: Final = (0.1, 0.3, 1.0, 3.0)
"""The pauses between the attempts to write entries while the database is away. A restart takes about that long."""

PRUNE_EVERY: Final = 100
"""Entries of one integration between two prunings of its log."""

PRUNE_MAX: Final = 1_000
"""Entries that one pruning deletes at most: more could exceed the statement timeout every time."""

NOT_FAILED: Final = Failed("")

log = structlog.get_logger(__name__)


class LogEntry(NamedTuple):
    """A log entry: the outcome of an event at an integration."""

    integration_id: str
    delivery_id: str
    event_id: str
    event_type: str
    status: str
    attempts: int
    event: dict[str, Any] | None
    http_status: int
    error: str
    duration_ms: int
    pause_seconds: float
    answer: str


class DeliveryLog:
    """The delivery log of every tenant, as this process writes it.

    lost: by tenant, entries that could not be written; the outcome of those events is unknown.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._unwritten: dict[str, list[LogEntry]] = {}
        self._writing: dict[str, asyncio.Task[None]] = {}  # By tenant: the task that writes its latest entries.
        self._counted: Counter[tuple[str, str]] = Counter()
        self._closing = asyncio.Event()
        self.lost: Counter[str] = Counter()

    def record(
        self,
        row: Any,
        event: Event,
        status: str,
        attempts: int,
        outcome: LoggedOutcome,
        duration_ms: int = 0,
    ) -> LogEntry:
        """Queues a log entry and returns it. Ignored outcomes, and entries beyond the buffer (`lost`), are not written.

        row: has integration_id. status: delivered, stubbed, skipped, ignored, retry or dead. attempts: made so far.
        """
        failed = outcome if isinstance(outcome, Failed) else NOT_FAILED
        answered = outcome if isinstance(outcome, Delivered) else failed
        stored = msgspec.to_builtins(event) if event.occurred_at else None  # None: it could not be parsed.
        entry = LogEntry(
            integration_id=row["integration_id"],
            delivery_id=ids.make("delivery"),
            event_id=event.id,
            event_type=event.type,
            status=status,
            attempts=attempts,
            event=stored,
            http_status=answered.http_status,
            error=storable(outcome.why if isinstance(outcome, Skipped) else failed.error),
            duration_ms=duration_ms,
            pause_seconds=failed.retry_after_seconds,
            answer=storable(answered.answer, ANSWER_CHARACTERS_MAX),
        )
        if isinstance(outcome, Ignored):
            return entry
        tenant_id = event.tenant_id
        if tenant_id not in self._unwritten:
            self._unwritten[tenant_id] = []
            self._writing[tenant_id] = asyncio.create_task(self._write_entries(tenant_id, self._writing.get(tenant_id)))
        if len(self._unwritten[tenant_id]) >= ENTRIES_MAX * 10:
            self.lost[tenant_id] += 1  # The database is down. Drop the entry to save memory: the backfill repeats it.
        else:
            self._unwritten[tenant_id].append(entry)
        return entry

    async def _write_entries(self, tenant_id: str, earlier: asyncio.Task[None] | None) -> None:
        """Writes a tenant's entries after the earlier ones. A database that is down delays only its own tenants."""
        if earlier is not None:
            await asyncio.wait([earlier])
        entries = self._unwritten.pop(tenant_id)
        try:
            for first in range(0, len(entries), ENTRIES_MAX):
                await self._write_part(tenant_id, entries[first : first + ENTRIES_MAX])
        except Exception as error:
            self.lost[tenant_id] += len(entries)
            log.error("delivery_log_lost", entries=len(entries), exc_info=error)
        finally:
            if self._writing[tenant_id] is asyncio.current_task():
                del self._writing[tenant_id]

    async def _write_part(self, tenant_id: str, part: list[LogEntry]) -> None:
        latest = {(entry.integration_id, entry.event_id): entry for entry in part}  # one row per event
        plain, personal = list[LogEntry](), list[LogEntry]()
        for entry in sorted(latest.values(), key=_row):
            (personal if any(personal_data_in(entry.event)) else plain).append(entry)
        # Entries about players are written last and separately: an erasure may lock their rows for long.
        for some in (plain, personal):
            try:
                if some:
                    await self._write_with_retries(tenant_id, some, is_personal=some is personal)
            except asyncpg.DataError as error:
                if len(some) == 1:  # Not lost: a repeated pass of the backfill would send its event again, and again.
                    log.error("delivery_entry_not_storable", event_id=some[0].event_id, error=str(error))
                    continue
                for entry in some:
                    await self._write_part(tenant_id, [entry])
            except (Fault, asyncpg.PostgresError) as error:
                self.lost[tenant_id] += len(some)
                log.warning("delivery_log_lost", entries=len(some), error=str(error))
            else:
                await self._prune(tenant_id, some)

    async def _write_with_retries(self, tenant_id: str, entries: list[LogEntry], *, is_personal: bool) -> None:
        """Writes entries, with retries while the database is unreachable. Raises the last error: entries are lost, and
        the backfill sends their events again.
        """
        for pause_seconds in (*PAUSES_SECONDS, inf):
            try:
                database = self._database.route(tenant_id)
                if is_personal:
                    await database.transaction(partial(_write_personal, tenant_id, entries))
                else:
                    await _write(database, tenant_id, entries)
                return
            except StoreUnavailable:
                if pause_seconds == inf or self._closing.is_set():
                    raise
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), pause_seconds)

    async def _prune(self, tenant_id: str, part: list[LogEntry]) -> None:
        for integration_id, count in Counter(entry.integration_id for entry in part).items():
            before = self._counted[tenant_id, integration_id]
            self._counted[tenant_id, integration_id] = before + count
            if before // PRUNE_EVERY == (before + count) // PRUNE_EVERY:
                continue
            arguments = (tenant_id, integration_id, LOG_KEPT, PRUNE_MAX)
            try:
                await self._database.route(tenant_id).execute(_SQL["prune_deliveries"], *arguments)
            except (Fault, asyncpg.PostgresError) as error:  # Not lost: the entries are written.
                log.warning("delivery_log_not_pruned", integration_id=integration_id, error=str(error))

    async def close(self) -> None:
        """Waits until all entries are written or lost; each is tried once more."""
        self._closing.set()
        await self.wait_until_written()

    async def wait_until_written(self, tenant_id: str = "") -> None:
        """Waits until all entries recorded so far, of a tenant or of all (""), are written or lost."""
        if waiting := [task for name, task in self._writing.items() if tenant_id in ("", name)]:
            await asyncio.wait(waiting)


async def _write(database: Database | asyncpg.Connection, tenant_id: str, entries: list[LogEntry]) -> None:
    columns = [list(column) for column in zip(*entries, strict=True)]
    await database.execute(_SQL["record_deliveries"], tenant_id, *columns, delays_seconds(), TRIED_SECONDS)


async def _write_personal(tenant_id: str, entries: list[LogEntry], connection: asyncpg.Connection) -> None:
    """Writes entries about players, without the data of players erased since the event."""
    parts = [(nth, part) for nth, entry in enumerate(entries) for part in personal_data_in(entry.event)]
    named = sorted({part["player_id"] for _, part in parts})
    rows = await connection.fetch(_SQL["erased"], tenant_id, named)
    erased_at = {row["player_id"]: row["erased_at"] for row in rows}
    for nth, part in parts:
        event = entries[nth].event
        if event is not None and erased_at.get(part["player_id"], 0) >= event["occurred_at"]:
            erase_personal_data(part)
            entries[nth] = entries[nth]._replace(answer="")
    await _write(connection, tenant_id, entries)


def _row(entry: LogEntry) -> tuple[str, str]:
    """The lock order of the log's rows."""
    return entry.integration_id, entry.event_id
