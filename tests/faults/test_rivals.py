import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import asyncpg
import psutil
import pytest
import pytest_asyncio

from ops.certification.site import CAP, Site
from ops.history.record import Request
from runtime import messages as m
from runtime.core import Core
from runtime.errors import Fault
from runtime.operations import BY_NAME
from tests.support.rewards import core as running_core
from tests.support.rivals import begun, held
from tests.support.scenario import Scenario
from tests.support.stack import Stack, new_stack, settings_of
from tests.support.waiting import until
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


async def test_ledger_is_listed_in_the_order_of_its_balance(two: Two) -> None:
    game_id = await two[0].game(COLLECTION, COINS)
    await two[0].round(game_id, "led")
    moved = {"player_id": "led", "scope_key": two[0].campaign_id, "currency": "coin"}
    adjusted = [two[n % 2].stack.core("POST", "/wallet/adjustments", {**moved, "amount": 1 + n % 7}) for n in range(60)]
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
    """Through an edge that spreads the players: both Cores have decided, and wait for the stock, at once."""
    racers = [f"racer{each}" for each in range(200)]
    async with asyncpg.create_pool(bare.deployment.database_url, min_size=2) as pool, pool.acquire() as rival:

        async def every_core_waits() -> bool:
            found = await pool.fetch("SELECT client_port FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
            waiting = {row["client_port"] for row in found}
            ports = [psutil.Process(core.pid).net_connections() for core in bare.deployment.cores]
            return all(waiting & {one.laddr.port for one in own} for own in ports)

        for nth in range(scenario.size):
            mug, wheel = await bare.prize(f"mug {nth}", total=10), f"wheel {nth}"
            await bare.wheel(wheel, f"mug {nth}")
            starts = (bare.session(wheel, who, f"{nth} {who}", "consumer") for who in racers)
            bodies = [{"session_id": session, "payload": {}} for session in await asyncio.gather(*starts)]
            async with rival.transaction():
                await rival.execute("SELECT FROM stock WHERE prize_id = $1 FOR UPDATE", mug)
                plays = [
                    asyncio.ensure_future(play(bare, who, body, f"{nth} {who}", wheel, surface="consumer"))
                    for who, body in zip(racers, bodies, strict=True)
                ]
                await until(every_core_waits)
            assert sum(bool(request.data["rewards"]) for request in await asyncio.gather(*plays)) == 10
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
        again = await play(bare, who, {**body, "client_seed": "another"}, key, refusals=("IDEMPOTENCY_MISMATCH",))
        assert (again.attempts[-1].http, again.outcome) == (422, "IDEMPOTENCY_MISMATCH")


async def play(site: Site, who: str, body: dict[str, Any], key: str, of: str = "wheel", **facts: object) -> Request:
    path, more = f"/games/{site.ids[of]}/play", {"surface": "core", "of": of, "key": key, **facts}
    return await site.client.once("Play", who, "POST", path, body, **more)


@pytest.mark.fault(
    "Two turns of one game in one commit", small=1, full=50, unit="players, 60 plays at once", figure="4 plays a player"
)
async def test_cap_holds_over_two_processes(scenario: Scenario, bare: Site) -> None:
    await bare.wheel("capped", rules={"max_plays_per_user": CAP})
    for nth in range(scenario.size):
        rounds = await asyncio.gather(*(bare.round("capped", f"p{nth}", f"{each}") for each in range(60)))
        assert sum(one.ok for one in rounds) == CAP


GIVEN = 3
STOCK = 12
QUESTS = 6
PLAYS = 30
NEW_ROW = "INSERT INTO turn_balances (tenant_id, campaign_id, player_id, balance) VALUES ($1, $2, $3, $4)"
NEW_ENTRY = (
    "INSERT INTO turn_entries (tenant_id, campaign_id, player_id, entry_id, amount, balance_after, reason,"
    " reference_id) VALUES ($1, $2, $3, 'rival', $4::bigint, $4, 'adjustment', '')"
)
SAID = (
    "INSERT INTO audit_entries (tenant_id, entry_id, actor, action, subject_type, subject_id, after)"
    " VALUES ($1, 'rival', 'staff', 'player.grant_turns', 'player', $2,"
    " jsonb_build_object('id', 'rival', 'amount', $3::int))"
)


@dataclass(frozen=True)
class Cores:
    cores: tuple[Core, Core]
    tenant_id: str

    async def ask(self, nth: int, name: str, **fields: Any) -> Any:
        operation = BY_NAME[name]
        request = operation.request(scope=m.Scope(tenant_id=self.tenant_id), **fields)
        while True:
            try:
                return await self.cores[nth % 2].call(operation, request)
            except Fault as fault:
                if fault.status.name != "UNAVAILABLE":
                    raise
            await asyncio.sleep(0.01)


@pytest.fixture
async def cores(module_stack: Stack) -> AsyncIterator[Cores]:
    async with AsyncExitStack() as stack:
        two = [await stack.enter_async_context(running_core(module_stack.process.settings)) for _ in range(2)]
        yield Cores((two[0], two[1]), module_stack.tenant_id)


async def turns_of(world: World, player: str) -> int:
    query = "SELECT balance FROM turn_balances WHERE tenant_id = $1 AND campaign_id = $2 AND player_id = $3"
    return int(await world.database.fetchval(query, world.stack.tenant_id, world.campaign_id, player) or 0)


async def count(answers: list[Awaitable[Any]]) -> list[Any]:
    replies = await asyncio.gather(*answers, return_exceptions=True)
    assert all(isinstance(one, Fault) for one in replies if isinstance(one, BaseException)), replies
    return [one for one in replies if not isinstance(one, Fault)]


async def test_turns_are_never_lost_or_created_by_rivals(world: World, cores: Cores) -> None:
    prize_id = await world.prize(type="turns", value=GIVEN, total=STOCK)
    games = [await world.wheel(prize_id, rules={"requires_turn": True}) for _ in range(2)]
    quests = [await world.quest(turns=2) for _ in range(QUESTS)]
    await cores.ask(0, "CompleteQuest", id=quests[0], player_id="ann")
    taken: list[str] = []

    async def play(nth: int) -> m.PlayReply:
        own = {"id": games[nth % 2], "player_id": "ann"}
        session = (await cores.ask(nth, "Start", **own)).session_id
        reply: m.PlayReply = await cores.ask(nth // 2, "Play", session_id=session, payload={}, **own)
        for won in reply.rewards[: nth % 3 == 0]:
            try:
                await cores.ask(nth, "RevokeReward", id=won.reward_id, reason="a cheat")
                taken.append(won.reward_id)
            except Fault as fault:
                assert fault.reason == "INSUFFICIENT_BALANCE"
        return reply

    def gift(nth: int) -> Awaitable[Any]:
        return cores.ask(nth, "GrantTurns", id="ann", campaign_id=world.campaign_id, amount=1, reason="sorry")

    played, completed, gifts = await asyncio.gather(
        count([play(nth) for nth in range(PLAYS)]),
        count([cores.ask(nth, "CompleteQuest", id=one, player_id="ann") for nth, one in enumerate(quests * 2)]),
        count([gift(nth) for nth in range(6)]),
    )
    won = sum(len(one.rewards) for one in played)
    assert (len(completed), len(gifts)) == (QUESTS - 1, 6)
    assert await world.stock(prize_id) == (STOCK - won, won)
    left = 2 * QUESTS + len(gifts) - len(played) + GIVEN * (won - len(taken))
    assert await turns_of(world, "ann") == left
    await world.check()


async def test_win_beside_a_rivals_first_turns_is_decided_again(world: World, cores: Cores) -> None:
    """The read sees no row, and the commit finds one that a rival has just inserted."""
    own = {"id": await world.wheel(await world.prize(type="turns", value=GIVEN)), "player_id": "rivalled"}
    session = (await cores.ask(0, "Start", **own)).session_id
    row = (world.stack.tenant_id, world.campaign_id, "rivalled", 5)
    async with held(world.stack, NEW_ROW, *row) as rival:
        await rival.execute(NEW_ENTRY, *row)
        await rival.execute(SAID, row[0], row[2], row[3])
        play = await begun(world.stack, cores.ask(0, "Play", session_id=session, payload={}, **own), "commit")
    assert (await play).rewards
    assert await turns_of(world, "rivalled") == 5 + GIVEN
    await world.check()
