"""Dual control of what one play gives: above the limits a game waits, live or not, by whichever door it comes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from runtime.rules import lucky_item
from tests.support.approvals import HELD, LIMIT, approve, post, put, waiting
from tests.support.resources import make_campaign
from tests.support.stack import Answer, Stack, new_stack, refused, settings_of
from tests.support.world import COLLECTION, GIFTS, World

LIMITS = {**HELD, "dual_odds": False}
"""Nobody watches odds: what waits here does by what a play gives."""


@pytest_asyncio.fixture(scope="module")
async def office(module_database_url: str, valkey_url: str) -> AsyncIterator[Stack]:
    async with new_stack(settings_of(module_database_url, valkey_url, role_matrix="strict", **LIMITS)) as stack:
        yield stack


@pytest.fixture
async def fair(office: Stack) -> World:
    """A world in a campaign that is a draft: neither active nor played."""
    return World(office, (await make_campaign(office, status="CAMPAIGN_STATUS_DRAFT"))["id"])


def coins(quantity: int, item: str = "points", weight: float = 1) -> dict[str, Any]:
    drawn = {"item": item, "weight": weight, "quantity": quantity, "slot_index": 0}
    return {"items": [{"item": "coin", "weight": 1, "quantity": 1, "slot_index": 1}, drawn]}


def gifts(*drops: tuple[str, int], total: int = 1000) -> dict[str, Any]:
    """drops: (prize, how many of it count)"""
    types = [
        {"type": f"type_{nth}", "prize_id": prize, "frequency": 1, "max_catchable": most}
        for nth, (prize, most) in enumerate(drops)
    ]
    return {"drops": types, "total_items": total, "interval_ms": 10}


async def make(fair: World, shape: dict[str, Any], config: dict[str, Any], **more: Any) -> Answer:
    named = {"name": "New", "campaign_id": fair.campaign_id, "status": "active"}
    return await post(fair, "games", {**named, **shape, "handler_config": config, **more})


async def made(fair: World, shape: dict[str, Any], config: dict[str, Any], **more: Any) -> str:
    answer = await make(fair, shape, config, **more)
    assert answer.http < 300, answer.envelope
    return str(answer.data["id"])


async def credited(fair: World, game: str, player: str) -> int:
    await fair.round(game, player)
    rows = (await fair.stack.admin("GET", f"/admin/players/{player}/wallet")).data["items"]
    return sum(int(row["balance"]) for row in rows)


async def test_game_that_credits_above_the_limit_waits_in_a_draft_campaign(fair: World) -> None:
    assert (await make(fair, COLLECTION, coins(LIMIT))).http < 300
    kept = waiting(await make(fair, COLLECTION, {"items": coins(10**9)["items"][1:]}))
    assert kept["operation"] == "CreateGame"
    assert (await fair.stack.admin("GET", f"/admin/games/{kept['subject_id']}")).http == 404
    assert (await approve(fair, kept)).data["status"] == "APPROVAL_STATUS_DONE"
    assert (await put(fair, f"campaigns/{fair.campaign_id}", status="active")).http == 200
    assert await credited(fair, kept["subject_id"], "rich") == 10**9


async def test_approved_game_changes_alone_unless_a_play_gives_more_or_something_else(fair: World) -> None:
    game = waiting(await make(fair, COLLECTION, coins(500, "gem")))
    assert (await approve(fair, game)).http == 200
    path = f"games/{game['subject_id']}"
    for same in ({"name": "Gems"}, {"handler_config": coins(500, "gem", 0.1)}, {"handler_config": coins(50, "gem")}):
        assert (await put(fair, path, **same)).http == 200, same
    waiting(await put(fair, path, handler_config=coins(500, "gem")))
    assert (await approve(fair, waiting(await put(fair, path, handler_config=coins(500, "gem"))))).http == 200
    for other in (coins(500), coins(501, "gem"), {"items": [*coins(500)["items"], coins(500, "gem")["items"][1]]}):
        waiting(await put(fair, path, handler_config=other))
    waiting(await put(fair, path, wallet_scope="tenant"))
    assert (await put(fair, path, handler_config=coins(900, "gem", 0))).http == 200
    waiting(await put(fair, path, handler_config=coins(900, "gem", 1e-9)))


async def test_restored_revision_waits_as_its_first_save_did(fair: World) -> None:
    kept = waiting(await make(fair, COLLECTION, coins(500)))
    assert (await approve(fair, kept)).http == 200
    path = f"games/{kept['subject_id']}"
    assert (await put(fair, path, handler_config=coins(5))).http == 200
    revisions = (await fair.stack.admin("GET", f"/admin/{path}/revisions")).data["items"]
    waiting(await put(fair, path, handler_config=revisions[-1]["game"]["handler_config"], revision=2))


async def test_game_of_drops_counts_all_points_and_turns_that_can_be_caught(fair: World) -> None:
    points, turns, other = [
        await fair.prize(type=kind, value=value) for kind, value in (("points", 20), ("turns", 2), ("points", 30))
    ]
    for config in (gifts((points, 1000), total=5), gifts((points, 2), (points, 3), (turns, 2))):
        await made(fair, GIFTS, config)
    for config in (gifts((points, 5), (other, 1)), gifts((turns, 3))):
        kept = waiting(await make(fair, GIFTS, config))
        assert {prize["id"] for prize in kept["after"]["prizes"]} <= {points, turns, other}
    cup = await fair.prize(total=1)
    await made(fair, GIFTS, gifts((cup, 6)), fallback_prize_id=points)
    waiting(
        await make(fair, GIFTS, gifts((cup, 6)), on_unavailable="ON_UNAVAILABLE_FALLBACK", fallback_prize_id=points)
    )


def ladder(*prizes: str, **more: Any) -> dict[str, Any]:
    rungs = [
        {"name": f"Rung {nth}", "currency": "step", "threshold": nth + 1, "prize_id": one}
        for nth, one in enumerate(prizes)
    ]
    return {"mode": "cumulative_unlock", "auto_grant": True, "rungs": rungs, **more}


async def test_rungs_that_one_play_grants_count_together(fair: World) -> None:
    """A wallet that is full already reaches all of them at once."""
    points, turns = [await fair.prize(type=kind, value=value) for kind, value in (("points", 33), ("turns", 2))]
    steps = coins(1, "step")
    await made(fair, COLLECTION, steps, milestones=ladder(points, points, points, turns))
    await made(fair, COLLECTION, steps, milestones=ladder(*[points] * 4, auto_grant=False))
    waiting(await make(fair, COLLECTION, steps, milestones=ladder(*[points] * 4)))
    waiting(await make(fair, COLLECTION, steps, milestones=ladder(turns, turns, turns)))
    wheel = {"type": "spin_wheel", "reward_handler": "probability"}
    config = {"prizes": [{"prize_id": points, "probability": 1}]}
    await made(fair, wheel, config, milestones=ladder(points, points))
    game = waiting(await make(fair, wheel, config, milestones=ladder(points, points, points, points)))
    assert (await approve(fair, game)).http == 200


async def test_game_of_a_plugin_that_fails_to_tell_its_most_waits(fair: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(config: Any, worth: Any) -> float:
        raise ZeroDivisionError

    monkeypatch.setattr(lucky_item, "most", unknown)
    assert waiting(await make(fair, COLLECTION, coins(1)))["operation"] == "CreateGame"


async def test_prize_waits_where_a_play_would_give_more_of_it(fair: World) -> None:
    prize = await fair.prize(type="points", value=20)
    game = await made(fair, GIFTS, gifts((prize, 5)), status="draft", name="Catch")
    path = f"prizes/{prize}"
    for body in ({"name": "Points"}, {"value": 10}, {"value": 20}):
        assert (await put(fair, path, **body)).http == 200
    kept = waiting(await put(fair, path, value=21))
    [shown] = kept["after"]["games"]
    assert (shown["id"], shown["name"]) == (game, "Catch")
    assert (shown["most_before"]["campaign: all"], shown["most"]["campaign: all"]) == (100, 105)
    goods = await fair.prize(value=90)
    await made(fair, GIFTS, gifts((goods, 5)))
    waiting(await put(fair, f"prizes/{goods}", type="points"))
    assert (await put(fair, f"games/{game}", handler_config=gifts((prize, 4)))).http == 200
    assert refused(await approve(fair, kept)) == (409, "ABORTED", "STALE_REVISION")
    kept = waiting(await put(fair, path, value=26))
    assert (await put(fair, f"games/{game}", name="Catch them")).http == 200, "what it is called decides nothing"
    assert (await approve(fair, kept)).data["status"] == "APPROVAL_STATUS_DONE"
    assert (await fair.stack.admin("GET", f"/admin/{path}")).data["value"] == 26


async def test_campaign_file_with_a_game_above_the_limit_is_refused(fair: World) -> None:
    game = {"name": "Coins", **COLLECTION, "status": "active", "handler_config": coins(LIMIT)}
    file = {"tombola": 1, "campaign": {"name": "Harvest"}, "prizes": [], "games": [game], "quests": []}
    file["leaderboards"] = []

    async def imported(**more: Any) -> Answer:
        return await post(fair, "campaigns/import", {"file": file, **more})

    into = (await imported()).data["campaign_id"]
    game["handler_config"] = coins(LIMIT + 1)
    for more in ({}, {"into": into}):
        answer = await imported(**more)
        assert (answer.http, answer.reason) == (400, "ODDS_NEED_APPROVAL")
        assert answer.envelope["message"].startswith("games[0]: ")


async def test_copied_game_keeps_what_was_approved_and_waits_beyond_it(fair: World) -> None:
    prize = await fair.prize(type="points", value=50, campaign_id=fair.campaign_id)
    kept = waiting(await make(fair, GIFTS, gifts((prize, 4))))
    assert (await approve(fair, kept)).http == 200
    path = f"campaigns/{fair.campaign_id}/duplicate"
    copied = (await post(fair, path, {})).data["id"]
    [game] = (await fair.stack.admin("GET", "/admin/games", campaign_id=copied)).data["items"]
    [own] = (await fair.stack.admin("GET", "/admin/prizes", campaign_id=copied)).data["items"]
    assert (own["value"], game["handler_config"]) == (50, gifts((own["id"], 4)))
    waiting(await put(fair, f"prizes/{own['id']}", value=51))
    waiting(await put(fair, f"games/{game['id']}", handler_config=gifts((own["id"], 5))))


async def test_game_of_an_approved_prize_or_without_limits_does_not_wait(
    fair: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"name": "Many", "type": "points", "value": 10**6}
    prize = waiting(await post(fair, "prizes", body))
    assert (await approve(fair, prize)).http == 200
    config = {"prizes": [{"prize_id": prize["subject_id"], "probability": 1}]}
    await made(fair, {"type": "spin_wheel", "reward_handler": "probability"}, config)
    none = replace(fair.stack.engine.settings, dual_adjustment_above=0, dual_turns_above=0)
    monkeypatch.setattr(fair.stack.engine, "settings", none)
    await made(fair, COLLECTION, coins(10**9))
    await made(fair, GIFTS, gifts((prize["subject_id"], 1000)))
