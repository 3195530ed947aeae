"""Rivals in one process or two, for the last unit, code, rung or turn: each is given once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from ops.certification.site import CAP, Site
from ops.history.record import Asked
from tests.support.milestones import block, rung
from tests.support.scenario import Scenario
from tests.support.stack import Answer, Stack, new_stack, settings_of
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, GIFTS, World, new_world


@dataclass(frozen=True)
class Two:
    """One world as it is reached through either process."""

    worlds: tuple[World, World]

    def __getitem__(self, nth: int) -> World:
        return self.worlds[nth % 2]

    async def each(self, *asked: Any) -> list[Answer]:
        answers = await asyncio.gather(*asked)
        assert all(answer.http < 500 for answer in answers), Counter(
            answer.reason for answer in answers if answer.http >= 500
        )
        return list(answers)


def reasons(answers: list[Answer]) -> Counter[str]:
    return Counter("" if answer.http == 200 else answer.reason for answer in answers)


@pytest_asyncio.fixture(scope="module")
async def stacks(module_database_url: str, valkey_url: str) -> AsyncIterator[tuple[Stack, Stack]]:
    settings = settings_of(module_database_url, valkey_url)
    async with new_stack(settings) as one, new_stack(settings) as two:
        yield one, two


@pytest.fixture
async def two(stacks: tuple[Stack, Stack]) -> AsyncIterator[Two]:
    async with new_world(stacks[0]) as world:
        yield Two((world, World(stacks[1], world.campaign_id)))


@pytest.mark.parametrize("total", [1, 10])
@pytest.mark.fault(
    "Stock race", size="200 players, the commits of 2 Cores held at the stock's row", figure="1 win of 1, 10 of 10"
)
async def test_stock_unit_is_won_once_among_two_hundred_players(two: Two, total: int) -> None:
    prize_id = await two[0].prize(total=total)
    game_id = await two[0].wheel(prize_id)
    sessions = [await two[nth].session(game_id, f"racer_{nth}") for nth in range(200)]
    database = two[0].database

    async def both_wait() -> bool:
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(await database.fetchval(waiting) >= 2)

    async with database.connection() as connection, connection.transaction():
        # Both Cores decide by the same stock, and both commits wait for its row.
        await connection.execute("SELECT FROM stock WHERE prize_id = $1 FOR UPDATE", prize_id)
        plays = [two[nth].play(game_id, session, f"racer_{nth}") for nth, session in enumerate(sessions)]
        racing = asyncio.ensure_future(two.each(*plays))
        await until(both_wait)
    assert sum(len(answer.data["rewards"]) for answer in await racing) == total
    assert await two[0].stock(prize_id) == (0, total)


@pytest.mark.parametrize("mode", ["CUMULATIVE_UNLOCK", "SPEND_EXCHANGE"])
async def test_milestone_redeemed_through_two_processes_is_granted_once(two: Two, mode: str) -> None:
    """A cumulative rung costs nothing, so only the unique grant refuses the second redeem."""
    prize_id = await two[0].prize(total=20)
    rungs = block(rung("mug", 2, prize_id), mode=mode, auto_grant=False)
    game_id = await two[0].game(COLLECTION, COINS, milestones=rungs)
    for _ in range(10):
        await two[0].round(game_id, "keen")
    answers = await two.each(*(two[nth].redeem(game_id, "mug", "keen") for nth in range(20)))
    assert reasons(answers) == {"": 1, "ALREADY_GRANTED": 19}
    assert await two[0].stock(prize_id) == (19, 1)


async def test_rung_is_granted_once_through_two_processes(two: Two) -> None:
    mug = await two[0].prize(total=9)
    rungs = [{"id": f"r{at}", "name": "", "currency": "coin", "threshold": at, "prize_id": mug} for at in (10, 20, 40)]
    game_id = await two[0].game(COLLECTION, COINS, milestones={"auto_grant": True, "rungs": rungs})
    answers = await two.each(*(two[nth].round(game_id, "rung") for nth in range(40)))
    granted = [row["id"] for answer in answers for row in answer.data["milestones_granted"]]
    assert sorted(granted) == ["r10", "r20", "r40"]
    assert await two[0].stock(mug) == (6, 3)


async def test_plan_is_played_once_through_two_processes(two: Two) -> None:
    drops = [{"type": "star", "prize_id": await two[0].prize(), "frequency": 1, "max_catchable": 1}]
    game_id = await two[0].game(GIFTS, {"drops": drops, "total_items": 5, "interval_ms": 1})
    started = [(await two[nth].start(game_id)).data for nth in range(20)]
    assert len({one["seed_hash"] for one in started}) == 1
    caught = {"caught_items": []}
    answers = await two.each(
        *(two[nth].play(game_id, one["session_id"], payload=caught) for nth, one in enumerate(started))
    )
    assert reasons(answers) == {"": 1, "SESSION_PLAYED": 19}


async def test_key_redeems_once_through_two_processes(two: Two, stacks: tuple[Stack, Stack]) -> None:
    mug = await two[0].prize(total=9)
    rungs = [{"id": "mug", "name": "", "currency": "coin", "threshold": 2, "prize_id": mug}]
    game_id = await two[0].game(COLLECTION, COINS, milestones={"rungs": rungs})
    await two[0].round(game_id, "kit")
    body = {"player_id": "kit", "milestone_id": "mug", "idempotency_key": "k"}
    answers = await two.each(*(stacks[nth % 2].core("POST", f"/games/{game_id}/redeem", body) for nth in range(50)))
    assert all(answer.data == answers[0].data for answer in answers)
    assert await two[0].stock(mug) == (8, 1)


async def test_turns_are_spent_once_through_two_processes(two: Two) -> None:
    game_id = await two[0].wheel(rules={"requires_turn": True})
    await two[0].turns("tess", 7)
    sessions = [await two[nth].session(game_id, "tess") for nth in range(30)]
    answers = await two.each(*(two[nth].play(game_id, session, "tess") for nth, session in enumerate(sessions)))
    assert reasons(answers) == {"": 7, "NO_TURNS": 23}
    assert (await two[1].eligibility(game_id, "tess"))["remaining_turns"] == 0


async def test_code_is_given_once_through_two_processes(two: Two) -> None:
    game_id = await two[0].wheel(await two[0].prize(codes=[f"T-{nth}" for nth in range(15)]))
    answers = await two.each(*(two[nth].round(game_id, f"coder_{nth}") for nth in range(60)))
    won = sum(len(answer.data["rewards"]) for answer in answers)
    assert won == 15


async def test_change_made_in_one_process_applies_in_the_other(two: Two, stacks: tuple[Stack, Stack]) -> None:
    first, second = await two[0].prize(), await two[0].prize()
    game_id = await two[0].wheel(first)
    for nth in range(2):
        (reward,) = (await two[nth].round(game_id, f"p{nth}")).data["rewards"]
        assert reward["prize_id"] == first
    config = {"prizes": [{"prize_id": second, "probability": 1}]}
    assert (await stacks[0].admin("PUT", f"/admin/games/{game_id}", {"handler_config": config})).http == 200
    for nth in range(2):
        answer = await two[nth].round(game_id, f"p{nth}")
        if nth == 1 and answer.http != 200:
            assert answer.reason == "GAME_CHANGED"
            answer = await two[nth].round(game_id, f"p{nth}")
        (reward,) = answer.data["rewards"]
        assert reward["prize_id"] == second


async def test_ledger_is_listed_in_the_order_of_its_balance(two: Two, stacks: tuple[Stack, Stack]) -> None:
    game_id = await two[0].game(COLLECTION, COINS)
    await two[0].round(game_id, "led")
    moved = {"player_id": "led", "scope_key": two[0].campaign_id, "currency": "coin"}
    await two.each(
        *(stacks[nth % 2].core("POST", "/wallet/adjustments", {**moved, "amount": 1 + nth % 7}) for nth in range(60)),
        *(two[nth].round(game_id, "led") for nth in range(60)),
    )
    entries: list[dict[str, Any]] = []
    cursor = ""
    while not entries or cursor:
        page = (await stacks[1].consumer("GET", "/wallet/ledger", player="led", limit=50, cursor=cursor)).data
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
        assert sum(bool(asked.data["rewards"]) for asked in played) == 10
    no_5xx(bare)


@pytest.mark.fault("Same session", small=2, full=50, unit="sessions, 20 at once", figure="1 play a session, no 5xx")
async def test_session_is_played_once(scenario: Scenario, bare: Site) -> None:
    await bare.wheel()
    for nth in range(scenario.size):
        body = {"session_id": await bare.session("wheel", f"p{nth}", f"{nth}"), "payload": {}}
        asked = await asyncio.gather(*(play(bare, f"p{nth}", body, f"twin {nth} {each}") for each in range(20)))
        assert sorted(one.outcome for one in asked) == ["SESSION_PLAYED"] * 19 + ["ok"]
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


async def play(site: Site, who: str, body: dict[str, object], key: str, **facts: object) -> Asked:
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
