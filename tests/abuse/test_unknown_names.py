"""Who asks for name after name keeps nobody's plays waiting: an address has few looks at what is not there."""

import asyncio
import secrets
import time
from collections import Counter
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from runtime import messages as m
from runtime.errors import Fault, Status, unknown
from runtime.http.admission.lookup_limits import LOOKUPS, Names
from runtime.operations import BY_NAME, Operation
from tests.support.stack import Answer, Stack
from tests.support.world import new_world

pytestmark = pytest.mark.settings(rate_limits=True, rate_ip_per_second=10**6, rate_ip_burst=10**6)

PAGES = ("/p/game_{}", "/c/camp_{}")
PATHS = (
    ("GET", "/games/game_{}/render"),
    ("GET", "/games/game_{}/eligibility"),
    ("GET", "/leaderboards/board_{}/rankings"),
    ("GET", "/public/campaigns/camp_{}"),
)


async def flood(stack: Stack) -> Counter[tuple[int, str]]:
    async def ask(nth: int) -> Answer:
        verb, path = PATHS[nth % len(PATHS)]
        return await stack.consumer(verb, path.format(secrets.token_hex(8)))

    return Counter((answer.http, answer.reason) for answer in await asyncio.gather(*map(ask, range(1_000))))


async def test_lookups_of_unknown_names_are_limited_per_address(stack: Stack) -> None:
    began = time.monotonic()
    seen = await flood(stack)
    refilled = (time.monotonic() - began) * LOOKUPS.per_second
    found = sum(count for (http, _), count in seen.items() if http == 404)
    assert {http for http, _ in seen} == {404, 429} and seen[429, "RATE_LIMITED"] == 1_000 - found
    assert LOOKUPS.burst <= found <= LOOKUPS.burst + 1 + refilled


async def test_hosted_page_lookups_of_unknown_names_are_limited(stack: Stack) -> None:
    async def ask(nth: int) -> int:
        path = PAGES[nth % len(PAGES)].format(secrets.token_hex(8))
        query = {"tenant_id": stack.tenant_id}
        async with stack.http.get(stack.process.consumer_url + path, params=query) as answer:
            return answer.status

    began = time.monotonic()
    seen = Counter(await asyncio.gather(*map(ask, range(1_000))))
    refilled = (time.monotonic() - began) * LOOKUPS.per_second
    assert set(seen) == {404, 429} and LOOKUPS.burst <= seen[404] <= LOOKUPS.burst + 1 + refilled


async def test_known_names_stay_available_to_a_limited_address(stack: Stack) -> None:
    async with new_world(stack) as world:
        games = [await world.wheel() for _ in range(3)]
        paths = [f"/games/{game}/eligibility" for game in games]
        first = await asyncio.gather(*(stack.consumer("GET", path) for path in paths[:2] * 100))
        assert {answer.http for answer in first} == {200}
        await flood(stack)
        known = await asyncio.gather(*(stack.consumer("GET", path) for path in paths[:2] * 200))
        assert {answer.http for answer in known} == {200}
        answer = await stack.consumer("GET", paths[2])
        assert answer.http == 200 or (answer.reason == "RATE_LIMITED" and answer.headers["Retry-After"] == "1")


async def test_existing_name_is_not_counted_as_unknown() -> None:
    operation = BY_NAME["GetEligibility"]

    class Desk:
        async def call(self, operation: Operation, request: Any) -> Any:
            if request.id == "game_paused":
                raise Fault(Status.FAILED_PRECONDITION, "GAME_INACTIVE", "it is paused")
            if request.id.startswith("game_none"):
                raise unknown("game", request.id)
            return m.EligibilityReply()

    names, request = Names(Desk(), (), limited=True), make_mocked_request("GET", "/")

    async def seen(name: str) -> str:
        try:
            await names.call(operation, m.EligibilityRequest(scope=m.Scope(tenant_id="tenant_a"), id=name), request)
        except Fault as fault:
            return fault.reason
        return ""

    for nth in range(LOOKUPS.burst + 10):
        assert [await seen(f"game_{nth}"), await seen("game_paused")] == ["", "GAME_INACTIVE"]
    reasons = [await seen(f"game_none_{nth}") for nth in range(LOOKUPS.burst + 10)]
    assert reasons.count("UNKNOWN_GAME") >= LOOKUPS.burst and reasons[-1] == "RATE_LIMITED"
    assert await seen("game_0") == ""


async def test_foreign_session_gets_the_same_refusal_before_and_after_its_play(stack: Stack) -> None:
    async with new_world(stack) as world:
        game = await world.wheel()
        session = (await world.start(game, "ann")).data["session_id"]

        async def by_a_stranger() -> Answer:
            return await world.play(game, session, "sly")

        before = await by_a_stranger()
        assert (await world.play(game, session, "ann")).http == 200
        after = await by_a_stranger()
    assert (before.http, before.reason) == (after.http, after.reason) == (403, "SESSION_INVALID")
