import asyncio
import ipaddress
from typing import Any

import pytest

from runtime import ids
from tests.support.guests import log_in as known_by
from tests.support.login import PHONE, Phone, bearer, let_resend, log_in, refresh, start, verify
from tests.support.stack import Answer, Stack, fields_of, refused
from tests.support.waiting import until


async def resolve(stack: Stack, value: str, guest: str = "", type: str = "phone") -> dict[str, Any]:
    body = {"contact": {"type": type, "value": value}, "guest_player_id": guest}
    return (await stack.core("POST", "/players/resolve", body)).data


async def link(stack: Stack, player_id: str, value: str, type: str = "email") -> Answer:
    body = {"player_id": player_id, "contact": {"type": type, "value": value}}
    return await stack.core("POST", "/players/me/contacts", body)


async def make_guest(stack: Stack, status: str = "active") -> str:
    guest_id = ids.make("player")
    insert = "INSERT INTO players (tenant_id, player_id, auth_method, status) VALUES ($1, $2, 'guest', $3)"
    await stack.database.execute(insert, stack.tenant_id, guest_id, status)
    return guest_id


async def test_merge_is_reported_to_the_guest_that_was_merged(stack: Stack) -> None:
    guest, suspended = ids.make("guest"), await make_guest(stack, "suspended")
    await resolve(stack, "+12025550140", guest)
    replies = {"again": await resolve(stack, "+12025550140", guest)}
    replies |= {"another player": await resolve(stack, "+12025550141", guest)}
    replies |= {"no guest": await resolve(stack, "+12025550141", "player_1")}
    replies |= {"suspended": await resolve(stack, "+12025550141", suspended)}
    assert {why for why, reply in replies.items() if reply["guest_merged"]} == {"again"}


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
    body = {"display_name": " Ada ", "attributes": {"tier": "gold"}}
    named = (await stack.consumer("PUT", "/players/me", body, player="shop-customer-7")).data
    assert (named["display_name"], named["attributes"]) == ("Ada", {"tier": "gold"})
    moved = (await stack.consumer("PUT", "/players/me", {"locale": "pt-BR"}, player="shop-customer-7")).data
    assert (moved["display_name"], moved["locale"], moved["attributes"]) == ("Ada", "pt-BR", {"tier": "gold"})
    cleared = (await stack.consumer("PUT", "/players/me", {"display_name": ""}, player="shop-customer-7")).data
    assert (cleared["display_name"], cleared["locale"]) == ("", "pt-BR")


async def test_profile_with_a_wrong_field_is_refused(stack: Stack) -> None:
    wrong = {"avatar_url": "javascript:alert(1)", "locale": "not a locale", "attributes": {"big": "x" * 20_000}}
    for field, value in wrong.items():
        assert fields_of(await stack.consumer("PUT", "/players/me", {field: value}, player="player_1")) == [field]


async def test_registered_player_is_never_merged_into_another(stack: Stack) -> None:
    victim = await known_by(stack, contact="victim@example.com")
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


async def test_expired_token_leaves_the_code_good(stack: Stack, phone: Phone) -> None:
    challenge_id = (await start(stack)).data["challenge_id"]
    expired = {"Authorization": f"Bearer {stack.token('player_guest', seconds=-60)}"}
    assert (await verify(stack, challenge_id, phone.code(), headers=expired)).reason == "TOKEN_EXPIRED"
    assert (await verify(stack, challenge_id, phone.code())).code == "OK"


async def test_contact_is_linked_by_its_own_challenge(stack: Stack, phone: Phone) -> None:
    mine = (await log_in(stack, phone))["player"]["id"]
    challenge_id = (await start(stack, "ada@example.com", "email")).data["challenge_id"]
    body = {"type": "email", "value": "Ada@example.com", "challenge_id": challenge_id}
    body |= {"code": phone.code("ada@example.com")}
    other = await stack.consumer("POST", "/players/me/contacts", {**body, "value": "eve@example.com"}, player=mine)
    assert other.reason == "UNKNOWN_CHALLENGE"
    assert (await stack.consumer("POST", "/players/me/contacts", body)).reason == "TOKEN_MISSING"
    linked = (await stack.consumer("POST", "/players/me/contacts", body, player=mine)).data
    assert (linked["type"], linked["value"], linked["verified"]) == ("CONTACT_TYPE_EMAIL", "ada@example.com", True)
    await let_resend(stack)
    assert (await log_in(stack, phone, "ada@example.com", "email"))["player"]["id"] == mine


