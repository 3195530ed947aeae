import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from grpclib import GRPCError
from grpclib.client import Channel
from grpclib.const import Cardinality
from grpclib.const import Status as GrpcStatus

from runtime import messages as m
from runtime.errors import Fault, Status
from runtime.operations import BY_NAME, Operation
from runtime.rpc import MESSAGE_BYTES_MAX, multiplexer, server
from runtime.rpc.client import RpcCaller
from runtime.rpc.connection import HELLO
from runtime.rpc.frames import ANSWER_BYTES_MAX, GOODBYE, Answer, Call, answers_of, body, frames
from runtime.rpc.server import HTTP2, RpcServer
from tests.support.waiting import HANG_SECONDS, until

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


@asynccontextmanager
async def serving(desk: Desk, **bounds: int) -> AsyncIterator[tuple[str, int]]:
    rpc = RpcServer(desk, **bounds)
    host, _, port = (await rpc.start("127.0.0.1", 0)).rpartition(":")
    try:
        yield host, int(port)
    finally:
        desk.gate.set()
        await rpc.stop()


@pytest.fixture
async def address(desk: Desk) -> AsyncIterator[tuple[str, int]]:
    async with serving(desk) as address:
        yield address


def framed(frame: bytes) -> bytes:
    return struct.pack(">I", len(frame)) + frame


OPENING = HELLO + framed(b"")


async def read_frame(reader: asyncio.StreamReader) -> list[Answer]:
    async with asyncio.timeout(HANG_SECONDS):
        (length,) = struct.unpack(">I", await reader.readexactly(4))
        return answers_of(await reader.readexactly(length))


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def open_edge(address: tuple[str, int]) -> Connection:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(OPENING)
    async with asyncio.timeout(HANG_SECONDS):
        assert await reader.readexactly(len(HELLO)) == HELLO
    return reader, writer


async def open_grpc(address: tuple[str, int], host: str = "127.0.0.1") -> Connection:
    reader, writer = await asyncio.open_connection(*address, local_addr=(host, 0))
    writer.write(HTTP2 + SETTINGS)
    async with asyncio.timeout(HANG_SECONDS):
        assert (await reader.readexactly(9))[3] == 4  # Its own SETTINGS.
    return reader, writer


async def fetch_name(connection: Connection) -> str:
    connection[1].write(framed(next(frames([Call(1, "GetCampaign", ASKED).row()]))))
    return (await read_frame(connection[0]))[0].result(GET).campaign.name


