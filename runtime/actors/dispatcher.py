"""Telling integrations of events: which ones, how many at once, and when to leave one alone.

Best effort (spec, Events, rules 1-3): each event is attempted once at each integration, what fails is
noted in the integration's delivery log and not tried again. One that is slow or away harms no other:
each has a bulkhead and a circuit breaker of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from math import inf
from typing import Any, Final, NamedTuple

import asyncpg
import msgspec
import structlog
from prometheus_client import Counter

import sql
from runtime import ids, trace
from runtime.errors import Fault
from runtime.events import Event
from runtime.outgoing.breaker import CircuitBreaker
from runtime.outgoing.bulkhead import Bulkhead, Entry
from runtime.outgoing.connector import Connector
from runtime.outgoing.providers import ERROR_CHARACTERS_MAX, DeliveryRequest, Failed, Outcome, integration_provider
from runtime.outgoing.vault import VaultError, integration_context, vault_of
from runtime.settings import Settings
from runtime.stores.database import Database

_SQL: Final = sql.load("integrations")

PLACES: Final = 16
"""Attempts under way at one integration."""

QUEUE_MAX: Final = 10_000
"""Events that wait for a place; more are skipped."""

WAIT_SECONDS: Final = 20.0
"""How long one waits for a place: a burst is worked off, a receiver that hangs is not waited for."""

FAILURES_TO_OPEN: Final = 5
OPEN_SECONDS: Final = 30.0
"""After so many failures in a row an integration is left alone for so long; then one event tries it."""

LOG_KEPT: Final = 1_000
"""Deliveries that an integration's log keeps, and another 100 at most."""

NOTES_MAX: Final = 500

FAILS: Final = "skipped: this integration failed too often of late"
CROWDED: Final = "skipped: too many events wait for this integration"
WAITED: Final = "skipped: it waited too long for this integration"

DELIVERIES: Final = Counter(
    "tombola_integration_deliveries", "Events at integrations, by what became of them.", ["outcome"]
)

log = structlog.get_logger(__name__)


class _Note(NamedTuple):
    integration_id: str
    delivery_id: str
    event_id: str
    event_type: str
    delivered: bool
    http_status: int
    error: str
    duration_ms: int


class _Isolation:
    """What keeps one integration from harming others, in this process. notes: how many were written of it."""

    __slots__ = ("breaker", "bulkhead", "notes")

    def __init__(self) -> None:
        self.bulkhead = Bulkhead(places=PLACES, wait_seconds=WAIT_SECONDS, queue_max=QUEUE_MAX)
        self.breaker = CircuitBreaker(failures_to_open=FAILURES_TO_OPEN, open_seconds=OPEN_SECONDS)
        self.notes = 0


