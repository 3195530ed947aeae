"""Quests: management, the periods, and turns granted once whoever comes together."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from runtime.operations.quests.periods import period_at
from tests.support.invariants import check_sums
from tests.support.quests import open_campaign, open_quest
from tests.support.stack import Stack


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
    ends = [int(at(end)) if end else 0 for end in (begins, resets_at)]
    assert period_at(type, timezone, at(now)) == (name, *ends)


async def test_quest_is_made_changed_listed_and_removed(stack: Stack) -> None:
    campaign_id = await open_campaign(stack)
    made = (
        await stack.admin("POST", "/admin/quests", {"campaign_id": campaign_id, "name": "Follow us", "turns": 2})
    ).data
    assert made["id"].startswith("quest_")
    assert made["status"] == "QUEST_STATUS_DRAFT"
    assert made["type"] == "QUEST_TYPE_ONE_TIME"
    changed = (
        await stack.admin("PUT", f"/admin/quests/{made['id']}", {"status": "active", "type": "QUEST_TYPE_DAILY"})
    ).data
    assert (changed["name"], changed["turns"], changed["status"]) == ("Follow us", 2, "QUEST_STATUS_ACTIVE")
    assert (await stack.admin("GET", f"/admin/quests/{made['id']}")).data == changed
    listed = (await stack.admin("GET", "/admin/quests", campaign=campaign_id, type="daily", q="follow")).data
    assert listed["items"] == [changed]
    assert (await stack.admin("GET", "/admin/quests", status="draft")).data["items"] == []
    gone = (await stack.admin("DELETE", f"/admin/quests/{made['id']}")).data
    assert gone["archived"] is False
    assert (await stack.admin("GET", f"/admin/quests/{made['id']}")).reason == "UNKNOWN_QUEST"
    actions = await stack.database.fetch(
        "SELECT action, actor FROM audit_entries WHERE subject_type = 'quest' ORDER BY entry_id"
    )
    assert [row["action"] for row in actions] == ["quest.create", "quest.update", "quest.delete"]
    assert {row["actor"] for row in actions} == {"staff_test"}


async def test_completed_quest_is_archived_instead_of_deleted(stack: Stack) -> None:
    quest_id = await open_quest(stack, await open_campaign(stack))
    assert (await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player="player_1")).code == "OK"
    assert (await stack.admin("DELETE", f"/admin/quests/{quest_id}")).data["archived"] is True
    assert (await stack.admin("GET", f"/admin/quests/{quest_id}")).data["status"] == "QUEST_STATUS_ARCHIVED"
    assert (await stack.admin("GET", "/admin/quests")).data["items"] == []
    assert (
        await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player="player_2")
    ).reason == "UNKNOWN_QUEST"


async def test_quest_with_wrong_fields_is_refused(stack: Stack) -> None:
    answer = await stack.admin("POST", "/admin/quests", {"turns": -1, "start_date": 20, "end_date": 10})
    assert {row["field"] for row in answer.envelope["data"]["violations"]} >= {
        "name",
        "campaign_id",
        "turns",
        "end_date",
    }
    unknown = await stack.admin("POST", "/admin/quests", {"name": "Q", "campaign_id": "camp_none"})
    assert (unknown.http, unknown.reason) == (404, "UNKNOWN_CAMPAIGN")


async def test_daily_quest_tells_when_it_is_open_again(stack: Stack) -> None:
    quest_id = await open_quest(stack, await open_campaign(stack, timezone="Asia/Tokyo"), type="daily")
    assert (await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player="player_1")).code == "OK"
    again = await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player="player_1")
    resets_at = again.envelope["data"]["resets_at"]
    assert datetime.fromtimestamp(resets_at, UTC).strftime("%H:%M") == "15:00"
    # Yesterday's completion leaves today's open.
    await stack.database.execute("UPDATE quest_completions SET period = '2000-01-01'")
    assert (await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player="player_1")).data["balance"] == 6


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
    # Those of yesterday and of last week are open again, and archived ones are shown to nobody.
    await stack.database.execute("UPDATE quest_completions SET period = '2000-01-01' WHERE quest_id = $1", daily)
    await stack.database.execute("UPDATE quest_completions SET period = '2000-W01' WHERE quest_id = $1", weekly)
    await stack.database.execute("UPDATE quests SET status = 'archived' WHERE quest_id = $1", elsewhere)
    assert await done() == {tokyo: {once: 0}, other: {}}


async def test_key_answers_the_same_without_the_ephemeral_store(stack: Stack, valkey: object) -> None:
    quest_id = await open_quest(stack, await open_campaign(stack))
    headers = {"Idempotency-Key": "k1"}
    path = f"/quests/{quest_id}/complete"
    answers = await asyncio.gather(
        *(stack.core("POST", path, {"player_id": "player_1", "idempotency_key": "k1"}) for _ in range(20))
    )
    assert [answer.data for answer in answers] == [answers[0].data] * 20
    await valkey.flushall()  # type: ignore[attr-defined]
    replayed = await stack.consumer("POST", path, {}, player="player_1", headers=headers)
    assert replayed.data == {"quest_id": quest_id, "turns_granted": 3, "balance": 3}
    # The key is of its route: another quest is another request.
    other_id = await open_quest(stack, await open_campaign(stack))
    other = await stack.consumer("POST", f"/quests/{other_id}/complete", {}, player="player_1", headers=headers)
    assert other.data["quest_id"] == other_id
    await check_sums(stack.database)


async def test_closed_quest_grants_nothing(stack: Stack) -> None:
    answers = {}
    for closing in (
        "quests SET start_date = now() + interval '1 hour'",
        "quests SET end_date = now() - interval '1 second'",
        "campaigns SET status = 'paused'",
        "campaigns SET end_date = now() - interval '1 second'",
    ):
        quest_id = await open_quest(stack, await open_campaign(stack))
        await stack.database.execute(f"UPDATE {closing}")
        answers[closing] = await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player="player_1")
    assert {closing: (one.http, one.reason) for closing, one in answers.items()} == dict.fromkeys(
        answers, (400, "QUEST_CLOSED")
    )
    assert await stack.database.fetchval("SELECT count(*) FROM turn_balances") == 0
