"""The shared pipeline to one server of the ephemeral store, and its breaker.

Commands that concurrent requests issue in one turn of the event loop are sent in one write, and their replies are read
together: redis-py costs more CPU per call than the server does. Nothing is retried here: a repeated INCR would count
twice, and repeated timeouts would hang the request.

The breaker opens at the first lost connection or overdue reply, and fails every waiting call at that moment; while it
is open, calls fail at once. A background probe closes it. So a dead or frozen store costs the requests in progress one
timeout, and later ones nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

import structlog
from hiredis import pack_command
from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ReadOnlyError, RedisError, ResponseError

from runtime.errors import Fault, Status

Arg = str | bytes | int | float

QUEUE_MAX: Final = 20_000
"""Commands that may wait for a connection; beyond it a call fails at once."""

BATCH_MAX: Final = 1_024
"""Commands in one write: bounds how long a command waits for those written before it."""

STALL_SECONDS: Final = 0.05
"""A deadline that fires later than this means that our own loop stalled, not the store."""

PROBE_FIRST_SECONDS: Final = 0.02
PROBE_LAST_SECONDS: Final = 0.25
"""The probe's pause doubles from the first to the last, so a returning store is found within 0.25 s."""

CLIENT_ERRORS: Final = (RedisError, OSError, TimeoutError, RuntimeError)
"""Every error of a Redis client. uvloop raises RuntimeError on a write to a connection that was just lost, and
redis-py passes it on."""

log = structlog.get_logger(__name__)


class EphemeralDown(Fault):
    """The ephemeral store is unavailable. Nothing durable is lost: degrade, or answer 503.

    A command in progress may or may not have been executed.
    """

    def __init__(self, why: str) -> None:
        super().__init__(
            Status.UNAVAILABLE, "STORE_UNAVAILABLE", "the ephemeral store is unavailable", retry_after_seconds=1
        )
        self.why = why


class _Lane:
    """One connection, its task, and the calls in progress on it."""

    __slots__ = ("connection", "deadline", "excused", "task", "waiters")

    def __init__(self, connection: AbstractConnection) -> None:
        self.connection = connection
        self.task: asyncio.Task[None] | None = None
        self.waiters: deque[asyncio.Future[Any] | None] = deque()
        self.deadline: asyncio.TimerHandle | None = None
        self.excused = False


