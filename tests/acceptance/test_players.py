"""Players: one contact is one player, profiles change in part, and a guest's winnings move once."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import date
from typing import Any

import pytest

from runtime import ids
from runtime.actors.changes import Changes, NewPlay, NewReward, NewTask, PlayCount
from runtime.actors.committer import statement_of
from runtime.operations.campaigns.analytics import count
from runtime.stores.database import Guarded
from tests.support.invariants import check_sums
from tests.support.quests import open_campaign, open_quest
from tests.support.stack import Answer, Stack


async def resolve(stack: Stack, value: str, guest: str = "", type: str = "phone") -> dict[str, Any]:
    body = {"contact": {"type": type, "value": value}, "guest_player_id": guest}
    found: dict[str, Any] = (await stack.core("POST", "/players/resolve", body)).data
    return found


async def link(stack: Stack, player_id: str, value: str, type: str = "email") -> Answer:
    return await stack.core(
        "POST", "/players/me/contacts", {"player_id": player_id, "contact": {"type": type, "value": value}}
    )


async def test_it_is_told_whether_the_guest_is_the_player_now(stack: Stack) -> None:
    """Who is told so may forget the guest's token: what it won is not lost with it."""
    guest, suspended = ids.make("guest"), ids.make("guest")
    await resolve(stack, "+12025550140", guest)
    told = {
        "again": await resolve(stack, "+12025550140", guest),
        "somebody else's": await resolve(stack, "+12025550141", guest),
        "no guest": await resolve(stack, "+12025550141", "player_1"),
    }
    await stack.database.execute(
        "INSERT INTO players (tenant_id, player_id, auth_method, status) VALUES ($1, $2, 'guest', 'suspended')",
        stack.tenant_id,
        suspended,
    )
    told["suspended"] = await resolve(stack, "+12025550141", suspended)
    assert {why for why, reply in told.items() if reply["guest_merged"]} == {"again"}


async def test_the_same_contact_is_the_same_player(stack: Stack) -> None:
    first = await resolve(stack, "+1 (202) 555-0123")
    assert first["created"] is True
    assert first["player"]["auth_method"] == "AUTH_METHOD_PHONE_OTP"
    again = await resolve(stack, "+12025550123")
    assert again == {"player": first["player"], "created": False, "guest_merged": False}
    assert again["player"]["contacts"][0]["value"] == "+12025550123"
    assert again["player"]["contacts"][0]["type"] == "CONTACT_TYPE_PHONE"


async def test_twenty_rivals_make_one_player(stack: Stack) -> None:
    answers = await asyncio.gather(*(resolve(stack, "ada@example.com", type="email") for _ in range(20)))
    assert len({answer["player"]["id"] for answer in answers}) == 1
    assert sorted(answer["created"] for answer in answers) == [False] * 19 + [True]
    assert await stack.database.fetchval("SELECT count(*) FROM players") == 1


async def test_tenants_share_no_players(stack: Stack) -> None:
    here = await resolve(stack, "+12025550123")
    body = {"scope": {"tenant_id": "tenant_other"}, "contact": {"type": "phone", "value": "+12025550123"}}
    there = (await stack.core("POST", "/players/resolve", body)).data
    assert there["created"] is True
    assert there["player"]["id"] != here["player"]["id"]
    nowhere = await stack.core("POST", "/players/resolve", {**body, "scope": {"tenant_id": "tenant_none"}})
    assert (nowhere.http, nowhere.reason) == (404, "UNKNOWN_TENANT")


async def test_a_profile_is_made_on_first_use_and_changed_in_part(stack: Stack) -> None:
    new = (await stack.consumer("GET", "/players/me", player="shop-customer-7")).data
    assert (new["id"], new["display_name"], new["contacts"]) == ("shop-customer-7", "", [])
    assert new["auth_method"] == "AUTH_METHOD_EXTERNAL"
    named = (
        await stack.consumer(
            "PUT", "/players/me", {"display_name": " Ada ", "attributes": {"tier": "gold"}}, player="shop-customer-7"
        )
    ).data
    assert (named["display_name"], named["attributes"]) == ("Ada", {"tier": "gold"})
    moved = (await stack.consumer("PUT", "/players/me", {"locale": "pt-BR"}, player="shop-customer-7")).data
    assert (moved["display_name"], moved["locale"], moved["attributes"]) == ("Ada", "pt-BR", {"tier": "gold"})
    cleared = (await stack.consumer("PUT", "/players/me", {"display_name": ""}, player="shop-customer-7")).data
    assert (cleared["display_name"], cleared["locale"]) == ("", "pt-BR")


