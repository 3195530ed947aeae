"""Players: one contact is one player, profiles change in part, and a guest's winnings move once."""

from __future__ import annotations

from typing import Any

from runtime import ids
from tests.support.guests import log_in
from tests.support.stack import Answer, Stack, fields_of


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