async def test_contact_of_another_player_is_refused_and_the_code_stays_good(stack: Stack, phone: Phone) -> None:
    owner = await log_in(stack, phone)
    await let_resend(stack)
    challenge_id = (await start(stack)).data["challenge_id"]
    body = {"type": "phone", "value": PHONE, "challenge_id": challenge_id, "code": phone.code()}
    taken = await stack.consumer("POST", "/players/me/contacts", body, player="player_2")
    assert (taken.http, taken.reason) == (409, "CONTACT_TAKEN")
    assert (await verify(stack, challenge_id, body["code"])).data["player"]["id"] == owner["player"]["id"]


async def test_code_is_used_once_by_a_link_or_a_login(stack: Stack, phone: Phone) -> None:
    for _ in range(4):
        challenge_id = (await start(stack, "ada@example.com", "email")).data["challenge_id"]
        code = phone.code("ada@example.com")
        body = {"type": "email", "value": "ada@example.com", "challenge_id": challenge_id, "code": code}
        answers = await asyncio.gather(
            *(stack.consumer("POST", "/players/me/contacts", body, player="player_1") for _ in range(3)),
            *(verify(stack, challenge_id, code) for _ in range(3)),
        )
        assert [answer.http for answer in answers].count(200) <= 1
        assert {answer.reason for answer in answers} <= {"", "UNKNOWN_CHALLENGE", "CONTACT_TAKEN"}
        assert await stack.database.fetchval("SELECT count(*) FROM login_challenges") == 0
        await let_resend(stack)


HERE, THERE = {"X-Forwarded-For": "198.51.100.7"}, {"X-Forwarded-For": "203.0.113.66"}
told_apart = pytest.mark.settings(trusted_proxies=(ipaddress.ip_network("127.0.0.0/8"),))


async def ended(stack: Stack, token: str, **headers: str) -> None:
    assert refused(await refresh(stack, token, **headers)) == (401, "UNAUTHENTICATED", "TOKEN_INVALID")


@told_apart
async def test_refresh_is_repeated_to_the_same_address(stack: Stack, phone: Phone) -> None:
    first = (await log_in(stack, phone))["refresh_token"]
    answers = [(await refresh(stack, first, **HERE)).data for _ in range(3)]
    assert len({(answer["refresh_token"], answer["player"]["id"]) for answer in answers}) == 1
    third = (await refresh(stack, answers[0]["refresh_token"], **THERE)).data["refresh_token"]
    assert (await refresh(stack, third, **HERE)).code == "OK"


@told_apart
async def test_reused_refresh_token_ends_its_family(stack: Stack, phone: Phone) -> None:
    """When a reuse is one: tests/sql/test_login_rows.py."""
    first = (await log_in(stack, phone))["refresh_token"]
    following = (await refresh(stack, first, **HERE)).data
    await ended(stack, first, **THERE)
    await ended(stack, following["refresh_token"], **HERE)
    await until(
        lambda: stack.consumer("GET", "/players/me", headers=bearer(following["token"])), lambda it: it.http == 401
    )


async def test_refresh_by_rivals_gives_one_next_token_whose_use_ends_the_repeats(stack: Stack, phone: Phone) -> None:
    token = (await log_in(stack, phone))["refresh_token"]
    answers = await asyncio.gather(*(refresh(stack, token) for _ in range(20)))
    (following,) = {answer.data["refresh_token"] for answer in answers}
    assert (await refresh(stack, following)).code == "OK"
    await ended(stack, token)


async def test_forged_refresh_token_ends_nothing(stack: Stack, phone: Phone) -> None:
    token = (await log_in(stack, phone))["refresh_token"]
    for forged in ("rt_", "rt_x", token[:-4] + "AAAA", "rt_" + "A" * 59, "é" * 20):
        assert (await refresh(stack, forged)).reason == "TOKEN_INVALID"
    assert (await refresh(stack, token)).code == "OK"