async def test_a_profile_may_be_sent_back_as_it_was_read(stack: Stack) -> None:
    read = (await stack.consumer("GET", "/players/me", player="player_1")).data
    written = await stack.consumer("PUT", "/players/me", {**read, "display_name": "Ada"}, player="player_1")
    assert written.data["display_name"] == "Ada"
    assert written.data["contacts"] == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("display_name", "x" * 101),
        ("avatar_url", "javascript:alert(1)"),
        ("locale", "not a locale"),
        ("attributes", {"big": "x" * 20_000}),
    ],
)
async def test_what_is_wrong_with_a_profile_is_named(stack: Stack, field: str, value: Any) -> None:
    answer = await stack.consumer("PUT", "/players/me", {field: value}, player="player_1")
    assert (answer.http, answer.envelope["data"]["violations"][0]["field"]) == (400, field)


async def test_a_contact_is_one_players(stack: Stack) -> None:
    mine = (await link(stack, "player_1", "Ada@Example.com")).data["contact"]
    assert (mine["value"], mine["type"], mine["verified"]) == ("ada@example.com", "CONTACT_TYPE_EMAIL", True)
    assert (await link(stack, "player_1", "ada@example.com")).data["contact"] == mine
    taken = await link(stack, "player_2", "ada@example.com")
    assert (taken.http, taken.reason) == (409, "CONTACT_TAKEN")
    assert (await resolve(stack, "ada@example.com", type="email"))["player"]["id"] == "player_1"


# -- guests ----------------------------------------------------------------------------------


async def make_guest(stack: Stack) -> str:
    guest_id = ids.make("player")
    await stack.database.execute(
        "INSERT INTO players (tenant_id, player_id, auth_method) VALUES ($1, $2, 'guest')", stack.tenant_id, guest_id
    )
    return guest_id


async def win(stack: Stack, player_id: str, *, points: int = 5, key: str | None = None) -> None:
    """A won play, committed by the statement that commits every play."""
    store = stack.database
    await store.execute(
        "INSERT INTO prizes (tenant_id, prize_id, name, type) VALUES ($1, 'prize_1', 'Mug', 'voucher')"
        " ON CONFLICT DO NOTHING",
        stack.tenant_id,
    )
    while True:
        row = await store.fetchrow("SELECT auth_method, merged_into FROM players WHERE player_id = $1", player_id)
        assert row is not None
        owner_id = row["merged_into"] or player_id
        held = await store.fetchval("SELECT balance FROM balances WHERE player_id = $1", owner_id)
        changes = won(owner_id, held, points, key)
        if row["auth_method"] == "guest" and row["merged_into"] is None:
            changes.hold_guest(owner_id)
        try:
            text, arguments = statement_of(changes)
            await store.fetchrow(text, stack.tenant_id, 0, *arguments)
            return
        except Guarded:
            continue  # as the game's actor does, look again, decide again


def won(player_id: str, held: int | None, points: int, key: str | None) -> Changes:
    """A play that won a mug to be delivered and points, on top of `held`."""
    play_id, reward_id, today = ids.make("play"), ids.make("reward"), date(2026, 11, 21)
    asked = hashlib.sha256(b"").digest() if key else None
    changes = Changes()
    changes.plays.append(
        NewPlay(play_id, "game_1", player_id, play_id, 1, b"", "", {}, b"{}", 0, 1, points, key, asked)
    )
    changes.count_play(PlayCount("game_1", player_id, today, 1, cap=0, day_cap=0))
    changes.move_balance(ids.make("entry"), player_id, "camp", "points", held, points, "play_reward", play_id)
    changes.take_prize("prize_1", player_id, 1, today, stocked=False, per_user=0, per_day=0)
    changes.rewards.append(
        NewReward(reward_id, player_id, "prize_1", "camp", "game_1", play_id, "", "Mug", "voucher", 1.0, 1, "won", 0)
    )
    changes.tasks.append(NewTask(ids.make("task"), reward_id, "prize_1", "camp", player_id, "webhook", "pending"))
    return changes


