import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from runtime.rules.handlers import lucky_item
from tests.support.approvals import HELD, LIMIT, approve, as_, balance, decide, post, put, waiting
from tests.support.resources import make_campaign
from tests.support.shared import SharedService
from tests.support.stack import Answer, Stack, fields_of, refused
from tests.support.stored import config_of_prize
from tests.support.world import COINS, COLLECTION, GIFTS, World


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
    approval = waiting(await put(fair, f"prizes/{prize}", {"value": 60}))
    assert (approval["before"]["value"], approval["after"]["value"], approval["after"]["name"]) == (6, 60, "Cup")
    for body in ({"type": "voucher"}, {"currency": "EUR"}, {"campaign_id": fair.campaign_id}):
        waiting(await put(fair, f"prizes/{prize}", body))
    assert await value(fair, prize) == 6
    assert (await approve(fair, approval)).data["status"] == "APPROVAL_STATUS_DONE"
    assert await value(fair, prize) == 60


async def test_odds_are_refused_once_their_prize_changed_value(fair: World, monkeypatch: pytest.MonkeyPatch) -> None:
    prize = await fair.prize(name="Mug")
    game = await fair.wheel(prize)
    config = {"prizes": [{"prize_id": prize, "probability": 0.9}]}
    approval = waiting(await put(fair, f"games/{game}", {"handler_config": config}))
    [shown] = approval["after"]["prizes"]
    assert (shown["id"], shown["name"], shown["value"], shown["type"]) == (prize, "Mug", 5, "goods")
    assert approval["before"]["prizes"] == [shown]
    with monkeypatch.context() as patch:
        patch.setattr(fair.stack.engine, "settings", replace(fair.stack.engine.settings, dual_odds=False))
        assert (await put(fair, f"prizes/{prize}", {"value": 5000})).http == 200
    assert refused(await approve(fair, approval)) == (409, "ABORTED", "STALE_REVISION")
    after = (await fair.stack.admin("GET", f"/admin/approvals/{approval['id']}")).data
    assert (after["status"], after["outcome"]["reason"]) == ("APPROVAL_STATUS_FAILED", "STALE_REVISION")
    now = (await fair.stack.admin("GET", f"/admin/games/{game}")).data["handler_config"]
    assert now["prizes"][0]["probability"] == 1


async def test_rungs_of_a_live_game_wait_as_odds_do(fair: World) -> None:
    prize = await fair.prize()
    rung = {"name": "Five", "currency": "coin", "threshold": 5, "prize_id": prize}
    game = await fair.game(COLLECTION, COINS, milestones={"rungs": [rung]})
    milestones = (await fair.stack.admin("GET", f"/admin/games/{game}")).data["milestones"]
    milestones["rungs"][0]["threshold"] = 1
    approval = waiting(await put(fair, f"games/{game}", {"milestones": milestones}))
    assert approval["after"]["prizes"][0]["id"] == prize
    assert (await approve(fair, approval)).data["status"] == "APPROVAL_STATUS_DONE"
    assert (await fair.stack.admin("GET", f"/admin/games/{game}")).data["milestones"]["rungs"][0]["threshold"] == 1


async def test_game_made_in_a_live_campaign_waits_and_is_made_once(fair: World) -> None:
    approval = waiting(await post(fair, "games", wheel_body(fair, await fair.prize())))
    assert (approval["operation"], approval["before"], approval["after"]["status"]) == ("CreateGame", {}, "active")
    assert (await fair.stack.admin("GET", f"/admin/games/{approval['subject_id']}")).http == 404
    answers = await asyncio.gather(
        *(decide(fair.stack, who, "approve", approval, role="designer") for who in ("eve", "bea", "kim"))
    )
    assert sorted(answer.http for answer in answers) == [200, 400, 400], [one.envelope for one in answers]
    assert (await fair.stack.admin("GET", f"/admin/games/{approval['subject_id']}")).data["name"] == "New"
    assert len((await fair.stack.admin("GET", "/admin/games", campaign_id=fair.campaign_id)).data["items"]) == 1


