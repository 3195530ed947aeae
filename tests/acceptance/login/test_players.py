"""Players: one contact is one player, profiles change in part, and a guest's winnings move once."""

from __future__ import annotations

import asyncio
from typing import Any

from runtime import ids
from runtime.operations.campaigns.analytics import count
from tests.support.guests import Guest, guest_who_played, log_in
from tests.support.quests import open_quest
from tests.support.stack import Answer, Stack, fields_of
from tests.support.world import World


async def resolve(stack: Stack, value: str, guest: str = "", type: str = "phone") -> dict[str, Any]:
    body = {"contact": {"type": type, "value": value}, "guest_player_id": guest}
    found: dict[str, Any] = (await stack.core("POST", "/players/resolve", body)).data
    return found


async def link(stack: Stack, player_id: str, value: str, type: str = "email") -> Answer:
    return await stack.core(
        "POST", "/players/me/contacts", {"player_id": player_id, "contact": {"type": type, "value": value}}
    )


async def make_guest(stack: Stack, status: str = "active") -> str:
    guest_id = ids.make("player")
    insert = "INSERT INTO players (tenant_id, player_id, auth_method, status) VALUES ($1, $2, 'guest', $3)"
    await stack.database.execute(insert, stack.tenant_id, guest_id, status)
    return guest_id


async def test_merge_is_reported_to_the_guest_that_was_merged(stack: Stack) -> None:
    guest, suspended = ids.make("guest"), await make_guest(stack, "suspended")
    await resolve(stack, "+12025550140", guest)
    told = {
        "again": await resolve(stack, "+12025550140", guest),
        "another player": await resolve(stack, "+12025550141", guest),
        "no guest": await resolve(stack, "+12025550141", "player_1"),
        "suspended": await resolve(stack, "+12025550141", suspended),
    }
    assert {why for why, reply in told.items() if reply["guest_merged"]} == {"again"}


async def test_contact_resolves_to_one_player(stack: Stack) -> None:
    first = await resolve(stack, "+1 (202) 555-0123")
    assert first["created"] is True
    assert first["player"]["auth_method"] == "AUTH_METHOD_PHONE_OTP"
    again = await resolve(stack, "+12025550123")
    assert again == {"player": first["player"], "created": False, "guest_merged": False}
    assert again["player"]["contacts"][0]["value"] == "+12025550123"
    assert again["player"]["contacts"][0]["type"] == "CONTACT_TYPE_PHONE"


async def test_resolves_at_once_make_one_player(stack: Stack) -> None:
    answers = await asyncio.gather(*(resolve(stack, "ada@example.com", type="email") for _ in range(20)))
    assert len({answer["player"]["id"] for answer in answers}) == 1
    assert sorted(answer["created"] for answer in answers) == [False] * 19 + [True]
    assert await stack.database.fetchval("SELECT count(*) FROM players") == 1


async def test_contact_of_another_tenant_is_another_player(stack: Stack) -> None:
    here = await resolve(stack, "+12025550123")
    body = {"scope": {"tenant_id": "tenant_other"}, "contact": {"type": "phone", "value": "+12025550123"}}
    there = (await stack.core("POST", "/players/resolve", body)).data
    assert there["created"] is True
    assert there["player"]["id"] != here["player"]["id"]
    nowhere = await stack.core("POST", "/players/resolve", {**body, "scope": {"tenant_id": "tenant_none"}})
    assert (nowhere.http, nowhere.reason) == (404, "UNKNOWN_TENANT")


async def test_profile_is_made_on_first_use_and_changed_in_part(stack: Stack) -> None:
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


async def test_profile_can_be_written_back_as_it_was_read(stack: Stack) -> None:
    read = (await stack.consumer("GET", "/players/me", player="player_1")).data
    written = await stack.consumer("PUT", "/players/me", {**read, "display_name": "Ada"}, player="player_1")
    assert written.data["display_name"] == "Ada"
    assert written.data["contacts"] == []


async def test_profile_with_a_wrong_field_is_refused(stack: Stack) -> None:
    for field, value in {
        "avatar_url": "javascript:alert(1)",
        "locale": "not a locale",
        "attributes": {"big": "x" * 20_000},
    }.items():
        assert fields_of(await stack.consumer("PUT", "/players/me", {field: value}, player="player_1")) == [field]


async def test_contact_of_another_player_is_refused(stack: Stack) -> None:
    mine = (await link(stack, "player_1", "Ada@Example.com")).data["contact"]
    assert (mine["value"], mine["type"], mine["verified"]) == ("ada@example.com", "CONTACT_TYPE_EMAIL", True)
    assert (await link(stack, "player_1", "ada@example.com")).data["contact"] == mine
    taken = await link(stack, "player_2", "ada@example.com")
    assert (taken.http, taken.reason) == (409, "CONTACT_TAKEN")
    assert (await resolve(stack, "ada@example.com", type="email"))["player"]["id"] == "player_1"


async def guest_who_won(world: World) -> tuple[Guest, str]:
    """A guest that has won a mug and points, and the public game of it."""
    mug = {"fulfillment": {"channel": "webhook", "config": {"url": "http://203.0.113.7/"}}}
    prizes = await world.prize(name="Mug", **mug), await world.prize(type="points", value=5)
    games = [await world.wheel(prize_id, access="public") for prize_id in prizes]
    guest = await guest_who_played(world, games[0])
    assert (await world.round(games[1], guest.player_id)).data["rewards"]
    return guest, games[1]