async def owned(stack: Stack, player_id: str) -> dict[str, int]:
    """How much of everything a player has."""
    tables = {"plays": "count(*)", "rewards": "count(*)", "tasks": "count(*)", "ledger_entries": "count(*)"}
    tables |= {"balances": "sum(balance)", "game_players": "sum(plays)", "prize_players": "sum(awarded)"}
    tables |= {"turn_balances": "sum(balance)", "quest_completions": "count(*)"}
    store = stack.database
    return {
        table: int(await store.fetchval(f"SELECT coalesce({what}, 0) FROM {table} WHERE player_id = $1", player_id))
        for table, what in tables.items()
    }


async def assert_consistent(stack: Stack) -> None:
    await check_sums(stack.database)
    counters_off = await stack.database.fetch(
        """SELECT game_id, player_id FROM (
               SELECT game_id, player_id, plays FROM game_players
               UNION ALL SELECT game_id, player_id, -1 FROM plays
           ) AS n GROUP BY game_id, player_id HAVING sum(plays) <> 0"""
    )
    assert counters_off == []


async def test_a_guest_who_logs_in_keeps_what_it_won(stack: Stack) -> None:
    guest = await make_guest(stack)
    await win(stack, guest, points=5)
    await win(stack, guest, points=7)
    quest_id = await open_quest(stack, await open_campaign(stack))
    await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player=guest)
    before = await owned(stack, guest)
    player = (await resolve(stack, "+12025550123", guest))["player"]["id"]
    assert player != guest
    assert (
        await owned(stack, player)
        == before
        == {
            "plays": 2,
            "rewards": 2,
            "tasks": 2,
            "ledger_entries": 2,
            "balances": 12,
            "game_players": 2,
            "prize_players": 2,
            "turn_balances": 3,
            "quest_completions": 1,
        }
    )
    assert set((await owned(stack, guest)).values()) == {0}
    await assert_consistent(stack)
    # Completed as the guest is completed as the player.
    again = await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player=player)
    assert again.reason == "ALREADY_COMPLETED"


async def test_winnings_add_to_what_the_player_had(stack: Stack) -> None:
    player = (await resolve(stack, "+12025550123"))["player"]["id"]
    guest = await make_guest(stack)
    campaign_id = await open_campaign(stack)
    quest_id = await open_quest(stack, campaign_id)
    for who in (player, guest, player, guest):
        await win(stack, who, points=10)
        await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player=who)
    await win(stack, player, key="same")
    await win(stack, guest, key="same")
    assert (await resolve(stack, "+12025550123", guest))["player"]["id"] == player
    has = await owned(stack, player)
    assert (has["plays"], has["balances"], has["prize_players"]) == (6, 50, 6)
    # The quest was completed by both in one period: one of the two completions counts as the player's, with its turns.
    assert (has["quest_completions"], has["turn_balances"]) == (1, 3)
    ledger = (await stack.consumer("GET", "/wallet/ledger", player=player)).data["items"]
    assert [row["balance_after"] for row in ledger] == [50, 45, 40, 30, 20, 10]
    await assert_consistent(stack)


async def test_a_merge_happens_once_and_to_one_player(stack: Stack) -> None:
    guest = await make_guest(stack)
    await win(stack, guest)
    answers = await asyncio.gather(*(resolve(stack, "+12025550123", guest) for _ in range(10)))
    player = answers[0]["player"]["id"]
    assert (await owned(stack, player))["balances"] == 5
    # What the guest wins with a session that is still open is the player's.
    await win(stack, guest)
    assert (await owned(stack, player))["balances"] == 10
    # To anybody else, the guest is over.
    thief = (await resolve(stack, "+12025550199", guest))["player"]["id"]
    await win(stack, guest)
    assert (await owned(stack, thief))["balances"] == 0
    await assert_consistent(stack)


