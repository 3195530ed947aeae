import time
from datetime import UTC, datetime
from typing import Any

import pytest

from runtime.operations.quests.periods import period_at
from tests.support.guests import log_in
from tests.support.quests import open_campaign, open_quest
from tests.support.stack import Answer, Stack, fields_of
from tests.support.world import World


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("type", "timezone", "now", "name", "begins", "resets_at"),
    [
        ("one_time", "UTC", "2026-11-21T12:00", "once", None, None),
        ("daily", "UTC", "2026-11-21T23:59:59", "2026-11-21", "2026-11-21T00:00", "2026-11-22T00:00"),
        ("daily", "Asia/Tokyo", "2026-11-21T15:00", "2026-11-22", "2026-11-21T15:00", "2026-11-22T15:00"),
        ("weekly", "UTC", "2026-11-21T12:00", "2026-W47", "2026-11-16T00:00", "2026-11-23T00:00"),
        ("weekly", "UTC", "2027-01-01T12:00", "2026-W53", "2026-12-28T00:00", "2027-01-04T00:00"),
        # The week in which New York's clocks go back has an hour more.
        ("weekly", "America/New_York", "2026-10-28T12:00", "2026-W44", "2026-10-26T04:00", "2026-11-02T05:00"),
    ],
)
def test_period_is_local(
    type: str, timezone: str, now: str, name: str, begins: str | None, resets_at: str | None
) -> None:
    assert period_at(type, timezone, at(now)) == (name, *[int(at(end)) if end else 0 for end in (begins, resets_at)])


async def test_quest_is_made_changed_and_removed(stack: Stack) -> None:
    campaign_id = await open_campaign(stack)
    body = {"campaign_id": campaign_id, "name": "Follow us", "turns": 2}
    made = (await stack.admin("POST", "/admin/quests", body)).data
    assert (made["status"], made["type"]) == ("QUEST_STATUS_DRAFT", "QUEST_TYPE_ONE_TIME")
    path = f"/admin/quests/{made['id']}"
    changed = (await stack.admin("PUT", path, {"status": "active", "type": "QUEST_TYPE_DAILY"})).data
    assert (changed["name"], changed["turns"], changed["status"]) == ("Follow us", 2, "QUEST_STATUS_ACTIVE")
    assert (await stack.admin("GET", path)).data == changed
    listed = (await stack.admin("GET", "/admin/quests", campaign=campaign_id, type="daily", q="follow")).data
    assert listed["items"] == [changed]
    assert (await stack.admin("DELETE", path)).data["archived"] is False
    assert (await stack.admin("GET", path)).reason == "UNKNOWN_QUEST"


async def test_quest_with_wrong_fields_is_refused(stack: Stack) -> None:
    answer = await stack.admin("POST", "/admin/quests", {"turns": -1, "start_date": 20, "end_date": 10})
    assert {it["field"] for it in answer.envelope["data"]["violations"]} >= {"name", "campaign_id", "turns", "end_date"}
    unknown = await stack.admin("POST", "/admin/quests", {"name": "Q", "campaign_id": "camp_none"})
    assert (unknown.http, unknown.reason) == (404, "UNKNOWN_CAMPAIGN")


async def test_completed_quests_are_listed_with_when_they_are_open_again(stack: Stack) -> None:
    tokyo, other = await open_campaign(stack, timezone="Asia/Tokyo"), await open_campaign(stack)
    once, daily, weekly = [await open_quest(stack, tokyo, type=type) for type in ("one_time", "daily", "weekly")]
    elsewhere = await open_quest(stack, other)
    await open_quest(stack, other, type="daily")
    for quest_id in (once, daily, weekly, elsewhere):
        await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player="player_1")
    await stack.consumer("POST", f"/quests/{once}/complete", {}, player="player_2")

    async def done(player: str = "player_1", **query: str) -> dict[str, dict[str, int]]:
        """{campaign: {quest that is done: when it may be done again}}"""
        items = (await stack.consumer("GET", "/players/me/turns", player=player, **query)).data["items"]
        assert all(one["completed_at"] > 0 for item in items for one in item["completed_quests"])
        return {
            item["campaign_id"]: {one["quest_id"]: one["available_at"] for one in item["completed_quests"]}
            for item in items
        }

    async def refused(quest_id: str) -> int:
        answer = await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player="player_1")
        return int(answer.envelope["data"]["resets_at"])

    expected = {once: 0, daily: await refused(daily), weekly: await refused(weekly)}
    assert expected[daily] > 0 and expected[weekly] > 0
    assert await done() == {tokyo: expected, other: {elsewhere: 0}}
    assert await done(campaign_id=tokyo) == {tokyo: expected}
    assert await done("player_2") == {tokyo: {once: 0}} and await done("player_3") == {}
    await stack.database.execute("UPDATE quest_completions SET period = '2000-01-01' WHERE quest_id = $1", daily)
    await stack.database.execute("UPDATE quest_completions SET period = '2000-W01' WHERE quest_id = $1", weekly)
    await stack.database.execute("UPDATE quests SET status = 'archived' WHERE quest_id = $1", elsewhere)
    assert await done() == {tokyo: {once: 0}, other: {}}