async def test_draft_that_becomes_active_waits_and_a_played_game_may_pause(fair: World) -> None:
    prize = await fair.prize()
    draft = (await post(fair, "games", wheel_body(fair, prize, status="draft"))).data["id"]
    approval = waiting(await put(fair, f"games/{draft}", {"status": "active"}))
    assert approval["after"]["prizes"][0]["id"] == prize
    assert (await approve(fair, approval)).data["status"] == "APPROVAL_STATUS_DONE"
    await fair.round(draft, "ann")
    for status in ("paused", "active"):
        assert (await put(fair, f"games/{draft}", {"status": status})).http == 200
    assert (await fair.stack.admin("PUT", f"/admin/campaigns/{fair.campaign_id}", {"status": "paused"})).http == 200
    waiting(await post(fair, "games", wheel_body(fair, prize)))


async def test_odds_of_an_unplayed_game_wait_in_a_paused_campaign_that_was_played(fair: World) -> None:
    prize, other = await fair.prize(), await fair.prize()
    played, unplayed = await fair.wheel(other), await fair.wheel(prize)
    await fair.round(played, "ann")
    assert (await fair.stack.admin("PUT", f"/admin/campaigns/{fair.campaign_id}", {"status": "paused"})).http == 200
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
    assert (await fair.stack.admin("PUT", f"/admin/campaigns/{campaign}", {"status": "active"})).http == 200


async def test_points_and_turns_above_the_limit_wait_whether_winnable_or_not(fair: World) -> None:
    turns = {"name": "Turns", "type": "turns", "value": 5}
    waiting(await put(fair, f"prizes/{(await post(fair, 'prizes', turns)).data['prize_id']}", {"value": 6}))
    waiting(await post(fair, "prizes", turns | {"value": 6}))
    points = {"name": "Points", "type": "points", "value": LIMIT}
    prize = (await post(fair, "prizes", points)).data["prize_id"]
    assert (await put(fair, f"prizes/{prize}", {"value": LIMIT - 1})).http == 200
    waiting(await put(fair, f"prizes/{prize}", {"value": LIMIT + 1}))
    assert await value(fair, prize) == LIMIT - 1
    approval = waiting(await post(fair, "prizes", points | {"value": 10**6}))
    assert (await approve(fair, approval)).data["status"] == "APPROVAL_STATUS_DONE"
    assert await value(fair, approval["subject_id"]) == 10**6
    assert (await put(fair, f"prizes/{approval['subject_id']}", {"name": "Many"})).http == 200


async def test_secret_is_not_stored_in_a_waiting_request(fair: World) -> None:
    body = {"name": "Points", "type": "points", "value": 10**6}
    url = {"url": "https://example.com/h"}
    for name, secret_value in (("secret", "whsec_0123456789abcdef"), ("headers", {"X-Key": "whsec_of_a_header"})):
        secret = {"channel": "webhook", "config": {**url, name: secret_value}}
        assert fields_of(await post(fair, "prizes", body | {"fulfillment": secret})) == [f"fulfillment.config.{name}"]
    config = {**url, "headers": {"X-Key": "whsec_of_a_header"}}
    held = body | {"value": LIMIT, "fulfillment": {"channel": "webhook", "config": config}}
    prize = (await post(fair, "prizes", held)).data
    path = f"prizes/{prize['prize_id']}"
    waits = waiting(await put(fair, path, {"value": LIMIT + 1, "fulfillment": prize["fulfillment"]}))
    whole = "encode(request, 'escape') || before::text || after::text"
    assert await fair.database.fetchval(f"SELECT count(*) FROM approvals WHERE position('whsec_' IN {whole}) > 0") == 0
    assert (await approve(fair, waits)).data["status"] == "APPROVAL_STATUS_DONE"
    stored = await config_of_prize(fair.stack, prize["prize_id"])
    assert stored.pop("secret") and stored == config


