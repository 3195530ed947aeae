"""Quests that take plays, wins or points: judged by what the player did, when it counts, and granted once."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from tests.support.guests import guest_who_played, log_in
from tests.support.leaderboards import Played, write_plays
from tests.support.stack import OTHER_TENANT, Answer, fields_of
from tests.support.world import World


async def quest_of(world: World, kind: str = "plays", count: int = 2, game_id: str = "", **fields: Any) -> str:
    """An active quest of the world's campaign with a condition."""
    body = {"campaign_id": world.campaign_id, "name": "Q", "turns": 3, "status": "active", **fields}
    condition = {"kind": kind, "count": count, "game_id": game_id}
    return str((await world.stack.admin("POST", "/admin/quests", {**body, "condition": condition})).data["id"])


async def complete(world: World, quest_id: str, player: str = "ann", **headers: str) -> Answer:
    return await world.stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player=player, headers=headers)


def missing(answer: Answer) -> tuple[int, int]:
    """(have, need) of a refusal."""
    assert (answer.http, answer.reason) == (400, "CONDITION_NOT_MET"), answer.envelope
    return int(answer.envelope["data"]["have"]), int(answer.envelope["data"]["need"])


async def progress(world: World, player: str = "ann") -> list[tuple[Any, ...]]:
    """(quest, have, need, completed) of the campaign's, as the player sees them."""
    asked = {"campaign_id": world.campaign_id}
    items = (await world.stack.consumer("GET", "/players/me/quests", player=player, **asked)).data["items"]
    return [(one["quest_id"], int(one["have"]), int(one["need"]), one["completed"]) for one in items]


async def turns(world: World, player: str = "ann") -> int:
    asked = {"campaign_id": world.campaign_id}
    items = (await world.stack.consumer("GET", "/players/me/turns", player=player, **asked)).data["items"]
    return sum(int(one["balance"]) for one in items)


async def played(world: World, game_id: str, ago: float, player: str = "ann", **of: int) -> None:
    """A play of so many seconds ago."""
    plays = [Played(player, game_id, at=-ago, **of)]
    await write_plays(world.stack.engine, world.stack.tenant_id, plays, since=time.time())


async def test_plays_are_counted_and_the_quest_is_completed_when_there_are_enough(world: World) -> None:
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


async def test_wins_are_prizes_won_and_points_are_what_was_credited(world: World) -> None:
    points = await world.prize(type="points", value=10)
    loses, wins = await world.wheel(), await world.wheel(points)
    won, credited = await quest_of(world, "wins", 1), await quest_of(world, "points", 20)
    await world.round(loses)
    assert missing(await complete(world, won)) == (0, 1)
    await world.round(wins)
    assert missing(await complete(world, credited)) == (10, 20)
    assert (await complete(world, won)).data["turns_granted"] == 3
    await world.round(wins)
    assert (await complete(world, credited)).data["turns_granted"] == 3


@pytest.mark.parametrize(("type", "days"), [("daily", 1), ("weekly", 7)])
async def test_what_was_done_before_the_local_period_counts_no_more(world: World, type: str, days: int) -> None:
    game = await world.wheel()
    quest = await quest_of(world, count=1, type=type)
    await played(world, game, ago=days * 86_400 + 60)
    assert missing(await complete(world, quest)) == (0, 1)
    await played(world, game, ago=0)
    assert (await complete(world, quest)).data["turns_granted"] == 3
    await world.database.execute("DELETE FROM plays WHERE game_id = $1", game)
    await world.database.execute("DELETE FROM game_players WHERE game_id = $1", game)