async def test_plays_that_commit_during_a_merge_are_the_players(stack: Stack) -> None:
    guest = await make_guest(stack)
    await win(stack, guest)
    player = (await resolve(stack, "+12025550123"))["player"]["id"]

    async def play() -> None:
        for _ in range(10):
            await win(stack, guest, points=1)
            await win(stack, player, points=1)

    async def log_in() -> None:
        for _ in range(5):
            await resolve(stack, "+12025550123", guest)

    await asyncio.gather(play(), log_in())
    has = await owned(stack, player)
    assert (has["plays"], has["balances"], has["rewards"]) == (21, 25, 21)
    assert set((await owned(stack, guest)).values()) == {0}
    await assert_consistent(stack)


async def test_a_player_is_never_merged_into_another(stack: Stack) -> None:
    victim = (await resolve(stack, "+12025550111"))["player"]["id"]
    await win(stack, victim)
    await stack.consumer("GET", "/players/me", player="shop-customer-7")
    await win(stack, "shop-customer-7")
    known_guest = await make_guest(stack)
    await link(stack, known_guest, "guest@example.com")
    await win(stack, known_guest)
    for other in (victim, "shop-customer-7", known_guest, "player_none"):
        thief = (await resolve(stack, "+12025550123", other))["player"]["id"]
        assert (await owned(stack, thief))["balances"] == 0
    assert await stack.database.fetchval("SELECT count(*) FROM players WHERE merged_into IS NOT NULL") == 0


async def test_a_guest_that_became_a_player_takes_no_more_contacts(stack: Stack) -> None:
    guest = await make_guest(stack)
    player = (await resolve(stack, "+12025550123", guest))["player"]["id"]
    refused = await link(stack, guest, "mallory@example.com")
    assert (refused.http, refused.reason) == (403, "PLAYER_MERGED")
    assert (await resolve(stack, "mallory@example.com", type="email"))["player"]["id"] not in (guest, player)


async def test_a_guest_and_its_player_are_one_in_analytics_and_on_boards(stack: Stack) -> None:
    campaign = (await stack.admin("POST", "/admin/campaigns", {"name": "Spring", "status": "active"})).data
    prize = {"name": "Points", "type": "points", "value": 5, "campaign_id": campaign["id"]}
    prize_id = (await stack.admin("POST", "/admin/prizes", prize)).data["prize_id"]
    game = {
        "name": "Wheel",
        "type": "spin_wheel",
        "campaign_id": campaign["id"],
        "reward_handler": "probability",
        "status": "active",
        "access": "public",
        "handler_config": {"prizes": [{"prize_id": prize_id, "probability": 1}]},
    }
    game_id = (await stack.admin("POST", "/admin/games", game)).data["id"]
    board = {"campaign_id": campaign["id"], "name": "Most plays", "metric": "plays", "mode": "sum"}
    board_id = (await stack.admin("POST", "/admin/leaderboards", board)).data["id"]
    player = (await resolve(stack, "+12025550123"))["player"]["id"]
    guest = await make_guest(stack)
    for who in (player, guest, guest):
        started = (await stack.consumer("POST", f"/games/{game_id}/start", {}, player=who)).data
        body = {"session_id": started["session_id"], "payload": {}}
        assert (await stack.consumer("POST", f"/games/{game_id}/play", body, player=who)).code == "OK"
    # Old enough to be counted for good.
    await stack.database.execute("UPDATE plays SET played_at = played_at - interval '1 minute'")
    assert await count(stack.engine, stack.tenant_id, campaign["id"])
    counted = await stack.database.fetchval("SELECT sum(players) FROM campaign_days")
    assert counted == 2
    path = f"/admin/campaigns/{campaign['id']}/analytics"
    assert (await stack.admin("GET", path)).data["players"] == 2
    await resolve(stack, "+12025550123", guest)
    numbers = (await stack.admin("GET", path)).data
    assert (numbers["players"], numbers["plays"], [day["players"] for day in numbers["by_day"]]) == (1, 3, [1])
    await stack.engine.rankings.catch_up(stack.tenant_id)
    ranked = (await stack.consumer("GET", f"/leaderboards/{board_id}/rankings", player=player)).data
    assert [(row["player_id"], row["score"]) for row in ranked["items"]] == [(player, 3)]
