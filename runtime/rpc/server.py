"""The RPC server: the operation table over gRPC and, on the same port, over the edges' own protocol
(`runtime.rpc.connection`).

A silent connection gets one of a few slots and is evicted by newer ones. Edges with the service token, and gRPC
clients, have separate slots, so silent connections from strangers cannot block them.

A fault is sent as status and message, with its reason and facts in the trailing metadata. `traceparent` continues the
trace. Health and reflection are gRPC's own services.
"""

from __future__ import annotations

import asyncio
import socket
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
from runtime.rpc import ACTOR_KEY, REPLAYED_KEY, TRACE_KEY, header_message, to_metadata
from runtime.rpc.connection import HELLO, notice_death
from runtime.rpc.grpclib_private import LastCall, make_protocol, receive
from runtime.rpc.multiplexer import CallMultiplexer
from runtime.rpc.slots import Slots
from runtime.service_token import check_bearer
from runtime.wire.schema import check

STREAM_WINDOW_BYTES: Final = 256 * 1024
"""How much of a message a client may send before the server decides to read it."""

EDGES_MAX: Final = 512
"""The maximum of edge connections, one per edge; further ones are aborted. One address gets a quarter, also below."""

GRPC_MAX: Final = 512
"""The maximum of gRPC connections."""

SILENT_MAX: Final = 256
"""The maximum of connections that have sent nothing yet; a new one evicts the oldest."""

GRPC_IDLE_SECONDS: Final = 300.0
"""A gRPC connection without a new call for this long is closed with GOAWAY; its client reconnects."""

SWEEP_SECONDS: Final = 5.0

MESSAGE_SECONDS: Final = 10.0
"""The time limit for receiving a call's message."""

SPEAK_SECONDS: Final = 10.0
"""The time limit for identifying the protocol: an edge's first byte, or HTTP/2's preface and SETTINGS."""

HTTP2: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The client preface of HTTP/2, before its SETTINGS (RFC 9113, 3.4)."""

SETTINGS_BYTES_MAX: Final = 1_024
"""The maximum of a client's first SETTINGS frame: 170 settings, far more than exist."""

GOODBYE_SECONDS: Final = 1.0
"""How long edges have to end their connections at shutdown, after all calls are answered."""

log = structlog.get_logger(__name__)


