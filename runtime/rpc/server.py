"""The RPC server: a loop over the operations table (spec.md, "Surfaces": "also served over an RPC transport"),
and beside it the stream that the edges use (`runtime.rpc.frames`).

A fault travels as status and message, with its reason and facts in the trailing metadata. The trace goes
on from `traceparent`. Health and reflection are gRPC's own services.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import resources
from typing import Any, Final

import msgspec
import structlog
from google.protobuf import descriptor_pb2, descriptor_pool
from grpclib.config import Configuration
from grpclib.const import Cardinality, Handler
from grpclib.const import Status as GrpcStatus
from grpclib.health.check import ServiceStatus
from grpclib.health.service import OVERALL, Health
from grpclib.protocol import H2Protocol
from grpclib.reflection.service import ServerReflection
from grpclib.server import Server, Stream

from runtime import trace
from runtime.core import Caller
from runtime.errors import Fault, Status, invalid
from runtime.operations import OPERATIONS, Operation
from runtime.rpc import ACTOR_KEY, MESSAGE_BYTES_MAX, TRACE_KEY, message_shown, to_metadata
from runtime.rpc.carrier import Carrier
from runtime.rpc.frames import CARRY, Frame, too_large
from runtime.wire.schema import check

STREAM_WINDOW_BYTES: Final = 256 * 1024
"""What a client may send of a message before this side has decided to read it."""

GOODBYE_SECONDS: Final = 1.0
"""What an edge gets for ending its stream, once Core has answered everything and stops."""

_PREFIX_BYTES: Final = 5

log = structlog.get_logger(__name__)

Method = Callable[[Stream[Any, Any]], Awaitable[None]]


class RpcServer:
    """game.v1 on one port. `start`, then `stop` once."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._calls: set[asyncio.Task[Any]] = set()
        self._carriers: dict[Carrier, asyncio.Task[Any]] = {}
        self._stopping = False
        self._health = ServiceStatus()
        self._connections: set[H2Protocol] = set()
        self._listener: asyncio.AbstractServer | None = None

    async def start(self, host: str, port: int) -> str:
        """Listens; returns host:port, with the port that was free where `port` is 0. OSError where it is taken."""
        services: list[Any] = [_Service(rows, self._method) for rows in _by_service().values()]
        _register_descriptors()
        health = Health({OVERALL: [self._health], **{service: [self._health] for service in services}})
        server = Server(
            # Reflection shows what others may use: not the carrier.
            [*ServerReflection.extend([*services, health]), _Carrying(self._carry)],
            config=Configuration(http2_stream_window_size=STREAM_WINDOW_BYTES),
        )
        self._server = server

        # The listener is our own: grpclib's cannot stop accepting without cancelling what runs.
        def protocol() -> H2Protocol:
            made: H2Protocol = server._protocol_factory()
            self._connections.add(made)
            if len(self._connections) % 64 == 0:
                self._forget_closed()
            return made

        self._listener = await asyncio.get_running_loop().create_server(protocol, host, port)
        self._health.set(True)
        address = self._listener.sockets[0].getsockname()
        return f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"

    async def stop(self) -> None:
        """Accepts nothing more, lets calls under way be answered, and closes every connection."""
        assert self._listener is not None
        self._stopping = True
        self._health.set(False)
        self._listener.close()
        for carrier in self._carriers:
            carrier.say_goodbye()
        while self._calls:
            await asyncio.wait(self._calls)
        if self._carriers:
            await asyncio.wait(self._carriers.values(), timeout=GOODBYE_SECONDS)
        await asyncio.sleep(0)  # The last answers are written by the tasks that waited for these calls.
        for connection in self._connections:
            if hasattr(connection, "connection"):
                connection.processor.close("server is stopping")

    def _forget_closed(self) -> None:
        self._connections = {
            one for one in self._connections if not hasattr(one, "connection") or not one.connection.is_closing()
        }

    def _method(self, operation: Operation) -> Method:
        async def answer(stream: Stream[Any, Any]) -> None:
            metadata: Any = stream.metadata or {}
            trace.current.set(trace.read(str(metadata.get(TRACE_KEY, ""))) or trace.new())
            trace.actor.set(str(metadata.get(ACTOR_KEY, "")))
            try:
                request = await _message(stream, operation)
                check(request)
                reply = await self._call(operation, request)
            except Fault as fault:
                await _refuse(stream, fault)
            else:
                await stream.send_message(reply)

        return answer

    async def _carry(self, stream: Stream[Frame, Frame]) -> None:
        carrier = Carrier(self._run, self._started)
        task = asyncio.current_task()
        assert task is not None
        self._carriers[carrier] = task
        if self._stopping:
            carrier.say_goodbye()
        try:
            await carrier.carry(partial(_receive, stream), stream.send_message)
        except Fault as fault:
            await _refuse(stream, fault)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            await _refuse(stream, invalid("", f"the frame cannot be decoded: {error}"))
        finally:
            del self._carriers[carrier]

    async def _call(self, operation: Operation, request: Any) -> Any:
        """Core's reply. A client that hangs up cancels its waiting, never the work: half of it may be done."""
        task = asyncio.ensure_future(self._run(operation, request))
        self._started(task)
        return await asyncio.shield(task)

    async def _run(self, operation: Operation, request: Any) -> Any:
        if self._stopping:
            raise Fault(Status.UNAVAILABLE, "OVERLOADED", "shutting down; try again", retry_after_seconds=1)
        return await self._caller.call(operation, request)

    def _started(self, task: asyncio.Task[Any]) -> None:
        self._calls.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # Seen, also where nobody waits for it any more.


