"""Core: `call(operation, request)`, the only entry to the actors, for every transport.

It checks the scope, posts the request to its actor or runs its function, turns database errors about bad input into
INVALID_ARGUMENT, and counts. All of that happens once, here, whatever the transport.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final, Protocol

import asyncpg
import structlog

from runtime import trace
from runtime.actors.engine import Actors, Engine
from runtime.actors.idempotency import Replay, replayed
from runtime.actors.keyed_starts import start_once
from runtime.actors.mailbox import LATE
from runtime.errors import Fault, Status, invalid
from runtime.metrics import CALLS, Histogram
from runtime.operations import OPERATIONS, Operation, suspension
from runtime.operations.row import Run, SessionUse
from runtime.outgoing.bulkhead import Bulkhead, Entry
from runtime.stores import cache_version
from runtime.stores.database import HOME, StoreUnavailable
from runtime.wire.scope import merchant_of, tenant_of

log = structlog.get_logger(__name__)

SECONDS: Final = Histogram("tombola_operation_seconds", "Time of an operation in Core, in seconds.", ["operation"])

for _operation in OPERATIONS:
    CALLS.values[_operation.name, "OK"] = 0  # Present from the start, so that a rate has a first value.

BOUNDED_QUEUE_MAX: Final = 256
"""Queued calls of `bounded` operations, per database. Further calls get UNAVAILABLE OVERLOADED at once."""


def bounded_at_once(connections: int) -> int:
    """The concurrency limit of `bounded` operations: 30 % of the pool's connections, at least 1."""
    return max(1, connections * 3 // 10)


class Caller(Protocol):
    """An edge's access to Core: Core itself in the same process, otherwise an RPC client."""

    async def call(self, operation: Operation, request: Any) -> Any:
        """Returns the operation's reply. Raises Fault."""
        ...


class Core:
    """Core in this process."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        settings = engine.settings
        self._answer_seconds = settings.answer_timeout_seconds
        kinds = {operation.actor for operation in OPERATIONS if operation.actor is not None}
        self._actors: dict[type[Actors[Any, Any, Any]], Actors[Any, Any, Any]] = {kind: kind(engine) for kind in kinds}
        self._seconds = {operation.name: SECONDS.series(operation.name) for operation in OPERATIONS}
        self._suspends = frozenset(row.name for row in OPERATIONS if row.refused_while_suspended)
        self._bounded = {
            part.name: Bulkhead(
                places=bounded_at_once(settings.database_pool_size),
                wait_seconds=settings.database_acquire_timeout_seconds,
                queue_max=BOUNDED_QUEUE_MAX,
            )
            for part in engine.database.parts
        }
        self._closing = False
        engine.database.on_other_history.append(self._invalidate_caches)

    def _invalidate_caches(self) -> None:
        """The database was restored to an older state: cached rows may come from transactions that were lost."""
        self.engine.catalog_versions.clear()
        for actors in self._actors.values():
            actors.distrust()

    async def call(self, operation: Operation, request: Any) -> Any:
        """Runs an operation. Every error becomes a Fault; a bug becomes INTERNAL and is logged."""
        started = time.perf_counter()
        replayed.set(False)
        before = trace.tenant.set("")
        try:
            if self._closing:
                raise Fault(Status.UNAVAILABLE, "OVERLOADED", "shutting down; try again", retry_after_seconds=1)
            if operation.scoped:
                trace.tenant.set(tenant_of(request))  # Refuses a request without a tenant.
            if operation.run is not None:
                reply = await self._run_in_time(operation.run, operation, request)
            else:
                assert operation.actor is not None
                actors = self._actors[operation.actor]
                if operation.session is SessionUse.OPENS and request.idempotency_key:
                    reply = await start_once(self.engine, actors, request)
                else:
                    reply = await actors.post(actors.key_of(request), request)
                if operation.rest is not None:
                    reply = await operation.rest(self.engine, reply)
                if type(reply) is Replay:
                    reply = reply.reply
                    replayed.set(True)
        except Fault as fault:
            CALLS.add(operation.name, fault.status.name)
            raise
        except Exception as error:
            # Not assigned to a variable: the error's frames would refer to it, a reference cycle.
            raise _counted(operation, _fault(operation, error)) from error
        finally:
            trace.tenant.reset(before)
        if operation.invalidates_cache:
            cache_version.changed(self.engine.ephemeral, request.scope.tenant_id)
        CALLS.add(operation.name, "OK")
        self._seconds[operation.name].observe(time.perf_counter() - started)
        return reply

    async def _run_in_time(self, work: Run, operation: Operation, request: Any) -> Any:
        """Runs an operation's function; UNAVAILABLE after ANSWER_TIMEOUT_SECONDS, with unknown outcome.

        Each wait for the store is bounded, but a function has several; its waits for a connection share one limit.
        """
        run = self._run_bounded if operation.bounded else self._run
        with self.engine.database.share_acquire_limit():
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
                # A reference cycle: the timeout refers to its task, the task to its error, the error to this frame.
                del answering

    async def _run(self, work: Run, operation: Operation, request: Any) -> Any:
        """Runs the function, after checking the merchant's scope and suspensions."""
        merchant_id = merchant_of(request) if operation.admin is not None else ""
        if merchant_id and operation.tenant_wide:
            raise Fault(Status.PERMISSION_DENIED, "FORBIDDEN", "this is for the tenant's own staff")
        trace.merchant.set(merchant_id)
        if operation.name in self._suspends:
            player_id = request.player_id if operation.admin is None and operation.of_player else ""
            await suspension.refuse(self.engine, request, player_id)
        return await work(self.engine, request)

    async def _run_bounded(self, work: Run, operation: Operation, request: Any) -> Any:
        """As `_run`, with limited concurrency. UNAVAILABLE OVERLOADED if too many wait or a wait takes too long.

        Otherwise a flood of logins, which queue for each other's row locks, would hold every database connection, and
        plays could not commit.
        """
        bounded = self._bounded.get(self.engine.database.here().name) or self._bounded[HOME]
        if await bounded.enter() is not Entry.ENTERED:
            raise Fault(Status.UNAVAILABLE, "OVERLOADED", "too many queued requests; try again", retry_after_seconds=1)
        try:
            reply = await self._run(work, operation, request)
        finally:
            bounded.leave()
        return reply if operation.rest is None else await operation.rest(self.engine, reply)

    async def drain(self) -> None:
        """Refuses new calls, and returns when all accepted ones have been answered."""
        self._closing = True
        for actors in self._actors.values():
            await actors.drain()
        await self.engine.committer.drain()
        await self.engine.rankings.drain()
        await self.engine.log_passes.drain()
        await self.engine.dispatcher.close()
        if self.engine.objects is not None:
            await self.engine.objects.close()


def _counted(operation: Operation, fault: Fault) -> Fault:
    CALLS.add(operation.name, fault.status.name)
    return fault


def _fault(operation: Operation, error: Exception) -> Fault:
    if isinstance(error, asyncpg.DataError | asyncpg.UntranslatableCharacterError):
        # A value that passed the checks but cannot be stored by Postgres (NUL, out of range).
        return invalid("", "a value cannot be stored: " + str(error).splitlines()[0])
    log.error("operation_failed", operation=operation.name, exc_info=error)
    return Fault(Status.INTERNAL, "INTERNAL", "an internal error occurred and was logged")
