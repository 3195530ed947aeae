"""Core in another process: `RpcCaller` asks one of its replicas over gRPC.

Requests of one actor go to the same replica (rendezvous hashing: Thaler and Ravishankar, 1998), so that
they share its mailbox and its commits; with a replica away they go to the next. That is for speed alone:
which replica answers never decides what is right.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

from grpclib.client import Channel, Stream
from grpclib.const import Cardinality
from grpclib.exceptions import GRPCError, StreamTerminatedError

from runtime import trace
from runtime.errors import Fault, Status
from runtime.operations import Operation
from runtime.rpc import ACTOR_KEY, TRACE_KEY, from_metadata

DEADLINE_SECONDS: Final = 5.0
AWAY_SECONDS: Final = 1.0
"""For how long a replica that refused a connection is asked last."""

_RETRIABLE: Final = frozenset({"OVERLOADED"})
"""Reasons with which a replica refuses before it has done anything."""


class RpcCaller:
    """core.Caller over `addresses` (host:port). `close` when done."""

    def __init__(self, addresses: Sequence[str], *, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._replicas = [_Replica(address) for address in addresses]
        self._deadline_seconds = deadline_seconds
        self._turn = itertools.count()

    async def close(self) -> None:
        """Drops every connection."""
        for replica in self._replicas:
            replica.channel.close()

    async def call(self, operation: Operation, request: Any) -> Any:
        """The operation's reply. Raises Fault, as Core in this process would."""
        ends = time.monotonic() + self._deadline_seconds
        fault: Fault | None = None
        for replica in self._order(operation, request):
            if time.monotonic() >= ends:
                break
            try:
                return await self._ask(replica, operation, request, ends)
            except _Unreached as error:
                replica.away_until = time.monotonic() + AWAY_SECONDS
                fault = error.fault
            except _Lost as error:
                fault = error.fault
                if not repeatable(operation, request):
                    break
            except Fault as error:
                if error.reason not in _RETRIABLE:
                    raise
                fault = error
        raise fault or _unavailable("no replica of Core answered in time")

    def _order(self, operation: Operation, request: Any) -> list[_Replica]:
        """Who is asked first, and who next; those that were away a moment ago come last."""
        if len(self._replicas) == 1:
            return self._replicas
        if operation.box is not None:
            key = repr(operation.box.key(request)).encode()
            order = sorted(self._replicas, key=lambda replica: replica.weight(key), reverse=True)
        else:
            first = next(self._turn) % len(self._replicas)
            order = self._replicas[first:] + self._replicas[:first]
        now = time.monotonic()
        return sorted(order, key=lambda replica: replica.away_until > now)

    async def _ask(self, replica: _Replica, operation: Operation, request: Any, ends: float) -> Any:
        stream: Stream[Any, Any] = replica.channel.request(
            operation.rpc_path,
            Cardinality.UNARY_UNARY,
            operation.request,
            operation.reply,
            timeout=max(0.001, ends - time.monotonic()),
            metadata=_metadata(),
        )
        sent = False
        try:
            async with stream:
                await stream.send_request()
                sent = True
                await stream.send_message(request, end=True)
                reply = await stream.recv_message()
        except GRPCError as error:
            status, message = Status(error.status.value), error.message or ""
            raise from_metadata(status, message, stream.trailing_metadata) from None
        except TimeoutError:
            raise _Lost("Core did not answer in time") from None
        except (OSError, StreamTerminatedError, asyncio.IncompleteReadError) as error:
            kind = _Lost if sent else _Unreached
            raise kind(f"the connection to Core was lost ({type(error).__name__})") from None
        if reply is None:
            raise _Lost("Core ended the call without an answer")
        return reply


class _Replica:
    """One of Core's processes."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.channel = Channel(host.strip("[]"), int(port))
        self.away_until = 0.0
        self._seed = address.encode()

    def weight(self, key: bytes) -> bytes:
        return blake2b(key, key=self._seed[:64], digest_size=8).digest()


class _Failed(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.fault = _unavailable(message)


class _Unreached(_Failed):
    """Surely nothing was done."""


class _Lost(_Failed):
    """It may have been done."""


def repeatable(operation: Operation, request: Any) -> bool:
    """Whether asking twice does no more than asking once: a read, a play (its session), or a keyed request."""
    return operation.verb == "GET" or operation.name == "Play" or bool(getattr(request, "idempotency_key", ""))


def _unavailable(message: str) -> Fault:
    return Fault(Status.UNAVAILABLE, "CORE_UNAVAILABLE", message, retry_after_seconds=1)


def _metadata() -> dict[str, str]:
    metadata = {TRACE_KEY: trace.parent()} if trace.current.get() else {}
    if actor := trace.actor.get():
        # gRPC's metadata is ASCII; a subject that is not is of no use to a log either.
        metadata[ACTOR_KEY] = actor.encode("ascii", "backslashreplace").decode()
    return metadata
