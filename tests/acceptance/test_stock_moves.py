"""A prize's stock as staff move it: each move is written down, and none takes what is awarded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, Final

import pytest

from tests.support.rivals import held, waits
from tests.support.stack import Stack
from tests.support.waiting import until
from tests.support.world import World


async def moved(stack: Stack, prize_id: str, **body: Any) -> Any:
    body.setdefault("reason", "counted again")
    return await stack.admin("POST", f"/admin/prizes/{prize_id}/stock", body)


async def moves(stack: Stack, prize_id: str) -> list[tuple[Any, ...]]:
    """Reason, total and remaining, each before and after; the newest first."""
    items = (await stack.admin("GET", f"/admin/prizes/{prize_id}/stock/moves")).data["items"]
    names = ("reason", "total_before", "total_after", "remaining_before", "remaining_after")
    return [tuple(item[name] for name in names) for item in items]


async def test_each_move_says_who_made_it_why_and_what_was_before_and_after(world: World) -> None:
    prize_id, stack = await world.prize(total=10), world.stack
    await world.round(await world.wheel(prize_id))
    first = await moved(stack, prize_id, change=5, reason="the potter came")
    assert first.code == "OK" and first.data["actor"], first
    assert (await moved(stack, prize_id, change=-3)).code == "OK"
    assert (await moved(stack, prize_id, unlimited=True)).code == "OK"
    assert (await moved(stack, prize_id, total=4)).code == "OK"
    edited = await stack.admin("PUT", f"/admin/prizes/{prize_id}", {"stock": {"total": 6}, "name": "Cup"})
    assert edited.data["stock"] == {"total": 6, "remaining": 5, "awarded": 1}
    # Nothing moves where the total stays.
    assert (await stack.admin("PUT", f"/admin/prizes/{prize_id}", {"stock": {"total": 6}})).code == "OK"
    assert await moves(stack, prize_id) == [
        ("", 4, 6, 3, 5),
        ("counted again", 0, 4, 0, 3),
        ("counted again", 12, 0, 11, 0),
        ("counted again", 15, 12, 14, 11),
        ("the potter came", 10, 15, 9, 14),
    ]
    noted = (await stack.admin("GET", "/admin/audit", subject_id=prize_id)).data["items"]
    assert [entry["action"] for entry in noted].count("prize.move_stock") == 4


async def test_moves_are_read_page_by_page(world: World) -> None:
    prize_id, stack = await world.prize(total=1), world.stack
    for _ in range(12):
        assert (await moved(stack, prize_id, change=1)).code == "OK"
    seen: list[str] = []
    cursor = ""
    while True:
        path = f"/admin/prizes/{prize_id}/stock/moves"
        page = (await stack.admin("GET", path, limit="5", cursor=cursor)).data
        seen += [item["id"] for item in page["items"]]
        cursor = page["pagination"]["next_cursor"]
        if not page["pagination"]["has_more"]:
            break
    assert seen == [str(nth) for nth in range(12, 0, -1)]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "change"),
        ({"change": 1, "total": 5}, "change"),
        ({"total": 5, "unlimited": True}, "change"),
        ({"change": -10}, "change"),
        ({"change": 2**31 - 1}, "change"),
        ({"total": -1}, "total"),
        ({"change": 1, "reason": " "}, "reason"),
    ],
)
async def test_a_move_that_means_nothing_is_refused_at_its_field(
    world: World, body: dict[str, Any], field: str
) -> None:
    prize_id = await world.prize(total=10)
    refused = await moved(world.stack, prize_id, **body)
    assert refused.code == "INVALID_ARGUMENT"
    assert field in [one["field"] for one in refused.envelope["data"]["violations"]]
    assert await moves(world.stack, prize_id) == []


async def test_what_is_awarded_is_never_taken(world: World) -> None:
    prize_id = await world.prize(total=3)
    game = await world.wheel(prize_id)
    await world.round(game)
    await world.round(game)
    for body in ({"change": -2}, {"total": 1}):
        refused = await moved(world.stack, prize_id, **body)
        assert (refused.code, refused.reason) == ("FAILED_PRECONDITION", "STOCK_BELOW_AWARDED")
        assert refused.envelope["data"]["awarded"] == 2
    unlimited = await world.prize()
    assert (await moved(world.stack, unlimited, change=3)).code == "INVALID_ARGUMENT"


async def test_a_move_under_one_key_is_made_once(world: World) -> None:
    prize_id, stack = await world.prize(total=10), world.stack
    path, body = f"/admin/prizes/{prize_id}/stock", {"change": 5, "reason": "delivered"}
    replies = [await stack.admin("POST", path, body, headers={"Idempotency-Key": "once"}) for _ in range(2)]
    assert replies[0].data == replies[1].data
    other = await stack.admin("POST", path, body | {"change": 6}, headers={"Idempotency-Key": "once"})
    assert other.reason == "IDEMPOTENCY_MISMATCH"
    assert [move[1:3] for move in await moves(stack, prize_id)] == [(10, 15)]


async def test_rival_moves_and_winners_lose_none_of_each_other_s(world: World) -> None:
    """Ten add one and ten take one, while twelve win: each move begins where the one before it ended."""
    prize_id, stack = await world.prize(total=20), world.stack
    game = await world.wheel(prize_id)
    changes = [moved(stack, prize_id, change=1) for _ in range(10)] + [
        moved(stack, prize_id, change=-1) for _ in range(10)
    ]
    plays = [world.round(game, f"rival_{nth}") for nth in range(12)]
    replies = await asyncio.gather(*changes, *plays)
    assert [reply.code for reply in replies] == ["OK"] * 32
    told = await moves(stack, prize_id)
    assert len(told) == 20 and told[-1][1] == 20 and told[0][2] == 20
    assert all(later[1] == earlier[2] for later, earlier in pairwise(told))
    now = (await stack.admin("GET", f"/admin/prizes/{prize_id}")).data["stock"]
    assert now == {"total": 20, "remaining": 8, "awarded": 12}


async def test_players_read_what_a_prize_says_of_itself(world: World) -> None:
    content = {
        "description": "Stoneware.\nHolds a pint.",
        "image_url": "https://example.com/mug.png?size=2",
        "terms": "At the stall.",
        "currency": "EUR",
    }
    prize_id = await world.prize(value=8, **content)
    game = await world.wheel(prize_id)
    await world.round(game, "reader")
    (shown,) = (await world.stack.consumer("GET", f"/games/{game}/render", player="reader")).data["prizes"]
    assert {name: shown[name] for name in content} == content
    (reward,) = (await world.stack.consumer("GET", "/rewards/me", player="reader")).data["items"]
    assert reward["prize"] == content | {"claim_fields": []}
    await world.stack.admin("PUT", f"/admin/prizes/{prize_id}", {"description": "Tin.", "image_url": ""})
    (reward,) = (await world.stack.consumer("GET", "/rewards/me", player="reader")).data["items"]
    assert reward["prize"] == content | {"description": "Tin.", "image_url": "", "claim_fields": []}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("image_url", "http://example.com/mug.png"),
        ("image_url", "javascript:alert(1)"),
        ("image_url", 'https://example.com/"><script>'),
        ("image_url", "https://example.com/" + "a" * 2048),
        ("currency", "euro"),
        ("currency", "eur"),
        ("terms", "x" * 10_001),
    ],
)
async def test_content_that_cannot_be_shown_is_refused_at_its_field(world: World, field: str, value: str) -> None:
    refused = await world.stack.admin("POST", "/admin/prizes", {"name": "Mug", "type": "goods", field: value})
    assert refused.code == "INVALID_ARGUMENT"
    assert [one["field"] for one in refused.envelope["data"]["violations"]] == [field]


TAKEN: Final = (
    "UPDATE stock SET remaining = remaining - $3, awarded = awarded + $3 WHERE tenant_id = $1 AND prize_id = $2"
)


@asynccontextmanager
async def a_winner_of_three(stack: Stack, prize_id: str) -> AsyncIterator[None]:
    """Takes three for as long as the block lasts; a move that was begun in it waits until they are taken."""
    async with held(stack, TAKEN, stack.tenant_id, prize_id, 3):
        yield
        await until(lambda: waits(stack, "prizes.set_total_stock"))


@pytest.mark.parametrize("body", [{"total": 8}, {"change": -2}], ids=["set", "changed"])
async def test_a_move_counts_what_a_winner_took_while_it_waited(world: World, body: dict[str, int]) -> None:
    prize_id, stack = await world.prize(total=10), world.stack
    async with a_winner_of_three(stack, prize_id):
        move = asyncio.create_task(moved(stack, prize_id, **body))
    assert (await move).code == "OK"
    assert (await stack.admin("GET", f"/admin/prizes/{prize_id}")).data["stock"] == {
        "total": 8,
        "remaining": 5,
        "awarded": 3,
    }
    assert await moves(stack, prize_id) == [("counted again", 10, 8, 7, 5)]
    await stack.database.execute(TAKEN, stack.tenant_id, prize_id, -3)


async def test_what_a_winner_took_meanwhile_is_not_taken_back(world: World) -> None:
    prize_id, stack = await world.prize(total=10), world.stack
    async with a_winner_of_three(stack, prize_id):
        move = asyncio.create_task(moved(stack, prize_id, total=2))
    refused = await move
    assert (refused.reason, refused.envelope["data"]["awarded"]) == ("STOCK_BELOW_AWARDED", 3)
    assert await moves(stack, prize_id) == []
    await stack.database.execute(TAKEN, stack.tenant_id, prize_id, -3)
