"""The RPC client of a remote Core: `RpcCaller` calls one of the replicas, over one connection to each.

Requests for one actor go to the same replica (rendezvous hashing: Thaler and Ravishankar, 1998), so that they share its
mailbox and its commits; if that replica is unavailable, they go to the next. A busy actor's players are spread over
several replicas (spread.py). This only affects speed: correctness never depends on which replica responds.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec
import structlog

from runtime import trace
from runtime.actors.idempotency import replayed
from runtime.errors import Fault, Status
from runtime.operations import Operation
from runtime.operations.row import SessionUse
from runtime.rpc.addresses import Address, Addresses
from runtime.rpc.connection import FrameProtocol
from runtime.rpc.frames import ANSWER_BYTES_MAX, GOODBYE, Answer, Call, answers_of, body
from runtime.rpc.spread import Spread, player_of

log = structlog.get_logger(__name__)

DEADLINE_SECONDS: Final = 5.0
LENGTHY_SECONDS: Final = 150.0
"""The deadline of lengthy operations: a sender has 15 s, and a statement that counts has 120 s."""

AWAY_SECONDS: Final = 1.0
"""How long an unreachable replica is tried last."""

CONNECT_SECONDS: Final = 1.0

SILENT_SECONDS: Final = 1.0
"""How long a replica may be silent while calls wait: then a probe is sent, and after the same time again the replica
counts as dead. A hung process, or a connection that a middlebox dropped, never closes, and the kernel or the middlebox
still acknowledges packets."""

PROBE: Final = -2
"""The number of a probe: a call without an operation, which every version refuses at once."""

_NIL: Final = b"\xc0"

_RETRIABLE: Final = frozenset({"OVERLOADED"})
"""Reasons with which a replica refuses a call before any effect."""


class RpcCaller:
    """A core.Caller over all addresses of `names` (host:port). `close` when done. token: the service token or ""."""

    def __init__(self, names: Sequence[str], *, token: str = "", deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._replicas: list[_Replica] = []
        self._token = token
        self._deadline_seconds = deadline_seconds
        self._turn = itertools.count()
        self._addresses = Addresses(names, self._set_addresses)
        self._known = False
        self._spread = Spread()

    async def close(self) -> None:
        """Closes all connections."""
        self._addresses.close()
        self._spread.close()
        for replica in self._replicas:
            replica.close()

    async def call(self, operation: Operation, request: Any) -> Any:
        """The operation's reply. Raises Fault, like Core in the same process."""
        ends = time.monotonic() + (LENGTHY_SECONDS if operation.lengthy else self._deadline_seconds)
        if not self._known:
            await self._addresses.first()
            self._known = True
        if operation.actor is None or len(self._replicas) < 2:
            return await self._try(self._in_turn(), operation, request, ends)
        key = operation.actor.key_of(request)
        load = self._spread.begin(key, len(self._replicas))
        try:
            return await self._try(self._order(key, load.width, request), operation, request, ends)
        finally:
            self._spread.end(key, load)

    async def _try(self, replicas: list[_Replica], operation: Operation, request: Any, ends: float) -> Any:
        """The reply of the first replica that can give one."""
        fault: Fault | None = None
        unsure = False
        for replica in replicas:
            if time.monotonic() >= ends:
                break
            try:
                return await replica.ask(operation, request, ends)
            except _Unreached as error:
                replica.mark_unavailable()
                self._addresses.doubt()
                fault = error.fault
            except _Lost as error:
                fault = error.fault
                if not repeatable(operation, request):
                    break
                unsure = operation.verb != "GET"
            except Fault as error:
                if error.reason not in _RETRIABLE:
                    if unsure:
                        break  # The first replica may still execute the call, so this refusal is not the final outcome.
                    raise
                fault = fault if unsure else error
        if not self._replicas:
            self._addresses.doubt()
            raise _unavailable("no name in CORE_RPC_ADDRESSES resolves to an address")
        raise fault or _unavailable("no replica of Core responded in time")

    def _set_addresses(self, addresses: list[Address]) -> None:
        """Sets the replicas to these addresses: keeps the connections of known ones, and ends those of removed ones."""
        before = {replica.address: replica for replica in self._replicas}
        self._replicas = [before.pop(one) if one in before else _Replica(one, self._token) for one in addresses]
        for removed in before.values():
            removed.end()

    def _in_turn(self) -> list[_Replica]:
        """The replicas, from the next one in turn; unavailable ones come last."""
        if len(self._replicas) < 2:
            return self._replicas
        first = next(self._turn) % len(self._replicas)
        return sorted(self._replicas[first:] + self._replicas[:first], key=_Replica.is_unavailable)

    def _order(self, key: Any, width: int, request: Any) -> list[_Replica]:
        """The replicas of an actor, the best first; unavailable ones come last.

        width: how many available replicas its players are spread over. Calls without a player go to any of these.
        """
        order = sorted(_ranked(self._replicas, key), key=_Replica.is_unavailable)
        if width == 1:
            return order
        width = min(width, sum(not replica.is_unavailable() for replica in order))
        return _ranked(order[:width], player_of(request) or next(self._turn)) + order[width:]


