"""Core trusts who reaches it, so what reaches it by way of somebody's browser, or without its token, is turned away."""

from dataclasses import replace
from typing import Any

import pytest
from grpclib.client import Channel
from grpclib.const import Cardinality
from grpclib.exceptions import GRPCError

from runtime import messages as m
from runtime.app import CannotStart, running
from runtime.errors import Fault
from runtime.operations import API, BY_NAME
from runtime.rpc.client import RpcCaller
from tests.support.stack import Stack

TOKEN = "the-service-token-of-these-tests-0001"
BEFORE = "the-service-token-that-it-had-before-1"


async def ask(stack: Stack, body: bytes = b'{"tenant": {"name": "Mallory"}}', **headers: str) -> tuple[int, str]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    url = f"{stack.process.core_url}{API}/tenants"
    async with stack.http.post(url, data=body, headers=sent, skip_auto_headers=["Content-Type"]) as answer:
        return answer.status, (await answer.json())["data"].get("reason", "")


async def tenants(stack: Stack) -> int:
    return int(await stack.database.fetchval("SELECT count(*) FROM tenants"))


class TestPages:
    @pytest.mark.parametrize("kind", ["text/plain", "text/plain; a=application/json", "multipart/form-data"])
    async def test_body_of_a_simple_cross_origin_request_is_refused(self, stack: Stack, kind: str) -> None:
        before = await tenants(stack)
        assert await ask(stack, Content_Type=kind) == (415, "CONTENT_TYPE_UNSUPPORTED")
        assert await tenants(stack) == before

    @pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
    async def test_foreign_origin_is_refused(self, stack: Stack, origin: str) -> None:
        before = await tenants(stack)
        assert await ask(stack, Origin=origin, Content_Type="application/json") == (403, "FORBIDDEN")
        assert await tenants(stack) == before

    @pytest.mark.parametrize("site", ["cross-site", "same-site"])
    async def test_form_of_a_page_is_refused_by_its_browsers_word(self, stack: Stack, site: str) -> None:
        """Its type needs no leave of CORS; the same body of a program is read, as curl's -d sends it."""
        before, kind = await tenants(stack), "application/x-www-form-urlencoded"
        assert await ask(stack, Sec_Fetch_Site=site, Content_Type=kind) == (403, "FORBIDDEN")
        assert await ask(stack, Origin="null", Content_Type=kind) == (403, "FORBIDDEN")
        assert await tenants(stack) == before
        assert await ask(stack, Content_Type=kind) == (200, "")

    async def test_plain_text_codes_from_a_page_are_refused(self, stack: Stack) -> None:
        url = f"{stack.process.core_url}{API}/prizes/prize_x/codes"
        headers = {"Origin": "https://evil.example", "Content-Type": "text/plain"}
        async with stack.http.post(url, data=b"CODE-1", headers=headers) as answer:
            assert (answer.status, (await answer.json())["data"]["reason"]) == (403, "FORBIDDEN")

    @pytest.mark.parametrize(
        "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "core.evil.example."]
    )
    async def test_foreign_host_name_is_refused(self, stack: Stack, host: str) -> None:
        before = await tenants(stack)
        assert await ask(stack, Host=host, Content_Type="application/json") == (403, "FORBIDDEN")
        async with stack.http.get(f"{stack.process.core_url}{API}/tenants", headers={"Host": host}) as answer:
            assert answer.status == 403
        assert await tenants(stack) == before

    @pytest.mark.settings(core_hosts=("core.shop.internal",))
    @pytest.mark.parametrize(
        "host", ["127.0.0.1:8080", "[::1]:8080", "[::1]", "localhost:8080", "tombola-core", "CORE.shop.internal:80"]
    )
    async def test_own_host_names_are_accepted(self, stack: Stack, host: str) -> None:
        assert await ask(stack, Host=host, Content_Type="application/json; charset=utf-8") == (200, "")
        assert await ask(stack, Host=host, Origin=f"http://{host}", Content_Type="application/json") == (200, "")


@pytest.mark.settings(header_fallback=True)
class TestHeaders:
    """The development fallback believes headers, which a page under a name of its own could set."""

    @pytest.mark.parametrize(
        ("host", "opens"), [("127.0.0.1:1", True), ("localhost", True), ("evil.example:8082", False)]
    )
    async def test_identity_headers_count_only_under_own_host_names(self, stack: Stack, host: str, opens: bool) -> None:
        headers = {"Host": host, "X-Tenant-Id": stack.tenant_id}
        staff = await stack.admin("GET", "/admin/campaigns", roles=(), headers={**headers, "X-Roles": "admin"})
        player = await stack.consumer("GET", "/wallet", headers={**headers, "X-Player-Id": "ada"})
        for answer in (staff, player):
            assert answer.code == ("OK" if opens else "PERMISSION_DENIED"), answer.envelope


