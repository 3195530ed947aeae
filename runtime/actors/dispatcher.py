"""Telling integrations of events: which ones, how many at once, and when to leave one alone.

Off every caller's path (spec, Events, rules 1-3). What became of an event at an integration is a row of the
delivery log; what failed, or was skipped, is tried again on the schedule of deliveries (`retry_due`), from that
row. One that is slow or away harms no other: each has a bulkhead and a circuit breaker of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, Final, NamedTuple

import msgspec
import structlog
from prometheus_client import Counter

import sql
from runtime import trace
from runtime.actors.delivery_log import DeliveryLog, Note
from runtime.events import Event, ReceivedEvent
from runtime.outgoing.breaker import CircuitBreaker
from runtime.outgoing.bulkhead import Bulkhead, Entry
from runtime.outgoing.connector import Connector
from runtime.outgoing.providers import (
    DeliveryRequest,
    Failed,
    Outcome,
    Stubbed,
    integration_provider,
)
from runtime.outgoing.schedule import SCHEDULE_SECONDS
from runtime.outgoing.vault import VaultError, integration_context, opened, vault_of
from runtime.settings import Settings
from runtime.stores.database import Database, StoreUnavailable

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

OLD_SECONDS: Final = 10.0
"""An event that comes later than this may have been told meanwhile, by another's tries or from its rows."""

SAME_TIME_SECONDS: Final = 2.0
"""An event names the second that it happened in, by another clock than who was registered in it. The rows know better,
but not of all events; so of what happened so shortly before an integration was there, it may be told.
"""

RETRY_LEASE_SECONDS: Final = 60.0
"""More than a place and an attempt take together: what a worker that died was trying is tried again after it."""

FAILS: Final = "skipped: this integration failed too often of late"
CROWDED: Final = "skipped: too many events wait for this integration"
WAITED: Final = "skipped: it waited too long for this integration"

DELIVERIES: Final = Counter(
    "tombola_integration_deliveries", "Events at integrations, by what became of them.", ["outcome"]
)

log = structlog.get_logger(__name__)


class Happened(NamedTuple):
    """An event, and the exact time of what it tells of (unix seconds)."""

    event: Event
    at: float


class _Isolation:
    """What keeps one integration from harming others, in this process."""

    __slots__ = ("breaker", "bulkhead")

    def __init__(self) -> None:
        self.bulkhead = Bulkhead(places=PLACES, wait_seconds=WAIT_SECONDS, queue_max=QUEUE_MAX)
        self.breaker = CircuitBreaker(failures_to_open=FAILURES_TO_OPEN, open_seconds=OPEN_SECONDS)

    def room(self, now: float) -> int:
        """How many tries may begin: one where it failed too often of late and its time has come."""
        if self.breaker.is_open(now):
            return 0
        return PLACES if self.breaker.is_closed else 1


