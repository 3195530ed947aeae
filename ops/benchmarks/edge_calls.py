"""What it costs an edge to ask Core, by how its calls travel: two processes, and a Core that does no work.

python -m ops.benchmarks.edge_calls core WAY PORT                 answers on PORT
python -m ops.benchmarks.edge_calls edge WAY PORT COUNT CALLERS   asks COUNT times; prints {"seconds", "cpu_seconds"}

WAY is `own` for the connection that edges use (`runtime.rpc.connection`), `grpc` for the same frames as messages
of one grpclib stream by its public API, and `grpc-guarded` for that with a message's size checked before it is
read, which takes a private member of grpclib's.
"""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Self

import uvloop
from grpclib.client import Channel
from grpclib.const import Cardinality, Handler
from grpclib.server import Server

from runtime import messages as m
from runtime.operations import BY_NAME, Operation
from runtime.rpc.client import MuxStream
from runtime.rpc.grpclib_private import receive
from runtime.rpc.multiplexer import CallMultiplexer
from runtime.rpc.server import RpcServer

PATH: Final = "/tombola.bench.v1.Edge/Calls"
WARM_UP: Final = 1_000
SCOPE: Final = m.Scope(tenant_id="tenant_bench")


class Desk:
    """core.Caller that answers in the next turn of the loop."""

    async def call(self, operation: Operation, request: Any) -> Any:
        await asyncio.sleep(0)
        return m.CampaignReply(campaign=m.Campaign(name=request.id))


# -- over grpclib ----------------------------------------------------------------------------


class Message(bytes):
    """Bytes as grpclib takes a message."""

    def SerializeToString(self) -> bytes:
        return self

    @classmethod
    def FromString(cls, encoded: bytes) -> Self:
        return cls(encoded)


class StreamTransport(asyncio.Transport):
    """A stream of grpclib's for what expects a connection. Writes gather while one is being sent."""

    def __init__(self, stream: Any) -> None:
        super().__init__({"socket": socket.socket()})  # nobody's: options are set on it
        self._stream = stream
        self._written: list[bytes] = []
        self._wrote = asyncio.Event()
        self._sending = asyncio.create_task(self._send())

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._written.append(bytes(data))
        self._wrote.set()

    def is_closing(self) -> bool:
        return self._sending.done()

    def close(self) -> None:
        self._sending.cancel()

    async def _send(self) -> None:
        while True:
            await self._wrote.wait()
            self._wrote.clear()
            written, self._written = self._written, []
            for data in written:
                await self._stream.send_message(Message(data))


class Carried:
    """Core's end: the service of one streaming method."""

    def __init__(self, guarded: bool) -> None:
        self._read = _guarded if guarded else _public

    async def _calls(self, stream: Any) -> None:
        calls = CallMultiplexer(Desk().call, lambda task: None)
        calls.connection_made(StreamTransport(stream))
        async for data in self._read(stream):
            calls.data_received(data)

    def __mapping__(self) -> dict[str, Handler]:
        return {PATH: Handler(self._calls, Cardinality.STREAM_STREAM, Message, Message)}


async def _public(stream: Any) -> AsyncIterator[bytes]:
    async for message in stream:
        yield message


async def _guarded(stream: Any) -> AsyncIterator[bytes]:
    while (message := await receive(stream)) is not None:
        yield message


class GrpcStream(MuxStream):
    """The edge's end."""

    async def _connect(self, host: str, port: int) -> None:
        channel = Channel(host, port)
        async with channel.request(PATH, Cardinality.STREAM_STREAM, Message, Message) as stream:
            await stream.send_request()
            self.connection_made(StreamTransport(stream))
            async for data in stream:
                self.data_received(data)


# -- the two processes -----------------------------------------------------------------------


async def core(way: str, port: int) -> None:
    """Answers until it is killed."""
    if way == "own":
        await RpcServer(Desk()).start("127.0.0.1", port)
    else:
        await Server([Carried(way == "grpc-guarded")]).start("127.0.0.1", port)
    await asyncio.Event().wait()


async def edge(way: str, port: int, count: int, callers: int) -> None:
    """`count` calls by `callers` tasks over one stream."""
    operation = BY_NAME["GetCampaign"]
    kind: Callable[..., MuxStream] = MuxStream if way == "own" else GrpcStream
    stream = kind("127.0.0.1", port, lambda: None)

    async def ask(numbers: Any) -> None:
        for number in numbers:
            request = m.GetCampaignRequest(scope=SCOPE, id=f"campaign_{number}")
            reply = await stream.ask(operation, request, time.monotonic() + 60)
            assert reply.campaign.name == request.id

    await ask(range(WARM_UP))
    left = iter(range(count))
    started, cpu = time.perf_counter(), _cpu_seconds()
    await asyncio.gather(*(ask(left) for _ in range(callers)))
    print(json.dumps({"seconds": time.perf_counter() - started, "cpu_seconds": _cpu_seconds() - cpu}))
    stream.drop()


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(arguments: list[str]) -> None:
    """See the module's docstring."""
    match arguments:
        case ["core", way, port]:
            uvloop.run(core(way, int(port)))
        case ["edge", way, port, count, callers]:
            uvloop.run(edge(way, int(port), int(count), int(callers)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