async def test_closed_quest_grants_nothing(stack: Stack) -> None:
    answers = {}
    for closing in (
        *("quests SET start_date = now() + interval '1 hour'", "quests SET end_date = now() - interval '1 second'"),
        *("campaigns SET status = 'paused'", "campaigns SET end_date = now() - interval '1 second'"),
    ):
        quest_id = await open_quest(stack, await open_campaign(stack))
        await stack.database.execute(f"UPDATE {closing}")
        answers[closing] = await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player="player_1")
    assert {closing: (one.http, one.reason) for closing, one in answers.items()} == dict.fromkeys(
        answers, (400, "QUEST_CLOSED")
    )
    assert await stack.database.fetchval("SELECT count(*) FROM turn_balances") == 0


async def quest_of(world: World, kind: str = "plays", count: int = 2, game_id: str = "", **fields: Any) -> str:
    return await world.quest(condition={"kind": kind, "count": count, "game_id": game_id}, **fields)


async def complete(world: World, quest_id: str, player: str = "ann", **headers: str) -> Answer:
    return await world.stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player=player, headers=headers)


def missing(answer: Answer) -> tuple[int, int]:
    """(have, need) of a refusal."""
    assert (answer.http, answer.reason) == (400, "CONDITION_NOT_MET"), answer.envelope
    return int(answer.envelope["data"]["have"]), int(answer.envelope["data"]["need"])


async def progress(world: World, player: str = "ann") -> list[tuple[Any, ...]]:
    """(quest, have, need, completed) of the campaign's, as the player sees them."""
    body = {"campaign_id": world.campaign_id}
    items = (await world.stack.consumer("GET", "/players/me/quests", player=player, **body)).data["items"]
    return [(one["quest_id"], int(one["have"]), int(one["need"]), one["completed"]) for one in items]


async def turns(world: World, player: str = "ann") -> int:
    body = {"campaign_id": world.campaign_id}
    items = (await world.stack.consumer("GET", "/players/me/turns", player=player, **body)).data["items"]
    return sum(int(one["balance"]) for one in items)


async def test_quest_of_plays_is_completed_by_enough_plays(world: World) -> None:
    game, other = await world.wheel(), await world.wheel()
    quest, narrow = await quest_of(world), await quest_of(world, count=1, game_id=other)
    assert missing(await complete(world, quest)) == (0, 2)
    await world.round(game)
    assert missing(await complete(world, quest)) == (1, 2)
    assert await progress(world) == [(narrow, 0, 1, False), (quest, 1, 2, False)]
    await world.round(game, "bob")
    assert missing(await complete(world, quest)) == (1, 2), "another's plays are another's"
    await world.round(game)
    assert missing(await complete(world, narrow)) == (0, 1), "it takes plays of one game"
    assert (await complete(world, quest)).data["turns_granted"] == 3
    assert (await complete(world, quest)).reason == "ALREADY_COMPLETED"
    await world.round(other)
    assert (await complete(world, narrow)).data["balance"] == 6
    assert await progress(world) == [(narrow, 1, 1, True), (quest, 2, 2, True)]
    assert await turns(world) == 6


async def test_condition_is_changed_and_removed(world: World) -> None:
    quest = await quest_of(world, count=5)
    shown = (await world.stack.admin("GET", f"/admin/quests/{quest}")).data["condition"]
    assert shown == {"kind": "QUEST_CONDITION_KIND_PLAYS", "count": 5, "game_id": ""}
    await world.stack.admin("PUT", f"/admin/quests/{quest}", {"name": "Renamed"})
    assert missing(await complete(world, quest)) == (0, 5)
    changed = await world.stack.admin("PUT", f"/admin/quests/{quest}", {"condition": {"kind": "wins", "count": 1}})
    assert changed.data["condition"]["kind"] == "QUEST_CONDITION_KIND_WINS"
    assert missing(await complete(world, quest)) == (0, 1)
    assert (await world.stack.admin("PUT", f"/admin/quests/{quest}", {"condition": {}})).data["condition"] is None
    assert await progress(world) == [(quest, 0, 0, False)]
    assert (await complete(world, quest)).data["turns_granted"] == 3