async def owned(stack: Stack, player_id: str) -> dict[str, int]:
    """How much of everything a player has."""
    tables = {"plays": "count(*)", "rewards": "count(*)", "tasks": "count(*)", "ledger_entries": "count(*)"}
    tables |= {"balances": "sum(balance)", "game_players": "sum(plays)", "prize_players": "sum(awarded)"}
    tables |= {"turn_balances": "sum(balance)", "quest_completions": "count(*)"}
    found = {}
    for table, what in tables.items():
        query = f"SELECT coalesce({what}, 0) FROM {table} WHERE player_id = $1"
        found[table] = int(await stack.database.fetchval(query, player_id))
    return found


async def test_guest_who_logs_in_keeps_what_it_won(own_world: World) -> None:
    stack = own_world.stack
    guest, _ = await guest_who_won(own_world)
    quest_id = await open_quest(stack, own_world.campaign_id)
    path = f"/quests/{quest_id}/complete"
    assert (await stack.consumer("POST", path, {}, player=guest.player_id)).http == 200
    before = await owned(stack, guest.player_id)
    player = await log_in(stack, guest)
    assert player != guest.player_id
    assert await owned(stack, player) == before
    assert (before["plays"], before["rewards"], before["balances"], before["turn_balances"]) == (2, 1, 5, 3)
    assert set((await owned(stack, guest.player_id)).values()) == {0}
    assert (await stack.consumer("POST", path, {}, player=player)).reason == "ALREADY_COMPLETED"


async def test_guest_who_logs_in_adds_to_what_the_player_had(own_world: World) -> None:
    stack, player = own_world.stack, await log_in(own_world.stack)
    guest, game_id = await guest_who_won(own_world)
    for who in (player, guest.player_id, player):
        await own_world.round(game_id, who, key="same")
    await log_in(stack, guest)
    assert (await owned(stack, player))["balances"] == 15
    ledger = (await stack.consumer("GET", "/wallet/ledger", player=player)).data["items"]
    assert [row["balance_after"] for row in ledger] == [15, 10, 5]


async def test_guest_is_merged_once_and_into_one_player(own_world: World) -> None:
    stack = own_world.stack
    guest, game_id = await guest_who_won(own_world)
    session = (await own_world.start(game_id, "", **guest.bearer)).data["session_id"]
    assert len(set(await asyncio.gather(*(log_in(stack, guest) for _ in range(10))))) == 1
    player = await log_in(stack, guest)
    assert (await owned(stack, player))["balances"] == 5
    # A play of a session from before the login is the player's.
    assert (await own_world.play(game_id, session, player)).code == "OK"
    assert (await owned(stack, player))["balances"] == 10
    thief = await log_in(stack, guest, "thief@example.com")
    assert set((await owned(stack, thief)).values()) == {0}


async def test_registered_player_is_never_merged_into_another(stack: Stack) -> None:
    victim = await log_in(stack, contact="victim@example.com")
    await stack.consumer("GET", "/players/me", player="shop-customer-7")
    known_guest = await make_guest(stack)
    await link(stack, known_guest, "guest@example.com")
    for other in (victim, "shop-customer-7", known_guest, "player_none"):
        await resolve(stack, "+12025550123", other)
    assert await stack.database.fetchval("SELECT count(*) FROM players WHERE merged_into IS NOT NULL") == 0


async def test_contact_of_a_merged_guest_is_refused(stack: Stack) -> None:
    guest = await make_guest(stack)
    player = (await resolve(stack, "+12025550123", guest))["player"]["id"]
    refused = await link(stack, guest, "mallory@example.com")
    assert (refused.http, refused.reason) == (403, "PLAYER_MERGED")
    assert (await resolve(stack, "mallory@example.com", type="email"))["player"]["id"] not in (guest, player)


async def test_guest_and_its_player_are_one_in_analytics_and_rankings(own_world: World) -> None:
    stack = own_world.stack
    game_id = await own_world.wheel(await own_world.prize(type="points", value=5), access="public")
    board = {"campaign_id": own_world.campaign_id, "name": "Most plays", "metric": "plays", "mode": "sum"}
    board_id = (await stack.admin("POST", "/admin/leaderboards", board)).data["id"]
    player, guest = await log_in(stack), await guest_who_played(own_world, game_id)
    for who in (player, guest.player_id):
        assert (await own_world.round(game_id, who)).code == "OK"
    # Old enough to be counted for good.
    await stack.database.execute("UPDATE plays SET played_at = played_at - interval '1 minute'")
    assert await count(stack.engine, stack.tenant_id, own_world.campaign_id)
    assert await stack.database.fetchval("SELECT sum(players) FROM campaign_days") == 2
    path = f"/admin/campaigns/{own_world.campaign_id}/analytics"
    assert (await stack.admin("GET", path)).data["players"] == 2
    await log_in(stack, guest)
    numbers = (await stack.admin("GET", path)).data
    assert (numbers["players"], numbers["plays"], [day["players"] for day in numbers["by_day"]]) == (1, 3, [1])
    await stack.engine.rankings.catch_up(stack.tenant_id)
    ranked = (await stack.consumer("GET", f"/leaderboards/{board_id}/rankings", player=player)).data
    assert [(row["player_id"], row["score"]) for row in ranked["items"]] == [(player, 3)]
