"""Core: `call(operation, request)`, the one way into the actors, for every surface alike.

It checks the scope, puts the request into its actor's mailbox or runs it, turns what the database
says of bad input into INVALID_ARGUMENT, and counts: once, here, whatever the transport.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final, Protocol

import asyncpg
import structlog
from prometheus_client import Counter, Histogram

from runtime import trace
from runtime.actors.engine import Actors, Engine
from runtime.actors.idempotency import Replay, replayed
from runtime.actors.keyed_starts import start_once
from runtime.actors.mailbox import LATE
from runtime.errors import Fault, Status, invalid
from runtime.operations import OPERATIONS, Operation, suspension
from runtime.operations.row import Run, SessionUse
from runtime.outgoing.bulkhead import Bulkhead, Entry
from runtime.stores import cache_version
from runtime.stores.database import StoreUnavailable
from runtime.wire.scope import merchant_of, tenant_of

log = structlog.get_logger(__name__)

SECONDS: Final = Histogram(
    "tombola_operation_seconds",
    "Time of an operation in Core, in seconds.",
    ["operation"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)
OUTCOMES: Final = Counter("tombola_operations_total", "Operations by their gRPC status.", ["operation", "status"])


BOUNDED_QUEUE_MAX: Final = 256
"""Logins that wait for their turn; the others are told at once to come again."""


def bounded_at_once(connections: int) -> int:
    """How many of the operations that strangers may flood are done at once: a third of the connections at most."""
    return max(1, connections * 3 // 10)


class Caller(Protocol):
    """What an edge holds: Core itself where they share a process, an RPC client where they do not."""

    async def call(self, operation: Operation, request: Any) -> Any:
        """The operation's reply. Raises Fault."""
        ...


class Core:
    """Core in this process."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        settings = engine.settings
        self._answer_seconds = settings.answer_timeout_seconds
        kinds = {operation.actor for operation in OPERATIONS if operation.actor is not None}
        self._actors: dict[type[Actors[Any, Any, Any]], Actors[Any, Any, Any]] = {kind: kind(engine) for kind in kinds}
        self._seconds = {operation.name: SECONDS.labels(operation.name) for operation in OPERATIONS}
        self._ok = {operation.name: OUTCOMES.labels(operation.name, "OK") for operation in OPERATIONS}
        self._suspends = frozenset(row.name for row in OPERATIONS if row.suspends)
        self._bounded = Bulkhead(
            places=bounded_at_once(settings.database_pool_size),
            wait_seconds=settings.database_acquire_timeout_seconds,
            queue_max=BOUNDED_QUEUE_MAX,
        )
        self._closing = False
        engine.database.on_other_history.append(self._distrust)

    def _distrust(self) -> None:
        """The database goes on from another past: what was remembered of it may never have been."""
        self.engine.catalog_versions.clear()
        for actors in self._actors.values():
            actors.distrust()

    async def call(self, operation: Operation, request: Any) -> Any:
        """Does the operation. What it raises is always a Fault; a bug is INTERNAL, and logged."""
        started = time.perf_counter()
        replayed.set(False)
        before = trace.tenant.set("")
        try:
            if self._closing:
                raise Fault(Status.UNAVAILABLE, "OVERLOADED", "shutting down; try again", retry_after_seconds=1)
            if operation.scoped:
                trace.tenant.set(tenant_of(request))  # which refuses a request without one
            if operation.run is not None:
                reply = await self._run_in_time(operation.run, operation, request)
            else:
                assert operation.actor is not None
                actors = self._actors[operation.actor]
                if operation.session is SessionUse.OPENS and request.idempotency_key:
                    reply = await start_once(self.engine, actors, request)
                else:
                    reply = await actors.post(actors.key_of(request), request)
                if type(reply) is Replay:
                    reply = reply.reply
                    replayed.set(True)
        except Fault as fault:
            OUTCOMES.labels(operation.name, fault.status.name).inc()
            raise
        except Exception as error:
            # Not kept by a name: an error's frames would hold it, and it them.
            raise _counted(operation, _fault(operation, error)) from error
        finally:
            trace.tenant.reset(before)
        if operation.stales:
            cache_version.changed(self.engine.ephemeral, request.scope.tenant_id)
        self._ok[operation.name].inc()
        self._seconds[operation.name].observe(time.perf_counter() - started)
        return reply

    async def _run_in_time(self, work: Run, operation: Operation, request: Any) -> Any:
        """Does what is a function's, or UNAVAILABLE after ANSWER_TIMEOUT_SECONDS: what it was at is undone, or done.

        Each of its waits for the store is bounded, but it has several; those for a connection are one together.
        """
        run = self._run_bounded if operation.bounded else self._run
        with self.engine.database.waiting_as_one():
            if operation.lengthy:
                return await run(work, operation, request)
            try:
                async with asyncio.timeout(self._answer_seconds) as answering:
                    return await run(work, operation, request)
            except TimeoutError as error:
                if not answering.expired():
                    raise
                raise StoreUnavailable(LATE, sent=True) from error
            finally:
                # It knows its task, and a task its error, whose traceback has this frame: they would outlive it.
                del answering

    async def _run(self, work: Run, operation: Operation, request: Any) -> Any:
        """Does it, for whom it is not refused to."""
        merchant_id = merchant_of(request) if operation.admin is not None else ""
        if merchant_id and operation.tenant_wide:
            raise Fault(Status.PERMISSION_DENIED, "FORBIDDEN", "this is for the tenant's own staff")
        trace.merchant.set(merchant_id)
        if operation.name in self._suspends:
            player_id = request.player_id if operation.admin is None and operation.of_player else ""
            await suspension.refuse(self.engine, request, player_id)
        return await work(self.engine, request)

    async def _run_bounded(self, work: Run, operation: Operation, request: Any) -> Any:
        """The same, a few at once. UNAVAILABLE OVERLOADED where too many wait already, or nothing moves.

        Else who floods logins, which queue behind each other's rows, would hold every connection to the database,
        and plays would find none to commit on.
        """
        if await self._bounded.enter() is not Entry.ENTERED:
            raise Fault(Status.UNAVAILABLE, "OVERLOADED", "too many logins wait; try again", retry_after_seconds=1)
        try:
            return await self._run(work, operation, request)
        finally:
            self._bounded.leave()

    async def drain(self) -> None:
        """Refuses what comes, and returns when what was accepted has been answered."""
        self._closing = True
        for actors in self._actors.values():
            await actors.drain()
        await self.engine.committer.drain()
        await self.engine.rankings.drain()
        await self.engine.dispatcher.close()


def _counted(operation: Operation, fault: Fault) -> Fault:
    OUTCOMES.labels(operation.name, fault.status.name).inc()
    return fault


def _fault(operation: Operation, error: Exception) -> Fault:
    if isinstance(error, asyncpg.DataError | asyncpg.UntranslatableCharacterError):
        # A value that passed the checks and that Postgres still cannot store (NUL, out of range).
        return invalid("", "a value cannot be stored: " + str(error).splitlines()[0])
    log.error("operation_failed", operation=operation.name, exc_info=error)
    return Fault(Status.INTERNAL, "INTERNAL", "something went wrong here; it has been logged")