async def test_generated_secret_of_an_approved_prize_is_shown_to_its_requester(fair: World) -> None:
    channel = {"channel": "workflow", "config": {"url": "https://example.com/h"}}
    body = {"name": "Points", "type": "points", "value": 10**6, "fulfillment": channel}

    async def create(who: str, key: str) -> Answer:
        return await as_(fair.stack, who, "POST", "prizes", body, role="designer", key=key)

    for key in ("approved-1", ""):
        kept = waiting(await create("dan", key))
        done = await approve(fair, kept)
        assert done.data["status"] == "APPROVAL_STATUS_DONE" and "whsec_" not in str(done.envelope)
        assert (await config_of_prize(fair.stack, kept["subject_id"]))["secret"]
        made = (await create("dan", key or kept["id"])).data
        assert made["prize_id"] == kept["subject_id"]
        assert made["fulfillment"]["config"]["secret_once"].startswith("whsec_")
        waiting(await create("eve", key or kept["id"]))  # Another person's key is another one.


async def test_turns_of_a_quest_above_the_limit_wait(fair: World) -> None:
    quest = {"campaign_id": fair.campaign_id, "name": "Visit", "turns": 5, "status": "active"}
    made = (await post(fair, "quests", quest)).data["id"]
    approval = waiting(await put(fair, f"quests/{made}", {"turns": 6}))
    assert (approval["before"]["turns"], approval["after"]["turns"]) == (5, 6)
    stale = waiting(await put(fair, f"quests/{made}", {"turns": 7}))
    assert (await approve(fair, approval)).data["status"] == "APPROVAL_STATUS_DONE"
    assert refused(await approve(fair, stale))[2] == "STALE_REVISION"
    assert (await put(fair, f"quests/{made}", {"name": "Come"})).http == 200
    waiting(await put(fair, f"quests/{made}", {"type": "daily"}))
    new = waiting(await post(fair, "quests", quest | {"turns": 1000}))
    assert (await approve(fair, new)).data["status"] == "APPROVAL_STATUS_DONE"
    assert (await fair.stack.admin("GET", f"/admin/quests/{new['subject_id']}")).data["turns"] == 1000


async def test_codes_that_give_more_than_the_limits_wait(fair: World) -> None:
    pack = {"campaign_id": fair.campaign_id, "name": "Caps", "gives": {"turns": 5}}
    made = (await post(fair, "packs", pack)).data["id"]
    gold = {"gives": {"currency": "gold", "amount": 101}}
    waiting(await post(fair, "packs", pack | gold))
    approval = waiting(await put(fair, f"packs/{made}", gold))
    assert (approval["before"]["turns"], approval["after"]["amount"]) == (5, 101)
    await post(fair, f"packs/{made}/codes", {"codes": ["CAP-0001"]})
    assert (await approve(fair, approval)).data["status"] == "APPROVAL_STATUS_DONE"
    new = waiting(await post(fair, "packs", pack | {"gives": {"turns": 6}}))
    assert (await approve(fair, new)).data["status"] == "APPROVAL_STATUS_DONE"
    assert (await fair.stack.admin("GET", f"/admin/packs/{new['subject_id']}")).data["gives"]["turns"] == 6


@pytest_asyncio.fixture(scope="module")
async def limited(module_service: SharedService) -> AsyncIterator[Stack]:
    async with module_service.own_stack(role_matrix="strict", **{**HELD, "dual_odds": False}) as stack:
        yield stack


@pytest.fixture
async def draft(limited: Stack) -> World:
    return World(limited, (await make_campaign(limited, status="CAMPAIGN_STATUS_DRAFT"))["id"])


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


async def make(draft: World, shape: dict[str, Any], config: dict[str, Any], **more: Any) -> Answer:
    named = {"name": "New", "campaign_id": draft.campaign_id, "status": "active"}
    return await post(draft, "games", {**named, **shape, "handler_config": config, **more})


