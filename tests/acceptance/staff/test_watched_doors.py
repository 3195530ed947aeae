"""Dual control beside odds: prizes, rungs, quests and new games wait too where they change what is live."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from tests.support.approvals import HELD, LIMIT, approve, decide, post, put, waiting
from tests.support.resources import make_campaign
from tests.support.stack import Stack, fields_of, new_stack, refused, settings_of
from tests.support.stored import config_of_prize
from tests.support.world import COINS, COLLECTION, Launched, World


@pytest_asyncio.fixture(scope="module")
async def office(module_database_url: str, valkey_url: str) -> AsyncIterator[Stack]:
    """A stack that lets nobody alone do much, nor beyond their role."""
    async with new_stack(settings_of(module_database_url, valkey_url, role_matrix="strict", **HELD)) as stack:
        yield stack


@pytest.fixture
async def fair(office: Stack) -> World:
    return Launched(office, (await make_campaign(office))["id"])


async def value(fair: World, prize: str) -> float:
    return float((await fair.stack.admin("GET", f"/admin/prizes/{prize}")).data["value"])


def wheel_body(fair: World, prize: str, **more: Any) -> dict[str, Any]:
    config = {"prizes": [{"prize_id": prize, "probability": 1}]}
    named = {"name": "New", "campaign_id": fair.campaign_id, "type": "spin_wheel"}
    return {**named, "reward_handler": "probability", "handler_config": config, "status": "active", **more}


async def test_value_of_a_live_prize_changes_when_another_person_approves(fair: World) -> None:
    prize = await fair.prize()
    assert (await put(fair, f"prizes/{prize}", {"value": 6})).http == 200, "nothing names it"
    await fair.wheel(prize)
    assert (await put(fair, f"prizes/{prize}", {"name": "Cup"})).http == 200, "it is worth the same"
    kept = waiting(await put(fair, f"prizes/{prize}", {"value": 60}))
    assert (kept["before"]["value"], kept["after"]["value"], kept["after"]["name"]) == (6, 60, "Cup")
    for body in ({"type": "voucher"}, {"currency": "EUR"}, {"campaign_id": fair.campaign_id}):
        waiting(await put(fair, f"prizes/{prize}", body))
    assert await value(fair, prize) == 6
    assert (await approve(fair, kept)).data["status"] == "APPROVAL_STATUS_DONE"
    assert await value(fair, prize) == 60


async def test_value_of_a_prize_that_was_changed_since_is_not_overwritten(fair: World) -> None:
    prize = await fair.prize(total=9)
    game = await fair.wheel(prize)
    stale, fresh = [waiting(await put(fair, f"prizes/{prize}", {"value": value})) for value in (60, 70)]
    await fair.round(game, "ann")
    assert (await approve(fair, fresh)).data["status"] == "APPROVAL_STATUS_DONE"
    assert refused(await approve(fair, stale)) == (409, "ABORTED", "STALE_REVISION")
    assert await value(fair, prize) == 70


async def test_odds_are_refused_once_the_value_of_their_prize_changed(
    fair: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    prize = await fair.prize(name="Mug")
    game = await fair.wheel(prize)
    config = {"prizes": [{"prize_id": prize, "probability": 0.9}]}
    kept = waiting(await put(fair, f"games/{game}", {"handler_config": config}))
    [shown] = kept["after"]["prizes"]
    assert (shown["id"], shown["name"], shown["value"], shown["type"]) == (prize, "Mug", 5, "goods")
    assert kept["before"]["prizes"] == [shown]
    with monkeypatch.context() as patch:
        patch.setattr(fair.stack.engine, "settings", replace(fair.stack.engine.settings, dual_odds=False))
        assert (await put(fair, f"prizes/{prize}", {"value": 5000})).http == 200
    assert refused(await approve(fair, kept)) == (409, "ABORTED", "STALE_REVISION")
    after = (await fair.stack.admin("GET", f"/admin/approvals/{kept['id']}")).data
    assert (after["status"], after["outcome"]["reason"]) == ("APPROVAL_STATUS_FAILED", "STALE_REVISION")
    now = (await fair.stack.admin("GET", f"/admin/games/{game}")).data["handler_config"]
    assert now["prizes"][0]["probability"] == 1


async def test_rungs_of_a_live_game_wait_as_odds_do(fair: World) -> None:
    prize = await fair.prize()
    rung = {"name": "Five", "currency": "coin", "threshold": 5, "prize_id": prize}
    game = await fair.game(COLLECTION, COINS, milestones={"rungs": [rung]})
    milestones = (await fair.stack.admin("GET", f"/admin/games/{game}")).data["milestones"]
    milestones["rungs"][0]["threshold"] = 1
    kept = waiting(await put(fair, f"games/{game}", {"milestones": milestones}))
    assert kept["after"]["prizes"][0]["id"] == prize
    assert (await approve(fair, kept)).data["status"] == "APPROVAL_STATUS_DONE"
    now = (await fair.stack.admin("GET", f"/admin/games/{game}")).data["milestones"]
    assert now["rungs"][0]["threshold"] == 1


async def test_game_made_in_a_live_campaign_waits_and_is_made_once(fair: World) -> None:
    prize = await fair.prize()
    kept = waiting(await post(fair, "games", wheel_body(fair, prize)))
    assert (kept["operation"], kept["before"], kept["after"]["status"]) == ("CreateGame", {}, "active")
    assert (await fair.stack.admin("GET", f"/admin/games/{kept['subject_id']}")).http == 404
    answers = await asyncio.gather(
        *(decide(fair.stack, who, "approve", kept, role="designer") for who in ("eve", "bea", "kim"))
    )
    assert sorted(answer.http for answer in answers) == [200, 400, 400], [one.envelope for one in answers]
    assert (await fair.stack.admin("GET", f"/admin/games/{kept['subject_id']}")).data["name"] == "New"
    assert len((await fair.stack.admin("GET", "/admin/games", campaign_id=fair.campaign_id)).data["items"]) == 1


async def test_draft_that_becomes_active_waits_and_a_played_game_may_pause(fair: World) -> None:
    prize = await fair.prize()
    draft = (await post(fair, "games", wheel_body(fair, prize, status="draft"))).data["id"]
    kept = waiting(await put(fair, f"games/{draft}", {"status": "active"}))
    assert kept["after"]["prizes"][0]["id"] == prize
    assert (await approve(fair, kept)).data["status"] == "APPROVAL_STATUS_DONE"
    await fair.round(draft, "ann")
    for status in ("paused", "active"):
        assert (await put(fair, f"games/{draft}", {"status": status})).http == 200
    campaign = f"/admin/campaigns/{fair.campaign_id}"
    assert (await fair.stack.admin("PUT", campaign, {"status": "paused"})).http == 200
    waiting(await post(fair, "games", wheel_body(fair, prize)))


async def test_odds_of_an_unplayed_game_wait_in_a_paused_campaign_that_was_played(fair: World) -> None:
    prize, other = await fair.prize(), await fair.prize()
    played, unplayed = await fair.wheel(other), await fair.wheel(prize)
    await fair.round(played, "ann")
    campaign = f"/admin/campaigns/{fair.campaign_id}"
    assert (await fair.stack.admin("PUT", campaign, {"status": "paused"})).http == 200
    odds = {"prizes": [{"prize_id": prize, "probability": 0.5}]}
    waiting(await put(fair, f"games/{unplayed}", {"handler_config": odds}))
    waiting(await put(fair, f"prizes/{prize}", {"value": 60}))
    assert await value(fair, prize) == 5
    assert (await put(fair, f"games/{unplayed}", {"status": "paused"})).http == 200
    assert (await put(fair, f"games/{unplayed}", {"handler_config": odds})).http == 200
    waiting(await put(fair, f"games/{unplayed}", {"status": "active"}))


async def test_launch_of_a_campaign_does_not_wait(fair: World) -> None:
    campaign = (await make_campaign(fair.stack, status="CAMPAIGN_STATUS_DRAFT"))["id"]
    body = wheel_body(fair, await fair.prize()) | {"campaign_id": campaign}
    assert (await post(fair, "games", body)).data["status"] == "GAME_STATUS_ACTIVE"
    live = await fair.stack.admin("PUT", f"/admin/campaigns/{campaign}", {"status": "active"})
    assert live.http == 200


async def test_points_and_turns_above_the_limit_wait_whether_winnable_or_not(fair: World) -> None:
    turns = {"name": "Turns", "type": "turns", "value": 5}
    waiting(await put(fair, f"prizes/{(await post(fair, 'prizes', turns)).data['prize_id']}", {"value": 6}))
    waiting(await post(fair, "prizes", turns | {"value": 6}))
    points = {"name": "Points", "type": "points", "value": LIMIT}
    prize = (await post(fair, "prizes", points)).data["prize_id"]
    assert (await put(fair, f"prizes/{prize}", {"value": LIMIT - 1})).http == 200
    waiting(await put(fair, f"prizes/{prize}", {"value": LIMIT + 1}))
    assert await value(fair, prize) == LIMIT - 1
    kept = waiting(await post(fair, "prizes", points | {"value": 10**6}))
    assert (await approve(fair, kept)).data["status"] == "APPROVAL_STATUS_DONE"
    assert await value(fair, kept["subject_id"]) == 10**6
    assert (await put(fair, f"prizes/{kept['subject_id']}", {"name": "Many"})).http == 200


async def test_secret_is_not_stored_in_a_waiting_request(fair: World) -> None:
    body = {"name": "Points", "type": "points", "value": 10**6}
    url = {"url": "https://example.com/h"}
    for name, given in (("secret", "whsec_0123456789abcdef"), ("headers", {"X-Key": "whsec_of_a_header"})):
        secret = {"channel": "webhook", "config": {**url, name: given}}
        answer = await post(fair, "prizes", body | {"fulfillment": secret})
        assert fields_of(answer) == [f"fulfillment.config.{name}"]
    config = {**url, "headers": {"X-Key": "whsec_of_a_header"}}
    held = body | {"value": LIMIT, "fulfillment": {"channel": "webhook", "config": config}}
    prize = (await post(fair, "prizes", held)).data
    path = f"prizes/{prize['prize_id']}"
    waits = waiting(await put(fair, path, {"value": LIMIT + 1, "fulfillment": prize["fulfillment"]}))
    whole = "request::text || before::text || after::text"
    kept = f"SELECT count(*) FROM approvals WHERE position('whsec_' IN {whole}) > 0"
    assert await fair.database.fetchval(kept) == 0
    assert (await approve(fair, waits)).data["status"] == "APPROVAL_STATUS_DONE"
    assert await config_of_prize(fair.stack, prize["prize_id"]) == config


async def test_turns_of_a_quest_above_the_limit_wait(fair: World) -> None:
    quest = {"campaign_id": fair.campaign_id, "name": "Visit", "turns": 5, "status": "active"}
    made = (await post(fair, "quests", quest)).data["id"]
    kept = waiting(await put(fair, f"quests/{made}", {"turns": 6}))
    assert (kept["before"]["turns"], kept["after"]["turns"]) == (5, 6)
    stale = waiting(await put(fair, f"quests/{made}", {"turns": 7}))
    assert (await approve(fair, kept)).data["status"] == "APPROVAL_STATUS_DONE"
    assert refused(await approve(fair, stale))[2] == "STALE_REVISION"
    assert (await put(fair, f"quests/{made}", {"name": "Come"})).http == 200
    waiting(await put(fair, f"quests/{made}", {"type": "daily"}))
    new = waiting(await post(fair, "quests", quest | {"turns": 1000}))
    assert (await approve(fair, new)).data["status"] == "APPROVAL_STATUS_DONE"
    assert (await fair.stack.admin("GET", f"/admin/quests/{new['subject_id']}")).data["turns"] == 1000
