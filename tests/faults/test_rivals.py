"""Rivals through two processes: a unit, a session, a key, a cap and a place in the ledger are each used once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from ops.certification.site import CAP, Site
from ops.history.record import Request
from tests.support.scenario import Scenario
from tests.support.stack import Stack, new_stack, settings_of
from tests.support.world import COINS, COLLECTION, World, new_world

Two = tuple[World, World]


@pytest_asyncio.fixture(scope="module")
async def stacks(module_database_url: str, valkey_url: str) -> AsyncIterator[tuple[Stack, Stack]]:
    settings = settings_of(module_database_url, valkey_url)
    async with new_stack(settings) as one, new_stack(settings) as two:
        yield one, two


@pytest.fixture
async def two(stacks: tuple[Stack, Stack]) -> AsyncIterator[Two]:
    async with new_world(stacks[0]) as world:
        yield world, World(stacks[1], world.campaign_id)


async def test_change_made_in_one_process_applies_in_the_other(two: Two) -> None:
    first, second = await two[0].prize(), await two[0].prize()
    game_id = await two[0].wheel(first)
    for nth in range(2):
        (reward,) = (await two[nth].round(game_id, f"p{nth}")).data["rewards"]
        assert reward["prize_id"] == first
    config = {"prizes": [{"prize_id": second, "probability": 1}]}
    assert (await two[0].stack.admin("PUT", f"/admin/games/{game_id}", {"handler_config": config})).http == 200
    for nth in range(2):
        answer = await two[nth].round(game_id, f"p{nth}")
        if nth == 1 and answer.http != 200:
            assert answer.reason == "GAME_CHANGED"
            answer = await two[nth].round(game_id, f"p{nth}")
        (reward,) = answer.data["rewards"]
        assert reward["prize_id"] == second


async def test_ledger_is_listed_in_the_order_of_its_balance(two: Two) -> None:
    game_id = await two[0].game(COLLECTION, COINS)
    await two[0].round(game_id, "led")
    moved = {"player_id": "led", "scope_key": two[0].campaign_id, "currency": "coin"}
    adjusted = [
        two[nth % 2].stack.core("POST", "/wallet/adjustments", {**moved, "amount": 1 + nth % 7}) for nth in range(60)
    ]
    await asyncio.gather(*adjusted, *(two[nth % 2].round(game_id, "led") for nth in range(60)))
    entries: list[dict[str, Any]] = []
    cursor = ""
    while not entries or cursor:
        page = (await two[1].stack.consumer("GET", "/wallet/ledger", player="led", limit=50, cursor=cursor)).data
        entries += page["items"]
        cursor = page["pagination"]["next_cursor"]
    assert len(entries) == 121
    begins = [entry["balance_after"] - entry["amount"] for entry in entries]
    assert begins == [entry["balance_after"] for entry in entries[1:]] + [0]


def no_5xx(site: Site) -> None:
    assert not [one for one in site.history.attempts if one.http >= 500]


@pytest.mark.fault("Stock race", small=1, full=20, unit="races of 200 players", figure="10 wins in each, no 5xx")
async def test_stock_of_ten_has_ten_winners(scenario: Scenario, bare: Site) -> None:
    for nth in range(scenario.size):
        await bare.prize(f"mug {nth}", total=10)
        await bare.wheel(f"wheel {nth}", f"mug {nth}")
        rounds = [bare.round(f"wheel {nth}", f"racer{nth}-{each}") for each in range(200)]
        played = await asyncio.gather(*rounds)
        assert sum(bool(request.data["rewards"]) for request in played) == 10
    no_5xx(bare)


@pytest.mark.fault("Same session", small=2, full=50, unit="sessions, 20 at once", figure="1 play a session, no 5xx")
async def test_session_is_played_once(scenario: Scenario, bare: Site) -> None:
    await bare.wheel()
    for nth in range(scenario.size):
        body = {"session_id": await bare.session("wheel", f"p{nth}", f"{nth}"), "payload": {}}
        answers = await asyncio.gather(*(play(bare, f"p{nth}", body, f"twin {nth} {each}") for each in range(20)))
        assert sorted(one.outcome for one in answers) == ["SESSION_PLAYED"] * 19 + ["ok"]
    no_5xx(bare)


@pytest.mark.fault(
    "Same Idempotency-Key",
    small=2,
    full=50,
    unit="keys, 50 at once",
    figure="1 answer, the others the same or 409; 422 for another body",
)
async def test_key_is_answered_once(scenario: Scenario, bare: Site) -> None:
    await bare.wheel()
    for nth in range(scenario.size):
        who, key = f"p{nth}", f"key {nth}"
        body = {"session_id": await bare.session("wheel", who, key), "payload": {}}
        answers = await asyncio.gather(*(play(bare, who, body, key) for _ in range(50)))
        assert {one.outcome for one in answers} <= {"ok", "IDEMPOTENCY_IN_PROGRESS"}
        assert len({str(one.data) for one in answers if one.ok}) == 1
        other = {**body, "client_seed": "another"}
        again = await play(bare, who, other, key, refusals=("IDEMPOTENCY_MISMATCH",))
        assert (again.attempts[-1].http, again.outcome) == (422, "IDEMPOTENCY_MISMATCH")


async def play(site: Site, who: str, body: dict[str, object], key: str, **facts: object) -> Request:
    path, more = f"/games/{site.ids['wheel']}/play", {"surface": "core", "of": "wheel", "key": key, **facts}
    return await site.client.once("Play", who, "POST", path, body, **more)


@pytest.mark.fault(
    "Two turns of one game in one commit", small=1, full=50, unit="players, 60 plays at once", figure="4 plays a player"
)
async def test_cap_holds_over_two_processes(scenario: Scenario, bare: Site) -> None:
    await bare.wheel("capped", rules={"max_plays_per_user": CAP})
    for nth in range(scenario.size):
        rounds = await asyncio.gather(*(bare.round("capped", f"p{nth}", f"{each}") for each in range(60)))
        assert sum(one.ok for one in rounds) == CAP
