"""Dispatches events to integrations, with a concurrency limit and a circuit breaker for each.

Dispatch runs off every request's path. The delivery log has a row for each event and integration; failed or skipped
deliveries are retried from that row on the delivery schedule (`retry_due`). Each integration has its own bulkhead and
circuit breaker, so a slow or unreachable one does not affect the others. Each tenant has a bulkhead as well: many slow
integrations leave connections for other tenants.
"""

from __future__ import annotations

import asyncio
import collections
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from typing import Any, Final, NamedTuple

import asyncpg
import msgspec
import structlog
from prometheus_client import Counter

import sql
from runtime import trace
from runtime.actors.address_limit import TOO_MANY_MESSAGES, AddressLimit
from runtime.actors.delivery_log import TRIED_SECONDS, DeliveryLog, LogEntry
from runtime.actors.included import included
from runtime.actors.mailing import EMAIL, Mailing, causes_none
from runtime.errors import Fault, Status
from runtime.events import Event, ReceivedEvent
from runtime.outgoing.breaker import CircuitBreaker
from runtime.outgoing.bulkhead import Bulkhead, Entry
from runtime.outgoing.connector import CONNECTIONS, Connector
from runtime.outgoing.integrations import integration_provider, limited_number
from runtime.outgoing.providers import (
    DeliveryRequest,
    Failed,
    Ignored,
    LoggedOutcome,
    Skipped,
    Stubbed,
    attempted,
)
from runtime.outgoing.schedule import SCHEDULE_SECONDS
from runtime.outgoing.vault import VaultError, integration_context, opened, vault_of
from runtime.settings import Settings
from runtime.stores.database import Database, StoreUnavailable
from runtime.stores.keyring import Keyring

_SQL: Final = sql.load("integrations")

PLACES: Final = 16
"""Concurrent attempts at one integration."""

TENANT_PLACES: Final = CONNECTIONS // 4
"""Concurrent attempts at all integrations of a tenant."""

TRIES_MAX: Final = 16
"""Tests and resends of a tenant that staff wait for at a time."""

QUEUE_MAX: Final = 10_000
"""Events that wait for a slot; beyond it events are skipped and retried later."""

WAIT_SECONDS: Final = 20.0
"""How long an event waits for a slot: long enough for a burst, too short for a receiver that hangs."""

FAILURES_TO_OPEN: Final = 5
OPEN_SECONDS: Final = 30.0
"""After this many consecutive failures the breaker opens for OPEN_SECONDS; then one event probes the integration."""

OLD_SECONDS: Final = 10.0
"""An event older than this may have been delivered already, by a retry or a backfill, so the log is checked first."""

SAME_TIME_SECONDS: Final = 2.0
"""Tolerance when comparing an event's time with an integration's registration.

Event times are whole seconds, by another clock. Exact times exist in rows, but not for all events. So an integration
may receive events from this long before its registration.
"""

ENDED_MAX: Final = 256
"""Retries per integration whose age one pass checks. More than arrive between two passes, or the log would grow."""

RETRY_LEASE_SECONDS: Final = 60.0
"""Lease of a retry, longer than waiting for both slots plus an attempt; a crashed worker's retries resume after it."""

BREAKER_OPEN: Final = "skipped: this integration failed too often recently"
QUEUE_FULL: Final = "skipped: too many events are queued for this integration"
TOO_OLD: Final = "ended: the event is too old, and this integration failed too often recently"
UNSUBSCRIBED: Final = "the integration no longer subscribes to this event"
NO_MESSAGE: Final = "the event causes no message"
TIMED_OUT: Final = "skipped: the event waited too long for this integration"

DELIVERIES: Final = Counter(
    "tombola_integration_deliveries", "Deliveries of events to integrations, by outcome.", ["outcome"]
)

_STATUSES: Final[dict[type[LoggedOutcome], str]] = {Stubbed: "stubbed", Skipped: "skipped", Ignored: "ignored"}

log = structlog.get_logger(__name__)


class PastEvent(NamedTuple):
    """An event, and the exact time at which it occurred (unix seconds)."""

    event: Event
    at: float


class _Isolation:
    """The bulkhead and circuit breaker of one integration, in this process."""

    __slots__ = ("breaker", "bulkhead")

    def __init__(self) -> None:
        self.bulkhead = _bulkhead(PLACES)
        self.breaker = CircuitBreaker(failures_to_open=FAILURES_TO_OPEN, open_seconds=OPEN_SECONDS)

    def room(self, now: float) -> int:
        """How many attempts may start now: one if the breaker is ready for a probe."""
        if self.breaker.is_open(now):
            return 0
        return PLACES if self.breaker.is_closed else 1


def _bulkhead(places: int) -> Bulkhead:
    return Bulkhead(places=places, wait_seconds=WAIT_SECONDS, queue_max=QUEUE_MAX)


