"""Who reaches Core's RPC port can have it hold no more than its share: connections, calls, bytes, time.

Core's place is taken by `Desk`, which answers when a test lets it; the server and the sockets are real.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from runtime import messages as m
from runtime.errors import Fault, Status
from runtime.operations import BY_NAME, Operation
from runtime.rpc import MESSAGE_BYTES_MAX, multiplexer, server
from runtime.rpc.client import RpcCaller
from runtime.rpc.connection import HELLO
from runtime.rpc.frames import ANSWER_BYTES_MAX, GOODBYE, Answer, Call, answers_of, body, frames
from runtime.rpc.server import HTTP2, RpcServer
from tests.support.waiting import HANG_SECONDS

GET: Operation = BY_NAME["GetCampaign"]
ASKED = body(m.GetCampaignRequest(scope=m.Scope(tenant_id="tenant_a"), id="a"))


class Desk:
    """core.Caller: answers with the campaign's id as its name, once the gate is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.seen = 0

    async def call(self, operation: Operation, request: Any) -> Any:
        self.seen += 1
        await self.gate.wait()
        if request.id == "bug":
            raise KeyError("nobody foresaw this")
        return m.CampaignReply(campaign=m.Campaign(name=request.id * (1_000 if request.id == "long" else 1)))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is hung up on for its silence, but where a test says so: else that would pass for any other reason."""
    monkeypatch.setattr(multiplexer, "HELLO_SECONDS", 10 * HANG_SECONDS)
    monkeypatch.setattr(server, "SPEAK_SECONDS", 10 * HANG_SECONDS)


@pytest.fixture
async def desk() -> Desk:
    return Desk()


@pytest.fixture
async def address(desk: Desk) -> AsyncIterator[tuple[str, int]]:
    rpc = RpcServer(desk)
    host, _, port = (await rpc.start("127.0.0.1", 0)).rpartition(":")
    try:
        yield host, int(port)
    finally:
        desk.gate.set()
        await rpc.stop()


def framed(frame: bytes) -> bytes:
    return struct.pack(">I", len(frame)) + frame


OPENING = HELLO + framed(b"")


async def read_frame(reader: asyncio.StreamReader) -> list[Answer]:
    async with asyncio.timeout(HANG_SECONDS):
        (length,) = struct.unpack(">I", await reader.readexactly(4))
        return answers_of(await reader.readexactly(length))


async def open_edge(address: tuple[str, int]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(OPENING)
    async with asyncio.timeout(HANG_SECONDS):
        assert await reader.readexactly(len(HELLO)) == HELLO
    return reader, writer


async def hung_up(reader: asyncio.StreamReader) -> None:
    """Returns when the other end has gone."""
    async with asyncio.timeout(HANG_SECONDS):
        try:
            while await reader.read(65_536):
                pass
        except ConnectionError:
            return


async def test_a_frame_of_a_million_calls_is_refused_before_one_is_made(desk: Desk, address: tuple[str, int]) -> None:
    """838,850 of them fit into a frame, which took 75 s and 1.45 GB."""
    reader, writer = await open_edge(address)
    row = msgspec.msgpack.encode([1, "", None])
    count = (MESSAGE_BYTES_MAX - 5) // len(row)
    writer.write(framed(b"\xdd" + struct.pack(">I", count) + row * count))
    (refused,) = await read_frame(reader)
    assert (refused.number, Status(refused.status)) == (GOODBYE, Status.INVALID_ARGUMENT)
    assert "at most 4096 calls" in refused.message
    await hung_up(reader)
    assert desk.seen == 0


async def test_an_edge_s_calls_wait_in_its_own_socket(
    desk: Desk, address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those beyond the bound are read when others are answered, and none is lost."""
    monkeypatch.setattr(multiplexer, "RUNNING_MAX", 20)
    desk.gate.clear()
    reader, writer = await open_edge(address)
    sent = 4_000
    padded = m.GetCampaignRequest(scope=m.Scope(tenant_id="tenant_a"), id="a" * 2_000)
    writer.writelines(framed(next(frames([Call(number, "GetCampaign", body(padded)).row()]))) for number in range(sent))
    async with asyncio.timeout(HANG_SECONDS):
        while desk.seen <= 20:
            await asyncio.sleep(0)
    _, other = await open_edge(address)  # Another edge is served all the while.
    before = desk.seen
    other.write(framed(next(frames([Call(1, "GetCampaign", ASKED).row()]))))
    async with asyncio.timeout(HANG_SECONDS):
        while desk.seen == before:
            await asyncio.sleep(0)
    assert desk.seen < sent / 2
    desk.gate.set()
    numbers: set[int] = set()
    while len(numbers) < sent:
        numbers |= {answer.number for answer in await read_frame(reader)}
    assert numbers == set(range(sent))
    for one in (writer, other):
        one.close()


SETTINGS = b"\0\0\x06\x04\0\0\0\0\0" + b"\0\x03\0\0\0\x64"