class Dispatcher:
    """Tells integrations of events. One per process, for the hub and for emit alike."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._connector = Connector(settings.outbound_allow_cidrs)
        self._isolations: dict[tuple[str, str], _Isolation] = {}
        self._known: dict[str, tuple[float, list[Any]]] = {}  # when the reading began, and what it found
        self._reading: dict[str, asyncio.Lock] = {}
        self.log = DeliveryLog(database)
        self._telling: set[asyncio.Task[Any]] = set()
        self._under_way: dict[tuple[str, str, str], asyncio.Task[bool]] = {}  # tenant, integration, event

    async def dispatch(
        self, event: Event, *, since: float | None = None, of_merchant: str = ""
    ) -> list[asyncio.Task[bool]]:
        """Begins to tell everyone who is to know; each task says whether an attempt was made.

        since: when the event was received (monotonic seconds), where that is not now. of_merchant: whose integrations
        alone are told ("": everybody's). UNAVAILABLE where it is not known who is to know.
        """
        rows = await self._integrations(event.tenant_id, time.monotonic() if since is None else since)
        told = (row for row in rows if not of_merchant or row["merchant_id"] == of_merchant)
        return [self._begin(row, event) for row in told if _matches(row, event) and _listened(row, event)]

    def try_once(self, event: Event, row: Any, attempts: int = 0, *, again: bool = False) -> asyncio.Task[Note]:
        """Begins to tell one integration of an event, whatever its status. The task says what was noted.

        attempts: how many were made before. again: whether a failure is tried again on the schedule.
        """
        breaker = CircuitBreaker(failures_to_open=FAILURES_TO_OPEN, open_seconds=OPEN_SECONDS)
        task = asyncio.create_task(self._attempt(breaker, row, event, attempts, again=again))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)
        return task

    async def tell_all(self, events: Iterable[Event]) -> None:
        """Tells everyone of each event, and returns when all have been, or were skipped.

        What is told late is in the log by then, since nothing else would tell of it: UNAVAILABLE where it is not.
        """
        since, late = time.monotonic(), self._database.clock.now() - OLD_SECONDS
        tasks, old = [], dict[str, list[Event]]()
        for event in events:
            if event.occurred_at < late:
                old.setdefault(event.tenant_id, []).append(event)
            else:
                tasks += await self.dispatch(event, since=since)
        lost = self.log.lost
        for tenant_id, told_before in old.items():
            tasks += await self._begin_missing(tenant_id, told_before, None)
        if tasks:
            await asyncio.wait(tasks)
        if old:
            await self.log.written()
            if self.log.lost != lost:
                raise StoreUnavailable("what became of late events could not be noted", sent=True)

    async def tell_missing(self, tenant_id: str, happened: Sequence[Happened]) -> None:
        """Tells each integration that listened then, and has no delivery of it, of what happened in a tenant."""
        listened = {one.event.id: one.at for one in happened}
        if tasks := await self._begin_missing(tenant_id, [one.event for one in happened], listened):
            await asyncio.wait(tasks)

    async def _begin_missing(
        self, tenant_id: str, events: Iterable[Event], listened: dict[str, float] | None
    ) -> list[asyncio.Task[bool]]:
        """The tasks that tell those who have no delivery of an event, also such as are under way already."""
        rows = await self._integrations(tenant_id, time.monotonic())
        wanted = [
            (row, event)
            for event in events
            for row in rows
            if _matches(row, event)
            and (_listened(row, event) if listened is None else row["heard_from"] <= listened[event.id])
        ]
        if not wanted:
            return []
        told = await self._database.fetch(_SQL["told"], tenant_id, list({event.id for _, event in wanted}))
        known = {(row["integration_id"], row["event_id"]) for row in told}
        # What is under way is waited for like the rest: until it is noted, nothing else says that it is to be told.
        return [
            self._under_way.get((tenant_id, row["integration_id"], event.id)) or self._begin(row, event)
            for row, event in wanted
            if (row["integration_id"], event.id) not in known
        ]

    async def retry_due(self) -> None:
        """Begins the tries that are due, as many as each integration has room for."""
        for tenant in await self._database.fetch(_SQL["tenants_with_retries"]):
            tenant_id, now = tenant["tenant_id"], time.monotonic()
            rows = {row["integration_id"]: row for row in await self._integrations(tenant_id, now)}
            rooms = {name: self._isolation(tenant_id, name).room(now) for name in rows}
            rooms = {name: room for name, room in rooms.items() if room}
            due = await self._database.fetch(
                _SQL["lease_retries"], tenant_id, list(rooms), list(rooms.values()), RETRY_LEASE_SECONDS
            )
            for one in due:
                self._try_again(tenant_id, rows[one["integration_id"]], one)

    def _try_again(self, tenant_id: str, row: Any, due: Any) -> None:
        try:
            event = msgspec.convert(due["event"], ReceivedEvent)
        except msgspec.ValidationError as error:  # another version's, which no try here would read
            log.error("stored_event_unreadable", tenant_id=tenant_id, event_id=due["event_id"], error=str(error))
            unread = Event(
                id=due["event_id"],
                type=due["event_type"],
                occurred_at=0,
                tenant_id=tenant_id,
                merchant_id="",
                campaign_id="",
                data={},
                trace_id="",
            )
            self.log.note(row, unread, "dead", due["attempts"], Failed(f"the stored event cannot be read: {error}"))
            return
        if (tenant_id, row["integration_id"], event.id) not in self._under_way:
            self._begin(row, event, due["attempts"])

    async def close(self) -> None:
        """Ends what is under way, and writes the logs."""
        if self._telling:
            await asyncio.wait(list(self._telling))
        await self.log.written()
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

    def _isolation(self, tenant_id: str, integration_id: str) -> _Isolation:
        key = (tenant_id, integration_id)
        if (isolation := self._isolations.get(key)) is None:
            isolation = self._isolations[key] = _Isolation()
        return isolation

    def _begin(self, row: Any, event: Event, attempts: int = 0) -> asyncio.Task[bool]:
        key = (event.tenant_id, row["integration_id"], event.id)
        task = asyncio.create_task(self._tell(row, event, attempts))
        self._telling.add(task)
        self._under_way[key] = task

        def ended(task: asyncio.Task[bool]) -> None:
            self._telling.discard(task)
            if self._under_way.get(key) is task:
                del self._under_way[key]

        task.add_done_callback(ended)
        return task

    async def _tell(self, row: Any, event: Event, attempts: int) -> bool:
        isolation = self._isolation(event.tenant_id, row["integration_id"])
        trace.current.set(event.trace_id)  # of this task alone
        if isolation.breaker.is_open(time.monotonic()):
            return self._skipped(row, event, attempts, FAILS)
        entry = await isolation.bulkhead.enter()
        if entry is not Entry.ENTERED:
            return self._skipped(row, event, attempts, CROWDED if entry is Entry.QUEUE_FULL else WAITED)
        try:
            if not isolation.breaker.admits(time.monotonic()):
                return self._skipped(row, event, attempts, FAILS)
            await self._attempt(isolation.breaker, row, event, attempts)
            return True
        finally:
            isolation.bulkhead.leave()

    async def _attempt(
        self, breaker: CircuitBreaker, row: Any, event: Event, attempts: int = 0, *, again: bool = True
    ) -> Note:
        began = time.monotonic()
        outcome = await self._deliver(row, event)
        ended = time.monotonic()
        breaker.ended(isinstance(outcome, Failed), ended)
        if not isinstance(outcome, Failed):
            said = status = "stubbed" if isinstance(outcome, Stubbed) else "delivered"
        else:
            said = "failed"
            status = "retry" if again and not outcome.final and attempts < len(SCHEDULE_SECONDS) else "dead"
        DELIVERIES.labels(said).inc()
        return self.log.note(row, event, status, attempts + 1, outcome, int((ended - began) * 1000))

    async def _deliver(self, row: Any, event: Event) -> Outcome:
        provider = integration_provider(row["type"])
        if provider is None:
            return Failed(f"no provider is registered for {row['type']!r}")
        context = integration_context(event.tenant_id, row["integration_id"])
        try:
            vault = vault_of(self._settings.code_keys)
            secrets, config = opened(row["config"], lambda sealed: vault.open_secret(sealed, context))
        except (VaultError, ValueError) as error:
            return Failed(f"the secret cannot be opened: {error}")
        now = int(self._database.clock.now())
        request = DeliveryRequest(event.id, config, secrets, now, msgspec.to_builtins(event), event.tenant_id)
        try:
            return await provider(self._connector, request)
        except Exception as error:
            log.error("provider_failed", integration_type=row["type"], event_id=event.id, exc_info=error)
            return Failed(f"the provider failed: {type(error).__name__}")

    def _skipped(self, row: Any, event: Event, attempts: int, why: str) -> bool:
        DELIVERIES.labels("skipped").inc()
        self.log.note(row, event, "retry", attempts, Failed(why))
        return False


def _listened(row: Any, event: Event) -> bool:
    """Whether an integration was there, and not paused, when an event happened, as far as its whole seconds say."""
    heard_from: float = row["heard_from"]
    return heard_from < event.occurred_at + SAME_TIME_SECONDS


def _matches(row: Any, event: Event) -> bool:
    """Whether an integration of the event's tenant subscribes to it, and has its merchant and campaign (or any)."""
    return (
        event.type in row["events"]
        and row["merchant_id"] in ("", event.merchant_id)
        and row["campaign_id"] in ("", event.campaign_id)
    )
