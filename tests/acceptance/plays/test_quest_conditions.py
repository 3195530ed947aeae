"""Quests that take plays, wins or points: judged by what the player did, when it counts, and granted once."""

from __future__ import annotations

import time
from typing import Any

from tests.support.guests import guest_who_played, log_in
from tests.support.leaderboards import Played, write_plays
from tests.support.stack import Answer, fields_of
from tests.support.world import World


async def quest_of(world: World, kind: str = "plays", count: int = 2, game_id: str = "", **fields: Any) -> str:
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
    plays = [Played(player, game_id, at=-ago, **of)]
    await write_plays(world.stack.engine, world.stack.tenant_id, plays, since=time.time())


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


async def test_quest_of_wins_or_points_counts_prizes_and_credits(world: World) -> None:
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


async def test_period_begins_at_the_campaigns_midnight(world: World) -> None:
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


async def test_play_of_a_guest_counts_for_its_player(world: World) -> None:
    game = await world.wheel(access="public")
    quest = await quest_of(world, count=1)
    guest = await guest_who_played(world, game)
    player = await log_in(world.stack, guest, contact="conditions@example.com")
    assert (await complete(world, quest, player)).data["turns_granted"] == 3
    answer = await world.stack.core("POST", f"/quests/{quest}/complete", {"player_id": guest.player_id})
    assert answer.reason == "ALREADY_COMPLETED", "the guest is that player"


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


async def test_condition_with_a_wrong_field_is_refused(world: World) -> None:
    stranger = (await world.stack.admin("POST", "/admin/campaigns", {"name": "Other"})).data["id"]
    game = await world.wheel()
    body = {"campaign_id": world.campaign_id, "name": "Q"}
    found: list[tuple[dict[str, Any], str]] = []
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"condition": {"kind": "plays"}}, "count"),
        ({"condition": {"kind": "plays", "count": 0}}, "count"),
        ({"condition": {"count": 2}}, "kind"),
        ({"condition": {"kind": "plays", "count": 1, "game_id": "game_none"}}, "game_id"),
        ({"type": "daily", "condition": {"kind": "logins", "count": 1}}, "kind"),
        ({"type": "weekly", "condition": {"kind": "logins", "count": 8}}, "count"),
        ({"condition": {"kind": "logins", "count": 2, "game_id": game}}, "game_id"),
        ({"condition": {"kind": "event", "count": 1, "game_id": game}}, "game_id"),
    ]
    for fields, _ in wrong:
        [field] = fields_of(await world.stack.admin("POST", "/admin/quests", {**body, **fields}))
        found.append((fields, field.removeprefix("condition.")))
    assert found == wrong
    of_game = {**body, "condition": {"kind": "plays", "count": 1, "game_id": game}}
    answer = await world.stack.admin("POST", "/admin/quests", {**of_game, "campaign_id": stranger})
    assert fields_of(answer) == ["condition.game_id"], "a game of another campaign"
    made = (await world.stack.admin("POST", "/admin/quests", of_game)).data["id"]
    answer = await world.stack.admin("PUT", f"/admin/quests/{made}", {"campaign_id": stranger})
    assert fields_of(answer) == ["condition.game_id"]
    answer = await world.stack.admin("POST", "/admin/quests", {**of_game, "campaign_id": "camp_none"})
    assert answer.reason == "UNKNOWN_CAMPAIGN"


async def test_condition_of_a_copied_campaign_names_its_own_game(world: World) -> None:
    game = await world.wheel()
    await quest_of(world, game_id=game)
    copy = (await world.stack.admin("POST", f"/admin/campaigns/{world.campaign_id}/duplicate", {})).data["id"]
    [own] = (await world.stack.admin("GET", "/admin/games", campaign_id=copy)).data["items"]
    [quest] = (await world.stack.admin("GET", "/admin/quests", campaign_id=copy)).data["items"]
    assert quest["condition"] == {"kind": "QUEST_CONDITION_KIND_PLAYS", "count": 2, "game_id": own["id"]}


async def sign_in(world: World, player: str, login: str) -> None:
    body = {"player_id": player, "login_id": login}
    assert (await world.stack.core("POST", "/logins", body)).http == 200


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
    assert (await complete(world, quest, player)).data["turns_granted"] == 3


async def test_refreshed_login_counts_as_a_day(world: World) -> None:
    player = await log_in(world.stack, contact="renews@example.com")
    quest = await quest_of(world, "logins", 1)
    await sign_in(world, player, "login_renews_00000000000000000")
    await world.database.execute("DELETE FROM login_quarters WHERE player_id = $1", player)
    turn = {"login_id": "login_renews_00000000000000000", "generation": 0, "requester": "here"}
    assert (await world.stack.core("POST", "/logins/turn", turn)).http == 200
    assert (await complete(world, quest, player)).data["turns_granted"] == 3


async def test_login_before_the_period_or_the_start_date_does_not_count(world: World) -> None:
    player = await log_in(world.stack, contact="weeks@example.com")
    quest = await quest_of(world, "logins", 1, type="weekly")
    later = await quest_of(world, "logins", 2, start_date=int(time.time()) - 1800)
    await sign_in(world, player, "login_weeks_000000000000000000")
    await days_ago(world, player, 7)
    assert (await complete(world, quest, player)).data["turns_granted"] == 3
    assert missing(await complete(world, later, player)) == (1, 2)
    other = await quest_of(world, "logins", 2, type="weekly")
    assert missing(await complete(world, other, player)) == (1, 2)