class _Service:
    """The methods of one service, as grpclib wants them."""

    def __init__(self, rows: list[Operation], method: Callable[[Operation], Method]) -> None:
        self._handlers = {
            row.rpc_path: Handler(method(row), Cardinality.UNARY_UNARY, row.request, row.reply) for row in rows
        }

    def __mapping__(self) -> dict[str, Handler]:
        return self._handlers


class _Carrying:
    """The edges' stream, as grpclib wants it."""

    def __init__(self, carry: Callable[[Stream[Frame, Frame]], Awaitable[None]]) -> None:
        self._handlers = {CARRY: Handler(carry, Cardinality.STREAM_STREAM, Frame, Frame)}

    def __mapping__(self) -> dict[str, Handler]:
        return self._handlers


def _by_service() -> dict[str, list[Operation]]:
    services: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        services.setdefault(operation.service, []).append(operation)
    return services


async def _message(stream: Stream[Any, Any], operation: Operation) -> Any:
    """The request. INVALID_ARGUMENT where it is none."""
    encoded = await _receive(stream)
    if encoded is None:
        raise invalid("", "there is no message")
    try:
        return operation.request.FromString(encoded)
    except Exception as error:  # betterproto2 lets whatever a broken message meets come up.
        raise invalid("", f"the message cannot be decoded: {error}") from None


async def _receive(stream: Stream[Any, Any]) -> bytes | None:
    """A message's bytes, or None after the last. RESOURCE_EXHAUSTED for one that says it is too large, before
    more than its window is here: grpclib would read any length that the five bytes in front say (up to 4 GiB).
    """
    raw = stream._stream
    try:
        prefix = await raw.recv_data(_PREFIX_BYTES)
        if not prefix:
            return None
        compressed, length = struct.unpack(">?I", prefix)
        if compressed:
            raise Fault(Status.UNIMPLEMENTED, "ENCODING_UNSUPPORTED", "compressed messages are not taken")
        if length > MESSAGE_BYTES_MAX:
            raise too_large()
        return await raw.recv_data(length)
    except AssertionError:  # grpclib's word for it.
        raise invalid("", "the message is cut short") from None


async def _refuse(stream: Stream[Any, Any], fault: Fault) -> None:
    await stream.send_trailing_metadata(
        status=GrpcStatus(fault.status.value), status_message=message_shown(fault), metadata=to_metadata(fault)
    )


def _register_descriptors() -> None:
    """Puts game.proto and what it imports where reflection looks."""
    pool = descriptor_pool.Default()
    described = descriptor_pb2.FileDescriptorSet.FromString(
        resources.files("runtime.messages").joinpath("game.binpb").read_bytes()
    )
    from google.protobuf import struct_pb2  # noqa: F401  (imported by game.proto: registers itself)

    for file in described.file:
        if not file.name.startswith("google/"):
            pool.Add(file)  # adding the same file again changes nothing