@pytest.mark.parametrize(
    "said",
    [b"", HELLO[:1], HELLO[:-1], HELLO, HELLO + b"\0\0", b"P", HTTP2, (HTTP2 + SETTINGS)[:-1]],
)
async def test_who_does_not_say_who_it_is_is_hung_up_on(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(multiplexer, "HELLO_SECONDS", 0.05)
    monkeypatch.setattr(server, "SPEAK_SECONDS", 0.05)
    reader, writer = await asyncio.open_connection(*address)
    writer.write(said)
    await hung_up(reader)
    writer.close()


async def test_who_said_it_may_stay(desk: Desk, address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiplexer, "HELLO_SECONDS", 0.05)
    reader, writer = await open_edge(address)
    silent, other = await asyncio.open_connection(*address)
    other.write(HELLO)
    await hung_up(silent)  # The time is over.
    writer.write(framed(next(frames([Call(1, "GetCampaign", ASKED).row()]))))
    assert (await read_frame(reader))[0].result(GET).campaign.name == "a"
    for one in (writer, other):
        one.close()


async def test_http2_may_begin_in_pieces(address: tuple[str, int]) -> None:
    reader, writer = await asyncio.open_connection(*address)
    for byte in HTTP2 + SETTINGS:
        writer.write(bytes([byte]))
        await writer.drain()
    async with asyncio.timeout(HANG_SECONDS):
        assert (await reader.readexactly(9))[3] == 4  # Its own SETTINGS.
    writer.close()


@pytest.mark.parametrize("more", [b"\0\0\x06\x06\0\0\0\0\0", b"\xff\xff\xff\x04\0\0\0\0\0", b"GET"])
async def test_what_is_no_http2_is_hung_up_on_at_once(address: tuple[str, int], more: bytes) -> None:
    reader, writer = await asyncio.open_connection(*address)
    writer.write((b"" if more == b"GET" else HTTP2) + more)
    await hung_up(reader)
    writer.close()


async def test_grpc_leaves_edges_a_place(address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's gRPC connection ends by itself: those of strangers would hold all places for ever."""
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 4)
    held = []
    for _ in range(2):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(HTTP2 + SETTINGS)
        async with asyncio.timeout(HANG_SECONDS):
            await reader.readexactly(9)
        held.append(writer)
    reader, writer = await asyncio.open_connection(*address)
    writer.write(HTTP2 + SETTINGS)
    await hung_up(reader)
    _, edge = await open_edge(address)
    for one in (*held, writer, edge):
        one.close()


async def test_nothing_large_is_kept_of_who_has_not_said_who_it_is(address: tuple[str, int]) -> None:
    """A thousand connections with a frame begun each held 4 GB."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(HELLO + struct.pack(">I", 2_000))
    async with asyncio.timeout(HANG_SECONDS):
        assert await reader.readexactly(len(HELLO)) == HELLO
    (refused,) = await read_frame(reader)
    assert (refused.number, Status(refused.status)) == (GOODBYE, Status.RESOURCE_EXHAUSTED)
    await hung_up(reader)
    writer.close()


async def test_a_service_token_may_be_as_long_as_it_is(desk: Desk) -> None:
    token = "t" * 3_000
    rpc = RpcServer(desk, [token])
    caller = RpcCaller([await rpc.start("127.0.0.1", 0)], deadline_seconds=HANG_SECONDS, token=token)
    try:
        assert await ask(caller, "a") == "a"
    finally:
        await caller.close()
        await rpc.stop()


async def test_connections_are_bounded(address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 3)
    held = [await open_edge(address) for _ in range(3)]
    reader, writer = await asyncio.open_connection(*address)
    await hung_up(reader)
    writer.close()
    held[0][1].close()
    await hung_up(held[0][0])

    async def again() -> None:
        while True:
            try:
                held[0] = await open_edge(address)
                return
            except (ConnectionError, asyncio.IncompleteReadError):
                continue

    await asyncio.wait_for(again(), HANG_SECONDS)
    for _, writer in held:
        writer.close()


async def ask(caller: RpcCaller, name: str) -> str:
    asked = m.GetCampaignRequest(scope=m.Scope(tenant_id="tenant_a"), id=name)
    return str((await caller.call(GET, asked)).campaign.name)


async def test_an_edge_keeps_nothing_of_an_answer_that_is_too_large(address: tuple[str, int]) -> None:
    """Whoever answers in Core's place would have it hold 4 GiB."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HELLO + struct.pack(">I", ANSWER_BYTES_MAX + 2**20))
        await hung_up(reader)
        writer.close()

    other = await asyncio.start_server(answer, "127.0.0.1", 0)
    caller = RpcCaller([f"127.0.0.1:{other.sockets[0].getsockname()[1]}"], deadline_seconds=HANG_SECONDS)
    async with other:
        with pytest.raises(Fault) as caught:
            await ask(caller, "a")
        await caller.close()
    assert caught.value.reason == "CORE_UNAVAILABLE"
    assert f"exceeds {ANSWER_BYTES_MAX + 8}" in caught.value.message


async def test_an_answer_that_no_edge_takes_is_a_refusal_of_its_call_alone(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multiplexer, "ANSWER_BYTES_MAX", 2_000)
    caller = RpcCaller([f"{address[0]}:{address[1]}"], deadline_seconds=HANG_SECONDS)
    large, small = await asyncio.gather(ask(caller, "long"), ask(caller, "a"), return_exceptions=True)
    await caller.close()
    assert isinstance(large, Fault)
    assert (large.reason, small) == ("MESSAGE_TOO_LARGE", "a")


async def test_what_nobody_foresaw_is_answered_and_logged(
    address: tuple[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    """Swallowed, it left the edge waiting until its time was up."""
    caller = RpcCaller([f"{address[0]}:{address[1]}"], deadline_seconds=HANG_SECONDS)
    bug, well = await asyncio.gather(ask(caller, "bug"), ask(caller, "a"), return_exceptions=True)
    await caller.close()
    assert isinstance(bug, Fault)
    assert (bug.status, bug.reason, well) == (Status.INTERNAL, "INTERNAL", "a")
    assert "nobody foresaw this" in capsys.readouterr().out
