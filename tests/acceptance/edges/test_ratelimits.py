import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
import pytest
import pytest_asyncio

from ops.servers.base import free_port
from runtime.operations import API
from tests.support.processes import process
from tests.support.scenario import Scenario
from tests.support.shared import SharedService
from tests.support.stack import Stack
from tests.support.world import World, new_world

BURST: Final = 20
PER_SECOND: Final = 0.1
IP_BURST: Final = 30
RARE_BURST: Final = 8
"""Of logins, and of new guests."""
SENT: Final = 100


@dataclass(frozen=True)
class Edges:
    stack: Stack
    urls: tuple[str, ...]
    game: str

    async def start(self, nth: int, player: str = "", *, address: str = "10.9.9.9") -> aiohttp.ClientResponse:
        return await self.post(nth, f"/games/{self.game}/start", player, address=address)

    async def refresh(self, nth: int, *, address: str) -> aiohttp.ClientResponse:
        """A login request, refused as invalid unless its rate refuses it first."""
        return await self.post(nth, "/players/auth/refresh", address=address)

    async def post(self, nth: int, path: str, player: str = "", *, address: str) -> aiohttp.ClientResponse:
        headers = {"X-Forwarded-For": address, "X-Tenant-Id": self.stack.tenant_id}
        if player:
            headers["Authorization"] = f"Bearer {self.stack.token(player)}"
        url = f"{self.urls[nth % len(self.urls)]}{API}{path}"
        async with self.stack.http.post(url, json={}, headers=headers) as answer:
            await answer.read()
            return answer


@pytest_asyncio.fixture(scope="module")
async def edges(
    module_service: SharedService, valkey_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Edges]:
    async with AsyncExitStack() as all_of_it:
        stack = await all_of_it.enter_async_context(module_service.own_stack())
        world: World = await all_of_it.enter_async_context(new_world(stack))
        game = await world.wheel(access="GAME_ACCESS_PUBLIC")
        log: Path = tmp_path_factory.mktemp("edges") / "log"
        environment = {
            "CORE_RPC_ADDRESSES": stack.process.rpc_address,
            "REDIS_URL": valkey_url,
            "REDIS_TIMEOUT_SECONDS": "2",  # Late is not away: a rate that was not asked for would be none.
            "JWT_SECRET": stack.process.settings.jwt_secret,
            "RATE_PLAYER_BURST": str(BURST),
            "RATE_IP_BURST": str(IP_BURST),
            **dict.fromkeys(("RATE_LOGIN_BURST", "RATE_GUEST_BURST"), str(RARE_BURST)),
            **{f"RATE_{name}_PER_SECOND": str(PER_SECOND) for name in ("PLAYER", "IP", "LOGIN", "GUEST")},
            "TRUSTED_PROXIES": "127.0.0.0/8",
        }
        ports = (free_port(), free_port())
        starts = [
            all_of_it.enter_async_context(process(log, port, "consumer", CONSUMER_PORT=str(port), **environment))
            for port in ports
        ]
        yield Edges(stack, tuple([await start for start in starts]), game)


@pytest.mark.fault(
    "Rate limit", small=1, full=20, unit="bursts of 100 over two edges", figure="limit + 1 and refill; Retry-After"
)
async def test_burst_over_two_edge_processes_has_one_limit(scenario: Scenario, edges: Edges) -> None:
    """Each request comes from its own address, so that only the player's limit counts."""
    for nth in range(scenario.size):
        began = time.monotonic()
        starts = [edges.start(n, f"burst_{nth}", address=f"10.0.{nth}.{n % 256}") for n in range(SENT)]
        answers = await asyncio.gather(*starts)
        counts = Counter(answer.status for answer in answers)
        refilled = (time.monotonic() - began) * PER_SECOND
        assert set(counts) == {200, 429}
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in answers if answer.status == 429)
        assert BURST <= counts[200] <= BURST + 1 + refilled


@pytest.mark.parametrize("request_kind", ["guests", "logins"])
async def test_rare_requests_of_an_address_have_one_limit_over_two_edges(edges: Edges, request_kind: str) -> None:
    began = time.monotonic()
    if request_kind == "guests":
        sent = [edges.start(nth, address="10.3.0.1") for nth in range(4 * RARE_BURST)]
    else:
        sent = [edges.refresh(nth, address="10.3.0.2") for nth in range(4 * RARE_BURST)]
    answers = await asyncio.gather(*sent)
    refilled = (time.monotonic() - began) * PER_SECOND
    assert RARE_BURST <= sum(answer.status != 429 for answer in answers) <= RARE_BURST + 1 + refilled
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in answers if answer.status == 429)
