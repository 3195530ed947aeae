"""The RPC server: a loop over the operations table (spec.md, "Surfaces": "also served over an RPC transport"),
and on the same port the edges' connections (`runtime.rpc.connection`).

A connection that has not said who it is has a place among few, and gives it up to who comes after it; an edge that
shows the service token, and who speaks gRPC, have places of their own. So strangers who say nothing keep nobody out.

A fault travels as status and message, with its reason and facts in the trailing metadata. The trace goes
on from `traceparent`. Health and reflection are gRPC's own services.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from functools import partial
from importlib import resources
from typing import Any, Final, cast

import structlog
from google.protobuf import descriptor_pb2, descriptor_pool
from grpclib.config import Configuration
from grpclib.const import Cardinality, Handler
from grpclib.const import Status as GrpcStatus
from grpclib.health.check import ServiceStatus
from grpclib.health.service import OVERALL, Health
from grpclib.reflection.service import ServerReflection
from grpclib.server import Server, Stream

from runtime import trace
from runtime.actors.idempotency import replayed
from runtime.core import Caller
from runtime.errors import Fault, Status, invalid
from runtime.operations import OPERATIONS, Operation
from runtime.rpc import ACTOR_KEY, REPLAYED_KEY, TRACE_KEY, message_shown, to_metadata
from runtime.rpc.connection import HELLO, notice_death
from runtime.rpc.grpclib_private import LastCall, make_protocol, receive
from runtime.rpc.multiplexer import CallMultiplexer
from runtime.rpc.places import Places
from runtime.service_token import check_bearer
from runtime.wire.schema import check

STREAM_WINDOW_BYTES: Final = 256 * 1024
"""What a client may send of a message before this side has decided to read it."""

EDGES_MAX: Final = 512
"""Connections of edges, one for each; what comes beyond is hung up on. Of one address a quarter, here and below."""

GRPC_MAX: Final = 512
"""The same of gRPC's."""

SILENT_MAX: Final = 256
"""Connections that have not said who they are; for one that comes beyond, the first of them is hung up on."""

GRPC_IDLE_SECONDS: Final = 300.0
"""A gRPC connection over which no call has begun for so long is told so, and closed; its client makes another."""

SWEEP_SECONDS: Final = 5.0

MESSAGE_SECONDS: Final = 10.0
"""What a call's message may take to arrive."""

SPEAK_SECONDS: Final = 10.0
"""How long a connection may take to say what it speaks: an edge its first byte, gRPC all that HTTP/2 begins with."""

HTTP2: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client's connection begins with, before its SETTINGS (RFC 9113, 3.4)."""

SETTINGS_BYTES_MAX: Final = 1_024
"""Of a client's first SETTINGS: 170 of them, of the few that there are."""

GOODBYE_SECONDS: Final = 1.0
"""What an edge gets for ending its connection, once Core has answered everything and stops."""

log = structlog.get_logger(__name__)