class Dispatcher:
    """Tells integrations of events. One per process, for the hub and for emit alike."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._connector = Connector(settings.outbound_allow_cidrs)
        self._isolations: dict[tuple[str, str], _Isolation] = {}
        self._known: dict[str, tuple[float, list[Any]]] = {}  # when the reading began, and what it found
        self._reading: dict[str, asyncio.Lock] = {}
        self._notes: dict[str, list[_Note]] = {}
        self._noting: asyncio.Task[None] | None = None
        self._telling: set[asyncio.Task[bool]] = set()

    async def dispatch(self, event: Event, *, since: float | None = None) -> list[asyncio.Task[bool]]:
        """Begins to tell everyone who is to know; each task says whether an attempt was made.

        since: when the event was received (monotonic seconds), where that is not now. UNAVAILABLE where it is
        not known who is to know.
        """
        rows = await self._integrations(event.tenant_id, time.monotonic() if since is None else since)
        tasks = [asyncio.create_task(self._tell(row, event)) for row in rows if matches(row, event)]
        self._telling.update(tasks)
        for task in tasks:
            task.add_done_callback(self._telling.discard)
        return tasks

    async def tell_all(self, events: Iterable[Event]) -> None:
        """Tells everyone of each event, and returns when all have been, or were skipped."""
        since = time.monotonic()
        tasks = [task for event in events for task in await self.dispatch(event, since=since)]
        if tasks:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Ends what is under way, and writes the logs."""
        if self._telling:
            await asyncio.wait(list(self._telling))
        if self._noting is not None:
            await self._noting
        await self._connector.close()

    # -- one integration ---------------------------------------------------------------------

    async def _integrations(self, tenant_id: str, since: float) -> list[Any]:
        """A tenant's integrations, read later than `since`.

        What was read before an event came says nothing of who was registered before it: whoever registers and
        plays at once, while others' events keep a memory fresh, would hear nothing. One reading serves all
        events that came before it began.
        """
        async with self._reading.setdefault(tenant_id, asyncio.Lock()):
            read_at, rows = self._known.get(tenant_id, (-inf, []))
            if read_at < since:
                now = time.monotonic()
                rows = await self._database.fetch(_SQL["active"], tenant_id)
                self._known[tenant_id] = (now, rows)
            return rows

    async def _tell(self, row: Any, event: Event) -> bool:
        key = (event.tenant_id, row["integration_id"])
        if (isolation := self._isolations.get(key)) is None:
            isolation = self._isolations[key] = _Isolation()
        trace.current.set(event.trace_id)  # of this task alone
        if isolation.breaker.is_open(time.monotonic()):
            return self._skipped(row, event, FAILS)
        entry = await isolation.bulkhead.enter()
        if entry is not Entry.ENTERED:
            return self._skipped(row, event, CROWDED if entry is Entry.QUEUE_FULL else WAITED)
        try:
            if not isolation.breaker.admits(time.monotonic()):
                return self._skipped(row, event, FAILS)
            await self._attempt(isolation.breaker, row, event)
            return True
        finally:
            isolation.bulkhead.leave()

    async def _attempt(self, breaker: CircuitBreaker, row: Any, event: Event) -> None:
        began = time.monotonic()
        outcome = await self._deliver(row, event)
        ended = time.monotonic()
        failed = isinstance(outcome, Failed)
        breaker.ended(failed, ended)
        DELIVERIES.labels("failed" if failed else "delivered").inc()
        error, status = (outcome.error, outcome.http_status) if isinstance(outcome, Failed) else ("", 0)
        self._note(row, event, not failed, status, error, int((ended - began) * 1000))

    async def _deliver(self, row: Any, event: Event) -> Outcome:
        provider = integration_provider(row["type"])
        if provider is None:
            return Failed(f"no provider is registered for {row['type']!r}")
        context = integration_context(event.tenant_id, row["integration_id"])
        try:
            secrets = vault_of(self._settings.code_keys).secrets_of(row["config"], context)
        except (VaultError, ValueError) as error:
            return Failed(f"the secret cannot be opened: {error}")
        now = int(self._database.clock.now())
        request = DeliveryRequest(event.id, row["config"], secrets, now, msgspec.to_builtins(event), event.tenant_id)
        try:
            return await provider(self._connector, request)
        except Exception as error:
            log.error("provider_failed", integration_type=row["type"], event_id=event.id, exc_info=error)
            return Failed(f"the provider failed: {type(error).__name__}")

    # -- the log -----------------------------------------------------------------------------

    def _skipped(self, row: Any, event: Event, why: str) -> bool:
        DELIVERIES.labels("skipped").inc()
        self._note(row, event, False, 0, why, 0)
        return False

    def _note(self, row: Any, event: Event, delivered: bool, http_status: int, error: str, duration_ms: int) -> None:
        error = error.replace("\0", "").encode("utf-8", "replace").decode()[:ERROR_CHARACTERS_MAX]
        notes = self._notes.setdefault(event.tenant_id, [])
        if len(notes) >= NOTES_MAX * 10:
            return  # the database is away: the log is for operators, not worth the memory
        notes.append(
            _Note(
                row["integration_id"],
                ids.make("delivery"),
                event.id,
                event.type,
                delivered,
                http_status,
                error,
                duration_ms,
            )
        )
        if self._noting is None or self._noting.done():
            self._noting = asyncio.create_task(self._write_notes())

    async def _write_notes(self) -> None:
        """Writes what was noted, together with what is noted meanwhile."""
        while self._notes:
            tenant_id = next(iter(self._notes))
            notes = self._notes.pop(tenant_id)
            for first in range(0, len(notes), NOTES_MAX):
                part = notes[first : first + NOTES_MAX]
                try:
                    await self._database.execute(
                        _SQL["note_deliveries"], tenant_id, *[list(column) for column in zip(*part, strict=True)]
                    )
                    await self._prune(tenant_id, part)
                except (Fault, asyncpg.PostgresError) as error:
                    log.warning("delivery_log_lost", notes=len(part), error=str(error))

    async def _prune(self, tenant_id: str, part: list[_Note]) -> None:
        for integration_id in {note.integration_id for note in part}:
            if (isolation := self._isolations.get((tenant_id, integration_id))) is not None:
                before = isolation.notes
                isolation.notes += sum(note.integration_id == integration_id for note in part)
                if before // 100 != isolation.notes // 100:
                    await self._database.execute(_SQL["prune_deliveries"], tenant_id, integration_id, LOG_KEPT)


def matches(row: Any, event: Event) -> bool:
    """Whether an integration of the event's tenant subscribes to it, and has its merchant and campaign (or any)."""
    return (
        event.type in row["events"]
        and row["merchant_id"] in ("", event.merchant_id)
        and row["campaign_id"] in ("", event.campaign_id)
    )
