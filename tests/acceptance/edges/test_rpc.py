import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import psutil
import pytest
from grpclib.client import Channel
from grpclib.const import Cardinality
from grpclib.const import Status as GrpcStatus
from grpclib.exceptions import GRPCError
from grpclib.health.v1.health_grpc import HealthStub
from grpclib.health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpclib.reflection.v1.reflection_grpc import ServerReflectionStub
from grpclib.reflection.v1.reflection_pb2 import ServerReflectionRequest

from ops.certification.proxy import Proxy
from runtime import messages as m
from runtime.errors import Fault, Status
from runtime.operations import BY_NAME, OPERATIONS, Operation
from runtime.rpc import MESSAGE_BYTES_MAX, client
from runtime.rpc.addresses import Address, Addresses, look_up
from runtime.rpc.client import MuxStream, RpcCaller
from runtime.rpc.server import RpcServer
from tests.support.memory import forget_peak, peak
from tests.support.stack import Stack
from tests.support.waiting import HANG_SECONDS, until


@pytest.mark.fault(
    "Oversized, compressed bomb, 64 MiB RPC message", size="64 MiB", figure="INVALID_ARGUMENT, under 20 MiB"
)
async def test_message_over_the_limit_is_refused_before_it_arrives(stack: Stack) -> None:
    """Five bytes that announce 64 MiB are enough for the refusal, and the rest is not held."""
    own, announced = psutil.Process(), struct.pack(">?I", False, 16 * MESSAGE_BYTES_MAX)
    before = forget_peak(own)
    for rest in (0, 16 * MESSAGE_BYTES_MAX // 2**16):
        async with _channel(stack) as channel:
            with pytest.raises(GRPCError) as caught:
                await _send(channel, "CreateGame", announced, *[bytes(2**16)] * rest)
        assert caught.value.status is GrpcStatus.INVALID_ARGUMENT
    assert peak(own) - before < 20 * 2**20


async def test_malformed_message_is_refused(stack: Stack) -> None:
    async with _channel(stack) as channel:
        for broken in (b"\xff\xff\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x12\x02\xff\xfe"):
            with pytest.raises(Exception, match="INVALID_ARGUMENT"):
                await _send(channel, "GetGame", struct.pack(">?I", False, len(broken)) + broken)


async def test_health_and_reflection_answer(stack: Stack) -> None:
    asked = [{"list_services": ""}, {"file_containing_symbol": "game.v1.PlayService"}]
    async with _channel(stack) as channel:
        for service in ("", "game.v1.PlayService"):
            health = await HealthStub(channel).Check(HealthCheckRequest(service=service))
            assert health.status == HealthCheckResponse.SERVING
        requests = [ServerReflectionRequest(**one) for one in asked]
        answers = await ServerReflectionStub(channel).ServerReflectionInfo(requests)
    listed = {service.name for service in answers[0].list_services_response.service}
    assert listed >= {f"game.v1.{row.service}" for row in OPERATIONS}
    assert not any("internal" in name for name in listed)
    assert answers[1].file_descriptor_response.file_descriptor_proto


def _channel(stack: Stack) -> Channel:
    host, _, port = stack.process.rpc_address.rpartition(":")
    return Channel(host, int(port))


async def _send(channel: Channel, rpc: str, *pieces: bytes) -> None:
    """Calls with these bytes as they are, and hears the beginning of the answer meanwhile."""
    row = BY_NAME[rpc]
    async with channel.request(row.rpc_path, Cardinality.UNARY_UNARY, row.request, row.reply) as stream:
        await stream.send_request()
        await stream._stream.send_data(pieces[0])

        async def send_the_rest() -> None:
            for piece in pieces[1:]:
                await stream._stream.send_data(piece)

        rest = asyncio.ensure_future(send_the_rest())
        try:
            await stream.recv_initial_metadata()
            await stream.recv_message()
        finally:
            rest.cancel()


async def test_addresses_that_are_literal_are_not_looked_up() -> None:
    resolved: list[list[Address]] = []
    addresses = Addresses(["127.0.0.1:1", "[::1]:2", "127.0.0.1:1"], resolved.append, lookup=never)
    await addresses.first()
    assert resolved == [[("127.0.0.1", 1), ("::1", 2)]]
    addresses.close()


async def test_addresses_are_looked_up_again_once_after_many_doubts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.rpc.addresses.AGAIN_SECONDS", 0.01)
    monkeypatch.setattr("runtime.rpc.addresses.FOLLOW_SECONDS", 86400.0)
    is_checked, again = 0, asyncio.Event()

    async def lookup(host: str, port: int) -> list[Address]:
        nonlocal is_checked
        is_checked += 1
        if is_checked == 2:
            again.set()
        return [(f"10.0.0.{is_checked}", port)]

    resolved: list[list[Address]] = []
    addresses = Addresses(["core:8083"], resolved.append, lookup=lookup)
    await asyncio.gather(addresses.first(), addresses.first())
    assert resolved == [[("10.0.0.1", 8083)]]
    for _ in range(100):
        addresses.doubt()
    async with asyncio.timeout(HANG_SECONDS):
        await again.wait()
    addresses.close()
    assert is_checked == 2


async def test_edge_asks_every_replica_and_follows_a_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    there: list[str] = []

    async def lookup(host: str, port: int) -> list[Address]:
        if not there:
            raise OSError("the name server is away")
        return [(one, port) for one in there]

    monkeypatch.setitem(Addresses.__init__.__kwdefaults__, "lookup", lookup)
    monkeypatch.setattr("runtime.rpc.addresses.AGAIN_SECONDS", 0.02)
    monkeypatch.setattr("runtime.rpc.addresses.FOLLOW_SECONDS", 0.1)
    names, port = ("127.0.0.1", "127.0.0.2", "127.0.0.3"), 0
    async with AsyncExitStack() as stack:
        for name in names:
            server = RpcServer(Desk(name, asyncio.Event()))
            port = int((await server.start(name, port)).rpartition(":")[2])
            stack.push_async_callback(server.stop)
        caller = RpcCaller([f"core.headless.example:{port}"])
        stack.push_async_callback(caller.close)
        request = m.GetCampaignRequest(scope=m.Scope(tenant_id="t"), id="c")
        with pytest.raises(Fault, match="CORE_UNAVAILABLE"):
            await caller.call(GET, request)

        async def answered(expected: set[str]) -> bool:
            try:  # More turns than there are replicas: reads go round.
                replies = await asyncio.gather(*(caller.call(GET, request) for _ in range(12)))
            except Fault:
                return False
            return {reply.campaign.name for reply in replies} == expected

        for rollout in (names[:2], names[1:]):
            there[:] = rollout
            await until(partial(answered, {*rollout}))
        there.clear()
        await asyncio.sleep(0.3)  # sleeps: for several lookups that fail
        assert await answered({*names[1:]})


async def test_name_is_looked_up_by_the_resolver() -> None:
    assert ("127.0.0.1", 8083) in await look_up("localhost", 8083)


async def never(host: str, port: int) -> list[Address]:
    raise AssertionError("an address is no name")


GET, ADJUST = BY_NAME["GetCampaign"], BY_NAME["AdjustBalance"]


class Desk:
    """core.Caller: answers with its own name, `slow` only once it may."""

    def __init__(self, name: str, may: asyncio.Event) -> None:
        self.name, self.may = name, may

    async def call(self, operation: Operation, request: Any) -> Any:
        if operation is ADJUST:
            raise Fault(Status.FAILED_PRECONDITION, "INSUFFICIENT_BALANCE", "less than that")
        if request.id == "slow":
            await self.may.wait()
        return m.CampaignReply(campaign=m.Campaign(name=self.name))


@dataclass
class Two:
    caller: RpcCaller
    proxy: Proxy
    may: asyncio.Event

    async def get(self, name: str = "quick") -> str:
        request = m.GetCampaignRequest(scope=m.Scope(tenant_id="tenant_a"), id=name)
        return str((await self.caller.call(GET, request)).campaign.name)

    async def each(self) -> set[str]:
        return {await self.get() for _ in range(4)}


@pytest.fixture
async def two(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Two]:
    monkeypatch.setattr(client, "SILENT_SECONDS", 0.05)
    monkeypatch.setattr(client, "AWAY_SECONDS", 0.05)
    may = asyncio.Event()
    async with AsyncExitStack() as stack:
        addresses = []
        for name in ("first", "second"):
            server = RpcServer(Desk(name, may))
            addresses.append(await server.start("127.0.0.1", 0))
            stack.push_async_callback(server.stop)
        proxy = Proxy(int(addresses[0].rpartition(":")[2]))
        await proxy.start()
        stack.push_async_callback(proxy.stop)
        caller = RpcCaller([f"127.0.0.1:{proxy.port}", addresses[1]], deadline_seconds=HANG_SECONDS)
        stack.push_async_callback(caller.close)
        two = Two(caller, proxy, may)
        assert await two.each() == {"first", "second"}
        yield two


async def test_forgotten_connection_is_made_anew(two: Two) -> None:
    two.proxy.half_open()
    async with asyncio.timeout(HANG_SECONDS / 6):
        assert await two.each() == {"second"}
        await until(lambda: two.each(), lambda it: it == {"first", "second"})


async def test_calls_pass_over_a_core_that_stands_still(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONNECT_SECONDS", HANG_SECONDS)
    two.proxy.partition()
    async with asyncio.timeout(HANG_SECONDS / 6):
        for _ in range(20):
            assert await two.each() == {"second"}
        two.proxy.heal()
        await until(lambda: two.each(), lambda it: it == {"first", "second"})


async def test_core_that_takes_long_is_not_given_up(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    listen = MuxStream._check_silence

    def counted(stream: MuxStream) -> None:
        nonlocal looks
        looks += 1
        listen(stream)

    monkeypatch.setattr(MuxStream, "_check_silence", counted)
    slow = [asyncio.ensure_future(two.get("slow")) for _ in range(2)]
    await until(lambda: looks >= 12)
    two.may.set()
    async with asyncio.timeout(HANG_SECONDS / 6):
        assert set(await asyncio.gather(*slow)) == {"first", "second"}


async def test_refusal_is_withheld_while_a_silent_core_may_yet_commit(two: Two) -> None:
    """What it was sent may be done once it goes on, whatever another says meanwhile."""
    two.proxy.partition()
    request = m.AdjustBalanceRequest(scope=m.Scope(tenant_id="tenant_a"), idempotency_key="key")
    actual = []
    for _ in range(2):  # Of two calls one goes to each.
        with pytest.raises(Fault) as refused:
            await two.caller.call(ADJUST, request)
        actual.append(refused.value.reason)
    assert sorted(actual) == ["CORE_UNAVAILABLE", "INSUFFICIENT_BALANCE"]