class RpcServer:
    """Serves game.v1 and the edges' calls on one port. Call `start`, then `stop` once.

    tokens: the accepted service tokens; empty: any. edges_max, grpc_max, silent_max: connections of each kind.
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
        self._silent, self._admitted, self._grpc_slots = Slots(silent_max), Slots(edges_max), Slots(grpc_max)
        self._grpc_seen: dict[asyncio.Transport, LastCall] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        self._listeners: list[asyncio.Server] = []

    async def start(self, host: str, port: int, sockets: Sequence[socket.socket] = ()) -> str:
        """Starts to listen, on inherited `sockets` if any. Returns host:port. Port 0 picks a free one. OSError if the
        port is in use.
        """
        services: list[Any] = [_Service(rows, self._serve_grpc) for rows in _by_service().values()]
        _register_descriptors()
        health = Health({OVERALL: [self._health], **{service: [self._health] for service in services}})
        self._grpc = Server(
            ServerReflection.extend([*services, health]),
            config=Configuration(http2_stream_window_size=STREAM_WINDOW_BYTES),
        )
        # Our own listener: grpclib's cannot stop accepting without cancelling running calls.
        listen = partial(asyncio.get_running_loop().create_server, lambda: _Accepted(self._accept, self._speaker))
        self._listeners = [await listen(sock=one) for one in sockets] or [await listen(host, port)]
        self._health.set(True)
        self._sweep()
        address = self._listeners[0].sockets[0].getsockname()
        return f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"

    async def stop(self) -> None:
        """Stops accepting, waits for running calls, and closes every connection."""
        assert self._sweeping is not None
        self._stopping = True
        self._sweeping.cancel()
        self._health.set(False)
        for listener in self._listeners:
            listener.close()
        for edge in self._edges:
            edge.say_goodbye()
        while self._calls:
            await asyncio.wait(self._calls)
        if self._edges:
            await asyncio.wait([edge.closed for edge in self._edges], timeout=GOODBYE_SECONDS)
        await asyncio.sleep(0)  # Lets the tasks that awaited these calls write the last answers.
        for transport in (*self._silent, *self._admitted, *self._grpc_slots):
            transport.close()

    def _accept(self, transport: asyncio.Transport) -> None:
        oldest = self._silent.to_evict(transport)
        if oldest is not None:
            self._silent.release(oldest)
            oldest.abort()
        self._silent.occupy(transport)

    def _settle(self, transport: asyncio.Transport, slots: Slots) -> bool:
        """Moves an identified connection to a slot of its kind. Aborts it and returns false if none is free."""
        self._silent.release(transport)
        if slots.to_evict(transport) is not None:
            log.warning("rpc_connections_full", peer=str(transport.get_extra_info("peername")))
            transport.abort()
            return False
        slots.occupy(transport)
        return True

    def _speaker(self, transport: asyncio.Transport, is_grpc: bool) -> asyncio.Protocol | None:
        """The protocol that takes over a connection; None if there is no slot for it."""
        if is_grpc:
            if not self._settle(transport, self._grpc_slots):
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
        """Releases the slots of closed connections, and closes idle gRPC connections."""
        loop = asyncio.get_running_loop()
        for slots in (self._silent, self._admitted, self._grpc_slots):
            slots.prune()
        for transport, last in list(self._grpc_seen.items()):
            if transport.is_closing():
                del self._grpc_seen[transport]
            elif last.idle_seconds(loop.time()) > GRPC_IDLE_SECONDS:
                last.say_goodbye()
        self._sweeping = loop.call_later(SWEEP_SECONDS, self._sweep)

    async def _serve_grpc(self, operation: Operation, stream: Stream[Any, Any]) -> None:
        """Serves one gRPC call."""
        metadata: Any = stream.metadata or {}
        trace.begin(str(metadata.get(TRACE_KEY, "")))
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
        """Core's reply, and whether it is a replay. A client that disconnects cancels the wait, never the call, which
        may be half done.
        """
        context = copy_context()
        task = asyncio.get_running_loop().create_task(self._run(operation, request), context=context)
        self._started(task)
        try:
            return await asyncio.shield(task), context.get(replayed, False)
        finally:
            del task  # Breaks the reference cycle between the task's error and this frame.

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
            task.exception()  # Marks it as retrieved, even if the waiting client has gone.


class _Service:
    """The methods of one service, in grpclib's form."""

    def __init__(self, rows: list[Operation], serve: Callable[[Operation, Stream[Any, Any]], Awaitable[None]]) -> None:
        self._handlers = {
            row.rpc_path: Handler(partial(serve, row), Cardinality.UNARY_UNARY, row.request, row.reply) for row in rows
        }

    def __mapping__(self) -> dict[str, Handler]:
        return self._handlers


class _Accepted(asyncio.Protocol):
    """A new connection. Its first byte distinguishes an edge from gRPC, which is HTTP/2."""

    def __init__(
        self,
        accept: Callable[[asyncio.Transport], None],
        speaker: Callable[[asyncio.Transport, bool], asyncio.Protocol | None],
    ) -> None:
        """accept: called with the transport. speaker: returns the protocol to take over, given whether it is gRPC."""
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
            return  # The timer keeps running: gRPC has no time limit for the rest of the preface.
        self._timer.cancel()
        protocol = self._speaker(self._transport, is_grpc) if begun else None
        if protocol is None:
            self._transport.abort()
            return
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(received)


def _begins_http2(received: bytes) -> bool | None:
    """Whether this is HTTP/2's preface with the complete SETTINGS frame; None while it is an incomplete one."""
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
    """Receives and decodes the request. INVALID_ARGUMENT if that fails."""
    try:
        async with asyncio.timeout(MESSAGE_SECONDS):
            encoded = await receive(stream)
    except TimeoutError:
        raise invalid("", f"the message did not arrive within {MESSAGE_SECONDS:g} s") from None
    if encoded is None:
        raise invalid("", "a message is required")
    try:
        return operation.request.FromString(encoded)
    except Exception as error:  # betterproto2 raises arbitrary errors for malformed messages.
        raise invalid("", f"the message cannot be decoded: {error}") from None


async def _refuse(stream: Stream[Any, Any], fault: Fault) -> None:
    await stream.send_trailing_metadata(
        status=GrpcStatus(fault.status.value), status_message=header_message(fault), metadata=to_metadata(fault)
    )


def _register_descriptors() -> None:
    """Adds game.proto and its imports to the descriptor pool, for reflection."""
    pool = descriptor_pool.Default()
    described = descriptor_pb2.FileDescriptorSet.FromString(
        resources.files("runtime.messages").joinpath("game.binpb").read_bytes()
    )
    from google.protobuf import struct_pb2  # noqa: F401  (imported by game.proto: registers itself)

    for file in described.file:
        if not file.name.startswith("google/"):
            pool.Add(file)  # adding the same file again changes nothing
