"""Quests are completed while a guest logs in: by what is whose at that moment, and never by what is taken back."""

import asyncio

import pytest

from tests.support import invariants
from tests.support.guests import guest_who_played, log_in
from tests.support.rivals import held, waits
from tests.support.stack import Answer, Stack
from tests.support.waiting import until
from tests.support.world import World

ON_CLAIM = {"redemption_mode": "on_claim", "channel": "none"}


@pytest.fixture
async def capped(own_world: World) -> tuple[str, str]:
    prize = await own_world.prize(total=9, constraints={"max_per_user": 1}, fulfillment=ON_CLAIM)
    one, other = [await own_world.wheel(prize, access="public") for _ in range(2)]
    return one, other


async def quest_of_wins(world: World, count: int, game_id: str = "") -> str:
    fields = {"name": "Q", "turns": 3, "type": "daily", "status": "active"}
    condition = {"kind": "wins", "count": count, "game_id": game_id}
    body = {"campaign_id": world.campaign_id, "condition": condition, **fields}
    return str((await world.stack.admin("POST", "/admin/quests", body)).data["id"])


async def complete(stack: Stack, quest_id: str, player_id: str) -> Answer:
    return await stack.core("POST", f"/quests/{quest_id}/complete", {"player_id": player_id})


async def turns_of(stack: Stack, player_id: str) -> int:
    entries = "SELECT coalesce(sum(amount), 0) FROM turn_entries WHERE player_id = $1 AND reason = 'quest'"
    return int(await stack.database.fetchval(entries, player_id))


async def test_guest_that_completes_during_its_login_is_judged_as_the_player(
    own_world: World, stack: Stack, capped: tuple[str, str]
) -> None:
    """The player has won it at another wheel: so what the guest has of it is taken back, and nobody won at this one."""
    one, other = capped
    quest = await quest_of_wins(own_world, 1, one)
    guest, player = await guest_who_played(own_world, one), await log_in(stack)
    await own_world.round(other, player)
    async with held(stack, "SELECT FROM rewards WHERE player_id = $1 FOR UPDATE", guest.player_id):
        merge = asyncio.ensure_future(log_in(stack, guest))
        await until(lambda: waits(stack, "merging.lock_rewards"))
        rival = asyncio.ensure_future(complete(stack, quest, guest.player_id))
        await until(lambda: waits(stack, "players.create", "quests.complete"))
    assert await merge == player
    refused = await rival
    assert refused.reason == "CONDITION_NOT_MET", refused.envelope
    assert [int(refused.envelope["data"][name]) for name in ("have", "need")] == [0, 1]
    assert await turns_of(stack, player) + await turns_of(stack, guest.player_id) == 0
    await invariants.check(stack.database)
