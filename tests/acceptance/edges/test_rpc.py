"""Core over RPC: messages and faults cross whole, limits hold, and an edge reaches what replica there is."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from grpclib.client import Channel
from grpclib.const import Cardinality
from grpclib.const import Status as GrpcStatus
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError
from grpclib.health.v1.health_grpc import HealthStub
from grpclib.health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpclib.reflection.v1.reflection_grpc import ServerReflectionStub
from grpclib.reflection.v1.reflection_pb2 import ServerReflectionRequest

from runtime import messages as m
from runtime.app import running
from runtime.operations import BY_NAME, OPERATIONS
from runtime.rpc import MESSAGE_BYTES_MAX
from runtime.rpc.client import RpcCaller
from runtime.settings import Settings
from tests.support.resources import make_campaign, make_game, make_prize, play_once
from tests.support.stack import Stack


@pytest.mark.fault(
    "Oversized, compressed bomb, 64 MiB RPC message", size="64 MiB announced", figure="RESOURCE_EXHAUSTED"
)
async def test_message_over_the_limit_is_refused_before_it_arrives(stack: Stack) -> None:
    """Five bytes that announce 64 MiB are enough for the refusal: none of the 64 MiB was sent."""
    channel = _channel(stack)
    try:
        with pytest.raises(GRPCError) as caught:
            async with channel.request(
                "/game.v1.GameService/CreateGame", Cardinality.UNARY_UNARY, m.CreateGameRequest, m.GameReply
            ) as stream:
                await stream.send_request()
                await stream._stream.send_data(struct.pack(">?I", False, 16 * MESSAGE_BYTES_MAX))
                await stream.recv_initial_metadata()
    finally:
        channel.close()
    assert caught.value.status is GrpcStatus.RESOURCE_EXHAUSTED


async def test_malformed_message_is_refused(stack: Stack) -> None:
    channel = _channel(stack)
    try:
        for broken in (b"\xff\xff\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x12\x02\xff\xfe"):
            with pytest.raises(Exception, match="INVALID_ARGUMENT"):
                await _send_raw(channel, "/game.v1.GameService/GetGame", broken)
    finally:
        channel.close()


async def test_health_and_reflection_answer(stack: Stack) -> None:
    channel = _channel(stack)
    try:
        for service in ("", "game.v1.PlayService"):
            health = await HealthStub(channel).Check(HealthCheckRequest(service=service))
            assert health.status == HealthCheckResponse.SERVING
        answers = await ServerReflectionStub(channel).ServerReflectionInfo(
            [
                ServerReflectionRequest(list_services=""),
                ServerReflectionRequest(file_containing_symbol="game.v1.PlayService"),
            ]
        )
    finally:
        channel.close()
    listed = {service.name for service in answers[0].list_services_response.service}
    assert listed >= {f"game.v1.{row.service}" for row in OPERATIONS}
    assert not any("internal" in name for name in listed)
    assert answers[1].file_descriptor_response.file_descriptor_proto


async def test_replica_that_is_away_is_passed_over(stack: Stack) -> None:
    caller = RpcCaller(["127.0.0.1:1", stack.process.rpc_address])
    request = m.ListGamesRequest(scope=m.Scope(tenant_id=stack.tenant_id))
    try:
        for _ in range(4):
            assert (await caller.call(BY_NAME["ListGames"], request)).items == []
    finally:
        await caller.close()


async def test_edges_in_a_process_of_their_own_reach_core_over_rpc(stack: Stack, settings: Settings) -> None:
    campaign = await make_campaign(stack)
    game = await make_game(stack, campaign["id"], await make_prize(stack))
    apart = replace(settings, core_rpc_addresses=(stack.process.rpc_address,), database_url="")
    async with running(apart, ("consumer", "admin")) as edges, aiohttp.ClientSession() as http:
        assert edges.core is None
        away = Stack(edges, http, stack.tenant_id)
        assert (await play_once(away, game["id"]))["rewards"][0]["name"] == "Mug"
        refused = await away.consumer("POST", f"/games/{game['id']}/play", {"session_id": "x"}, player="player_a")
        assert (refused.http, refused.reason) == (403, "SESSION_INVALID")
        assert (await away.admin("GET", f"/admin/games/{game['id']}")).data["name"] == "Wheel"


def _channel(stack: Stack) -> Channel:
    host, _, port = stack.process.rpc_address.rpartition(":")
    return Channel(host, int(port))


async def _send_raw(channel: Channel, path: str, encoded: bytes) -> None:
    class Bytes(CodecBase):
        __content_subtype__ = "proto"

        def encode(self, message: bytes, message_type: Any) -> bytes:
            return message

        def decode(self, data: bytes, message_type: Any) -> bytes:
            return data

    channel._codec = Bytes()
    async with channel.request(path, Cardinality.UNARY_UNARY, bytes, bytes) as stream:
        await stream.send_message(encoded, end=True)
        await stream.recv_message()
