import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from runtime import ids
from runtime.errors import Fault, Status
from runtime.http.feeds import live
from runtime.operations import API
from tests.support.login import bearer
from tests.support.operations import make_merchant
from tests.support.shared import SharedService
from tests.support.stack import Stack, make_tenant, refused
from tests.support.waiting import until
from tests.support.world import new_world


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.05)
    monkeypatch.setattr(live, "STOCK_EVERY", 2)


Events = AsyncIterator[tuple[str, Any]]


@asynccontextmanager
async def watching(stack: Stack, token: str = "") -> AsyncIterator[Events]:
    headers = bearer(token or stack.token("ann", ("admin",)))
    async with stack.http.get(f"{stack.process.admin_url}{API}/admin/live", headers=headers) as answer:
        assert (answer.status, answer.content_type) == (200, "text/event-stream"), await answer.text()

        async def events() -> Events:
            while line := (await answer.content.readline()).decode():
                if line.startswith("event: "):
                    data = (await answer.content.readline()).decode().removeprefix("data: ")
                    yield line.removeprefix("event: ").strip(), json.loads(data)

        yield events()


async def first(events: Events, fits: Any) -> Any:
    async with asyncio.timeout(20):
        async for name, data in events:
            if name == "live" and fits(data):
                return data
    raise AssertionError("the stream ended")


async def test_live_stream_tells_what_happens(module_stack: Stack) -> None:
    async with watching(module_stack) as events, new_world(module_stack) as world:
        assert await first(events, lambda data: data["plays"] == 0)
        prize = await world.prize(total=50, name="Mug", value=3)
        game = await world.wheel(prize)
        for _ in range(5):
            await world.round(game)
        event = await first(events, lambda data: data["plays"] == 5 and [p["a_day"] for p in data["prizes"]] == [5])
        assert event["wins"] == 5 and event["cost_a_day"] == 15.0
        for _ in range(3):  # Also by looks that do not ask for stock.
            assert (event["cost_a_day"], event["costs_a_day"]) == (15.0, [{"currency": "", "amount": 15.0}])
            [mug] = event["prizes"]
            event = await first(events, lambda data: True)
        assert (mug["prize_id"], mug["remaining"], mug["a_day"]) == (prize, 45, 5)
        assert mug["empty_at"] == pytest.approx(event["at"] + 9 * 86_400, abs=60)


def feeds() -> set[asyncio.Task[Any]]:
    """The polls of this process, those of other tests included."""
    return {task for task in asyncio.all_tasks() if "_Feed._go" in repr(task)}