class Pipeline:
    """The shared pipeline to one server."""

    def __init__(
        self,
        pool: ConnectionPool,
        *,
        timeout_seconds: float,
        connect_timeout_seconds: float,
        lanes: int,
        on_state: Callable[[], None],
    ) -> None:
        self.up = False
        self.round_trips = 0
        self.commands = 0
        self.lost = 0
        self.trips = 0
        self._pool = pool
        self._timeout_seconds = timeout_seconds
        self._connect_timeout_seconds = connect_timeout_seconds
        self._lane_count = lanes
        self._on_state = on_state
        self._loop = asyncio.get_running_loop()
        self._packed: deque[bytes] = deque()
        self._waiters: deque[asyncio.Future[Any] | None] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._lanes: list[_Lane] = []
        self._first_probe = asyncio.Event()
        self._probe: asyncio.Task[None] | None = self._loop.create_task(self._revive([]))
        self._closed = False

    async def probed(self) -> None:
        """Waits until the first probe has ended, with or without success."""
        await self._first_probe.wait()

    def call(self, command: tuple[Arg, ...]) -> asyncio.Future[Any]:
        """Adds a command to the next write; the future is its reply.

        Raises EphemeralDown at once if the breaker is open or the queue is full. The future fails with EphemeralDown if
        the breaker opens before the reply, and with ResponseError if the server refuses the command.
        """
        if not self.up:
            raise EphemeralDown("the breaker is open")
        if len(self._waiters) >= QUEUE_MAX:
            raise EphemeralDown("too many commands wait")
        packed = _pack(command)
        waiter = self._loop.create_future()
        self._enqueue(packed, waiter)
        return waiter

    def post(self, command: tuple[Arg, ...]) -> None:
        """Adds a command to the next write, without a reply. Counted in `lost` unless known to have worked."""
        if not self.up or len(self._waiters) >= QUEUE_MAX:
            self.lost += 1
            return
        self._enqueue(_pack(command), None)

    def _enqueue(self, packed: bytes, waiter: asyncio.Future[Any] | None) -> None:
        self._packed.append(packed)
        self._waiters.append(waiter)
        # The lane wakes in the next iteration of the loop, after all handlers of this one have enqueued, so they share
        # one write. If the queue was not empty, its lane is awake already.
        if self._idle and len(self._packed) == 1:
            self._idle.pop().set_result(None)

    async def close(self) -> None:
        """Sends posted commands for at most one reply timeout, fails what still waits, and disconnects."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timeout_seconds):
                # Polled, because it runs once: an event would cost every batch.
                while self.up and (self._waiters or any(lane.waiters for lane in self._lanes)):  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
        self._closed = True
        self._trip("closed")
        if self._probe is not None:
            self._probe.cancel()
            with suppress(asyncio.CancelledError):
                await self._probe
        await _finish(self._lanes)

    # -- carrying ----------------------------------------------------------------------------

    async def _work(self, lane: _Lane) -> None:
        """Runs one connection: takes the waiting commands, writes them at once, passes each reply to its waiter."""
        try:
            while True:
                while not self._packed:
                    wake = self._loop.create_future()
                    self._idle.append(wake)
                    await wake
                await self._carry(lane)
        except CLIENT_ERRORS as exc:
            self._trip(f"{type(exc).__name__}: {exc}")
        except Exception as exc:  # A bug must not leave the lane dead and its callers waiting for ever.
            log.exception("ephemeral_lane_broke")
            self._trip(repr(exc))
        finally:
            if lane.deadline is not None:
                lane.deadline.cancel()
            with suppress(Exception):
                await lane.connection.disconnect(nowait=True)

    async def _carry(self, lane: _Lane) -> None:
        data = self._take(lane)
        self.round_trips += 1
        lane.excused = False
        lane.deadline = self._loop.call_later(
            self._timeout_seconds, self._overdue, lane, self._loop.time() + self._timeout_seconds
        )
        await lane.connection.send_packed_command(data, check_health=False)
        # The parser's own method: the connection's takes three times as long, for a timeout and an error per reply.
        waiters, read, demoted = lane.waiters, cast(Any, lane.connection)._parser.read_response, False
        while waiters:
            reply = await read()
            waiter = waiters.popleft()
            if isinstance(reply, ResponseError):
                if waiter is None:
                    self.lost += 1
                elif not waiter.done():
                    waiter.set_exception(reply)
                demoted = demoted or isinstance(reply, ReadOnlyError)
            elif waiter is not None and not waiter.done():
                waiter.set_result(reply)
        lane.deadline.cancel()
        if demoted:  # A failover made this server a replica: reconnect, to where the name points now.
            raise ReadOnlyError("the server became a replica")

    def _take(self, lane: _Lane) -> bytes:
        """Moves waiting commands (at most BATCH_MAX) into the lane, which has none; returns the bytes to write."""
        if len(self._packed) <= BATCH_MAX:
            data = b"".join(self._packed)
            self._packed.clear()
            lane.waiters, self._waiters = self._waiters, lane.waiters
        else:
            data = b"".join([self._packed.popleft() for _ in range(BATCH_MAX)])
            lane.waiters.extend([self._waiters.popleft() for _ in range(BATCH_MAX)])
        self.commands += len(lane.waiters)
        return data

    def _overdue(self, lane: _Lane, due: float) -> None:
        """Opens the breaker when a lane's replies are overdue, unless our own loop stalled."""
        now = self._loop.time()
        if now - due > STALL_SECONDS and not lane.excused:
            # The replies may be in the socket, unread: read before judging.
            lane.excused = True
            lane.deadline = self._loop.call_later(STALL_SECONDS, self._overdue, lane, now + STALL_SECONDS)
            return
        self._trip(f"no reply within {self._timeout_seconds} s")

    # -- the breaker -------------------------------------------------------------------------

    def _trip(self, why: str) -> None:
        """Opens the breaker: every waiting call fails now, and the probe starts."""
        if not self.up:
            return
        self.up = False
        self.trips += 1
        lanes, self._lanes = self._lanes, []
        waiters = list(self._waiters)
        for lane in lanes:
            waiters.extend(lane.waiters)
            lane.waiters.clear()
        self._packed.clear()
        self._waiters.clear()
        self._idle.clear()
        for waiter in waiters:
            if waiter is None:
                self.lost += 1
            elif not waiter.done():
                waiter.set_exception(EphemeralDown(why))
        current = asyncio.current_task()
        for lane in lanes:
            if lane.task is not None and lane.task is not current:
                lane.task.cancel()
        if not self._closed:
            log.warning("ephemeral_down", why=why, failed=len(waiters))
        self._on_state()
        if self._closed:
            self._lanes = lanes
        else:
            self._probe = self._loop.create_task(self._revive(lanes))

    async def _revive(self, old: list[_Lane]) -> None:
        """Connects until it works, then closes the breaker."""
        await _finish(old)
        pause_seconds = PROBE_FIRST_SECONDS
        while True:
            lanes: list[_Lane] = []
            try:
                async with asyncio.timeout(self._connect_timeout_seconds):
                    for _ in range(self._lane_count):
                        lanes.append(_Lane(self._pool.make_connection()))  # type: ignore[no-untyped-call]
                        await _greet(lanes[-1].connection)
                break
            except CLIENT_ERRORS as exc:
                if not self._first_probe.is_set():
                    log.warning("ephemeral_unreachable", why=f"{type(exc).__name__}: {exc}")
                self._first_probe.set()
                await _drop(lanes)
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, PROBE_LAST_SECONDS)
            except BaseException:
                await _drop(lanes)
                raise
        self._lanes = lanes
        for lane in lanes:
            lane.task = self._loop.create_task(self._work(lane))
        self.up = True
        self._probe = None
        self._first_probe.set()
        log.info("ephemeral_up")
        self._on_state()


_NEVER: Final = float("inf")
"""No timeout for read_response: connecting has its own."""


# hiredis packs in C, ten times faster than Connection.pack_command; its stub says "tuple of one".
_pack: Final[Callable[[tuple[Arg, ...]], bytes]] = cast(Any, pack_command)


async def _greet(connection: AbstractConnection) -> None:
    """Connects and waits for one PING: a frozen server still accepts connections."""
    await connection.connect()  # type: ignore[no-untyped-call]
    await connection.send_packed_command(_pack(("PING",)), check_health=False)
    await connection.read_response(timeout=_NEVER)


async def _drop(lanes: list[_Lane]) -> None:
    for lane in lanes:
        with suppress(Exception):
            await lane.connection.disconnect(nowait=True)


async def _finish(lanes: list[_Lane]) -> None:
    """Waits until cancelled lanes have ended."""
    current = asyncio.current_task()
    tasks = [lane.task for lane in lanes if lane.task is not None and lane.task is not current]
    await asyncio.gather(*tasks, return_exceptions=True)
