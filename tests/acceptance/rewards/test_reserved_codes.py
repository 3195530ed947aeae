"""Voucher codes that are shown after the win: each win has taken its own, and no more win than there are."""

from __future__ import annotations

import asyncio

from tests.support.stack import Stack
from tests.support.world import World


async def winners(world: World, game_id: str, players: int, prefix: str = "p") -> dict[str, str]:
    names = [f"{prefix}{nth}" for nth in range(players)]
    answers = await asyncio.gather(*(world.round(game_id, name) for name in names))
    return {
        name: answer.data["rewards"][0]["reward_id"]
        for name, answer in zip(names, answers, strict=True)
        if answer.data["rewards"]
    }


async def prize_of(world: World, mode: str, count: int, **fields: object) -> str:
    fulfillment = {"channel": "voucher_code", "redemption_mode": f"REDEMPTION_MODE_{mode}"}
    return await world.prize(codes=[f"R-{nth}" for nth in range(count)], fulfillment=fulfillment, **fields)


async def test_five_codes_have_five_winners_with_a_code_each(world: World, module_stack: Stack) -> None:
    prize_id = await prize_of(world, "ON_CLAIM", 5)
    game_id = await world.wheel(prize_id)
    won = await winners(world, game_id, 20)
    assert len(won) == 5
    render = (await module_stack.consumer("GET", f"/games/{game_id}/render")).data
    assert [prize["available"] for prize in render["prizes"]] == [False]
    for name in won:
        (mine,) = (await module_stack.consumer("GET", "/rewards/me", player=name)).data["items"]
        assert (mine["status"], mine["code"]) == ("REWARD_STATUS_WON", ""), "not shown before the claim"
    claims = await asyncio.gather(
        *(module_stack.consumer("POST", f"/rewards/{won[name]}/claim", {}, player=name) for name in won)
    )
    assert sorted(claim.data["code"] for claim in claims) == [f"R-{nth}" for nth in range(5)]
    sixth = await world.round(game_id, "sixth")
    assert sixth.data["rewards"] == [], "no code is left"
    again = await module_stack.consumer("POST", f"/rewards/{next(iter(won.values()))}/claim", {}, player="sixth")
    assert again.reason == "UNKNOWN_REWARD", "another player's reward gives nobody a code"