async def hung_up(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(HANG_SECONDS):
        try:
            while await reader.read(65_536):
                pass
        except ConnectionError:
            return  # it has gone, which is what is waited for
    assert reader.at_eof()


async def test_frame_of_a_million_calls_is_refused_before_any_is_made(desk: Desk, address: tuple[str, int]) -> None:
    """A frame holds 838,850 calls, which took 75 s and 1.45 GB."""
    reader, writer = await open_edge(address)
    row = msgspec.msgpack.encode([1, "", None])
    count = (MESSAGE_BYTES_MAX - 5) // len(row)
    writer.write(framed(b"\xdd" + struct.pack(">I", count) + row * count))
    (refused,) = await read_frame(reader)
    assert (refused.number, Status(refused.status)) == (GOODBYE, Status.INVALID_ARGUMENT)
    assert "at most 4096 calls" in refused.message
    await hung_up(reader)
    assert desk.seen == 0


async def test_excess_edge_calls_wait(desk: Desk, address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiplexer, "RUNNING_MAX", 20)
    desk.gate.clear()
    reader, writer = await open_edge(address)
    sent = 4_000
    padded = m.GetCampaignRequest(scope=m.Scope(tenant_id="tenant_a"), id="a" * 2_000)
    writer.writelines(framed(next(frames([Call(number, "GetCampaign", body(padded)).row()]))) for number in range(sent))
    await until(lambda: desk.seen > 20)
    _, other = await open_edge(address)  # Another edge is served all the while.
    before = desk.seen
    other.write(framed(next(frames([Call(1, "GetCampaign", ASKED).row()]))))
    await until(lambda: desk.seen > before)
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
    "said", [b"", HELLO[:1], HELLO[:-1], HELLO, HELLO + b"\0\0", b"P", HTTP2, (HTTP2 + SETTINGS)[:-1]]
)
async def test_unauthenticated_connection_is_closed(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(multiplexer, "HELLO_SECONDS", 0.05)
    monkeypatch.setattr(server, "SPEAK_SECONDS", 0.05)
    reader, writer = await asyncio.open_connection(*address)
    writer.write(said)
    await hung_up(reader)
    writer.close()


async def test_greeted_edge_stays_open(desk: Desk, address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiplexer, "HELLO_SECONDS", 0.05)
    reader, writer = await open_edge(address)
    silent, other = await asyncio.open_connection(*address)
    other.write(HELLO)
    await hung_up(silent)  # The time is over.
    writer.write(framed(next(frames([Call(1, "GetCampaign", ASKED).row()]))))
    assert (await read_frame(reader))[0].result(GET).campaign.name == "a"
    for one in (writer, other):
        one.close()


async def test_http2_preface_may_arrive_in_pieces(address: tuple[str, int]) -> None:
    reader, writer = await asyncio.open_connection(*address)
    for byte in HTTP2 + SETTINGS:
        writer.write(bytes([byte]))
        await writer.drain()
    async with asyncio.timeout(HANG_SECONDS):
        assert (await reader.readexactly(9))[3] == 4  # Its own SETTINGS.
    writer.close()


@pytest.mark.parametrize("more", [b"\0\0\x06\x06\0\0\0\0\0", b"\xff\xff\xff\x04\0\0\0\0\0", b"GET"])
async def test_connection_without_http2_preface_is_closed_at_once(address: tuple[str, int], more: bytes) -> None:
    reader, writer = await asyncio.open_connection(*address)
    writer.write((b"" if more == b"GET" else HTTP2) + more)
    await hung_up(reader)
    writer.close()


async def test_grpc_connections_of_an_address_leave_room_for_other_addresses_and_edges(desk: Desk) -> None:
    async with serving(desk, grpc_max=8, edges_max=4) as address:
        held = [await open_grpc(address) for _ in range(2)]
        reader, writer = await asyncio.open_connection(*address)
        writer.write(HTTP2 + SETTINGS)
        await hung_up(reader)
        held.append(await open_grpc(address, "127.0.0.2"))
        edge = await open_edge(address)
        assert await fetch_name(edge) == "a"
        for _, one in (*held, edge):
            one.close()
        writer.close()


@pytest.mark.parametrize("said", [b"", b"P", HELLO[:1], HELLO])
async def test_silent_connections_keep_no_client_out(desk: Desk, said: bytes) -> None:
    """Otherwise silent connections could hold every place for ten seconds at a time."""
    async with serving(desk, silent_max=8) as address:
        silent: list[Connection] = []
        for nth in range(40):
            connection = await asyncio.open_connection(*address, local_addr=(f"127.0.0.{2 + nth % 20}", 0))
            connection[1].write(said)
            silent.append(connection)
        edge = await open_edge(address)
        assert await fetch_name(edge) == "a"
        (await open_grpc(address))[1].close()
        for reader, _ in silent[:30]:
            await hung_up(reader)  # They gave their places up to who came after them.
        assert await fetch_name(edge) == "a"
        for _, one in (*silent, edge):
            one.close()


async def test_silent_address_loses_its_own_connections_first(desk: Desk) -> None:
    async with serving(desk, silent_max=8) as address:
        modest = await asyncio.open_connection(*address, local_addr=("127.0.0.9", 0))
        greedy = [await asyncio.open_connection(*address) for _ in range(20)]
        for reader, _ in greedy[:18]:
            await hung_up(reader)
        modest[1].write(OPENING)
        assert await modest[0].readexactly(len(HELLO)) == HELLO
        assert await fetch_name(modest) == "a"
        for _, one in (*greedy, modest):
            one.close()


async def fetch_name_over_grpc(channel: Channel) -> str:
    async with channel.request(GET.rpc_path, Cardinality.UNARY_UNARY, GET.request, GET.reply) as stream:
        await stream.send_message(m.GetCampaignRequest(scope=m.Scope(tenant_id="tenant_a"), id="a"), end=True)
        reply = await stream.recv_message()
    return str(reply.campaign.name)


async def test_idle_grpc_connection_is_closed_until_it_is_needed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "GRPC_IDLE_SECONDS", 0.2)
    monkeypatch.setattr(server, "SWEEP_SECONDS", 0.02)
    async with serving(desk) as address:
        reader, writer = await open_grpc(address)
        async with asyncio.timeout(HANG_SECONDS):
            rest = await reader.read()
        assert b"\0\0\x08\x07" in rest  # GOAWAY (RFC 9113, 6.8), then the end.
        writer.close()
        async with Channel(*address) as channel:
            for _ in range(3):
                assert await fetch_name_over_grpc(channel) == "a"
                before = channel._protocol
                assert before is not None
                await until(before.connection.is_closing)


