"""Campaigns: kept, shown to the public, copied whole, and counted."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from runtime.background import FAILURES
from runtime.operations.campaigns import analytics
from runtime.operations.samples import LATER
from runtime.outgoing.vault import prize_context, vault_of
from tests.support.leaderboards import make_board
from tests.support.resources import make_campaign, make_game, make_prize, play_once
from tests.support.stack import fields_of
from tests.support.stored import config_of_prize
from tests.support.waiting import HANG_SECONDS, until


async def test_campaign_reads_back_with_its_defaults(stack: Any) -> None:
    made = (await stack.admin("POST", "/admin/campaigns", {"name": "Autumn"})).data
    assert made["id"].startswith("camp_")
    assert (made["status"], made["timezone"], made["settings"]) == ("CAMPAIGN_STATUS_DRAFT", "UTC", {})
    assert (made["start_date"], made["end_date"]) == (0, 0)
    assert (await stack.admin("GET", f"/admin/campaigns/{made['id']}")).data == made
    assert isinstance((await stack.core("GET", f"/campaigns/{made['id']}")).data["campaign"]["created_at"], str)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"timezone": "../etc/passwd"}, "timezone"),
        ({"start_date": 2_000, "end_date": 1_000}, "end_date"),
        ({"start_date": -1}, "start_date"),
        ({"end_date": 10**15}, "end_date"),
        ({"merchant_id": "merchant_unknown"}, "merchant_id"),
        ({"settings": {"x": "y" * 70_000}}, "settings"),
    ],
)
async def test_campaign_with_a_wrong_field_names_it(stack: Any, change: dict[str, Any], field: str) -> None:
    assert fields_of(await stack.admin("POST", "/admin/campaigns", {"name": "Autumn"} | change)) == [field]
    made = await make_campaign(stack)
    assert fields_of(await stack.admin("PUT", f"/admin/campaigns/{made['id']}", change)) == [field]


async def test_any_settings_are_stored_as_they_are_and_warn_of_what_is_not_used(stack: Any) -> None:
    for settings, fields in (
        ({"theme": {"primary": "url(//evil.test)"}}, ["settings.theme.primary"]),
        ({"theme": "later", "background": {"color": 3}, "x": 1}, ["settings.background.color"]),
    ):
        made = await make_campaign(stack, settings=settings)
        assert made["settings"] == settings and [one["field"] for one in made["warnings"]] == fields
        changed = (await stack.admin("PUT", f"/admin/campaigns/{made['id']}", {"name": "Other"})).data
        assert (changed["settings"], changed["warnings"]) == (settings, made["warnings"])


async def test_campaign_update_keeps_omitted_fields_and_can_unset_a_date(stack: Any) -> None:
    merchant = (await stack.admin("POST", "/admin/merchants", {"name": "Shop"})).data
    made = await make_campaign(
        stack, merchant_id=merchant["id"], start_date=1000, end_date=LATER, settings={"a": {"b": 1}}
    )
    assert made["merchant_id"] == merchant["id"]
    changed = (await stack.admin("PUT", f"/admin/campaigns/{made['id']}", {"end_date": 0, "settings": {"c": 2}})).data
    assert changed == made | {
        "end_date": 0,
        "settings": {"c": 2},
        "revision": 2,
        "updated_at": changed["updated_at"],
    }
    assert (await stack.admin("PUT", "/admin/campaigns/camp_none", {"name": "x"})).reason == "UNKNOWN_CAMPAIGN"


async def test_campaign_update_without_a_revision_always_applies(stack: Any) -> None:
    made = await make_campaign(stack, status="active")
    path = f"/admin/campaigns/{made['id']}"
    for nth in (2, 3):
        assert (await stack.admin("PUT", path, {"name": f"At {nth}"})).data["revision"] == nth
    assert "revision" not in (await stack.consumer("GET", f"/public/campaigns/{made['id']}")).data
    copy = (await stack.admin("POST", f"/admin/campaigns/{made['id']}/duplicate", {})).data
    assert copy["revision"] == 1


async def test_public_campaign_has_active_games_quests_and_boards_without_odds(stack: Any) -> None:
    campaign = await make_campaign(stack, settings={"theme": "leaf"})
    prize_id = await make_prize(stack)
    shown = await make_game(stack, campaign["id"], prize_id, ui={"big": "x"})
    draft = await make_game(stack, campaign["id"], prize_id, status="draft")
    quest = {"campaign_id": campaign["id"], "name": "Visit", "type": "daily", "turns": 1, "status": "active"}
    made = (await stack.admin("POST", "/admin/quests", quest)).data
    view = (await stack.consumer("GET", f"/public/campaigns/{campaign['id']}")).data
    assert view["id"] == campaign["id"]
    assert view["settings"] == {"theme": "leaf"}
    assert [game["id"] for game in view["games"]] == [shown["id"]]
    of_staff = ("secret", "secret_set")
    assert view["quests"] == [{name: value for name, value in made.items() if name not in of_staff}]
    boards = [await make_board(stack, campaign["id"], game_id=game_id) for game_id in ("", shown["id"])]
    gone = await make_board(stack, campaign["id"])
    await make_board(stack, campaign["id"], game_id=draft["id"])
    await stack.admin("DELETE", f"/admin/leaderboards/{gone['id']}")
    view = (await stack.consumer("GET", f"/public/campaigns/{campaign['id']}")).data
    assert view["leaderboards"] == boards[::-1]
    render = (await stack.consumer("GET", f"/games/{shown['id']}/render")).data
    assert render.pop("ui") and view["games"] == [render] and "handler_config" not in render
    await stack.admin("PUT", f"/admin/campaigns/{campaign['id']}", {"status": "draft"})
    assert (await stack.core("GET", f"/public/campaigns/{campaign['id']}")).reason == "UNKNOWN_CAMPAIGN"


async def test_duplicate_is_a_draft_whose_games_name_prizes_of_its_own(stack: Any) -> None:
    campaign = await make_campaign(stack, settings={"theme": "leaf"})
    own = await make_prize(stack, campaign_id=campaign["id"], stock={"total": 5})
    config = {"url": "https://hooks.example/x", "secret": "marker-of-a-secret", "headers": {"X-Key": "carried"}}
    free = await make_prize(stack, name="Hook", fulfillment={"channel": "webhook", "config": config})
    shared = await make_prize(stack, name="Shared", campaign_id=(await make_campaign(stack))["id"])
    game = await make_game(
        stack,
        campaign["id"],
        own,
        shared,
        on_unavailable="fallback",
        fallback_prize_id=free,
        ui={"wheel": {"segments": [{"prize_id": own}, {"emoji": "x"}]}},
        milestones={"rungs": [{"id": "five", "currency": "leaf", "threshold": 5, "prize_id": free}]},
    )
    await make_game(stack, campaign["id"], status="archived")
    await play_once(stack, game["id"])
    quest = {"campaign_id": campaign["id"], "name": "Visit", "type": "daily", "turns": 1, "status": "active"}
    await stack.admin("POST", "/admin/quests", quest)
    await stack.database.execute(
        "INSERT INTO leaderboards (tenant_id, board_id, campaign_id, game_id, name, metric, mode, status, prizes)"
        " VALUES ($1, 'board_a', $2, $3, 'Best', 'score', 'best', 'finalized', $4)",
        stack.tenant_id,
        campaign["id"],
        game["id"],
        [{"from_rank": 1, "to_rank": 1, "prize_id": own}],
    )

    copy = (await stack.admin("POST", f"/admin/campaigns/{campaign['id']}/duplicate", {})).data
    assert (copy["name"], copy["status"]) == ("Autumn (copy)", "CAMPAIGN_STATUS_DRAFT")
    assert copy["settings"] == {"theme": "leaf"}
    prizes = (await stack.admin("GET", "/admin/prizes", campaign_id=copy["id"])).data["items"]
    new_own = next(prize for prize in prizes if prize["name"] == "Mug")
    new_free = next(prize for prize in prizes if prize["name"] == "Hook")
    assert len(prizes) == 2
    assert new_own["stock"] == {"total": 5, "remaining": 5, "awarded": 0}
    assert new_free["fulfillment"]["config"]["secret_set"] is True
    [copied] = (await stack.admin("GET", "/admin/games", campaign_id=copy["id"])).data["items"]
    assert copied["id"] != game["id"]
    assert copied["revision"] == 1
    assert [prize["prize_id"] for prize in copied["handler_config"]["prizes"]] == [new_own["prize_id"], shared]
    assert copied["ui"]["wheel"]["segments"] == [{"prize_id": new_own["prize_id"]}, {"emoji": "x"}]
    assert copied["fallback_prize_id"] == new_free["prize_id"]
    assert copied["milestones"]["rungs"][0]["prize_id"] == new_free["prize_id"]
    [quest_copy] = (await stack.admin("GET", "/admin/quests", campaign_id=copy["id"])).data["items"]
    assert quest_copy["name"] == "Visit"
    board = await stack.database.fetchrow(
        "SELECT game_id, status, prizes FROM leaderboards WHERE campaign_id = $1", copy["id"]
    )
    assert (board["game_id"], board["status"]) == (copied["id"], "active")
    assert board["prizes"][0]["prize_id"] == new_own["prize_id"]
    config = await config_of_prize(stack, new_free["prize_id"])
    secrets = vault_of(stack.engine.settings.code_keys).secrets_of(
        config, prize_context(stack.tenant_id, new_free["prize_id"])
    )
    assert (secrets, config["headers"]) == (["marker-of-a-secret"], {"X-Key": "carried"})

    named = (await stack.admin("POST", f"/admin/campaigns/{campaign['id']}/duplicate", {"name": "Winter"})).data
    assert named["name"] == "Winter"
    await stack.admin("PUT", f"/admin/campaigns/{copy['id']}", {"status": "active"})
    assert (await play_once(stack, copied["id"], "player_b"))["rewards"]


async def test_duplicate_names_the_prize_whose_secret_cannot_be_opened(stack: Any) -> None:
    campaign = await make_campaign(stack)
    config = {"url": "https://hooks.example/x", "headers": {"X-Key": "carried"}}
    prize = await make_prize(stack, campaign_id=campaign["id"], fulfillment={"channel": "webhook", "config": config})
    gone = "UPDATE prizes SET channel_config = jsonb_set(channel_config, '{headers,X-Key}', '\"sealed:9:AAAA\"')"
    await stack.database.execute(gone)
    refused = await stack.admin("POST", f"/admin/campaigns/{campaign['id']}/duplicate", {})
    assert (refused.code, refused.reason) == ("FAILED_PRECONDITION", "SECRET_UNAVAILABLE")
    assert f"prize {prize}" in refused.envelope["message"] and "'9'" in refused.envelope["message"]


async def numbers(stack: Any, campaign_id: str) -> dict[str, Any]:
    return dict((await stack.admin("GET", f"/admin/campaigns/{campaign_id}/analytics")).data)


async def test_analytics_of_a_campaign_without_plays_are_zeros(stack: Any) -> None:
    campaign = await make_campaign(stack)
    found = await numbers(stack, campaign["id"])
    assert found == {"plays": 0, "players": 0, "wins": 0, "rewards_by_status": {}, "prizes": [], "by_day": []}
    assert (await stack.admin("GET", "/admin/campaigns/camp_none/analytics")).reason == "UNKNOWN_CAMPAIGN"


async def all_counted(stack: Any, campaign_id: str, plays: int) -> None:
    """Waits until every play is behind the mark: counting stays a second behind the present."""
    engine = stack.engine
    async with asyncio.timeout(HANG_SECONDS):
        while await engine.database.fetchval("SELECT sum(plays)::bigint FROM campaign_days") != plays:
            await analytics.count(engine, stack.tenant_id, campaign_id)
            await asyncio.sleep(0.05)


async def test_analytics_are_counted_anew_in_another_time_zone(stack: Any) -> None:
    campaign = await make_campaign(stack, timezone="Pacific/Kiritimati")
    game = await make_game(stack, campaign["id"])
    await play_once(stack, game["id"])
    await all_counted(stack, campaign["id"], 1)
    for zone in ("Pacific/Kiritimati", "Pacific/Niue"):
        await stack.admin("PUT", f"/admin/campaigns/{campaign['id']}", {"timezone": zone})
        today = datetime.now(UTC).astimezone(ZoneInfo(zone)).date().isoformat()
        found = await numbers(stack, campaign["id"])
        assert found["by_day"] == [{"day": today, "plays": 1, "players": 1, "wins": 0}]
        assert found["players"] == 1


async def test_campaign_that_cannot_be_counted_does_not_block_the_others(stack: Any) -> None:
    campaigns = [await make_campaign(stack) for _ in range(3)]
    for campaign in campaigns:
        await play_once(stack, (await make_game(stack, campaign["id"]))["id"])
    broken, *sound = sorted(campaign["id"] for campaign in campaigns)
    await stack.database.execute("UPDATE campaigns SET timezone = 'Mars/Olympus' WHERE campaign_id = $1", broken)
    failures = FAILURES.labels(analytics.JOB)
    before = float(failures._value.get())

    async def counted() -> bool:
        await analytics.count_all(stack.engine)
        rows = await stack.database.fetch("SELECT campaign_id FROM campaign_days ORDER BY campaign_id")
        return [row["campaign_id"] for row in rows] == sound

    await until(counted)
    assert failures._value.get() > before
