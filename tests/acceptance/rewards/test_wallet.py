"""The wallet: balances, a ledger that pages while it grows, and adjustments that never go below zero."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from runtime import ids
from runtime.operations import BY_NAME
from tests.support.invariants import check_sums
from tests.support.items import every_item
from tests.support.quests import open_campaign
from tests.support.stack import Answer, Stack, fields_of
from tests.support.world import World


async def write(stack: Stack, player_id: str, scope_key: str, currency: str, count: int) -> None:
    """`count` entries of 1 each, and the balance that they make."""
    entries = [(ids.make("entry"), nth) for nth in range(1, count + 1)]
    store = stack.database
    await store.execute(
        "INSERT INTO balances (tenant_id, scope_key, currency, player_id, balance) VALUES ($1, $2, $3, $4, $5)",
        stack.tenant_id,
        scope_key,
        currency,
        player_id,
        count,
    )
    await store.execute(
        """INSERT INTO ledger_entries (tenant_id, entry_id, seq, scope_key, currency, player_id, amount, balance_after,
                                       reason, reference_id)
           SELECT $1, n.id, microseconds() + n.nth, $2, $3, $4, 1, n.nth, 'play_reward', 'play_' || n.nth
           FROM unnest($5::text[], $6::bigint[]) AS n (id, nth)""",
        stack.tenant_id,
        scope_key,
        currency,
        player_id,
        [entry_id for entry_id, _ in entries],
        [nth for _, nth in entries],
    )


async def known_player(stack: Stack, player_id: str) -> str:
    await stack.consumer("GET", "/players/me", player=player_id)
    return player_id


async def adjust(stack: Stack, scope_key: str, amount: int, **fields: Any) -> Answer:
    body = {"player_id": "player_1", "scope_key": scope_key, "currency": "points", "amount": amount, **fields}
    return await stack.core("POST", "/wallet/adjustments", body)


def codes(answers: Iterable[Answer]) -> list[str]:
    return sorted(answer.code for answer in answers)


async def test_balances_are_by_scope_and_currency(stack: Stack) -> None:
    for scope_key, currency, count in (("camp_b", "star", 3), ("camp_a", "star", 2), ("camp_a", "gem", 1)):
        await write(stack, "player_1", scope_key, currency, count)
    await write(stack, "player_2", "camp_a", "gem", 9)
    everything = await every_item(stack, "/wallet", player="player_1", limit=2)
    assert [(row["scope_key"], row["currency"], row["balance"]) for row in everything] == [
        ("camp_a", "gem", 1),
        ("camp_a", "star", 2),
        ("camp_b", "star", 3),
    ]
    one = (await stack.consumer("GET", "/wallet", player="player_1", scope_key="camp_b")).data["items"]
    assert [row["balance"] for row in one] == [3]
    assert isinstance(one[0]["updated_at"], int)


async def test_ledger_is_newest_first(stack: Stack) -> None:
    await write(stack, "player_1", "camp_a", "star", 5)
    await write(stack, "player_1", "camp_a", "gem", 5)
    await write(stack, "player_1", "camp_b", "star", 5)
    everything = await every_item(stack, "/wallet/ledger", player="player_1", limit=4)
    assert [row["balance_after"] for row in everything] == [5, 4, 3, 2, 1] * 3
    stars = await every_item(stack, "/wallet/ledger", player="player_1", scope_key="camp_a", currency="star", limit=2)
    assert [row["balance_after"] for row in stars] == [5, 4, 3, 2, 1]
    assert stars[0]["reason"] == "LEDGER_REASON_PLAY_REWARD"


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


async def test_adjustments_at_once_take_no_more_than_there_is(stack: Stack) -> None:
    campaign_id = await open_campaign(stack)
    await known_player(stack, "player_1")
    await adjust(stack, campaign_id, 10)
    answers = await asyncio.gather(*(adjust(stack, campaign_id, -3) for _ in range(20)))
    assert codes(answers) == ["FAILED_PRECONDITION"] * 17 + ["OK"] * 3
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


async def test_key_adjusts_once(stack: Stack) -> None:
    campaign_id = await open_campaign(stack)
    await known_player(stack, "player_1")
    answers = await asyncio.gather(*(adjust(stack, campaign_id, 5, idempotency_key="k") for _ in range(20)))
    assert codes(answers) == ["OK"] * 20
    assert len({answer.data["entry"]["id"] for answer in answers}) == 1
    other = await adjust(stack, campaign_id, 6, idempotency_key="k")
    assert (other.http, other.reason) == (422, "IDEMPOTENCY_MISMATCH")
    assert await stack.database.fetchval("SELECT balance FROM balances") == 5
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