@pytest.mark.settings(service_token=(TOKEN, BEFORE))
class TestServiceToken:
    async def test_rest_requires_the_service_token(self, stack: Stack) -> None:
        before = await tenants(stack)
        assert await ask(stack) == (401, "TOKEN_MISSING")
        for wrong in ("Bearer " + TOKEN[:-1], "Bearer x" + TOKEN, f"Basic {TOKEN}", "Bearer", "Bearer \xe9"):
            assert (await ask(stack, Authorization=wrong))[0] == 401
        assert await tenants(stack) == before
        for right in (TOKEN, BEFORE):
            assert await ask(stack, Authorization=f"Bearer {right}") == (200, "")

    async def test_root_endpoints_need_no_service_token(self, stack: Stack) -> None:
        for path in ("/healthz", "/readyz", "/metrics"):
            async with stack.http.get(stack.process.core_url + path) as answer:
                assert answer.status == 200

    async def test_grpc_requires_the_service_token(self, stack: Stack) -> None:
        operation = BY_NAME["ListTenants"]
        host, _, port = stack.process.rpc_address.rpartition(":")
        channel = Channel(host, int(port))

        async def call(metadata: dict[str, str]) -> Any:
            path, kind = operation.rpc_path, Cardinality.UNARY_UNARY
            async with channel.request(path, kind, operation.request, operation.reply, metadata=metadata) as stream:
                await stream.send_message(m.ListTenantsRequest(), end=True)
                return await stream.recv_message()

        for wrong in ({}, {"authorization": "Bearer " + "x" * 40}):
            with pytest.raises(GRPCError) as caught:
                await call(wrong)
            assert caught.value.status.name == "UNAUTHENTICATED"
        assert (await call({"authorization": f"Bearer {TOKEN}"})).items
        channel.close()

    @pytest.mark.parametrize(("token", "opens"), [(TOKEN, True), (BEFORE, True), ("", False), ("x" * 40, False)])
    async def test_edge_connection_requires_the_service_token(self, stack: Stack, token: str, opens: bool) -> None:
        before = await tenants(stack)
        caller = RpcCaller([stack.process.rpc_address], token=token)
        request = m.CreateTenantRequest(tenant=m.Tenant(name="by an edge"))
        try:
            if opens:
                assert (await caller.call(BY_NAME["CreateTenant"], request)).tenant.id
            else:
                with pytest.raises(Fault) as caught:
                    await caller.call(BY_NAME["CreateTenant"], request)
                assert caught.value.reason == "CORE_UNAVAILABLE"
        finally:
            await caller.close()
        assert await tenants(stack) == before + opens

    async def test_edge_sends_the_service_token_of_its_settings(self, stack: Stack) -> None:
        settings = replace(stack.process.settings, database_url="", core_rpc_addresses=(stack.process.rpc_address,))
        async with running(settings, ["admin"]) as process:
            answer = await replace(stack, process=process).admin("GET", "/admin/campaigns")
        assert answer.data["items"] == []


ROLES = (["core", "rpc"], ["consumer"], ["admin"], ["worker:deliveries"], ["worker:leaderboards"])


class TestMetrics:
    @pytest.mark.parametrize("roles", ROLES, ids=lambda roles: roles[0])
    async def test_metrics_port_serves_only_health_and_metrics(self, stack: Stack, roles: list[str]) -> None:
        settings = replace(stack.process.settings, core_rpc_addresses=(stack.process.rpc_address,))
        async with running(settings, roles) as process:
            for path in ("/healthz", "/readyz", "/metrics"):
                async with stack.http.get(process.metrics_url + path) as answer:
                    assert answer.status == 200, path
            assert process.metrics_url not in (process.core_url, process.consumer_url, process.admin_url)
            for path in (f"{API}/tenants", f"{API}/openapi.json", f"{API}/admin/campaigns"):
                async with stack.http.get(process.metrics_url + path) as answer:
                    assert answer.status == 404, path

    async def test_occupied_port_is_reported_with_its_setting(self, stack: Stack) -> None:
        taken = int(stack.process.metrics_url.rpartition(":")[2])
        with pytest.raises(CannotStart, match="METRICS_PORT"):
            async with running(replace(stack.process.settings, metrics_port=taken), ["worker:deliveries"]):
                pass
