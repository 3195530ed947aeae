"""Games over the admin edge and Core: saved whole or refused with every reason, versioned, shown redacted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.resources import make_campaign, make_game, make_prize, play_once, wheel
from tests.support.stack import fields_of


@pytest.fixture
async def campaign_id(stack: Any) -> str:
    return str((await make_campaign(stack))["id"])


async def test_created_game_reads_back_with_its_defaults(stack: Any, campaign_id: str) -> None:
    prize_id = await make_prize(stack)
    made = await make_game(stack, campaign_id, prize_id, ui={"theme": {"primary": "#123456"}})
    assert made["id"].startswith("game_")
    assert made["revision"] == 1
    assert (made["seed_generator"], made["validator"]) == ("none", "basic")
    assert made["wallet_scope"] == "WALLET_SCOPE_CAMPAIGN"
    assert made["access"] == "GAME_ACCESS_PLAYER"
    assert made["on_unavailable"] == "ON_UNAVAILABLE_LOSE"
    assert made["created_at"] > 0
    assert (await stack.admin("GET", f"/admin/games/{made['id']}")).data == made


async def test_status_may_be_the_stored_token_and_is_a_draft_where_left_out(stack: Any, campaign_id: str) -> None:
    active = await make_game(stack, campaign_id, status="active", handler_config={"prizes": []})
    assert active["status"] == "GAME_STATUS_ACTIVE"
    body = wheel(campaign_id, handler_config={"prizes": []})
    del body["status"]
    assert (await stack.admin("POST", "/admin/games", body)).data["status"] == "GAME_STATUS_DRAFT"


async def test_every_violation_is_named_at_once(stack: Any, campaign_id: str) -> None:
    good = await make_prize(stack)
    archived = await make_prize(stack)
    played = await make_game(stack, campaign_id, archived, name="Old")
    await play_once(stack, played["id"])
    await stack.admin("DELETE", f"/admin/games/{played['id']}")
    assert (await stack.admin("DELETE", f"/admin/prizes/{archived}")).data["archived"]
    body = wheel(
        "camp_unknown",
        name="",
        validator="drop_plan",
        on_unavailable="ON_UNAVAILABLE_FALLBACK",
        rules={"max_plays_per_user": -1},
        handler_config={
            "prizes": [
                {"prize_id": good, "probability": 0.5},
                {"prize_id": "prize_nowhere", "probability": 0.1},
                {"prize_id": archived, "probability": 0.1},
            ]
        },
        milestones={
            "mode": "MILESTONE_MODE_SPEND_EXCHANGE",
            "auto_grant": True,
            "rungs": [
                {"id": "one", "currency": "points", "threshold": 0, "prize_id": good},
                {"id": "one", "currency": "", "threshold": 5, "prize_id": "prize_nowhere"},
            ],
        },
    )
    refused = await stack.admin("POST", "/admin/games", body)
    assert sorted(fields_of(refused)) == sorted(
        [
            "name",
            "campaign_id",
            "validator",
            "rules.max_plays_per_user",
            "fallback_prize_id",
            "handler_config.prizes[1].prize_id",
            "handler_config.prizes[2].prize_id",
            "milestones.auto_grant",
            "milestones.rungs[0].threshold",
            "milestones.rungs[1].id",
            "milestones.rungs[1].currency",
            "milestones.rungs[1].prize_id",
        ]
    )
    assert (await stack.admin("GET", "/admin/games", campaign_id="camp_unknown")).data["items"] == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"reward_handler": "roulette"}, "reward_handler"),
        ({"handler_config": {"prizes": [{"prize_id": "x", "probability": 2}]}}, "handler_config.prizes[0].probability"),
        ({"reward_handler": "collect_items", "handler_config": {}}, "handler_config.drops"),
        ({"ui": {"image": "x" * 70_000}}, "ui"),
        ({"ui": {"wheel": {"segments": [{}, {}, {"color": "red;"}]}}}, "ui.wheel.segments[2].color"),
        ({"ui": {"background": {"image": "javascript:alert(1)"}}}, "ui.background.image"),
        ({"campaign_id": ""}, "campaign_id"),
        ({"name": "x" * 201}, "name"),
    ],
)
async def test_bad_field_is_named(stack: Any, campaign_id: str, change: dict[str, Any], field: str) -> None:
    body = wheel(campaign_id, handler_config={"prizes": []}) | change
    assert field in fields_of(await stack.admin("POST", "/admin/games", body))


async def test_collect_items_needs_a_drop_sequence(stack: Any, campaign_id: str) -> None:
    prize_id = await make_prize(stack)
    config = {
        "drops": [{"type": "gift", "prize_id": prize_id, "frequency": 1, "max_catchable": 1}],
        "total_items": 3,
        "interval_ms": 500,
    }
    body = wheel(campaign_id, reward_handler="collect_items", handler_config=config)
    assert fields_of(await stack.admin("POST", "/admin/games", body)) == ["seed_generator", "validator"]
    fitting = body | {"seed_generator": "drop_sequence", "validator": "drop_plan"}
    assert (await stack.admin("POST", "/admin/games", fitting)).data["id"]


async def test_update_keeps_what_is_left_out_and_makes_a_revision(stack: Any, campaign_id: str) -> None:
    made = await make_game(stack, campaign_id, rules={"max_plays_per_day": 3, "max_plays_per_user": 9})
    changed = (await stack.admin("PUT", f"/admin/games/{made['id']}", {"rules": {"max_plays_per_day": 1}})).data
    assert changed["revision"] == 2
    assert changed["rules"] == {
        "max_plays_per_user": 0,
        "max_plays_per_day": 1,
        "requires_turn": False,
        "admits_guests": False,
    }
    kept = {name: value for name, value in made.items() if name not in ("rules", "revision", "updated_at")}
    assert {name: changed[name] for name in kept} == kept
    assert (await stack.core("PUT", f"/games/{made['id']}", {"game": {"ui": {"egg": 1}}})).data["game"]["revision"] == 3


async def test_game_that_was_read_can_be_written_back(stack: Any, campaign_id: str) -> None:
    made = await make_game(stack, campaign_id, await make_prize(stack))
    back = (await stack.admin("PUT", f"/admin/games/{made['id']}", made)).data
    assert back | {"revision": 1, "updated_at": made["updated_at"]} == made


async def test_game_stays_in_its_campaign(stack: Any, campaign_id: str) -> None:
    made = await make_game(stack, campaign_id)
    other = await make_campaign(stack)
    refused = await stack.admin("PUT", f"/admin/games/{made['id']}", {"campaign_id": other["id"]})
    assert fields_of(refused) == ["campaign_id"]


async def test_of_twenty_updates_of_one_revision_one_wins(stack: Any, campaign_id: str) -> None:
    made = await make_game(stack, campaign_id)
    answers = await asyncio.gather(
        *(stack.admin("PUT", f"/admin/games/{made['id']}", {"name": f"Editor {n}", "revision": 1}) for n in range(20))
    )
    won = [answer.data for answer in answers if answer.code == "OK"]
    assert len(won) == 1
    assert {(answer.http, answer.reason) for answer in answers if answer.code != "OK"} == {(409, "STALE_REVISION")}
    assert (await stack.admin("GET", f"/admin/games/{made['id']}")).data == won[0]


async def test_rungs_are_named_and_keep_their_ids(stack: Any, campaign_id: str) -> None:
    prize_id = await make_prize(stack)
    rungs = [
        {"name": "Five", "currency": "leaf", "threshold": 5, "prize_id": prize_id},
        {"name": "Ten", "currency": "leaf", "threshold": 10, "prize_id": prize_id},
    ]
    block = {"mode": "MILESTONE_MODE_CUMULATIVE_UNLOCK", "auto_grant": True, "rungs": rungs}
    made = await make_game(stack, campaign_id, milestones=block)
    named = [rung["id"] for rung in made["milestones"]["rungs"]]
    assert all(named)
    assert len(set(named)) == 2
    block["rungs"] = [rungs[1] | {"name": "Renamed"}, rungs[0], rungs[0] | {"threshold": 20}]
    changed = (await stack.admin("PUT", f"/admin/games/{made['id']}", {"milestones": block})).data
    ids = [rung["id"] for rung in changed["milestones"]["rungs"]]
    assert ids[:2] == [named[1], named[0]]
    assert ids[2] not in named
    cleared = (await stack.admin("PUT", f"/admin/games/{made['id']}", {"milestones": {}})).data
    assert cleared["milestones"] is None


async def test_unplayed_game_is_removed_and_a_played_one_archived(stack: Any, campaign_id: str) -> None:
    prize_id = await make_prize(stack)
    unplayed = await make_game(stack, campaign_id, prize_id)
    played = await make_game(stack, campaign_id, prize_id)
    await play_once(stack, played["id"])
    assert (await stack.admin("DELETE", f"/admin/games/{unplayed['id']}")).data["archived"] is False
    assert (await stack.admin("GET", f"/admin/games/{unplayed['id']}")).reason == "UNKNOWN_GAME"
    assert (await stack.admin("DELETE", f"/admin/games/{played['id']}")).data["archived"] is True
    kept = (await stack.admin("GET", f"/admin/games/{played['id']}")).data
    assert kept["status"] == "GAME_STATUS_ARCHIVED"
    assert (await stack.admin("GET", "/admin/games")).data["items"] == []
    archived = (await stack.admin("GET", "/admin/games", status="GAME_STATUS_ARCHIVED")).data["items"]
    assert [item["id"] for item in archived] == [played["id"]]


async def test_list_filters_and_pages_newest_first(stack: Any, campaign_id: str) -> None:
    other = await make_campaign(stack)
    made = [await make_game(stack, campaign_id, name=f"Wheel {n} 100%_a") for n in range(5)]
    await make_game(stack, other["id"], name="Scratch", type="scratch_card", status="GAME_STATUS_PAUSED")
    newest_first = [game["id"] for game in reversed(made)]
    seen, cursor = [], ""
    while True:
        page = (
            await stack.admin(
                "GET", "/admin/games", campaign_id=campaign_id, limit=2, **({"cursor": cursor} if cursor else {})
            )
        ).data
        seen += [item["id"] for item in page["items"]]
        cursor = page["pagination"]["next_cursor"]
        if not page["pagination"]["has_more"]:
            break
    assert seen == newest_first

    async def names(**query: str) -> list[str]:
        return [item["name"] for item in (await stack.admin("GET", "/admin/games", **query)).data["items"]]

    assert await names(type="scratch_card") == ["Scratch"]
    assert await names(status="GAME_STATUS_PAUSED") == ["Scratch"]
    assert await names(q="sCRATch") == ["Scratch"]
    assert await names(q="3 100%_") == ["Wheel 3 100%_a"]
    assert await names(q="1_0") == []


async def test_render_shows_prizes_and_ui_but_never_the_configuration(stack: Any, campaign_id: str) -> None:
    limited = await make_prize(stack, stock={"total": 1})
    coded = await make_prize(stack, name="Code", fulfillment={"channel": "voucher_code"})
    config = {"prizes": [{"prize_id": limited, "probability": 1.0}, {"prize_id": coded, "probability": 0}]}
    made = await make_game(stack, campaign_id, ui={"egg": {"emoji": "x"}}, handler_config=config)
    shown = (await stack.consumer("GET", f"/games/{made['id']}/render")).data
    assert shown["ui"] == {"egg": {"emoji": "x"}}
    assert "handler_config" not in shown
    assert [(prize["prize_id"], prize["available"]) for prize in shown["prizes"]] == [(limited, True), (coded, False)]
    await play_once(stack, made["id"])
    again = (await stack.core("GET", f"/games/{made['id']}/render")).data["render"]
    assert again["prizes"][0]["available"] is False


async def test_game_of_another_tenant_is_unknown_to_every_call(stack: Any, campaign_id: str) -> None:
    made = await make_game(stack, campaign_id)
    path = f"/games/{made['id']}"
    for verb, suffix, body in (
        ("GET", "", None),
        ("PUT", "", {"game": {"name": "x"}}),
        ("DELETE", "", None),
        ("GET", "/render", None),
    ):
        mine = await stack.core(verb, f"/games/game_none{suffix}", body)
        foreign = await other(stack).core(verb, path + suffix, body)
        assert (foreign.http, foreign.reason) == (mine.http, mine.reason) == (404, "UNKNOWN_GAME")
    assert (await other(stack).core("GET", "/games")).data["items"] == []


def other(stack: Any) -> Any:
    """The same process, asked for another tenant."""
    return type(stack)(stack.process, stack.http, "tenant_other")