async def test_a_period_begins_at_the_campaigns_own_midnight(world: World) -> None:
    """A play of an hour after midnight there counts, one of an hour before does not, whatever the day is in UTC."""
    now = time.time()
    # A zone in which it is about noon, so that both plays are in the past.
    offset = 12 - time.gmtime(now).tm_hour
    zone = f"Etc/GMT{-offset:+d}" if offset else "Etc/GMT"
    assert (await world.stack.admin("PUT", f"/admin/campaigns/{world.campaign_id}", {"timezone": zone})).data
    midnight = int((now + offset * 3600) // 86_400 * 86_400 - offset * 3600)
    game = await world.wheel()
    quest = await quest_of(world, count=2, type="daily")
    await played(world, game, ago=now - midnight + 3600)
    await played(world, game, ago=now - midnight - 3600)
    assert missing(await complete(world, quest)) == (1, 2)
    await world.database.execute("DELETE FROM plays WHERE game_id = $1", game)
    await world.database.execute("DELETE FROM game_players WHERE game_id = $1", game)


async def test_what_was_done_before_its_start_date_does_not_count(world: World) -> None:
    game = await world.wheel()
    await world.round(game)
    quest = await quest_of(world, count=1, start_date=int(time.time()) - 1)
    earlier = "UPDATE plays SET played_at = played_at - interval '1 minute' WHERE game_id = $1"
    await world.database.execute(earlier, game)
    assert missing(await complete(world, quest)) == (0, 1)


async def test_rivals_complete_it_once_and_a_retry_has_the_first_answer(world: World) -> None:
    game = await world.wheel()
    quest = await quest_of(world, count=1)
    await world.round(game)
    key = {"Idempotency-Key": "once"}
    answers = await asyncio.gather(*(complete(world, quest) for _ in range(15)), complete(world, quest, **key))
    granted = [answer for answer in answers if answer.code == "OK"]
    assert len(granted) == 1
    assert {answer.reason for answer in answers if answer.code != "OK"} == {"ALREADY_COMPLETED"}
    assert await turns(world) == 3


async def test_what_a_guest_played_is_the_players_that_it_became(world: World) -> None:
    game = await world.wheel(access="public")
    quest = await quest_of(world, count=1)
    guest = await guest_who_played(world, game)
    player = await log_in(world.stack, guest, contact="conditions@example.com")
    assert (await complete(world, quest, player)).data["turns_granted"] == 3
    answer = await world.stack.core("POST", f"/quests/{quest}/complete", {"player_id": guest.player_id})
    assert answer.reason == "ALREADY_COMPLETED", "the guest is that player"


async def test_what_a_guest_won_beyond_the_caps_of_one_player_counts_for_no_quest(world: World) -> None:
    capped = {"constraints": {"max_per_user": 1}}
    mug, points = await world.prize(total=9, **capped), await world.prize(type="points", value=10, **capped)
    games = [await world.wheel(prize, access="public") for prize in (mug, points)]
    wins, credited = await quest_of(world, "wins", 3, type="daily"), await quest_of(world, "points", 20)
    contact = "capped@example.com"
    player = await log_in(world.stack, contact=contact)
    for game in games:
        await world.round(game, player)
    for _ in range(2):
        guest = await guest_who_played(world, games[0])
        await world.round(games[1], guest.player_id)
        assert await progress(world, guest.player_id) == [(credited, 10, 20, False), (wins, 2, 3, False)]
        assert await log_in(world.stack, guest, contact) == player
        assert await progress(world, player) == [(credited, 10, 20, False), (wins, 2, 3, False)]
    assert missing(await complete(world, wins, player)) == (2, 3)
    assert missing(await complete(world, credited, player)) == (10, 20)
    # What comes after counts on, and plays are the player's whatever they won.
    await world.round(await world.wheel(await world.prize()), player)
    assert (await complete(world, wins, player)).data["turns_granted"] == 3
    assert (await complete(world, await quest_of(world, count=7), player)).data["turns_granted"] == 3


async def test_points_that_were_spent_before_the_merge_count_for_no_quest_either(world: World) -> None:
    points = await world.prize(type="points", value=10, constraints={"max_per_user": 1})
    game = await world.wheel(points, access="public")
    credited = await quest_of(world, "points", 20)
    contact = "spent@example.com"
    player = await log_in(world.stack, contact=contact)
    await world.round(game, player)
    guest = await guest_who_played(world, game)
    for who in (player, guest.player_id):
        spent = {"player_id": who, "currency": "points", "scope_key": world.campaign_id, "amount": -10}
        assert (await world.stack.admin("POST", "/admin/wallet/adjustments", spent)).http == 200
    await log_in(world.stack, guest, contact)
    assert missing(await complete(world, credited, player)) == (10, 20)


async def test_a_quest_that_a_guest_completed_stays_completed_when_its_win_is_taken_back(world: World) -> None:
    mug = await world.prize(total=9, constraints={"max_per_user": 1})
    game = await world.wheel(mug, access="public")
    quest = await quest_of(world, "wins", 1)
    contact = "stays@example.com"
    player = await log_in(world.stack, contact=contact)
    await world.round(game, player)
    guest = await guest_who_played(world, game)
    body = {"player_id": guest.player_id}
    assert (await world.stack.core("POST", f"/quests/{quest}/complete", body)).data["turns_granted"] == 3
    await log_in(world.stack, guest, contact)
    assert await progress(world, player) == [(quest, 1, 1, True)]
    assert (await complete(world, quest, player)).reason == "ALREADY_COMPLETED"
    assert await turns(world, player) == 3


async def test_a_condition_is_changed_and_taken_away(world: World) -> None:
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


async def test_what_is_wrong_with_a_condition_is_named(world: World) -> None:
    stranger = (await world.stack.admin("POST", "/admin/campaigns", {"name": "Other"})).data["id"]
    game = await world.wheel()
    body = {"campaign_id": world.campaign_id, "name": "Q"}
    for condition, field in (
        ({"kind": "plays"}, "condition.count"),
        ({"kind": "plays", "count": 0}, "condition.count"),
        ({"count": 2}, "condition.kind"),
        ({"kind": "plays", "count": 1, "game_id": "game_none"}, "condition.game_id"),
    ):
        answer = await world.stack.admin("POST", "/admin/quests", {**body, "condition": condition})
        assert (answer.http, fields_of(answer)) == (400, [field])
    of_game = {**body, "condition": {"kind": "plays", "count": 1, "game_id": game}}
    answer = await world.stack.admin("POST", "/admin/quests", {**of_game, "campaign_id": stranger})
    assert fields_of(answer) == ["condition.game_id"], "a game of another campaign"
    made = (await world.stack.admin("POST", "/admin/quests", of_game)).data["id"]
    answer = await world.stack.admin("PUT", f"/admin/quests/{made}", {"campaign_id": stranger})
    assert fields_of(answer) == ["condition.game_id"]
    answer = await world.stack.admin("POST", "/admin/quests", {**of_game, "campaign_id": "camp_none"})
    assert answer.reason == "UNKNOWN_CAMPAIGN"


async def test_a_copy_of_the_campaign_counts_its_own_game(world: World) -> None:
    game = await world.wheel()
    await quest_of(world, game_id=game)
    copy = (await world.stack.admin("POST", f"/admin/campaigns/{world.campaign_id}/duplicate", {})).data["id"]
    [own] = (await world.stack.admin("GET", "/admin/games", campaign_id=copy)).data["items"]
    [quest] = (await world.stack.admin("GET", "/admin/quests", campaign_id=copy)).data["items"]
    assert quest["condition"] == {"kind": "QUEST_CONDITION_KIND_PLAYS", "count": 2, "game_id": own["id"]}


async def test_progress_is_of_what_the_public_sees_and_of_the_own_tenant(world: World) -> None:
    quest = await quest_of(world)
    await quest_of(world, status="draft")
    assert await progress(world) == [(quest, 0, 2, False)]
    strangers = replace(world.stack, tenant_id=OTHER_TENANT)
    assert (await strangers.consumer("GET", "/players/me/quests", player="ann")).data["items"] == []
    theirs = await strangers.consumer("POST", f"/quests/{quest}/complete", {}, player="ann")
    assert theirs.reason == "UNKNOWN_QUEST"
    draft = {"status": "draft"}
    assert (await world.stack.admin("PUT", f"/admin/campaigns/{world.campaign_id}", draft)).data
    assert await progress(world) == []


# -- logins ----------------------------------------------------------------------------------


async def sign_in(world: World, player: str, login: str) -> None:
    """A login of the player, and its first renewal."""
    body = {"player_id": player, "login_id": login}
    assert (await world.stack.core("POST", "/logins", body)).http == 200


async def days_ago(world: World, player: str, days: int) -> None:
    """The player signed in so many days ago, too."""
    statement = (
        "INSERT INTO login_quarters SELECT tenant_id, player_id, quarter - make_interval(days => $3)"
        " FROM login_quarters WHERE tenant_id = $1 AND player_id = $2 ORDER BY quarter DESC LIMIT 1"
    )
    await world.database.execute(statement, world.stack.tenant_id, player, days)


async def test_days_with_a_login_are_counted_and_not_logins(world: World) -> None:
    player = await log_in(world.stack, contact="days@example.com")
    quest = await quest_of(world, "logins", 3)
    assert missing(await complete(world, quest, player)) == (0, 3), "being known is no login"
    for nth in range(3):
        await sign_in(world, player, f"login_days_{nth:021}")
    assert missing(await complete(world, quest, player)) == (1, 3)
    for days in (1, 2):
        await days_ago(world, player, days)
    assert await progress(world, player) == [(quest, 3, 3, False)]
    assert (await complete(world, quest, player)).data["turns_granted"] == 3


async def test_who_goes_on_being_signed_in_has_the_day_too(world: World) -> None:
    player = await log_in(world.stack, contact="renews@example.com")
    quest = await quest_of(world, "logins", 1)
    await sign_in(world, player, "login_renews_00000000000000000")
    await world.database.execute("DELETE FROM login_quarters WHERE player_id = $1", player)
    turn = {"login_id": "login_renews_00000000000000000", "generation": 0, "requester": "here"}
    assert (await world.stack.core("POST", "/logins/turn", turn)).http == 200
    assert (await complete(world, quest, player)).data["turns_granted"] == 3


async def test_days_of_another_week_or_of_before_the_quest_began_do_not_count(world: World) -> None:
    player = await log_in(world.stack, contact="weeks@example.com")
    quest = await quest_of(world, "logins", 1, type="weekly")
    later = await quest_of(world, "logins", 2, start_date=int(time.time()) - 1800)
    await sign_in(world, player, "login_weeks_000000000000000000")
    await days_ago(world, player, 7)
    assert (await complete(world, quest, player)).data["turns_granted"] == 3
    assert missing(await complete(world, later, player)) == (1, 2)
    other = await quest_of(world, "logins", 2, type="weekly")
    assert missing(await complete(world, other, player)) == (1, 2)


async def test_logins_are_of_no_game_and_more_than_a_days(world: World) -> None:
    body = {"campaign_id": world.campaign_id, "name": "Q"}
    for of, condition, field in (
        ({"type": "daily"}, {"count": 1}, "condition.kind"),
        ({"type": "weekly"}, {"count": 8}, "condition.count"),
        ({}, {"count": 2, "game_id": await world.wheel()}, "condition.game_id"),
    ):
        asked = {**body, **of, "condition": {"kind": "logins", **condition}}
        answer = await world.stack.admin("POST", "/admin/quests", asked)
        assert (answer.http, fields_of(answer)) == (400, [field])


async def test_when_a_player_signed_in_is_exported_and_erased(world: World) -> None:
    player = await log_in(world.stack, contact="erased.days@example.com")
    await sign_in(world, player, "login_erased_00000000000000000")
    export = (await world.stack.admin("GET", f"/admin/players/{player}/export", limit=100)).data["items"]
    assert [one["kind"] for one in export].count("signed_in") == 1
    assert (await world.stack.admin("POST", f"/admin/players/{player}/erase", {"reason": "asked"})).http == 200
    assert await world.database.fetchval("SELECT count(*) FROM login_quarters WHERE player_id = $1", player) == 0