async def made(draft: World, shape: dict[str, Any], config: dict[str, Any], **more: Any) -> str:
    answer = await make(draft, shape, config, **more)
    assert answer.http < 300, answer.envelope
    return str(answer.data["id"])


async def test_game_that_credits_above_the_limit_waits_in_a_draft_campaign(draft: World) -> None:
    assert (await make(draft, COLLECTION, coins(LIMIT))).http < 300
    approval = waiting(await make(draft, COLLECTION, {"items": coins(10**9)["items"][1:]}))
    assert approval["operation"] == "CreateGame"
    assert (await draft.stack.admin("GET", f"/admin/games/{approval['subject_id']}")).http == 404
    assert (await approve(draft, approval)).data["status"] == "APPROVAL_STATUS_DONE"
    assert (await put(draft, f"campaigns/{draft.campaign_id}", status="active")).http == 200
    await draft.round(approval["subject_id"], "rich")
    assert await balance(draft.stack, "rich") == 10**9


async def test_approved_game_changes_alone_unless_a_play_gives_more_or_something_else(draft: World) -> None:
    game = waiting(await make(draft, COLLECTION, coins(500, "gem")))
    assert (await approve(draft, game)).http == 200
    path = f"games/{game['subject_id']}"
    for same in ({"name": "Gems"}, {"handler_config": coins(500, "gem", 0.1)}, {"handler_config": coins(50, "gem")}):
        assert (await put(draft, path, **same)).http == 200, same
    waiting(await put(draft, path, handler_config=coins(500, "gem")))
    assert (await approve(draft, waiting(await put(draft, path, handler_config=coins(500, "gem"))))).http == 200
    for other in (coins(500), coins(501, "gem"), {"items": [*coins(500)["items"], coins(500, "gem")["items"][1]]}):
        waiting(await put(draft, path, handler_config=other))
    waiting(await put(draft, path, wallet_scope="tenant"))
    assert (await put(draft, path, handler_config=coins(900, "gem", 0))).http == 200
    waiting(await put(draft, path, handler_config=coins(900, "gem", 1e-9)))


async def test_game_of_drops_counts_all_points_and_turns_that_can_be_caught(draft: World) -> None:
    points, turns, other = [
        await draft.prize(type=kind, value=value) for kind, value in (("points", 20), ("turns", 2), ("points", 30))
    ]
    for config in (gifts((points, 1000), total=5), gifts((points, 2), (points, 3), (turns, 2))):
        await made(draft, GIFTS, config)
    for config in (gifts((points, 5), (other, 1)), gifts((turns, 3))):
        approval = waiting(await make(draft, GIFTS, config))
        assert {prize["id"] for prize in approval["after"]["prizes"]} <= {points, turns, other}
    cup = await draft.prize(total=1)
    await made(draft, GIFTS, gifts((cup, 6)), fallback_prize_id=points)
    waiting(
        await make(draft, GIFTS, gifts((cup, 6)), on_unavailable="ON_UNAVAILABLE_FALLBACK", fallback_prize_id=points)
    )


def ladder(*prizes: str, **more: Any) -> dict[str, Any]:
    rungs = [
        {"name": f"Rung {nth}", "currency": "step", "threshold": nth + 1, "prize_id": one}
        for nth, one in enumerate(prizes)
    ]
    return {"mode": "cumulative_unlock", "auto_grant": True, "rungs": rungs, **more}


