"""A prize's stock as staff move it: each move is written down, and none takes what is awarded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from tests.support.rivals import held, waits
from tests.support.stack import Stack, fields_of
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


async def test_stock_moves_are_listed_with_actor_reason_and_totals(world: World) -> None:
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


async def test_stock_move_with_a_wrong_field_is_refused(world: World) -> None:
    prize_id, missed = await world.prize(total=10), []
    bodies: list[tuple[dict[str, Any], str]] = [
        ({}, "change"),
        ({"change": 1, "total": 5}, "change"),
        ({"total": 5, "unlimited": True}, "change"),
        ({"change": -10}, "change"),
        ({"change": 2**31 - 1}, "change"),
        ({"total": -1}, "total"),
        ({"change": 1, "reason": " "}, "reason"),
    ]
    for body, field in bodies:
        if field not in fields_of(await moved(world.stack, prize_id, **body)):
            missed.append(body)
    assert missed == []
    assert await moves(world.stack, prize_id) == []


async def test_stock_move_below_the_awarded_units_is_refused(world: World) -> None:
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


async def test_prize_content_is_shown_to_players(world: World) -> None:
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
async def test_stock_move_counts_the_units_that_were_won_while_it_waited(world: World, body: dict[str, int]) -> None:
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


async def test_stock_move_below_the_units_won_meanwhile_is_refused(world: World) -> None:
    prize_id, stack = await world.prize(total=10), world.stack
    async with a_winner_of_three(stack, prize_id):
        move = asyncio.create_task(moved(stack, prize_id, total=2))
    refused = await move
    assert (refused.reason, refused.envelope["data"]["awarded"]) == ("STOCK_BELOW_AWARDED", 3)
    assert await moves(stack, prize_id) == []
    await stack.database.execute(TAKEN, stack.tenant_id, prize_id, -3)
