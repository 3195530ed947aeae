"""A player's turns from every side at once: won, spent, earned, given and taken by staff, through two Cores."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from runtime import messages as m
from runtime.core import Core
from runtime.errors import Fault
from runtime.operations import BY_NAME
from tests.support.rewards import core as running_core
from tests.support.rivals import held, waits
from tests.support.stack import Stack
from tests.support.waiting import until
from tests.support.world import World

GIVEN = 3
STOCK = 12
QUESTS = 6
PLAYS = 30
NEW_ROW = "INSERT INTO turn_balances (tenant_id, campaign_id, player_id, balance) VALUES ($1, $2, $3, $4)"
NEW_ENTRY = (
    "INSERT INTO turn_entries (tenant_id, campaign_id, player_id, entry_id, amount, balance_after, reason,"
    " reference_id) VALUES ($1, $2, $3, 'rival', $4, $4, 'adjustment', '')"
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
        settings = module_stack.process.settings
        two = [await stack.enter_async_context(running_core(settings)) for _ in range(2)]
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
    quest = {"campaign_id": world.campaign_id, "name": "Q", "turns": 2, "type": "one_time", "status": "active"}
    quests = [(await world.stack.admin("POST", "/admin/quests", quest)).data["id"] for _ in range(QUESTS)]
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
    game_id = await world.wheel(await world.prize(type="turns", value=GIVEN))
    own = {"id": game_id, "player_id": "rivalled"}
    session = (await cores.ask(0, "Start", **own)).session_id
    row = (world.stack.tenant_id, world.campaign_id, "rivalled", 5)
    async with held(world.stack, NEW_ROW, *row) as rival:
        await rival.execute(NEW_ENTRY, *row)
        await rival.execute(SAID, row[0], row[2], row[3])
        play = asyncio.ensure_future(cores.ask(0, "Play", session_id=session, payload={}, **own))
        await until(lambda: waits(world.stack, "commit"))
    assert (await play).rewards
    assert await turns_of(world, "rivalled") == 5 + GIVEN
    await world.check()
