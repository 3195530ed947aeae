"""What holds on every surface, whatever is asked: the envelope, the trace, limits, health, and who may ask."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import psutil
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

from ops.servers.postgres import Postgres
from ops.servers.valkey import Valkey
from runtime import messages as m
from runtime.app import running
from runtime.errors import Fault, Status
from runtime.http import admin
from runtime.http.auth import MANAGEMENT, PLATFORM
from runtime.operations import API, BY_NAME, OPERATIONS
from runtime.rpc import MESSAGE_BYTES_MAX
from runtime.rpc.client import RpcCaller
from runtime.settings import Settings
from tests.support.resources import make_campaign, make_game, make_prize, play_once
from tests.support.stack import OTHER_TENANT, Stack

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SURFACES = ("core", "consumer", "admin")


def url_of(stack: Stack, surface: str) -> str:
    return str(getattr(stack.process, f"{surface}_url"))


@pytest.fixture
async def rpc(stack: Stack) -> AsyncIterator[RpcCaller]:
    caller = RpcCaller([stack.process.rpc_address])
    yield caller
    await caller.close()


class TestEnvelope:
    @pytest.mark.parametrize("surface", SURFACES)
    @pytest.mark.parametrize(
        ("verb", "path", "http"),
        [
            ("GET", "/nowhere", {404}),
            ("GET", "/games/x/y/z", {404}),
            ("PATCH", "/games/x/render", {404, 405}),  # The admin edge has no such path.
        ],
    )
    async def test_every_refusal_is_in_it(
        self, stack: Stack, surface: str, verb: str, path: str, http: set[int]
    ) -> None:
        url = url_of(stack, surface) + API + path
        async with stack.http.request(verb, url, headers={"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}) as answer:
            envelope = await answer.json()
            assert answer.status in http
            assert list(envelope) == ["code", "message", "trace_id", "data"]
            assert envelope["code"] in ("NOT_FOUND", "UNIMPLEMENTED")
            assert envelope["trace_id"] == TRACE

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"[]",
            b"null",
            b'{"session_id": 3}',
            b'{"session_id": "\\u0000"}',
            b'{"payload": {"x": 9223372036854775808}}',
            b"\xff\xfe",
            '{"session_id": "x"}'.encode("utf-16"),
            b"[" * 100_000,
            b'{"payload": ' + b'{"a":' * 40_000,
        ],
        ids=range(11),
    )
    async def test_no_body_breaks_a_surface(self, stack: Stack, body: bytes) -> None:
        headers = {"Authorization": f"Bearer {stack.token('player_a')}", "Content-Type": "application/json"}
        for base in (stack.process.core_url, stack.process.consumer_url):
            async with stack.http.post(f"{base}{API}/games/game_x/play", data=body, headers=headers) as answer:
                envelope = await answer.json()
                assert 400 <= answer.status < 500, envelope
                assert envelope["data"]["reason"] in ("VALIDATION", "SESSION_INVALID", "UNKNOWN_GAME")

    @pytest.mark.parametrize("surface", SURFACES)
    async def test_a_body_over_the_limit_is_refused(self, stack: Stack, surface: str) -> None:
        path = "/admin/campaigns" if surface == "admin" else "/games/game_x/play"
        token = stack.token("staff", ("admin",)) if surface == "admin" else stack.token("player_a")
        body = b'{"name": "' + b"x" * stack.process.settings.body_limit_bytes + b'"}'
        headers = {"Authorization": f"Bearer {token}"}
        async with stack.http.post(url_of(stack, surface) + API + path, data=body, headers=headers) as answer:
            assert (answer.status, (await answer.json())["data"]["reason"]) == (413, "BODY_TOO_LARGE")


@contextmanager
def frozen(postgres: Postgres) -> Iterator[None]:
    """Postgres with every backend stopped: connections stay open and nothing answers."""
    postgres.freeze()
    backends = psutil.Process(postgres.pid).children()
    for backend in backends:
        backend.suspend()
    try:
        yield
    finally:
        for backend in backends:
            backend.resume()
        postgres.thaw()


class TestHealth:
    @pytest.mark.parametrize("surface", SURFACES)
    async def test_a_process_that_is_up_is_alive_and_ready(self, stack: Stack, surface: str) -> None:
        for path in ("/healthz", "/readyz"):
            async with stack.http.get(url_of(stack, surface) + path) as answer:
                assert (answer.status, (await answer.json())["code"]) == (200, "OK")

    async def test_readiness_names_the_store_that_is_away(self, stack: Stack, valkey_server: Valkey) -> None:
        valkey_server.freeze()
        try:
            async with asyncio.timeout(2), stack.http.get(f"{stack.process.core_url}/readyz") as answer:
                assert (answer.status, answer.headers["X-Failed-Check"]) == (503, "redis")
                assert (await answer.json())["data"]["failed_checks"] == ["redis"]
            async with stack.http.get(f"{stack.process.core_url}/healthz") as answer:
                assert answer.status == 200
        finally:
            valkey_server.thaw()

    async def test_readiness_names_a_frozen_database(self, stack: Stack, postgres: Postgres) -> None:
        with frozen(postgres):
            async with asyncio.timeout(2), stack.http.get(f"{stack.process.core_url}/readyz") as answer:
                assert (answer.status, answer.headers["X-Failed-Check"]) == (503, "database")

    async def test_metrics_have_every_outcome_from_the_start(self, stack: Stack) -> None:
        async with stack.http.get(f"{stack.process.core_url}/metrics") as answer:
            text = await answer.text()
        assert answer.headers["Content-Type"].startswith("text/plain")
        for outcome in ("delivered", "awaiting", "retry", "dead"):
            assert f'fulfillment_tasks_total{{outcome="{outcome}"}}' in text
        assert "tombola_database_round_trips_total" in text
        assert 'tombola_operation_seconds_bucket{le="0.001",operation="Play"}' in text

    @pytest.mark.parametrize("surface", ["consumer", "admin"])
    async def test_an_edge_has_no_metrics(self, stack: Stack, surface: str) -> None:
        async with stack.http.get(url_of(stack, surface) + "/metrics") as answer:
            assert answer.status == 404


class TestCore:
    async def test_int64_is_quoted_on_core_and_a_number_on_the_edges(self, stack: Stack) -> None:
        campaign = await make_campaign(stack, start_date=1767225600)
        on_core = (await stack.core("GET", f"/campaigns/{campaign['id']}")).data["campaign"]
        assert (on_core["start_date"], campaign["start_date"]) == ("1767225600", 1767225600)
        assert on_core["status"] == campaign["status"] == "CAMPAIGN_STATUS_ACTIVE"

    async def test_the_scope_is_needed(self, stack: Stack) -> None:
        async with stack.http.get(f"{stack.process.core_url}{API}/games") as answer:
            envelope = await answer.json()
        assert envelope["data"]["violations"] == [{"field": "scope.tenant_id", "description": "is required"}]

    async def test_a_body_s_id_that_differs_from_the_path_s_is_refused(self, stack: Stack) -> None:
        answer = await stack.core("PUT", "/games/game_a", {"id": "game_b", "game": {"name": "x"}})
        assert (answer.http, answer.envelope["data"]["violations"][0]["field"]) == (400, "id")
        answer = await stack.admin("PUT", "/admin/games/game_a", {"id": "game_b", "name": "x"})
        assert (answer.http, answer.envelope["data"]["violations"][0]["field"]) == (400, "id")

    async def test_the_key_is_the_header_s(self, stack: Stack) -> None:
        url = f"{stack.process.core_url}{API}/rewards/reward_x/claim"
        body = {"scope": {"tenant_id": stack.tenant_id}, "player_id": "p", "idempotency_key": "a"}
        async with stack.http.post(url, json=body, headers={"Idempotency-Key": "b"}) as answer:
            assert (await answer.json())["data"]["violations"][0]["field"] == "idempotency_key"


class TestRpc:
    async def test_a_message_crosses_both_ways(self, stack: Stack, rpc: RpcCaller) -> None:
        campaign = await make_campaign(stack, settings={"a": [1, 2.5, None, {"b": True}]})
        reply = await rpc.call(
            BY_NAME["GetCampaign"], m.GetCampaignRequest(scope=m.Scope(tenant_id=stack.tenant_id), id=campaign["id"])
        )
        assert reply.campaign.settings == {"a": [1, 2.5, None, {"b": True}]}
        assert reply.campaign.status is m.CampaignStatus.ACTIVE

    async def test_a_fault_arrives_whole(self, stack: Stack, rpc: RpcCaller) -> None:
        request = m.CreateGameRequest(scope=m.Scope(tenant_id=stack.tenant_id), game=m.Game(name="a\0"))
        with pytest.raises(Fault) as caught:
            await rpc.call(BY_NAME["CreateGame"], request)
        assert (caught.value.status, caught.value.reason) == (Status.INVALID_ARGUMENT, "VALIDATION")
        assert caught.value.facts["violations"] == [
            {"field": "game.name", "description": "must not hold a NUL character"}
        ]

    async def test_a_message_over_the_limit_is_refused_before_it_is_here(self, stack: Stack) -> None:
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

    async def test_the_sender_of_a_message_over_the_limit_is_told(self, stack: Stack, rpc: RpcCaller) -> None:
        with pytest.raises(Fault) as caught:
            await rpc.call(BY_NAME["CreateGame"], m.CreateGameRequest(game=m.Game(name="x" * (2 * MESSAGE_BYTES_MAX))))
        assert caught.value.status is Status.RESOURCE_EXHAUSTED

    async def test_what_is_no_message_is_refused(self, stack: Stack) -> None:
        channel = _channel(stack)
        try:
            for broken in (b"\xff\xff\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x12\x02\xff\xfe"):
                with pytest.raises(Exception, match="INVALID_ARGUMENT"):
                    await _send_raw(channel, "/game.v1.GameService/GetGame", broken)
        finally:
            channel.close()

    async def test_health_and_reflection_answer(self, stack: Stack) -> None:
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
        assert answers[1].file_descriptor_response.file_descriptor_proto

    async def test_a_replica_that_is_away_is_passed_over(self, stack: Stack) -> None:
        caller = RpcCaller(["127.0.0.1:1", stack.process.rpc_address])
        request = m.ListGamesRequest(scope=m.Scope(tenant_id=stack.tenant_id))
        try:
            for _ in range(4):
                assert (await caller.call(BY_NAME["ListGames"], request)).items == []
        finally:
            await caller.close()

    async def test_with_no_replica_left_it_is_unavailable(self) -> None:
        caller = RpcCaller(["127.0.0.1:1"])
        try:
            with pytest.raises(Fault) as caught:
                await caller.call(BY_NAME["ListGames"], m.ListGamesRequest(scope=m.Scope(tenant_id="t")))
        finally:
            await caller.close()
        assert caught.value.status is Status.UNAVAILABLE
        assert caught.value.retry_after_seconds

    async def test_edges_in_a_process_of_their_own_reach_core_over_rpc(self, stack: Stack, settings: Settings) -> None:
        campaign = await make_campaign(stack)
        game = await make_game(stack, campaign["id"], await make_prize(stack))
        apart = replace(settings, core_rpc_addresses=(stack.process.rpc_address,), database_url="")
        async with running(apart, ("consumer", "admin")) as edges, aiohttp.ClientSession() as http:
            assert edges.core is None
            away = Stack(edges, http)
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


class TestWhoMayAsk:
    async def test_a_player_s_route_needs_a_player(self, stack: Stack) -> None:
        nobody = await stack.consumer("GET", "/wallet")
        assert (nobody.http, nobody.reason) == (401, "TOKEN_MISSING")
        staff = await stack.consumer(
            "GET", "/wallet", headers={"Authorization": f"Bearer {stack.token('s', ('admin',))}"}
        )
        assert (staff.http, staff.reason) == (403, "ROLE_REQUIRED")

    async def test_the_headers_are_not_believed(self, stack: Stack) -> None:
        headers = {"X-Player-Id": "player_a", "X-Roles": "admin,platform"}
        assert (await stack.consumer("GET", "/wallet", headers=headers)).http == 401
        assert (await stack.admin("GET", "/admin/games", roles=(), headers=headers)).http == 401

    async def test_every_admin_route_is_shut_to_players_and_nobody(self, stack: Stack) -> None:
        player = {"Authorization": f"Bearer {stack.token('player_a')}"}
        for row in admin.ROWS:
            operation = BY_NAME[row.operation]
            path = "/admin" + operation.path.replace("{id}", "x")
            assert (await stack.admin(operation.verb, path, roles=())).http == 401
            answer = await stack.admin(operation.verb, path, roles=(), headers=player)
            assert (answer.http, answer.reason) == (403, "ROLE_REQUIRED"), row

    async def test_a_player_cannot_be_named_in_a_body_or_query(self, stack: Stack) -> None:
        answer = await stack.consumer("POST", "/games/g/start", {"player_id": "player_b"}, player="player_a")
        assert (answer.http, answer.envelope["data"]["violations"][0]["field"]) == (400, "player_id")
        mine = await stack.consumer("GET", "/players/me", player="player_a", player_id="player_b")
        assert mine.data["id"] == "player_a"

    async def test_tenants_are_the_platform_s(self, stack: Stack) -> None:
        assert (await stack.admin("POST", "/admin/tenants", {"name": "x"})).http == 403
        own = (await stack.admin("GET", "/admin/tenants")).data["items"]
        assert [tenant["id"] for tenant in own] == [stack.tenant_id]
        seen = (await stack.admin("GET", "/admin/tenants", roles=(PLATFORM,))).data["items"]
        assert {stack.tenant_id, OTHER_TENANT} <= {tenant["id"] for tenant in seen}
        assert (await stack.admin("GET", "/admin/games", roles=(PLATFORM,))).http == 403

    async def test_the_platform_may_act_for_another_tenant(self, stack: Stack) -> None:
        there = {"X-Tenant-Id": OTHER_TENANT}
        both = ("admin", PLATFORM)
        made = await stack.admin("POST", "/admin/campaigns", {"name": "Theirs"}, roles=both, headers=there)
        assert (await stack.admin("GET", f"/admin/campaigns/{made.data['id']}")).reason == "UNKNOWN_CAMPAIGN"
        alone = await stack.admin("GET", f"/admin/campaigns/{made.data['id']}", headers=there)
        assert alone.reason == "UNKNOWN_CAMPAIGN"

    class TestStrict:
        @pytest.fixture
        def extra_settings(self) -> dict[str, Any]:
            return {"role_matrix": "strict"}

        async def test_writes_are_narrowed_by_role(self, stack: Stack) -> None:
            for row in admin.ROWS:
                operation = BY_NAME[row.operation]
                path = "/admin" + operation.path.replace("{id}", "x")
                for role in sorted(MANAGEMENT | {PLATFORM}):
                    answer = await stack.admin(operation.verb, path, roles=(role,))
                    assert (answer.http == 403) is (role not in row.writers), (row, role)

    class TestFallback:
        @pytest.fixture
        def extra_settings(self) -> dict[str, Any]:
            return {"header_fallback": True}

        async def test_headers_make_an_identity_where_they_are_believed(self, stack: Stack) -> None:
            mine = await stack.consumer("GET", "/players/me", headers={"X-Player-Id": "player_h"})
            assert mine.data["id"] == "player_h"
            headers = {"X-Tenant-Id": stack.tenant_id, "X-Roles": "designer"}
            assert (await stack.admin("GET", "/admin/games", roles=(), headers=headers)).data["items"] == []


class TestActs:
    """Start and play over the consumer edge: keys, rates and guests."""

    @pytest.fixture
    def extra_settings(self) -> dict[str, Any]:
        return {"rate_limits": True, "rate_player_burst": 6, "rate_player_per_second": 0.01}

    @pytest.fixture
    async def game(self, stack: Stack) -> str:
        campaign = await make_campaign(stack)
        return str((await make_game(stack, campaign["id"], await make_prize(stack)))["id"])

    @pytest.fixture
    async def open_game(self, stack: Stack) -> str:
        campaign = await make_campaign(stack)
        prize = await make_prize(stack)
        return str((await make_game(stack, campaign["id"], prize, access="GAME_ACCESS_PUBLIC"))["id"])

    async def test_a_key_plays_once(self, stack: Stack, game: str) -> None:
        session = (await stack.consumer("POST", f"/games/{game}/start", {}, player="p")).data["session_id"]
        body, key = {"session_id": session, "payload": {}}, {"Idempotency-Key": "key-1"}
        first = await stack.consumer("POST", f"/games/{game}/play", body, player="p", headers=key)
        again = await stack.consumer("POST", f"/games/{game}/play", body, player="p", headers=key)
        assert first.data == again.data
        assert "Idempotency-Replayed" not in first.headers
        assert again.headers["Idempotency-Replayed"] == "true"
        other = await stack.consumer("POST", f"/games/{game}/play", {"session_id": "x"}, player="p", headers=key)
        assert (other.http, other.reason) == (422, "IDEMPOTENCY_MISMATCH")
        bare = await stack.consumer("POST", f"/games/{game}/play", body, player="p")
        assert (bare.http, bare.reason) == (409, "SESSION_PLAYED")

    async def test_a_refusal_leaves_the_key_free(self, stack: Stack, game: str) -> None:
        key = {"Idempotency-Key": "key-2"}
        body = {"session_id": "sess_forged", "payload": {}}
        for _ in range(2):
            answer = await stack.consumer("POST", f"/games/{game}/play", body, player="p", headers=key)
            assert (answer.http, answer.reason) == (403, "SESSION_INVALID")

    async def test_a_burst_is_limited_and_told_when_to_return(self, stack: Stack, game: str) -> None:
        answers = [await stack.consumer("POST", f"/games/{game}/start", {}, player="p") for _ in range(8)]
        assert [answer.http for answer in answers[:6]] == [200] * 6
        assert (answers[-1].http, answers[-1].reason) == (429, "RATE_LIMITED")
        assert int(answers[-1].headers["Retry-After"]) >= 1
        assert all("RateLimit" in answer.headers and "RateLimit-Policy" in answer.headers for answer in answers)

    async def test_a_guest_starts_plays_and_becomes_its_token(self, stack: Stack, open_game: str) -> None:
        started = (await stack.consumer("POST", f"/games/{open_game}/start", {})).data
        assert "guest_player_id" not in started
        body = {"session_id": started["session_id"], "payload": {}}
        played = await stack.consumer("POST", f"/games/{open_game}/play", body)
        assert played.data["rewards"][0]["name"] == "Mug"
        bearer = {"Authorization": f"Bearer {started['guest_token']}"}
        history = await stack.consumer("GET", f"/games/{open_game}/history/me", headers=bearer)
        assert [play["id"] for play in history.data["items"]] == [played.data["play_id"]]

    async def test_nobody_starts_a_player_s_game(self, stack: Stack, game: str) -> None:
        answer = await stack.consumer("POST", f"/games/{game}/start", {})
        assert (answer.http, answer.code) == (401, "UNAUTHENTICATED")


class TestCache:
    async def test_a_change_is_seen_at_once(self, stack: Stack) -> None:
        campaign = await make_campaign(stack)
        game = await make_game(stack, campaign["id"], await make_prize(stack))
        path = f"/games/{game['id']}/render"
        assert (await stack.consumer("GET", path)).data["name"] == "Wheel"
        calls = stack.database.round_trips if stack.engine else 0
        assert (await stack.consumer("GET", path)).data["name"] == "Wheel"
        assert stack.database.round_trips == calls
        await stack.admin("PUT", f"/admin/games/{game['id']}", {"name": "Other"})
        assert (await stack.consumer("GET", path)).data["name"] == "Other"

    async def test_a_render_never_tells_the_odds(self, stack: Stack) -> None:
        campaign = await make_campaign(stack)
        game = await make_game(stack, campaign["id"], await make_prize(stack), ui={"theme": {"primary": "#fff"}})
        shown = await stack.consumer("GET", f"/games/{game['id']}/render")
        assert shown.data["ui"] == {"theme": {"primary": "#fff"}}
        assert "handler_config" not in str(shown.envelope)
        assert "probability" not in str(shown.data)
        public = (await stack.consumer("GET", f"/public/campaigns/{campaign['id']}")).data
        assert "ui" not in public["games"][0]
        assert "probability" not in str(public)

    async def test_without_the_store_core_is_asked(self, stack: Stack, valkey_server: Valkey) -> None:
        campaign = await make_campaign(stack)
        valkey_server.freeze()
        try:
            answer = await stack.consumer("GET", f"/public/campaigns/{campaign['id']}")
        finally:
            valkey_server.thaw()
        assert answer.data["name"] == "Autumn"


class TestStop:
    async def test_what_was_accepted_is_answered(self, settings: Settings, stack: Stack) -> None:
        """A second process of every role, stopped while its requests run: each gets its answer, and then it is gone."""
        campaign = await make_campaign(stack)
        game = await make_game(stack, campaign["id"], await make_prize(stack))
        async with aiohttp.ClientSession() as http:
            async with running(settings, ("core", "rpc", "consumer", "admin")) as other:
                away = Stack(other, http)
                asked = [asyncio.ensure_future(play_once(away, game["id"], f"player_{one}")) for one in range(20)]
                await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
                started = [
                    asyncio.ensure_future(away.consumer("POST", f"/games/{game['id']}/start", {}, player="p"))
                    for _ in range(5)
                ]
                await asyncio.gather(*asked)
            answers = await asyncio.gather(*started, return_exceptions=True)
            assert all(isinstance(one, Exception) or one.http in (200, 503) for one in answers)
            with pytest.raises(aiohttp.ClientConnectorError):
                await http.get(f"{other.core_url}/healthz")
