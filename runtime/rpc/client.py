"""Core in other processes: `RpcCaller` asks one of the replicas, over the one connection it keeps to each.

Requests of one actor go to the same replica (rendezvous hashing: Thaler and Ravishankar, 1998), so that
they share its mailbox and its commits; with a replica away they go to the next. That is for speed alone:
which replica answers never decides what is right.
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

log = structlog.get_logger(__name__)

DEADLINE_SECONDS: Final = 5.0
AWAY_SECONDS: Final = 1.0
"""For how long a replica that refused a connection is asked last."""

CONNECT_SECONDS: Final = 1.0

SILENT_SECONDS: Final = 1.0
"""How long a replica may say nothing while somebody waits: then it is asked whether it is there, and after as long
again it is not. One that stands still, or whose connection some box on the way has forgotten, closes nothing, and
the kernel or the box acknowledges for it."""

PROBE: Final = -2
"""The number of the question whether it is there: a call of no operation, which every version refuses at once."""

_NIL: Final = b"\xc0"

_RETRIABLE: Final = frozenset({"OVERLOADED"})
"""Reasons with which a replica refuses before it has done anything."""


class RpcCaller:
    """core.Caller over all that `names` (host:port) stand for. `close` when done. token: shown to each; "" for none."""

    def __init__(self, names: Sequence[str], *, token: str = "", deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._replicas: list[_Replica] = []
        self._token = token
        self._deadline_seconds = deadline_seconds
        self._turn = itertools.count()
        self._addresses = Addresses(names, self._moved)
        self._known = False

    async def close(self) -> None:
        """Drops every connection."""
        self._addresses.close()
        for replica in self._replicas:
            replica.close()

    async def call(self, operation: Operation, request: Any) -> Any:
        """The operation's reply. Raises Fault, as Core in this process would."""
        ends = time.monotonic() + self._deadline_seconds
        fault: Fault | None = None
        unsure = False
        if not self._known:
            await self._addresses.first()
            self._known = True
        for replica in self._order(operation, request):
            if time.monotonic() >= ends:
                break
            try:
                return await replica.ask(operation, request, ends)
            except _Unreached as error:
                replica.be_away()
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
                        break  # Who refuses does not know what the other may be doing yet: nor may it be told as known.
                    raise
                fault = fault if unsure else error
        if not self._replicas:
            self._addresses.doubt()
            raise _unavailable("no name in CORE_RPC_ADDRESSES stands for any address")
        raise fault or _unavailable("no replica of Core answered in time")

    def _moved(self, addresses: list[Address]) -> None:
        """Replicas at just these addresses: those that were there before go on, those that are gone end."""
        before = {replica.address: replica for replica in self._replicas}
        self._replicas = [before.pop(one) if one in before else _Replica(one, self._token) for one in addresses]
        for gone in before.values():
            gone.end()

    def _order(self, operation: Operation, request: Any) -> list[_Replica]:
        """Who is asked first, and who next; those that are away come last."""
        if len(self._replicas) < 2:
            return self._replicas
        if operation.actor is not None:
            key = repr(operation.actor.key_of(request)).encode()
            order = sorted(self._replicas, key=lambda replica: replica.weight(key), reverse=True)
        else:
            first = next(self._turn) % len(self._replicas)
            order = self._replicas[first:] + self._replicas[:first]
        return sorted(order, key=_Replica.is_away)


class _Replica:
    """One of Core's processes."""

    def __init__(self, address: Address, token: str) -> None:
        self._away_until: float | None = None
        self.address = address
        self._token = token
        self._seed = f"{address[0]}:{address[1]}".encode()
        self._stream: MuxStream | None = None

    def weight(self, key: bytes) -> bytes:
        return blake2b(key, key=self._seed[:64], digest_size=8).digest()

    async def ask(self, operation: Operation, request: Any, ends: float) -> Any:
        """The reply, before `ends` (monotonic seconds). Raises what Core raised, _Unreached, or _Lost."""
        return await self._connection().ask(operation, request, ends)

    def _connection(self) -> MuxStream:
        if self._stream is None or not self._stream.open:
            self._stream = MuxStream(*self.address, self.be_away, self._token)
        return self._stream

    def be_away(self) -> None:
        """Others are asked first, for AWAY_SECONDS and until it has greeted again."""
        self._away_until = time.monotonic() + AWAY_SECONDS

    def is_away(self) -> bool:
        """Whether others are asked first. Once the time is over it connects, and nobody waits for that."""
        if self._away_until is None:
            return False
        now = time.monotonic()
        if self._away_until <= now:
            if self._connection().greeting:
                self._away_until = None
            else:
                self._away_until = now + AWAY_SECONDS / 10
        return self._away_until is not None

    def close(self) -> None:
        if self._stream is not None:
            self._stream.drop()

    def end(self) -> None:
        """What is on its way is still answered; nothing more is asked."""
        if self._stream is not None:
            self._stream.end()