async def test_rungs_that_one_play_grants_count_together(draft: World) -> None:
    """A wallet that is full already reaches all of them at once."""
    points, turns = [await draft.prize(type=kind, value=value) for kind, value in (("points", 33), ("turns", 2))]
    steps = coins(1, "step")
    await made(draft, COLLECTION, steps, milestones=ladder(points, points, points, turns))
    await made(draft, COLLECTION, steps, milestones=ladder(*[points] * 4, auto_grant=False))
    waiting(await make(draft, COLLECTION, steps, milestones=ladder(*[points] * 4)))
    waiting(await make(draft, COLLECTION, steps, milestones=ladder(turns, turns, turns)))
    wheel = {"type": "spin_wheel", "reward_handler": "probability"}
    config = {"prizes": [{"prize_id": points, "probability": 1}]}
    await made(draft, wheel, config, milestones=ladder(points, points))
    game = waiting(await make(draft, wheel, config, milestones=ladder(points, points, points, points)))
    assert (await approve(draft, game)).http == 200


async def test_game_of_a_plugin_that_tells_no_most_waits(draft: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(config: Any, worth: Any) -> float:
        raise ZeroDivisionError

    monkeypatch.setattr(lucky_item, "most", unknown)
    assert waiting(await make(draft, COLLECTION, coins(1)))["operation"] == "CreateGame"


async def test_prize_waits_where_a_play_would_give_more_of_it(draft: World) -> None:
    prize = await draft.prize(type="points", value=20)
    game = await made(draft, GIFTS, gifts((prize, 5)), status="draft", name="Catch")
    path = f"prizes/{prize}"
    for body in ({"name": "Points"}, {"value": 10}, {"value": 20}):
        assert (await put(draft, path, **body)).http == 200
    approval = waiting(await put(draft, path, value=21))
    [shown] = approval["after"]["games"]
    assert (shown["id"], shown["name"]) == (game, "Catch")
    assert (shown["most_before"]["campaign: all"], shown["most"]["campaign: all"]) == (100, 105)
    goods = await draft.prize(value=90)
    await made(draft, GIFTS, gifts((goods, 5)))
    waiting(await put(draft, f"prizes/{goods}", type="points"))
    assert (await put(draft, f"games/{game}", handler_config=gifts((prize, 4)))).http == 200
    assert refused(await approve(draft, approval)) == (409, "ABORTED", "STALE_REVISION")
    approval = waiting(await put(draft, path, value=26))
    assert (await put(draft, f"games/{game}", name="Catch them")).http == 200, "what it is called decides nothing"
    assert (await approve(draft, approval)).data["status"] == "APPROVAL_STATUS_DONE"
    assert (await draft.stack.admin("GET", f"/admin/{path}")).data["value"] == 26


async def test_copied_game_keeps_what_was_approved_and_waits_beyond_it(draft: World) -> None:
    prize = await draft.prize(type="points", value=50, campaign_id=draft.campaign_id)
    assert (await approve(draft, waiting(await make(draft, GIFTS, gifts((prize, 4)))))).http == 200
    copied = (await post(draft, f"campaigns/{draft.campaign_id}/duplicate", {})).data["id"]
    [game] = (await draft.stack.admin("GET", "/admin/games", campaign_id=copied)).data["items"]
    [own] = (await draft.stack.admin("GET", "/admin/prizes", campaign_id=copied)).data["items"]
    assert (own["value"], game["handler_config"]) == (50, gifts((own["id"], 4)))
    waiting(await put(draft, f"prizes/{own['id']}", value=51))
    waiting(await put(draft, f"games/{game['id']}", handler_config=gifts((own["id"], 5))))


async def test_game_of_approved_prizes_or_without_limits_is_made(draft: World, monkeypatch: pytest.MonkeyPatch) -> None:
    prize = waiting(await post(draft, "prizes", {"name": "Many", "type": "points", "value": 10**6}))
    assert (await approve(draft, prize)).http == 200
    config = {"prizes": [{"prize_id": prize["subject_id"], "probability": 1}]}
    await made(draft, {"type": "spin_wheel", "reward_handler": "probability"}, config)
    none = replace(draft.stack.engine.settings, dual_adjustment_above=0, dual_turns_above=0)
    monkeypatch.setattr(draft.stack.engine, "settings", none)
    await made(draft, COLLECTION, coins(10**9))
    await made(draft, GIFTS, gifts((prize["subject_id"], 1000)))