class Dispatcher:
    """Delivers events to integrations. One per process, shared by the hub and emit."""

    def __init__(self, settings: Settings, database: Database, keyring: Keyring) -> None:
        self._keyring = keyring
        self._database = database
        # The bulkheads bound the connections: a limit per host would let one tenant use up a host that others share.
        self._connector = Connector(settings.outbound_allow_cidrs, per_host=0)
        self._mailing = Mailing(settings, database, keyring)
        self._limit = AddressLimit(keyring, database)
        self._isolations: dict[tuple[str, str], _Isolation] = {}
        self._tenants: dict[str, Bulkhead] = {}
        self._tries: collections.Counter[str] = collections.Counter()
        self._cached: dict[str, tuple[float, list[Any]]] = {}  # start of the read, and its rows
        self._reading: dict[str, asyncio.Lock] = {}
        self.log = DeliveryLog(database)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._under_way: dict[tuple[str, str, str], asyncio.Task[bool]] = {}  # tenant, integration, event

    async def dispatch(
        self, event: Event, *, since: float | None = None, of_merchant: str = ""
    ) -> list[asyncio.Task[bool]]:
        """Starts a delivery to each matching integration. Each task returns whether an attempt was made.

        since: when the event was received (monotonic seconds); default now. of_merchant: limit to this merchant's
        integrations ("": all). UNAVAILABLE if the integrations cannot be read.
        """
        rows = await self._integrations(event.tenant_id, time.monotonic() if since is None else since)
        selected = (row for row in rows if not of_merchant or row["merchant_id"] == of_merchant)
        return [self._begin(row, event) for row in selected if _matches(row, event) and _was_active(row, event)]

    @contextmanager
    def place_for_try(self, tenant_id: str) -> Iterator[None]:
        """A place for a test or a resend of the tenant, while staff wait for it. UNAVAILABLE OVERLOADED without one."""
        if self._tries[tenant_id] >= TRIES_MAX:
            message = "too many tests and resends are running; try again once they have ended"
            raise Fault(Status.UNAVAILABLE, "OVERLOADED", message, retry_after_seconds=5)
        self._tries[tenant_id] += 1
        try:
            yield
        finally:
            self._tries[tenant_id] -= 1

    def try_once(self, event: Event, row: Any, attempts: int = 0, *, again: bool = False) -> asyncio.Task[LogEntry]:
        """Starts one delivery to an integration of any status. The task returns the log entry.

        attempts: earlier attempts. again: whether a failure is retried on the schedule.
        """
        breaker = CircuitBreaker(failures_to_open=FAILURES_TO_OPEN, open_seconds=OPEN_SECONDS)
        task = asyncio.create_task(self._attempt(breaker, row, event, attempts, again=again, logged=True))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def dispatch_all(self, events: Iterable[Event]) -> set[str]:
        """Delivers each event to all matching integrations; returns when all are delivered or skipped.

        Returns the ids of events to dispatch again because their tenant's database is away. Either nothing was sent, or
        the event is older than OLD_SECONDS and its outcome could not be logged: nothing else would retry it.
        """
        since, late = time.monotonic(), self._database.clock.now() - OLD_SECONDS
        by_tenant: dict[str, list[Event]] = {}
        for event in events:
            by_tenant.setdefault(event.tenant_id, []).append(event)
        # Read everything before the first delivery: after a failure the caller dispatches the events again.
        reads = (self._undelivered(tenant_id, found, since, late) for tenant_id, found in by_tenant.items())
        results = await asyncio.gather(*reads, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, StoreUnavailable):
                raise result
        lost, tasks, old, again = self.log.lost.copy(), list[asyncio.Task[bool]](), dict[str, set[str]](), set[str]()
        for (tenant_id, tenant_events), result in zip(by_tenant.items(), results, strict=True):
            if isinstance(result, BaseException):
                log.warning("events_wait", tenant_id=tenant_id, error=str(result))
                again.update(event.id for event in tenant_events)
            else:
                tasks += [self._begin(row, event) for row, event in result]
                old[tenant_id] = {event.id for event in tenant_events if event.occurred_at < late}
        if tasks:
            await asyncio.wait(tasks)
        for tenant_id, event_ids in old.items():
            if event_ids:
                await self.log.wait_until_written(tenant_id)
                again |= event_ids if self.log.lost[tenant_id] != lost[tenant_id] else set()
        return again

    async def dispatch_missing(self, tenant_id: str, past_events: Sequence[PastEvent]) -> None:
        """Delivers events to each integration that was listening at the time and has no delivery of them."""
        rows = await self._integrations(tenant_id, time.monotonic())
        wanted = [
            (row, one.event)
            for one in past_events
            for row in rows
            if _matches(row, one.event) and row["active_since"] <= one.at
        ]
        if tasks := [self._begin(row, event) for row, event in await self._missing(tenant_id, wanted)]:
            await asyncio.wait(tasks)

    async def _undelivered(
        self, tenant_id: str, events: Sequence[Event], since: float, late: float
    ) -> list[tuple[Any, Event]]:
        """The deliveries to make of a tenant's events; of those that occurred before `late`, only ones not logged."""
        rows = await self._integrations(tenant_id, since)
        wanted = [(row, event) for event in events for row in rows if _matches(row, event) and _was_active(row, event)]
        old = await self._missing(tenant_id, [one for one in wanted if one[1].occurred_at < late])
        return [one for one in wanted if one[1].occurred_at >= late] + old

    async def _missing(self, tenant_id: str, wanted: list[tuple[Any, Event]]) -> list[tuple[Any, Event]]:
        """Those of the deliveries that have no log entry. Includes running ones, so that their log entry is awaited."""
        if not wanted:
            return []
        event_ids = list({event.id for _, event in wanted})
        delivered = await self._database.route(tenant_id).fetch(_SQL["delivered"], tenant_id, event_ids)
        known = {(row["integration_id"], row["event_id"]) for row in delivered}
        return [(row, event) for row, event in wanted if (row["integration_id"], event.id) not in known]

    async def retry_due(self) -> None:
        """Starts the retries that are due, limited to each integration's capacity. Ends those that are too old."""
        for tenant_id in await self._database.tenants(_SQL["tenants_with_retries"]):
            now = time.monotonic()
            rows = {row["integration_id"]: row for row in await self._integrations(tenant_id, now)}
            rooms = {name: self._isolation(tenant_id, name).room(now) for name in rows}
            rooms = {name: room for name, room in rooms.items() if room}
            # A closed breaker holds nothing back: a retry is late because of a pause or an outage of the workers.
            failing = [name for name in rows if not self._isolation(tenant_id, name).breaker.is_closed]
            database = self._database.route(tenant_id)
            await database.execute(_SQL["end_retries"], tenant_id, failing, ENDED_MAX, TRIED_SECONDS, TOO_OLD)
            due = await database.fetch(
                _SQL["lease_retries"], tenant_id, list(rooms), list(rooms.values()), RETRY_LEASE_SECONDS
            )
            for one in due:
                self._try_again(tenant_id, rows[one["integration_id"]], one)

    def _try_again(self, tenant_id: str, row: Any, due: Any) -> None:
        try:
            event = msgspec.convert(due["event"], ReceivedEvent)
        except msgspec.ValidationError as error:  # Written by an incompatible version: no retry could read it.
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
            self.log.record(row, unread, "dead", due["attempts"], Failed(f"the stored event cannot be read: {error}"))
            return
        if row["type"] == EMAIL or _matches(row, event):  # A mail's event has the type of the message.
            self._begin(row, event, due["attempts"], logged=True)
        else:
            self.log.record(row, event, "skipped", due["attempts"], Skipped(UNSUBSCRIBED))

    async def close(self) -> None:
        """Waits for running deliveries and writes the log."""
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        await self.log.close()
        await self._connector.close()

    # -- one integration ---------------------------------------------------------------------

    async def _integrations(self, tenant_id: str, since: float) -> list[Any]:
        """A tenant's integrations, read after `since`.

        A cached list from before the event may lack an integration registered just before it: someone who registers and
        plays at once, while other events keep the cache fresh, would receive nothing. One read serves all events that
        arrived before it began.
        """
        async with self._reading.setdefault(tenant_id, asyncio.Lock()):
            read_at, rows = self._cached.get(tenant_id, (-inf, []))
            if read_at < since:
                now = time.monotonic()
                rows = await self._database.route(tenant_id).fetch(_SQL["active"], tenant_id)
                self._cached[tenant_id] = (now, rows)
            return rows

    def _isolation(self, tenant_id: str, integration_id: str) -> _Isolation:
        key = (tenant_id, integration_id)
        if (isolation := self._isolations.get(key)) is None:
            isolation = self._isolations[key] = _Isolation()
        return isolation

    def _begin(self, row: Any, event: Event, attempts: int = 0, *, logged: bool = False) -> asyncio.Task[bool]:
        """Starts a delivery, or returns the one in progress."""
        key = (event.tenant_id, row["integration_id"], event.id)
        if (running := self._under_way.get(key)) is not None:
            return running
        task = asyncio.create_task(self._deliver_isolated(row, event, attempts, logged))
        self._tasks.add(task)
        self._under_way[key] = task

        def ended(task: asyncio.Task[bool]) -> None:
            self._tasks.discard(task)
            del self._under_way[key]

        task.add_done_callback(ended)
        return task

    async def _deliver_isolated(self, row: Any, event: Event, attempts: int, logged: bool) -> bool:
        isolation = self._isolation(event.tenant_id, row["integration_id"])
        trace.current.set(event.trace_id)  # Applies to this task only.
        if isolation.breaker.is_open(time.monotonic()):
            return self._skipped(row, event, attempts, BREAKER_OPEN)
        if (tenant := self._tenants.get(event.tenant_id)) is None:
            tenant = self._tenants[event.tenant_id] = _bulkhead(TENANT_PLACES)
        entered: list[Bulkhead] = []
        try:
            for bulkhead in (isolation.bulkhead, tenant):
                if (entry := await bulkhead.enter()) is not Entry.ENTERED:
                    return self._skipped(row, event, attempts, QUEUE_FULL if entry is Entry.QUEUE_FULL else TIMED_OUT)
                entered.append(bulkhead)
            if not isolation.breaker.admits(time.monotonic()):
                return self._skipped(row, event, attempts, BREAKER_OPEN)
            await self._attempt(isolation.breaker, row, event, attempts, logged=logged)
            return True
        finally:
            for bulkhead in entered:
                bulkhead.leave()

    async def _attempt(
        self,
        breaker: CircuitBreaker,
        row: Any,
        event: Event,
        attempts: int = 0,
        *,
        again: bool = True,
        logged: bool = False,
    ) -> LogEntry:
        """Makes one attempt and logs it. logged: the log has a row of the event, which an Ignored outcome must end."""
        began = time.monotonic()
        outcome: LoggedOutcome
        if row["type"] == EMAIL:
            event, outcome = await self._mailing.deliver(event)
            if logged and isinstance(outcome, Ignored):
                outcome = Skipped(NO_MESSAGE)
        else:
            outcome = await self._deliver(row, event)
        ended = time.monotonic()
        if not (isinstance(outcome, Failed) and outcome.of_one):
            breaker.record(isinstance(outcome, Failed), ended)
        if not isinstance(outcome, Failed):
            label = status = _STATUSES.get(type(outcome), "delivered")
        else:
            label = "failed"
            status = "retry" if again and not outcome.final and attempts < len(SCHEDULE_SECONDS) else "dead"
        DELIVERIES.labels(label).inc()
        return self.log.record(row, event, status, attempts + 1, outcome, int((ended - began) * 1000))

    async def _deliver(self, row: Any, event: Event) -> LoggedOutcome:
        provider = integration_provider(row["type"])
        if provider is None:
            return Failed(f"no provider is registered for {row['type']!r}")
        context = integration_context(event.tenant_id, row["integration_id"])
        try:
            vault = vault_of(self._keyring.code)
            secrets, config = opened(row["config"], lambda sealed: vault.open_secret(sealed, context))
        except (VaultError, ValueError) as error:
            return Failed(f"the secret cannot be decrypted: {error}")
        try:
            body = {**msgspec.to_builtins(event), **await included(self._database, row["type"], config, event)}
        except (Fault, asyncpg.PostgresError) as error:  # Retried: without the entry, the body would lack it for good.
            return Failed(f"the entry cannot be read: {type(error).__name__}")
        now = int(self._database.clock.now())
        request = DeliveryRequest(event.id, config, secrets, now, body, event.tenant_id)
        number = limited_number(row["type"], config, body)
        try:
            if number and not await self._limit.take(event.tenant_id, "phone", number):
                return Skipped(TOO_MANY_MESSAGES)
        except (Fault, asyncpg.PostgresError) as error:
            return Failed(f"the limit of the number cannot be read: {type(error).__name__}")
        outcome: LoggedOutcome
        try:
            outcome = await attempted(provider, self._connector, request)
        except Exception as error:
            log.error("provider_failed", integration_type=row["type"], event_id=event.id, exc_info=error)
            outcome = Failed(f"the provider failed: {type(error).__name__}")
        if number and isinstance(outcome, Failed):
            with suppress(Fault, asyncpg.PostgresError):  # The retry is counted as well then.
                await self._limit.give_back(event.tenant_id, "phone", number)
        return outcome

    def _skipped(self, row: Any, event: Event, attempts: int, why: str) -> bool:
        DELIVERIES.labels("skipped").inc()
        self.log.record(row, event, "retry", attempts, Failed(why))
        return False


def _was_active(row: Any, event: Event) -> bool:
    """Whether an integration existed and was not paused at an event's time, within SAME_TIME_SECONDS."""
    active_since: float = row["active_since"]
    return active_since < event.occurred_at + SAME_TIME_SECONDS


def _matches(row: Any, event: Event) -> bool:
    """Whether an integration subscribes to the event's type, merchant and campaign, and sends something for it."""
    return (
        event.type in row["events"]
        and not (row["type"] == EMAIL and causes_none(event))
        and row["merchant_id"] in ("", event.merchant_id)
        and row["campaign_id"] in ("", event.campaign_id)
    )
