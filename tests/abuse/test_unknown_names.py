import asyncio
import secrets
import time
from collections import Counter
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from runtime import messages as m
from runtime.errors import Fault, Status, unknown
from runtime.http.admin import CODE_SEARCHES
from runtime.http.admission import local_rates
from runtime.http.admission.lookup_limits import LOOKUPS, LookupLimiter
from runtime.operations import BY_NAME, Operation
from tests.support.clocks import STOPPED
from tests.support.stack import Answer, Stack
from tests.support.world import new_world

pytestmark = pytest.mark.settings(rate_limits=True, rate_ip_per_second=10**6, rate_ip_burst=10**6)

PAGES = ("/p/game_{}", "/c/camp_{}")
PATHS = (
    *(("GET", "/games/game_{}/render"), ("GET", "/games/game_{}/eligibility")),
    *(("GET", "/leaderboards/board_{}/rankings"), ("GET", "/public/campaigns/camp_{}")),
)


async def flood(stack: Stack) -> Counter[tuple[int, str]]:
    async def ask(nth: int) -> tuple[int, str]:
        verb, path = PATHS[nth % len(PATHS)]
        answer = await stack.consumer(verb, path.format(secrets.token_hex(8)))
        return answer.http, answer.reason

    return Counter(await asyncio.gather(*map(ask, range(1_000))))


async def open_pages(stack: Stack) -> Counter[tuple[int, str]]:
    async def ask(nth: int) -> tuple[int, str]:
        url = stack.process.consumer_url + PAGES[nth % len(PAGES)].format(secrets.token_hex(8))
        async with stack.http.get(url, params={"tenant_id": stack.tenant_id}) as answer:
            return answer.status, "RATE_LIMITED" if answer.status == 429 else ""

    return Counter(await asyncio.gather(*map(ask, range(1_000))))


@pytest.mark.parametrize("ask_for_all", [flood, open_pages])
async def test_lookups_are_limited_per_address(stack: Stack, ask_for_all: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_rates, "time", STOPPED)
    seen = await ask_for_all(stack)
    found = sum(count for (http, _), count in seen.items() if http == 404)
    assert {http for http, _ in seen} == {404, 429} and seen[429, "RATE_LIMITED"] == 1_000 - found
    assert LOOKUPS.burst <= found <= LOOKUPS.burst + 1


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

    limiter, request = LookupLimiter(Desk(), (), limited=True), make_mocked_request("GET", "/")

    async def seen(name: str) -> str:
        try:
            await limiter.call(operation, m.EligibilityRequest(scope=m.Scope(tenant_id="tenant_a"), id=name), request)
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


@pytest.mark.settings(rate_limits=True)
async def test_staff_code_guesses_are_limited_per_person(stack: Stack) -> None:
    async def look(subject: str, **query: Any) -> Answer:
        token = {"Authorization": f"Bearer {stack.token(subject, ('reward_manager',))}"}
        return await stack.admin("GET", "/admin/rewards", headers=token, **query)

    began = time.monotonic()
    seen = [(await look("eve", code=f"GUESS-{nth}")).reason for nth in range(2 * CODE_SEARCHES.burst)]
    refilled = (time.monotonic() - began) * CODE_SEARCHES.per_second
    assert seen.count("") <= CODE_SEARCHES.burst + 1 + refilled and "RATE_LIMITED" in seen
    limited = await look("eve", code="GUESS-1")
    assert (limited.http, int(limited.headers["Retry-After"]) > 0) == (429, True), limited.envelope
    for subject, query in (("ann", {"code": "GUESS-1"}), ("eve", {}), ("eve", {"contact": "x@example.com"})):
        assert (await look(subject, **query)).http == 200