async def test_call_without_its_message_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MESSAGE_SECONDS", 0.05)
    async with serving(desk) as address, Channel(*address) as channel:
        with pytest.raises(GRPCError) as caught:
            async with channel.request(GET.rpc_path, Cardinality.UNARY_UNARY, GET.request, GET.reply) as stream:
                await stream.send_request()
                async with asyncio.timeout(HANG_SECONDS):
                    await stream.recv_initial_metadata()
        assert caught.value.status is GrpcStatus.INVALID_ARGUMENT


async def test_unauthenticated_connection_buffers_no_large_frame(address: tuple[str, int]) -> None:
    """Otherwise a thousand connections with an unfinished frame hold 4 GB."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(HELLO + struct.pack(">I", 2_000))
    async with asyncio.timeout(HANG_SECONDS):
        assert await reader.readexactly(len(HELLO)) == HELLO
    (refused,) = await read_frame(reader)
    assert (refused.number, Status(refused.status)) == (GOODBYE, Status.INVALID_ARGUMENT)
    await hung_up(reader)
    writer.close()


async def test_service_token_may_be_long(desk: Desk) -> None:
    token = "t" * 3_000
    rpc = RpcServer(desk, [token])
    caller = RpcCaller([await rpc.start("127.0.0.1", 0)], deadline_seconds=HANG_SECONDS, token=token)
    try:
        assert await ask(caller, "a") == "a"
    finally:
        await caller.close()
        await rpc.stop()


async def test_edges_of_an_address_are_bounded(desk: Desk) -> None:
    async with serving(desk, edges_max=12) as address:
        held = [await open_edge(address) for _ in range(3)]
        for edge in held:
            assert await fetch_name(edge) == "a"
        reader, writer = await asyncio.open_connection(*address)
        writer.write(OPENING)
        await hung_up(reader)
        writer.close()
        held[0][1].close()
        await hung_up(held[0][0])

        async def again() -> None:
            while True:
                try:
                    held[0] = await open_edge(address)
                    assert await fetch_name(held[0]) == "a"
                    return
                except (ConnectionError, asyncio.IncompleteReadError):
                    continue  # the place of the one that left is not free yet

        await asyncio.wait_for(again(), HANG_SECONDS)
        for _, writer in held:
            writer.close()


async def ask(caller: RpcCaller, name: str) -> str:
    request = m.GetCampaignRequest(scope=m.Scope(tenant_id="tenant_a"), id=name)
    return str((await caller.call(GET, request)).campaign.name)


async def test_edge_buffers_nothing_of_an_oversized_answer(address: tuple[str, int]) -> None:
    """Otherwise a server in Core's place could make the edge hold 4 GiB."""

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


async def test_oversized_answer_fails_its_own_call(address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiplexer, "ANSWER_BYTES_MAX", 2_000)
    caller = RpcCaller([f"{address[0]}:{address[1]}"], deadline_seconds=HANG_SECONDS)
    large, small = await asyncio.gather(ask(caller, "long"), ask(caller, "a"), return_exceptions=True)
    await caller.close()
    assert isinstance(large, Fault)
    assert (large.reason, small) == ("MESSAGE_TOO_LARGE", "a")


async def test_any_error_is_answered_and_logged(address: tuple[str, int], capsys: pytest.CaptureFixture[str]) -> None:
    caller = RpcCaller([f"{address[0]}:{address[1]}"], deadline_seconds=HANG_SECONDS)
    bug, well = await asyncio.gather(ask(caller, "bug"), ask(caller, "a"), return_exceptions=True)
    await caller.close()
    assert isinstance(bug, Fault)
    assert (bug.status, bug.reason, well) == (Status.INTERNAL, "INTERNAL", "a")
    assert "nobody foresaw this" in capsys.readouterr().out
