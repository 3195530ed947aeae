import asyncio
from collections import Counter
from typing import Any

import pytest
import redis.asyncio
from aiohttp.test_utils import make_mocked_request

from runtime import messages as m
from runtime.errors import Fault
from runtime.http.admission import local_rates
from runtime.http.admission.tenants import LOOKUPS, Tenants
from runtime.operations import Operation
from runtime.operations.players.challenges import SENDS_ONE
from tests.support import login
from tests.support.clocks import STOPPED
from tests.support.login import PHONE
from tests.support.stack import Answer, Stack, make_tenant
from tests.support.world import World

# Guests have a limit of their own (test_shopping.py), which is not what is tried here.
pytestmark = [
    pytest.mark.own_service,
    pytest.mark.settings(rate_limits=True, rate_ip_per_second=0.001, rate_ip_burst=40, rate_guest_burst=10**6),
]


@pytest.mark.settings(rate_ip_burst=10**6)  # Else it would be the rate of starts that refuses them.
@pytest.mark.fault("Invented tenants, addresses, contacts", size="1,200 starts", figure="404 up to the limit, then 429")
async def test_starts_under_invented_tenants_are_refused_and_limited(
    stack: Stack, valkey: redis.asyncio.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(nth: int) -> Answer:
        return await stack.consumer("POST", "/games/game_x/start", {}, headers={"X-Tenant-Id": f"tenant_{nth}"})

    monkeypatch.setattr(local_rates, "time", STOPPED)
    answers = await asyncio.gather(*map(start, range(1_200)))
    seen = Counter((answer.http, answer.reason) for answer in answers)
    assert seen.keys() == {(404, "UNKNOWN_TENANT"), (429, "RATE_LIMITED")}
    assert {answer.envelope["data"]["policy"] for answer in answers if answer.http == 429} == {LOOKUPS.name}
    assert LOOKUPS.burst <= seen[404, "UNKNOWN_TENANT"] <= LOOKUPS.burst + 1
    assert not [key for key in await valkey.keys() if b"tenant_1" in key]


async def test_request_that_waits_for_a_pending_lookup_is_not_charged() -> None:
    """A new campaign brings many requests at once to an edge with an empty tenant cache."""
    sent, answered = 0, asyncio.Event()

    class Desk:
        async def call(self, operation: Operation, request: Any) -> Any:
            nonlocal sent
            sent += 1
            await answered.wait()
            return m.ListTenantsReply(items=[m.Tenant(id="tenant_a")])

    tenants = Tenants(Desk(), (), limited=True)
    request = make_mocked_request("GET", "/")
    checks = [asyncio.create_task(tenants.check("tenant_a", request)) for _ in range(LOOKUPS.burst + 50)]
    await asyncio.sleep(0)
    answered.set()
    assert await asyncio.gather(*checks, return_exceptions=True) == [None] * len(checks)
    assert sent == 1


async def test_tenant_name_is_looked_up_in_core_once(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[str] = []

    class Desk:
        async def call(self, operation: Operation, request: Any) -> Any:
            requests.append(request.scope.tenant_id)
            return m.ListTenantsReply(items=[m.Tenant(id="tenant_a")] if requests[-1] == "tenant_a" else [])

    monkeypatch.setattr("runtime.http.admission.tenants.UNKNOWN_SECONDS", 3_600.0)
    tenants, request = Tenants(Desk(), (), limited=True), make_mocked_request("GET", "/")

    async def check(name: str) -> str:
        try:
            await tenants.check(name, request)
        except Fault as fault:
            return fault.reason
        return ""

    for _ in range(LOOKUPS.burst):
        assert [await check("tenant_a"), await check("tenant_b")] == ["", "UNKNOWN_TENANT"]
    assert requests == ["tenant_a", "tenant_b"]
    monkeypatch.setattr("runtime.http.admission.tenants.REMEMBERED_MAX", 5)
    for nth in range(20):
        assert await check(f"tenant_{nth}") == "UNKNOWN_TENANT"
    assert len(tenants._unknown_until) == 5
    del requests[:]
    assert [await check("tenant_19"), await check("tenant_0")] == ["UNKNOWN_TENANT"] * 2
    assert requests == ["tenant_0"]


@pytest.mark.fault("Invented tenants, addresses, contacts", size="400 sends", figure="0 codes")
async def test_invented_tenant_gets_no_login_code(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    reasons = []
    for nth in range(400):
        reasons.append((await login.start(stack, PHONE, **{"X-Tenant-Id": f"tenant_{nth}"})).reason)
    assert reasons[0] == "UNKNOWN_TENANT" and set(reasons) <= {"UNKNOWN_TENANT", "RATE_LIMITED"}
    assert "login code" not in capsys.readouterr().out


async def test_codes_to_one_phone_are_bounded_over_tenants(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    sent = 0
    for nth in range(SENDS_ONE.most + 5):
        answer = await login.start(await make_tenant(stack, f"tenant_real_{nth}"), PHONE)
        sent += answer.http == 200
        assert answer.http == 200 or (answer.http, answer.reason) == (429, "RATE_LIMITED")
    assert sent == SENDS_ONE.most == capsys.readouterr().out.count("login code")
    assert (await login.start(stack, "+15550199")).http == 200


async def test_tenant_created_after_a_miss_is_found(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.http.admission.tenants.UNKNOWN_SECONDS", 0.0)
    body = {"X-Tenant-Id": "tenant_later"}
    assert (await stack.consumer("POST", "/games/game_x/start", {}, headers=body)).reason == "UNKNOWN_TENANT"
    await make_tenant(stack, "tenant_later")
    assert (await stack.consumer("POST", "/games/game_x/start", {}, headers=body)).reason == "UNKNOWN_GAME"


@pytest.mark.settings(rate_ip_burst=3, rate_login_per_second=0.001, rate_login_burst=3)
class TestEveryRoute:
    """Each has a rate class: whatever an address asks for in a loop ends in 429."""

    @pytest.mark.parametrize(
        ("edge", "verb", "path"),
        [
            *(("consumer", "GET", "/games/game_x/render"), ("consumer", "GET", "/wallet")),
            *(("consumer", "POST", "/rewards/reward_x/claim"), ("consumer", "POST", "/players/auth/verify")),
            *(("consumer", "GET", "/no/such/route"), ("consumer", "POST", "/games/game_x/start")),
            *(("consumer", "POST", "/games/game_x/play"), ("admin", "GET", "/admin/games")),
            ("admin", "POST", "/admin/prizes/prize_x/codes"),
            ("admin", "POST", "/fulfillment/tasks/task_x/callback"),
        ],
    )
    async def test_endpoint_is_limited_by_address(self, stack: Stack, edge: str, verb: str, path: str) -> None:
        async def ask() -> Answer:
            if edge == "consumer":
                return await stack.consumer(verb, path, None if verb == "GET" else {"session_id": "s"}, player="ann")
            return await stack.admin(verb, path, None if verb == "GET" else {})

        answers = [await ask() for _ in range(20)]
        if path.endswith("/start"):  # Whose body has no such field.
            answers = [await stack.consumer(verb, path, {}, player=f"p{n}") for n in range(20)]
        assert (answers[-1].http, answers[-1].reason) == (429, "RATE_LIMITED")
        assert {"Retry-After", "RateLimit", "RateLimit-Policy"} <= answers[-1].headers.keys()

    @pytest.mark.parametrize("path", ["/healthz", "/readyz", "/docs", "/nothing"])
    async def test_unlisted_path_is_limited_by_address(self, stack: Stack, path: str) -> None:
        for base in (stack.process.consumer_url, stack.process.admin_url):
            assert [await stack.http.get(base + path) for _ in range(20)][-1].status == 429

    async def test_flood_of_one_class_leaves_other_classes_open(self, stack: Stack, own_world: World) -> None:
        for _ in range(20):
            flooded = await stack.consumer("GET", "/wallet", player="ann")
        assert flooded.http == 429
        assert (await own_world.start(await own_world.wheel())).http == 200
