"""A campaign's life: what the public sees of it, how it ends, and how it begins anew as a copy."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from runtime import background
from runtime.operations.leaderboards import ending
from runtime.outgoing.vault import integration_context, vault_of
from tests.support.leaderboards import make_board
from tests.support.resources import make_campaign, make_game, make_prize, play_once
from tests.support.stack import Stack, fields_of, refused

DAY = 86_400


async def end(stack: Stack, table: str, identifier: str, seconds_ago: float = 1) -> None:
    column = {"campaigns": "campaign_id", "leaderboards": "board_id"}[table]
    await stack.database.execute(
        f"UPDATE {table} SET end_date = now() - make_interval(secs => $2) WHERE {column} = $1", identifier, seconds_ago
    )


async def get(stack: Stack, path: str) -> Any:
    return (await stack.admin("GET", f"/admin{path}")).data


async def test_campaign_past_its_end_reads_as_ended_everywhere(stack: Stack) -> None:
    campaign = await make_campaign(stack, end_date=int(time.time()) + DAY)
    await end(stack, "campaigns", campaign["id"])
    path = f"/campaigns/{campaign['id']}"
    assert (await get(stack, path))["status"] == "CAMPAIGN_STATUS_ENDED"
    assert (await stack.consumer("GET", f"/public{path}")).data["status"] == "CAMPAIGN_STATUS_ENDED"
    for status, found in (("ENDED", [campaign["id"]]), ("ACTIVE", [])):
        listed = await stack.admin("GET", "/admin/campaigns", status=f"CAMPAIGN_STATUS_{status}")
        assert [item["id"] for item in listed.data["items"]] == found


@pytest.mark.parametrize("by", ["status", "end_date"])
async def test_ended_campaign_cannot_be_reopened_but_renamed(stack: Stack, by: str) -> None:
    campaign = await make_campaign(stack, end_date=int(time.time()) + DAY)
    path = f"/admin/campaigns/{campaign['id']}"
    if by == "status":
        assert (await stack.admin("PUT", path, {"status": "CAMPAIGN_STATUS_ENDED"})).data
    else:
        await end(stack, "campaigns", campaign["id"])
    for status in ("DRAFT", "ACTIVE", "PAUSED"):
        answer = await stack.admin("PUT", path, {"status": f"CAMPAIGN_STATUS_{status}"})
        assert refused(answer) == (400, "FAILED_PRECONDITION", "ILLEGAL_TRANSITION"), status
    later = await stack.admin("PUT", path, {"end_date": int(time.time()) + 9 * DAY})
    assert refused(later) == (400, "FAILED_PRECONDITION", "ILLEGAL_TRANSITION")
    renamed = await stack.admin("PUT", path, {**(await get(stack, path.removeprefix("/admin"))), "name": "Over"})
    assert (renamed.data["name"], renamed.data["status"]) == ("Over", "CAMPAIGN_STATUS_ENDED")


async def boards_with_a_winner(stack: Stack, count: int) -> list[str]:
    campaign, prize_id = await make_campaign(stack), await make_prize(stack)
    game = await make_game(stack, campaign["id"], prize_id)
    ranks = [{"from_rank": 1, "to_rank": 1, "prize_id": prize_id}]
    boards = [(await make_board(stack, campaign["id"], metric="plays", prizes=ranks))["id"] for _ in range(count)]
    await play_once(stack, game["id"])
    return boards


async def test_board_past_its_end_is_finalized(stack: Stack) -> None:
    over, open_ = await boards_with_a_winner(stack, 2)
    await end(stack, "leaderboards", over, seconds_ago=0)
    await ending.finalize_all(stack.engine)
    assert (await get(stack, f"/leaderboards/{over}"))["status"] == "LEADERBOARD_STATUS_FINALIZED"
    assert (await get(stack, f"/leaderboards/{open_}"))["status"] == "LEADERBOARD_STATUS_ACTIVE"
    row = await stack.database.fetchrow("SELECT * FROM leaderboard_standings WHERE board_id = $1", over)
    assert row is not None
    assert (row["player_id"], row["reason"], bool(row["reward_id"])) == ("player_a", "", True)
    entry = (await stack.admin("GET", "/admin/audit", subject_id=over)).data["items"][0]
    assert (entry["action"], entry["actor"]) == ("leaderboard.finalize", "tombola")


async def test_board_that_cannot_be_finalized_does_not_block_the_others(stack: Stack) -> None:
    broken, sound = sorted(await boards_with_a_winner(stack, 2))
    await stack.database.execute("""UPDATE leaderboards SET prizes = '[{"odd": 1}]' WHERE board_id = $1""", broken)
    for board in (broken, sound):
        await end(stack, "leaderboards", board, seconds_ago=0)
    counted = background.FAILURES.labels(ending.JOB)
    before = float(counted._value.get())
    await ending.finalize_all(stack.engine)
    assert (await get(stack, f"/leaderboards/{sound}"))["status"] == "LEADERBOARD_STATUS_FINALIZED"
    assert counted._value.get() > before


async def test_prize_that_an_interrupted_finalize_owes_is_given(stack: Stack) -> None:
    [board] = await boards_with_a_winner(stack, 1)
    assert (await stack.admin("POST", f"/admin/leaderboards/{board}/finalize", {})).data
    # As a process leaves it that dies after it has closed the board.
    await stack.database.execute("UPDATE leaderboard_standings SET reason = 'PENDING', reward_id = ''")
    await ending.finalize_all(stack.engine)
    assert await stack.database.fetchval("SELECT reason FROM leaderboard_standings") == ""


async def duplicate(stack: Stack, campaign_id: str) -> dict[str, Any]:
    return dict((await stack.admin("POST", f"/admin/campaigns/{campaign_id}/duplicate", {})).data)


async def make_dated(stack: Stack, campaign_id: str, name: str, **dates: int) -> None:
    quest = {"campaign_id": campaign_id, "name": name, "type": "daily", "turns": 1, "status": "active", **dates}
    assert (await stack.admin("POST", "/admin/quests", quest)).data
    await make_board(stack, campaign_id, name=name, metric="plays", **dates)


async def test_duplicate_of_a_past_campaign_begins_at_the_next_such_hour(stack: Stack) -> None:
    """Of all that is dated: local times of day stay, over a change of clocks too."""
    zone, now = ZoneInfo("Europe/Berlin"), time.time()
    start = int(now) - 200 * DAY - 3_600
    dates = {"start_date": start, "end_date": start + 30 * DAY}
    campaign = await make_campaign(stack, timezone="Europe/Berlin", **dates)
    await make_dated(stack, campaign["id"], "Q", **dates)
    copy = await duplicate(stack, campaign["id"])
    assert copy["status"] == "CAMPAIGN_STATUS_DRAFT"
    assert now - 3_601 <= copy["start_date"] <= now + DAY + 3_601
    moved = set()
    for field in dates:
        before, after = (datetime.fromtimestamp(one[field], zone) for one in (campaign, copy))
        assert before.time() == after.time()
        moved.add((after.date() - before.date()).days)
    assert len(moved) == 1
    for path in ("quests", "leaderboards"):
        (item,) = (await stack.admin("GET", f"/admin/{path}", campaign_id=copy["id"])).data["items"]
        assert (item["start_date"], item["end_date"]) == (copy["start_date"], copy["end_date"])


async def test_duplicate_of_a_future_campaign_keeps_its_dates(stack: Stack) -> None:
    dates = {"start_date": int(time.time()) + DAY, "end_date": int(time.time()) + 9 * DAY}
    copy = await duplicate(stack, (await make_campaign(stack, **dates))["id"])
    assert (copy["start_date"], copy["end_date"]) == tuple(dates.values())
    undated = await duplicate(stack, (await make_campaign(stack))["id"])
    assert (undated["start_date"], undated["end_date"]) == (0, 0)


async def test_duplicate_with_dates_shifts_quests_and_boards(stack: Stack) -> None:
    zone = ZoneInfo("Europe/Berlin")

    def at(*moment: int) -> int:
        return int(datetime(*moment, tzinfo=zone).timestamp())

    dates = {"start_date": at(2026, 3, 1, 9), "end_date": at(2026, 3, 8, 18)}
    redeemed = dates["end_date"] + 14 * DAY
    campaign = await make_campaign(stack, timezone="Europe/Berlin", redeem_until=redeemed, **dates)
    within = {"start_date": at(2026, 3, 2, 12), "end_date": at(2026, 3, 3, 12)}
    for name, dated in (("whole", dates), ("part", within)):
        await make_dated(stack, campaign["id"], name, **dated)
    # Its clocks are changed between the original's day and the copy's.
    asked = {"start_date": at(2027, 4, 1, 20), "end_date": at(2027, 4, 5, 23)}
    path = f"/admin/campaigns/{campaign['id']}/duplicate"
    copy = (await stack.admin("POST", path, asked)).data
    assert {name: copy[name] for name in dates} == asked
    assert copy["redeem_until"] == asked["end_date"] + 14 * DAY
    moved = {"start_date": at(2027, 4, 2, 12), "end_date": at(2027, 4, 3, 12)}
    for kind in ("quests", "leaderboards"):
        items = (await stack.admin("GET", f"/admin/{kind}", campaign_id=copy["id"])).data["items"]
        told = {item["name"]: {name: item[name] for name in dates} for item in items}
        assert told == {"whole": asked, "part": moved}
    beside = (await stack.admin("POST", path, {})).data
    for only in ("start_date", "end_date"):
        copy = (await stack.admin("POST", path, {only: asked[only] + 20 * 365 * DAY})).data
        assert copy[only] == asked[only] + 20 * 365 * DAY
    # What is dated alike, of another campaign, stays.
    for kind in ("quests", "leaderboards"):
        items = (await stack.admin("GET", f"/admin/{kind}", campaign_id=beside["id"])).data["items"]
        [whole] = [item for item in items if item["name"] == "whole"]
        assert {name: whole[name] for name in dates} == {name: beside[name] for name in dates}
    still = (await stack.admin("GET", f"/admin/campaigns/{campaign['id']}")).data
    assert {name: still[name] for name in dates} == dates, "the original stays as it is"


async def test_duplicate_with_dates_that_end_a_part_before_it_begins_is_refused(stack: Stack) -> None:
    start = int(time.time()) // DAY * DAY + DAY
    dates = {"start_date": start, "end_date": start + 7 * DAY}
    campaign = await make_campaign(stack, **dates)
    path = f"/admin/campaigns/{campaign['id']}/duplicate"
    quest = {"campaign_id": campaign["id"], "name": "Last days", "type": "daily", "turns": 1, "status": "active"}
    last = {"start_date": start + 5 * DAY, "end_date": dates["end_date"]}
    assert (await stack.admin("POST", "/admin/quests", quest | last)).data
    await make_board(stack, campaign["id"], name="Opening", start_date=start, end_date=start + 9 * 3_600)
    short = await stack.admin("POST", path, {"end_date": start + 2 * DAY})
    assert fields_of(short) == ["end_date"] and "quest 'Last days' would end before" in str(short.envelope)
    late = await stack.admin("POST", path, {"start_date": start + 10 * 3_600})
    assert fields_of(late) == ["start_date"] and "leaderboard 'Opening' would end before" in str(late.envelope)
    assert fields_of(await stack.admin("POST", path, {"start_date": 253_402_300_799})) != []
    for asked in (
        {"start_date": dates["end_date"], "end_date": dates["start_date"]},
        {"end_date": dates["start_date"]},  # It would begin as the original does.
        {"end_date": -1},
    ):
        assert set(fields_of(await stack.admin("POST", path, asked))) == {"end_date"}
    assert [one["id"] for one in (await stack.admin("GET", "/admin/campaigns")).data["items"]] == [campaign["id"]]


@pytest.mark.parametrize("asked", [{"end_date": 40}, {"start_date": 20}, {"start_date": 20, "end_date": 40}])
async def test_duplicate_is_redeemed_no_earlier_than_it_ends(stack: Stack, asked: dict[str, int]) -> None:
    """A copy whose dates an update of the campaign would refuse could not be changed any more."""
    today = int(time.time()) // DAY * DAY
    campaign = await make_campaign(
        stack, start_date=today + DAY, redeem_until=today + DAY + 3_600, timezone="Asia/Tokyo"
    )
    wanted = {name: today + days * DAY + 23 * 3_600 for name, days in asked.items()}
    copy = (await stack.admin("POST", f"/admin/campaigns/{campaign['id']}/duplicate", wanted)).data
    assert copy["redeem_until"] >= max(wanted.values())
    assert (await stack.admin("PUT", f"/admin/campaigns/{copy['id']}", {"name": "Again"})).data["name"] == "Again"


async def test_duplicate_has_its_integrations_paused_and_their_secrets_resealed(stack: Stack) -> None:
    campaign = await make_campaign(stack)
    config = {"url": "http://203.0.113.7/hook", "secret": "a-secret-of-the-receiver-0123456789"}
    hook = {"type": "webhook", "events": ["tried"], "config": config, "campaign_id": campaign["id"]}
    made = (await stack.admin("POST", "/admin/integrations", hook)).data
    copy = await duplicate(stack, campaign["id"])
    (kept,) = (await stack.admin("GET", "/admin/integrations", campaign_id=copy["id"])).data["items"]
    assert kept["status"] == "INTEGRATION_STATUS_PAUSED"
    assert {name: kept[name] for name in ("type", "events", "config")} == {
        name: made[name] for name in ("type", "events", "config")
    }
    assert kept["id"] != made["id"]
    # Sealed for the copy: the secret opens in the new one's context.
    stored = await stack.database.fetchval("SELECT config FROM integrations WHERE integration_id = $1", kept["id"])
    vault = vault_of(stack.engine.settings.code_keys)
    assert vault.secrets_of(stored, integration_context(stack.tenant_id, kept["id"])) == [config["secret"]]
