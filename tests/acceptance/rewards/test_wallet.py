"""The wallet: balances, a ledger that pages while it grows, and adjustments that never go below zero."""

from __future__ import annotations

import asyncio
from typing import Any

from runtime.operations import BY_NAME
from tests.support.invariants import check_sums
from tests.support.quests import open_campaign
from tests.support.stack import Answer, Stack, fields_of
from tests.support.world import World


async def known_player(stack: Stack, player_id: str) -> str:
    await stack.consumer("GET", "/players/me", player=player_id)
    return player_id


async def adjust(stack: Stack, scope_key: str, amount: int, **fields: Any) -> Answer:
    body = {"player_id": "player_1", "scope_key": scope_key, "currency": "points", "amount": amount, **fields}
    return await stack.core("POST", "/wallet/adjustments", body)


async def test_adjustment_moves_the_balance_and_is_noted(stack: Stack) -> None:
    campaign_id = await open_campaign(stack)
    await known_player(stack, "player_1")
    added = (await adjust(stack, campaign_id, 10, reference_id="ticket 7")).data["entry"]
    assert (added["amount"], added["balance_after"], added["reason"]) == ("10", "10", "LEDGER_REASON_ADJUSTMENT")
    assert added["reference_id"] == "ticket 7"
    taken = (await adjust(stack, campaign_id, -4)).data["entry"]
    assert taken["balance_after"] == "6"
    refused = await adjust(stack, campaign_id, -7)
    assert (refused.http, refused.reason, refused.envelope["data"]["balance"]) == (400, "INSUFFICIENT_BALANCE", 6)
    audited = await stack.database.fetchval("SELECT count(*) FROM audit_entries WHERE action = 'player.adjust_balance'")
    assert audited == 2
    await check_sums(stack.database)


async def test_play_into_a_full_balance_is_refused_alone(stack: Stack) -> None:
    """In one batch with others, who are paid; and nothing of the refused play is counted."""
    world = World(stack, await open_campaign(stack))
    game = await world.wheel(await world.prize(type="points", value=5))
    await known_player(stack, "player_1")
    most = 2**63 - 1
    assert (await adjust(stack, world.campaign_id, most)).code == "OK"
    assert fields_of(await adjust(stack, world.campaign_id, 1)) == ["amount"]
    players = ["player_1", *(f"p{nth}" for nth in range(6))]
    answers = await asyncio.gather(*(world.round(game, player) for player in players))
    assert [answer.reason for answer in answers] == ["BALANCE_FULL"] + [""] * 6
    assert all("BALANCE_FULL" in BY_NAME[name].refusals for name in ("Play", "Redeem"))  # as the documents have it
    assert answers[0].envelope["data"]["currency"] == "points" and str(most) in answers[0].envelope["message"]
    assert await stack.database.fetchval("SELECT count(*) FROM plays") == 6
    assert (await adjust(stack, world.campaign_id, -5)).code == "OK"
    assert (await world.round(game, "player_1")).code == "OK"
    await check_sums(stack.database)


async def test_adjustment_with_a_wrong_field_is_refused(stack: Stack) -> None:
    answer = await adjust(stack, "", 0, currency="")
    fields = {row["field"] for row in answer.envelope["data"]["violations"]}
    assert fields == {"scope_key", "currency", "amount"}
    await known_player(stack, "player_1")
    assert (await adjust(stack, "camp_none", 1)).envelope["data"]["violations"][0]["field"] == "scope_key"
    assert (await adjust(stack, stack.tenant_id, 1, player_id="player_none")).reason == "UNKNOWN_PLAYER"
    full = await adjust(stack, stack.tenant_id, 2**63 - 1)
    assert full.code == "OK"
    assert (await adjust(stack, stack.tenant_id, 1)).code == "INVALID_ARGUMENT"
    await check_sums(stack.database)