class RpcServer:
    """game.v1 and the edges' calls on one port. `start`, then `stop` once.

    tokens: what opens it; none: anything. edges_max, grpc_max, silent_max: connections of each kind.
    """

    def __init__(
        self,
        caller: Caller,
        tokens: Sequence[str] = (),
        *,
        edges_max: int = EDGES_MAX,
        grpc_max: int = GRPC_MAX,
        silent_max: int = SILENT_MAX,
    ) -> None:
        self._caller = caller
        self._tokens = tokens
        self._calls: set[asyncio.Task[Any]] = set()
        self._edges: set[CallMultiplexer] = set()
        self._stopping = False
        self._health = ServiceStatus()
        self._silent, self._admitted, self._grpc_places = Places(silent_max), Places(edges_max), Places(grpc_max)
        self._grpc_seen: dict[asyncio.Transport, LastCall] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        self._listener: asyncio.AbstractServer | None = None

    async def start(self, host: str, port: int) -> str:
        """Listens; returns host:port, with the port that was free where `port` is 0. OSError where it is taken."""
        services: list[Any] = [_Service(rows, self._serve_grpc) for rows in _by_service().values()]
        _register_descriptors()
        health = Health({OVERALL: [self._health], **{service: [self._health] for service in services}})
        self._grpc = Server(
            ServerReflection.extend([*services, health]),
            config=Configuration(http2_stream_window_size=STREAM_WINDOW_BYTES),
        )
        # The listener is our own: grpclib's cannot stop accepting without cancelling what runs.
        self._listener = await asyncio.get_running_loop().create_server(
            lambda: _Accepted(self._accept, self._speaker), host, port
        )
        self._health.set(True)
        self._sweep()
        address = self._listener.sockets[0].getsockname()
        return f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"

    async def stop(self) -> None:
        """Accepts nothing more, lets calls under way be answered, and closes every connection."""
        assert self._listener is not None
        assert self._sweeping is not None
        self._stopping = True
        self._sweeping.cancel()
        self._health.set(False)
        self._listener.close()
        for edge in self._edges:
            edge.say_goodbye()
        while self._calls:
            await asyncio.wait(self._calls)
        if self._edges:
            await asyncio.wait([edge.closed for edge in self._edges], timeout=GOODBYE_SECONDS)
        await asyncio.sleep(0)  # The last answers are written by the tasks that waited for these calls.
        for transport in (*self._silent, *self._admitted, *self._grpc_places):
            transport.close()

    def _accept(self, transport: asyncio.Transport) -> None:
        oldest = self._silent.in_the_way(transport)
        if oldest is not None:
            self._silent.leave(oldest)
            oldest.abort()
        self._silent.take(transport)

    def _settle(self, transport: asyncio.Transport, places: Places) -> bool:
        """Whether a connection that has said who it is has found a place; it is hung up on otherwise."""
        self._silent.leave(transport)
        if places.in_the_way(transport) is not None:
            log.warning("rpc_connections_full", peer=str(transport.get_extra_info("peername")))
            transport.abort()
            return False
        places.take(transport)
        return True

    def _speaker(self, transport: asyncio.Transport, is_grpc: bool) -> asyncio.Protocol | None:
        """What answers a connection from its first byte on; None where there is no place for it."""
        if is_grpc:
            if not self._settle(transport, self._grpc_places):
                return None
            notice_death(transport.get_extra_info("socket"))
            protocol = make_protocol(self._grpc)
            self._grpc_seen[transport] = LastCall(protocol, asyncio.get_running_loop().time())
            return protocol
        admitted = partial(self._settle, transport, self._admitted)
        edge = CallMultiplexer(self._run, self._started, self._tokens, admitted)
        self._edges.add(edge)
        edge.closed.add_done_callback(lambda _: self._edges.discard(edge))
        if self._stopping:
            edge.say_goodbye()
        return edge

    def _sweep(self) -> None:
        """Forgets connections that have closed, and closes those of gRPC that are idle."""
        loop = asyncio.get_running_loop()
        for places in (self._silent, self._admitted, self._grpc_places):
            places.tidy()
        for transport, last in list(self._grpc_seen.items()):
            if transport.is_closing():
                del self._grpc_seen[transport]
            elif last.idle_seconds(loop.time()) > GRPC_IDLE_SECONDS:
                last.say_goodbye()
        self._sweeping = loop.call_later(SWEEP_SECONDS, self._sweep)

    async def _serve_grpc(self, operation: Operation, stream: Stream[Any, Any]) -> None:
        """One call of gRPC's."""
        metadata: Any = stream.metadata or {}
        trace.current.set(trace.read(str(metadata.get(TRACE_KEY, ""))) or trace.new())
        trace.actor.set(str(metadata.get(ACTOR_KEY, "")))
        try:
            check_bearer(self._tokens, str(metadata.get("authorization", "")))
            request = await _message(stream, operation)
            check(request)
            reply, repeated = await self._call(operation, request)
        except Fault as fault:
            await _refuse(stream, fault)
        else:
            if repeated:
                await stream.send_initial_metadata(metadata={REPLAYED_KEY: "true"})
            await stream.send_message(reply)

    async def _call(self, operation: Operation, request: Any) -> tuple[Any, bool]:
        """Core's reply, and whether it is an earlier one. A client that hangs up cancels its waiting, never the work:
        half of it may be done.
        """
        context = copy_context()
        task = asyncio.get_running_loop().create_task(self._run(operation, request), context=context)
        self._started(task)
        try:
            return await asyncio.shield(task), context.get(replayed, False)
        finally:
            del task  # It holds the error that it raised, whose frames hold this one.

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

    def __init__(self, rows: list[Operation], serve: Callable[[Operation, Stream[Any, Any]], Awaitable[None]]) -> None:
        self._handlers = {
            row.rpc_path: Handler(partial(serve, row), Cardinality.UNARY_UNARY, row.request, row.reply) for row in rows
        }

    def __mapping__(self) -> dict[str, Handler]:
        return self._handlers


class _Accepted(asyncio.Protocol):
    """A connection that has not said what it speaks: its first byte tells an edge from gRPC, which is HTTP/2."""

    def __init__(
        self,
        accept: Callable[[asyncio.Transport], None],
        speaker: Callable[[asyncio.Transport, bool], asyncio.Protocol | None],
    ) -> None:
        """accept: told of its transport. speaker: what takes it over, given whether it is gRPC."""
        self._accept = accept
        self._speaker = speaker
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not derived from asyncio's
        self._timer = asyncio.get_running_loop().call_later(SPEAK_SECONDS, self._transport.abort)
        self._accept(self._transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        received = self._received = self._received + data
        is_grpc = not received.startswith(HELLO[:1])
        begun = _begins_http2(received) if is_grpc else True
        if begun is None:
            return  # Its time goes on: handed to gRPC now, it could say no more for ever.
        self._timer.cancel()
        protocol = self._speaker(self._transport, is_grpc) if begun else None
        if protocol is None:
            self._transport.abort()
            return
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(received)


def _begins_http2(received: bytes) -> bool | None:
    """Whether this is HTTP/2's preface and all of the SETTINGS that must follow; None while it may become that."""
    if not received.startswith(HTTP2[: len(received)]):
        return False
    frame = received[len(HTTP2) : len(HTTP2) + 9]  # 3 bytes of length, the type, flags, the stream
    if len(frame) < 9:
        return None
    length = int.from_bytes(frame[:3], "big")
    if frame[3] != 4 or length > SETTINGS_BYTES_MAX:
        return False
    return True if len(received) >= len(HTTP2) + 9 + length else None


def _by_service() -> dict[str, list[Operation]]:
    services: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        services.setdefault(operation.service, []).append(operation)
    return services


async def _message(stream: Stream[Any, Any], operation: Operation) -> Any:
    """The request. INVALID_ARGUMENT where it is none."""
    try:
        async with asyncio.timeout(MESSAGE_SECONDS):
            encoded = await receive(stream)
    except TimeoutError:
        raise invalid("", f"the message stopped for {MESSAGE_SECONDS:g} s") from None
    if encoded is None:
        raise invalid("", "there is no message")
    try:
        return operation.request.FromString(encoded)
    except Exception as error:  # betterproto2 lets whatever a broken message meets come up.
        raise invalid("", f"the message cannot be decoded: {error}") from None


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