def _ranked(replicas: Sequence[_Replica], what: Any) -> list[_Replica]:
    """The replicas by rendezvous hashing: the first one for an actor or player changes only if it leaves them."""
    key = repr(what).encode()
    return sorted(replicas, key=lambda replica: replica.weight(key), reverse=True)


class _Replica:
    """A replica of Core."""

    def __init__(self, address: Address, token: str) -> None:
        self._unavailable_until: float | None = None
        self.address = address
        self._token = token
        self._seed = f"{address[0]}:{address[1]}".encode()
        self._stream: MuxStream | None = None

    def weight(self, key: bytes) -> bytes:
        return blake2b(key, key=self._seed[:64], digest_size=8).digest()

    async def ask(self, operation: Operation, request: Any, ends: float) -> Any:
        """The reply, before `ends` (monotonic seconds). Raises Core's Fault, _Unreached or _Lost."""
        return await self._connection().ask(operation, request, ends)

    def _connection(self) -> MuxStream:
        if self._stream is None or not self._stream.open:
            self._stream = MuxStream(*self.address, self.mark_unavailable, self._token)
        return self._stream

    def mark_unavailable(self) -> None:
        """Marks it unavailable for AWAY_SECONDS, and then until a new connection is established."""
        self._unavailable_until = time.monotonic() + AWAY_SECONDS

    def is_unavailable(self) -> bool:
        """Whether it is unavailable. After AWAY_SECONDS this starts to reconnect in the background."""
        if self._unavailable_until is None:
            return False
        now = time.monotonic()
        if self._unavailable_until <= now:
            if self._connection().greeting:
                self._unavailable_until = None
            else:
                self._unavailable_until = now + AWAY_SECONDS / 10
        return self._unavailable_until is not None

    def close(self) -> None:
        if self._stream is not None:
            self._stream.drop()

    def end(self) -> None:
        """Sends no more calls, and closes the connection after the pending replies."""
        if self._stream is not None:
            self._stream.end()


