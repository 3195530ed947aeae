"""A Core that says nothing any more, though its connection stands: its edges notice, and ask another.

So it is where a process stands still (the kernel goes on acknowledging for it), and where a box between the two has
forgotten the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from ops.certification.proxy import Proxy
from runtime import messages as m
from runtime.errors import Fault, Status
from runtime.operations import BY_NAME, Operation
from runtime.rpc import client
from runtime.rpc.client import MuxStream, RpcCaller
from runtime.rpc.server import RpcServer
from tests.support.waiting import HANG_SECONDS, until

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
    """An edge's caller of two Cores, the first of them behind a proxy. may: whether slow calls are answered."""

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

        async def both() -> bool:
            return await two.each() == {"first", "second"}

        await until(both)


async def test_calls_pass_over_a_core_that_stands_still(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who connects to it is connected, and greeted by nobody: that is waited for beside the calls."""
    monkeypatch.setattr(client, "CONNECT_SECONDS", HANG_SECONDS)
    two.proxy.partition()
    async with asyncio.timeout(HANG_SECONDS / 6):
        for _ in range(20):
            assert await two.each() == {"second"}
        two.proxy.heal()

        async def both() -> bool:
            return await two.each() == {"first", "second"}

        await until(both)


async def test_core_that_takes_long_is_not_given_up(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so when it is asked, however long the only call takes."""
    looks = 0
    listen = MuxStream._listen

    def counted(stream: MuxStream) -> None:
        nonlocal looks
        looks += 1
        listen(stream)

    monkeypatch.setattr(MuxStream, "_listen", counted)
    slow = [asyncio.ensure_future(two.get("slow")) for _ in range(2)]

    async def looked() -> bool:
        return looks >= 12

    await until(looked)
    two.may.set()
    async with asyncio.timeout(HANG_SECONDS / 6):
        assert set(await asyncio.gather(*slow)) == {"first", "second"}


async def test_refusal_is_withheld_while_a_silent_core_may_yet_commit(two: Two) -> None:
    """What it was sent may be done once it goes on, whatever another says meanwhile."""
    two.proxy.partition()
    request = m.AdjustBalanceRequest(scope=m.Scope(tenant_id="tenant_a"), idempotency_key="key")
    told = []
    for _ in range(2):  # Of two calls one goes to each.
        with pytest.raises(Fault) as refused:
            await two.caller.call(ADJUST, request)
        told.append(refused.value.reason)
    assert sorted(told) == ["CORE_UNAVAILABLE", "INSUFFICIENT_BALANCE"]
