"""Logins of guests, linked contacts and refresh tokens."""

from __future__ import annotations

import asyncio
import ipaddress

import pytest

from runtime.operations.players.logins import REPEAT_SECONDS
from tests.support.guests import guest_who_played
from tests.support.login import PHONE, Phone, bearer, let_resend, log_in, refresh, start, verify
from tests.support.stack import Stack, refused
from tests.support.world import World


async def test_login_of_a_guest_keeps_everything_it_won(own_world: World, stack: Stack, phone: Phone) -> None:
    points = await own_world.prize(name="Points", type="points", value=5, campaign_id=own_world.campaign_id)
    mug = await own_world.prize(total=100, fulfillment={"redemption_mode": "on_claim", "channel": "none"})
    game_id = await own_world.wheel(points, mug, access="public")

    async def owned(headers: dict[str, str]) -> tuple[int, set[str], int]:
        wallet = (await stack.consumer("GET", "/wallet", headers=headers)).data["items"]
        rewards = (await stack.consumer("GET", "/rewards/me", headers=headers)).data["items"]
        history = (await stack.consumer("GET", f"/games/{game_id}/history/me", headers=headers)).data["items"]
        return sum(row["balance"] for row in wallet), {row["id"] for row in rewards}, len(history)

    async def play(headers: dict[str, str]) -> None:
        session = (await own_world.start(game_id, "", **headers)).data["session_id"]
        assert (await own_world.play(game_id, session, "", headers=headers)).code == "OK"

    player, guest = bearer((await log_in(stack, phone))["token"]), (await guest_who_played(own_world, game_id)).bearer
    for nth in range(6):
        await play(player)
        if nth:
            await play(guest)
    before = [await owned(player), await owned(guest)]
    await let_resend(stack)
    player = bearer((await log_in(stack, phone, headers=guest))["token"])
    points_now, rewards, plays = await owned(player)
    assert (points_now, rewards) == (before[0][0] + before[1][0], before[0][1] | before[1][1])
    assert plays == 12
    gone = await stack.consumer("GET", "/wallet", headers=guest)
    assert (gone.http, gone.reason) == (401, "TOKEN_INVALID"), "at once on the edge of the login"
    await play(player)
    claimable = (await stack.consumer("GET", "/rewards/me", headers=player, prize_id=mug)).data["items"]
    for reward in claimable:
        assert (await stack.consumer("POST", f"/rewards/{reward['id']}/claim", {}, headers=player)).code == "OK"


async def test_expired_token_leaves_the_code_good(stack: Stack, phone: Phone) -> None:
    challenge_id = (await start(stack)).data["challenge_id"]
    expired = {"Authorization": f"Bearer {stack.token('player_guest', seconds=-60)}"}
    refused = await verify(stack, challenge_id, phone.code(), headers=expired)
    assert refused.reason == "TOKEN_EXPIRED"
    assert (await verify(stack, challenge_id, phone.code())).code == "OK"


async def test_contact_is_linked_by_its_own_challenge(stack: Stack, phone: Phone) -> None:
    mine = (await log_in(stack, phone))["player"]["id"]
    challenge_id = (await start(stack, "ada@example.com", "email")).data["challenge_id"]
    body = {
        "type": "email",
        "value": "Ada@example.com",
        "challenge_id": challenge_id,
        "code": phone.code("ada@example.com"),
    }
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
async def test_refresh_is_repeated_once_to_the_same_address(stack: Stack, phone: Phone) -> None:
    first = (await log_in(stack, phone))["refresh_token"]
    lost = (await refresh(stack, first, **HERE)).data
    again = (await refresh(stack, first, **HERE)).data
    assert again["refresh_token"] == lost["refresh_token"]
    assert again["player"] == lost["player"]
    third = (await refresh(stack, again["refresh_token"], **THERE)).data["refresh_token"]
    assert (await refresh(stack, third, **HERE)).code == "OK"


@told_apart
@pytest.mark.parametrize("who", ["a third time", "from elsewhere", "too late", "after the next one"])
async def test_reused_refresh_token_ends_its_family(stack: Stack, phone: Phone, who: str) -> None:
    first = (await log_in(stack, phone))["refresh_token"]
    counts = (await refresh(stack, first, **HERE)).data["refresh_token"]
    match who:
        case "a third time":
            assert (await refresh(stack, first, **HERE)).code == "OK"
        case "too late":
            late = "UPDATE logins SET turned_at = turned_at - make_interval(secs => $1)"
            await stack.database.execute(late, REPEAT_SECONDS)
        case "after the next one":
            counts = (await refresh(stack, counts, **HERE)).data["refresh_token"]
    await ended(stack, first, **(THERE if who == "from elsewhere" else HERE))
    await ended(stack, counts, **HERE)


async def test_refresh_by_rivals_succeeds_twice_and_then_ends_the_login(stack: Stack, phone: Phone) -> None:
    token = (await log_in(stack, phone))["refresh_token"]
    answers = await asyncio.gather(*(refresh(stack, token) for _ in range(20)))
    won = [answer.data["refresh_token"] for answer in answers if answer.code == "OK"]
    assert (len(won), len(set(won))) == (2, 1)
    assert {answer.http for answer in answers} == {200, 401}
    await ended(stack, won[0])


async def test_forged_refresh_token_ends_nothing(stack: Stack, phone: Phone) -> None:
    token = (await log_in(stack, phone))["refresh_token"]
    for forged in ("rt_", "rt_x", token[:-4] + "AAAA", "rt_" + "A" * 59, "é" * 20):
        assert (await refresh(stack, forged)).reason == "TOKEN_INVALID"
    assert (await refresh(stack, token)).code == "OK"