class MuxStream(FrameProtocol):
    """The edge's end of one connection to a replica."""

    frame_bytes_max = ANSWER_BYTES_MAX + 8

    def __init__(self, host: str, port: int, on_leaving: Callable[[], None], token: str = "") -> None:
        """leaving: called when the replica announces its stop, or is silent. token: sent as the first frame."""
        super().__init__()
        self._token = token
        self.open = True
        self._on_leaving = on_leaving
        self._pending: dict[int, asyncio.Future[Answer]] = {}
        self._numbers = itertools.count()
        self._greeting = asyncio.Event()
        self._connecting = asyncio.create_task(self._connect(host, port))
        self._heard = self._probed = False

    @property
    def greeting(self) -> bool:
        """Whether the handshake is complete and the connection open."""
        return self.open and self._greeting.is_set()

    def drop(self) -> None:
        """Closes it immediately and fails all pending calls."""
        self._connecting.cancel()
        self.close()
        self._fail("closed")

    def end(self) -> None:
        """Closes it after the pending replies, or immediately if it is not established yet."""
        self.open = False
        if self._greeting.is_set():
            self.end_sending()
        else:
            self.drop()

    async def ask(self, operation: Operation, request: Any, ends: float) -> Any:
        number = next(self._numbers)
        parent = trace.parent() if trace.current.get() else ""
        row = Call(number, operation.name, body(request), parent, trace.actor.get()).row()
        answer = self._pending[number] = asyncio.get_running_loop().create_future()
        self.queue.put(number, row)
        try:
            async with asyncio.timeout(ends - time.monotonic()):
                answered = await answer
                replayed.set(answered.replayed)
                return answered.result(operation)
        except TimeoutError:
            raise self._failed(number, "Core did not respond in time") from None
        finally:
            del self._pending[number]
            self.queue.withdraw(number)  # Unsent calls that timed out are dropped.

    # -- callbacks of the connection ---------------------------------------------------------

    def greeted(self) -> None:
        self._send(self._token.encode())
        self._greeting.set()
        asyncio.get_running_loop().call_later(SILENT_SECONDS, self._check_silence)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        super().data_received(data)

    def _check_silence(self) -> None:
        """Detects a replica that is silent while calls wait."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._heard or not self._pending:
            self._heard = self._probed = False
        elif not self._probed:
            self._probed = True
            self.queue.put(PROBE, Call(PROBE, "", msgspec.Raw(_NIL)).row())
        else:
            self._on_leaving()
            self._fail("silent")
            self._transport.abort()
            return
        asyncio.get_running_loop().call_later(SILENT_SECONDS, self._check_silence)

    def frame_received(self, frame: bytes) -> None:
        for answer in answers_of(frame):
            waiter = self._pending.get(answer.number)
            if waiter is not None and not waiter.done():
                waiter.set_result(answer)
            elif answer.number == GOODBYE:
                if answer.fault is not None:
                    log.warning("core_refused", reason=answer.fault.reason, why=answer.message)
                # Pending calls still get their replies; new ones use another connection.
                self.open = False
                self._on_leaving()
                self.end_sending()

    def refused(self, fault: Fault) -> None:
        self._fail(fault.message)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._fail("ended" if error is None else type(error).__name__)

    async def _connect(self, host: str, port: int) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await asyncio.get_running_loop().create_connection(lambda: self, host, port)
                await self._greeting.wait()
        except Exception as error:  # Any error means that there is no connection.
            self._fail(type(error).__name__)
            self.close()

    def _fail(self, why: str) -> None:
        """Fails all pending calls, because the connection is lost."""
        self.open = False
        for number, answer in self._pending.items():
            if not answer.done():
                answer.set_exception(self._failed(number, f"the connection to Core was lost ({why})"))

    def _failed(self, number: int, message: str) -> _Failed:
        return _Unreached(message) if self.queue.withdraw(number) else _Lost(message)


class _Failed(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.fault = _unavailable(message)


class _Unreached(_Failed):
    """The call was certainly not executed."""


class _Lost(_Failed):
    """The call may have been executed."""


def repeatable(operation: Operation, request: Any) -> bool:
    """Whether a retry is idempotent: a read, a start (which writes nothing), a play (once per session), or a keyed
    request.
    """
    of_session = operation.session is not SessionUse.NONE
    return operation.verb == "GET" or of_session or bool(getattr(request, "idempotency_key", ""))


def _unavailable(message: str) -> Fault:
    return Fault(Status.UNAVAILABLE, "CORE_UNAVAILABLE", message, retry_after_seconds=1)