class MuxStream(FrameProtocol):
    """The edge's end of a connection to a replica, from its first call to whatever ends it."""

    frame_bytes_max = ANSWER_BYTES_MAX + 8

    def __init__(self, host: str, port: int, leaving: Callable[[], None], token: str = "") -> None:
        """leaving: called when the replica says that it is stopping, or nothing. token: shown to it first of all."""
        super().__init__()
        self._token = token
        self.open = True
        self._leaving = leaving
        self._asked: dict[int, asyncio.Future[Answer]] = {}
        self._numbers = itertools.count()
        self._greeting = asyncio.Event()
        self._connecting = asyncio.create_task(self._connect(host, port))
        self._spoke = self._probed = False

    @property
    def greeting(self) -> bool:
        """Whether the replica has greeted, and it goes on."""
        return self.open and self._greeting.is_set()

    def drop(self) -> None:
        """Ends it at once, for all who still wait."""
        self._connecting.cancel()
        self.close()
        self._fail("closed")

    def end(self) -> None:
        """Ends it once all is answered; where it is not made yet, at once."""
        self.open = False
        if self._greeting.is_set():
            self.end_sending()
        else:
            self.drop()

    async def ask(self, operation: Operation, request: Any, ends: float) -> Any:
        number = next(self._numbers)
        parent = trace.parent() if trace.current.get() else ""
        row = Call(number, operation.name, body(request), parent, trace.actor.get()).row()
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        self.queue.put(number, row)
        try:
            async with asyncio.timeout(ends - time.monotonic()):
                answered = await answer
                replayed.set(answered.replayed)
                return answered.result(operation)
        except TimeoutError:
            raise self._failed(number, "Core did not answer in time") from None
        finally:
            del self._asked[number]
            self.queue.withdraw(number)  # Nobody waits for it any more.

    # -- what the connection calls -----------------------------------------------------------

    def greeted(self) -> None:
        self._send(self._token.encode())
        self._greeting.set()
        asyncio.get_running_loop().call_later(SILENT_SECONDS, self._listen)

    def data_received(self, data: bytes) -> None:
        self._spoke = True
        super().data_received(data)

    def _listen(self) -> None:
        """Notices that the replica says nothing to those who wait."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._spoke or not self._asked:
            self._spoke = self._probed = False
        elif not self._probed:
            self._probed = True
            self.queue.put(PROBE, Call(PROBE, "", msgspec.Raw(_NIL)).row())
        else:
            self._leaving()
            self._fail("silent")
            self._transport.abort()
            return
        asyncio.get_running_loop().call_later(SILENT_SECONDS, self._listen)

    def frame_received(self, frame: bytes) -> None:
        for answer in answers_of(frame):
            asked = self._asked.get(answer.number)
            if asked is not None and not asked.done():
                asked.set_result(answer)
            elif answer.number == GOODBYE:
                if answer.fault is not None:
                    log.warning("core_refused", reason=answer.fault.reason, why=answer.message)
                # What is on its way is still answered; what comes next opens a connection elsewhere.
                self.open = False
                self._leaving()
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
        except Exception as error:  # Whatever it was, there is no connection.
            self._fail(type(error).__name__)
            self.close()

    def _fail(self, why: str) -> None:
        """Tells all who still wait that there is no connection any more."""
        self.open = False
        for number, answer in self._asked.items():
            if not answer.done():
                answer.set_exception(self._failed(number, f"the connection to Core was lost ({why})"))

    def _failed(self, number: int, message: str) -> _Failed:
        return _Unreached(message) if self.queue.withdraw(number) else _Lost(message)


class _Failed(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.fault = _unavailable(message)


class _Unreached(_Failed):
    """Surely nothing was done."""


class _Lost(_Failed):
    """It may have been done."""


def repeatable(operation: Operation, request: Any) -> bool:
    """Whether asking twice does no more than asking once: a read, a start (which writes nothing), a play (its session),
    or a keyed request.
    """
    of_session = operation.session is not SessionUse.NONE
    return operation.verb == "GET" or of_session or bool(getattr(request, "idempotency_key", ""))


def _unavailable(message: str) -> Fault:
    return Fault(Status.UNAVAILABLE, "CORE_UNAVAILABLE", message, retry_after_seconds=1)