async def test_completed_quest_stays_in_its_campaign(world: World) -> None:
    other = await open_campaign(world.stack)
    moved = await open_quest(world.stack, other)
    path, elsewhere = f"/admin/quests/{moved}", {"campaign_id": world.campaign_id}
    assert (await world.stack.admin("PUT", path, elsewhere)).code == "OK"
    assert (await complete(world, moved)).data["turns_granted"] == 3
    refused = await world.stack.admin("PUT", path, {"campaign_id": other})
    assert (refused.reason, refused.envelope["data"]["field"]) == ("HAS_HISTORY", "campaign_id")
    assert (await world.stack.admin("PUT", path, {**elsewhere, "turns": 4})).data["turns"] == 4


async def test_condition_with_a_wrong_field_is_refused(world: World) -> None:
    stranger = (await world.stack.admin("POST", "/admin/campaigns", {"name": "Other"})).data["id"]
    game = await world.wheel()
    body = {"campaign_id": world.campaign_id, "name": "Q"}
    wrong: list[tuple[dict[str, Any], str]] = [
        *(({"condition": {"kind": "plays"}}, "count"), ({"condition": {"kind": "plays", "count": 0}}, "count")),
        ({"condition": {"count": 2}}, "kind"),
        ({"condition": {"kind": "plays", "count": 1, "game_id": "game_none"}}, "game_id"),
        ({"type": "daily", "condition": {"kind": "logins", "count": 1}}, "kind"),
        ({"type": "weekly", "condition": {"kind": "logins", "count": 8}}, "count"),
        ({"condition": {"kind": "logins", "count": 2, "game_id": game}}, "game_id"),
        ({"condition": {"kind": "event", "count": 1, "game_id": game}}, "game_id"),
    ]
    for fields, name in wrong:
        [field] = fields_of(await world.stack.admin("POST", "/admin/quests", {**body, **fields}))
        assert field.removeprefix("condition.") == name, fields
    of_game = {**body, "condition": {"kind": "plays", "count": 1, "game_id": game}}
    answer = await world.stack.admin("POST", "/admin/quests", {**of_game, "campaign_id": stranger})
    assert fields_of(answer) == ["condition.game_id"], "a game of another campaign"
    made = (await world.stack.admin("POST", "/admin/quests", of_game)).data["id"]
    answer = await world.stack.admin("PUT", f"/admin/quests/{made}", {"campaign_id": stranger})
    assert fields_of(answer) == ["condition.game_id"]
    answer = await world.stack.admin("POST", "/admin/quests", {**of_game, "campaign_id": "camp_none"})
    assert answer.reason == "UNKNOWN_CAMPAIGN"


async def sign_in(world: World, player: str, login: str) -> None:
    assert (await world.stack.core("POST", "/logins", {"player_id": player, "login_id": login})).http == 200


async def days_ago(world: World, player: str, days: int) -> None:
    statement = (
        "INSERT INTO login_quarters SELECT tenant_id, player_id, quarter - make_interval(days => $3)"
        " FROM login_quarters WHERE tenant_id = $1 AND player_id = $2 ORDER BY quarter DESC LIMIT 1"
    )
    await world.database.execute(statement, world.stack.tenant_id, player, days)


async def test_quest_of_logins_counts_days(world: World) -> None:
    player = await log_in(world.stack, contact="days@example.com")
    quest = await quest_of(world, "logins", 3)
    assert missing(await complete(world, quest, player)) == (0, 3), "being known is no login"
    for nth in range(3):
        await sign_in(world, player, f"login_days_{nth:021}")
    assert missing(await complete(world, quest, player)) == (1, 3)
    for days in (1, 2):
        await days_ago(world, player, days)
    assert await progress(world, player) == [(quest, 3, 3, False)]
    newest = "DELETE FROM login_quarters WHERE player_id = $1 AND quarter > now() - interval '1 h'"
    await world.database.execute(newest, player)
    turn = {"login_id": f"login_days_{2:021}", "generation": 0, "requester": "here"}
    assert (await world.stack.core("POST", "/logins/turn", turn)).http == 200, "a refreshed login counts too"
    assert (await complete(world, quest, player)).data["turns_granted"] == 3


async def test_login_before_the_period_or_a_start_date_does_not_count(world: World) -> None:
    player = await log_in(world.stack, contact="weeks@example.com")
    quest = await quest_of(world, "logins", 1, type="weekly")
    later = await quest_of(world, "logins", 2, start_date=int(time.time()) - 1)
    await sign_in(world, player, "login_weeks_000000000000000000")
    await days_ago(world, player, 7)
    assert (await complete(world, quest, player)).data["turns_granted"] == 3
    assert missing(await complete(world, later, player)) == (1, 2)
    assert missing(await complete(world, await quest_of(world, "logins", 2, type="weekly"), player)) == (1, 2)
    since, quest = {"start_date": int(time.time()) - 86_400}, await quest_of(world, "logins", 2)
    assert (await world.stack.admin("PUT", f"/admin/campaigns/{world.campaign_id}", since)).code == "OK"
    assert missing(await complete(world, quest, player)) == (1, 2)
    assert (quest, 1, 2, False) in await progress(world, player)