async def test_live_stream_asks_core_once_for_watchers(module_stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    requests, before = 0, feeds()
    core = module_stack.process.core
    real = core.call

    async def counted(operation: Any, request: Any) -> Any:
        nonlocal requests
        requests += operation.name == "GetLive"
        return await real(operation, request)

    monkeypatch.setattr(core, "call", counted)
    async with watching(module_stack) as one, watching(module_stack) as two, watching(module_stack) as three:
        updates = 0
        for _ in range(5):
            for events in (one, two, three):
                await anext(events)
                updates += 1
        assert updates == 15 and requests <= 9
    await until(lambda: feeds() <= before)


async def test_live_stream_needs_a_token_of_staff_and_ends_with_it(module_stack: Stack) -> None:
    token = module_stack.token("ben", ("admin",))
    assert (await module_stack.admin("GET", "/admin/live", roles=())).reason == "TOKEN_MISSING"
    of_player = bearer(module_stack.token("player_ann"))
    assert (await module_stack.admin("GET", "/admin/live", roles=(), headers=of_player)).reason == "ROLE_REQUIRED"
    async with watching(module_stack, token) as events:
        await anext(events)
        await module_stack.admin("POST", "/admin/auth/logout", {}, roles=(), headers=bearer(token))
        async with asyncio.timeout(20):
            names = [name async for name, _ in events]
        assert names[-1] == "end" and set(names[:-1]) <= {"live"}


@pytest.mark.parametrize(
    ("bound", "most", "refuses"),
    [
        *(("STREAMS_MAX", 2, (True, False, False)), ("OF_TENANT_MAX", 2, (True, True, False))),
        ("OF_EDGE_SHARE", 2_048, (True, True, True)),
    ],
)
async def test_live_streams_of_a_subject_a_tenant_and_an_edge_are_bounded(
    module_stack: Stack, monkeypatch: pytest.MonkeyPatch, bound: str, most: int, refuses: tuple[bool, ...]
) -> None:
    monkeypatch.setattr(live, bound, most)
    own, other = [await make_tenant(module_stack, ids.make("tenant")) for _ in range(2)]
    token = own.token("eve", ("designer",))

    async def opened() -> bool:
        with suppress(AssertionError):  # Those of another test may not be closed yet.
            await streams.enter_async_context(watching(own, token))
            return True
        return False

    async with AsyncExitStack() as streams:
        for _ in range(2):
            await until(opened)
        shown = (token, own.token("dora", ("designer",)), other.token("dora", ("designer",)))
        for one, refused_too in zip(shown, refuses, strict=True):
            if refused_too:
                async with asyncio.timeout(20):  # A stream that is not refused never ends.
                    answer = await own.admin("GET", "/admin/live", roles=(), headers=bearer(one))
                assert refused(answer) == (429, "RESOURCE_EXHAUSTED", "RATE_LIMITED")
            else:
                async with watching(own, one) as events:
                    await anext(events)

    async def opens() -> bool:
        headers = bearer(token)
        async with module_stack.http.get(f"{module_stack.process.admin_url}{API}/admin/live", headers=headers) as one:
            return one.status == 200

    await until(opens)  # Who left makes room.


async def test_live_stream_of_a_merchants_staff_is_limited_to_the_merchant(module_stack: Stack) -> None:
    change = "INSERT INTO merchants (tenant_id, merchant_id, name) VALUES ($1, 'one', 'One'), ($1, 'two', 'Two')"
    await module_stack.database.execute(change, module_stack.tenant_id)
    async with new_world(module_stack, merchant_id="one") as world:
        prize = await world.prize(total=10, campaign_id=world.campaign_id)
        await world.round(await world.wheel(prize))
        for merchant_id, sees in (("one", True), ("two", False)):
            async with watching(replace(module_stack, merchant_id=merchant_id)) as events:
                assert (prize in str((await first(events, lambda data: True))["prizes"])) is sees


async def test_live_stream_goes_on_after_core_was_away(module_stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    core = module_stack.process.core
    real, away = core.call, True

    async def failing(operation: Any, request: Any) -> Any:
        if operation.name == "GetLive" and away:
            raise Fault(Status.UNAVAILABLE, "CORE_UNAVAILABLE", "away")
        return await real(operation, request)

    monkeypatch.setattr(core, "call", failing)
    async with watching(module_stack) as events:
        async with asyncio.timeout(20):
            while (await anext(events))[0] != "away":
                pass
        away = False
        assert await first(events, lambda data: True)


async def test_live_stream_ends_with_its_process(bare_service: SharedService) -> None:
    async with aiohttp.ClientSession() as http:
        async with bare_service.own_stack() as stack:
            headers = bearer(stack.token("ann", ("admin",)))
            answer = await http.get(f"{stack.process.admin_url}{API}/admin/live", headers=headers)
            assert await answer.content.readline()
        # It waited for no watcher: its grace period is longer than this test may take.
        async with asyncio.timeout(5):
            while await answer.content.readline():
                pass


async def test_live_stream_of_a_suspended_merchant_ends(module_stack: Stack) -> None:
    merchant_id = await make_merchant(module_stack)
    token = replace(module_stack, merchant_id=merchant_id).token("mia", ("admin",))
    async with watching(module_stack, token) as events:
        await first(events, lambda data: True)
        suspended = {"status": "MERCHANT_STATUS_SUSPENDED"}
        assert (await module_stack.admin("PUT", f"/admin/merchants/{merchant_id}", suspended)).data
        async with asyncio.timeout(20):
            names = [name async for name, _ in events]
    assert names[-1] == "end" and "away" not in names
