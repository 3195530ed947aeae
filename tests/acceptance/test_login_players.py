"""Who is logged in: what a guest hands over, contacts that are linked, and tokens that turn."""

from __future__ import annotations

import asyncio
import ipaddress

import pytest

from runtime.operations.players.logins import REPEAT_SECONDS, REPEATS_MAX
from tests.support.invariants import check_sums
from tests.support.login import PHONE, Phone, let_resend, log_in, refresh, start, verify
from tests.support.stack import Stack, refused

# -- guests, contacts ------------------------------------------------------------------------


async def test_a_guest_hands_its_winnings_to_who_logs_in(stack: Stack, phone: Phone) -> None:
    await stack.database.execute(
        "INSERT INTO players (tenant_id, player_id, auth_method) VALUES ($1, 'player_guest', 'guest')", stack.tenant_id
    )
    await stack.database.execute(
        "INSERT INTO turn_balances (tenant_id, campaign_id, player_id, balance) VALUES ($1, 'camp', 'player_guest', 2)",
        stack.tenant_id,
    )
    logged_in = await log_in(stack, phone, player="player_guest")
    assert logged_in["player"]["id"] != "player_guest"
    headers = {"Authorization": f"Bearer {logged_in['token']}"}
    turns = (await stack.consumer("GET", "/players/me/turns", headers=headers)).data["items"]
    assert [row["balance"] for row in turns] == [2]


async def public_game(stack: Stack) -> str:
    """A game that guests may play: every play wins five points or a mug."""
    campaign = (await stack.admin("POST", "/admin/campaigns", {"name": "Spring", "status": "active"})).data
    points = {"name": "Points", "type": "points", "value": 5, "campaign_id": campaign["id"]}
    mug = {
        "name": "Mug",
        "type": "voucher",
        "value": 9,
        "campaign_id": campaign["id"],
        "stock": {"total": 100},
        "fulfillment": {"redemption_mode": "on_claim", "channel": "none"},
    }
    prizes = [(await stack.admin("POST", "/admin/prizes", prize)).data["prize_id"] for prize in (points, mug)]
    game = {
        "name": "Wheel",
        "type": "spin_wheel",
        "campaign_id": campaign["id"],
        "seed_generator": "none",
        "reward_handler": "probability",
        "validator": "basic",
        "status": "active",
        "access": "public",
        "handler_config": {"prizes": [{"prize_id": prize_id, "probability": 0.5} for prize_id in prizes]},
    }
    return str((await stack.admin("POST", "/admin/games", game)).data["id"])


async def play(stack: Stack, game_id: str, token: str) -> str:
    """Plays once; the token of the guest that was made for it, or the one given."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    started = (await stack.consumer("POST", f"/games/{game_id}/start", {}, headers=headers)).data
    token = token or started["guest_token"]
    headers = {"Authorization": f"Bearer {token}"}
    body = {"session_id": started["session_id"], "payload": {}}
    assert (await stack.consumer("POST", f"/games/{game_id}/play", body, headers=headers)).code == "OK"
    return token


async def test_a_guest_of_a_public_game_keeps_everything(stack: Stack, phone: Phone) -> None:
    game_id = await public_game(stack)

    async def owned(token: str) -> tuple[int, set[str], int]:
        headers = {"Authorization": f"Bearer {token}"}
        wallet = (await stack.consumer("GET", "/wallet", headers=headers)).data["items"]
        rewards = (await stack.consumer("GET", "/rewards/me", headers=headers)).data["items"]
        history = (await stack.consumer("GET", f"/games/{game_id}/history/me", headers=headers)).data["items"]
        return sum(row["balance"] for row in wallet), {row["id"] for row in rewards}, len(history)

    player = (await log_in(stack, phone))["token"]
    guest = ""
    for _ in range(6):
        await play(stack, game_id, player)
        guest = await play(stack, game_id, guest)
    before = [await owned(player), await owned(guest)]
    await let_resend(stack)
    player = (await log_in(stack, phone, headers={"Authorization": f"Bearer {guest}"}))["token"]
    points, rewards, plays = await owned(player)
    assert points == before[0][0] + before[1][0]
    assert rewards == before[0][1] | before[1][1]
    assert plays == 12
    # The guest is over: on the edge that it logged in by at once, on every other within a second or so.
    gone = await stack.consumer("GET", "/wallet", headers={"Authorization": f"Bearer {guest}"})
    assert (gone.http, gone.reason) == (401, "TOKEN_INVALID")
    await play(stack, game_id, player)
    for reward_id in rewards:
        headers = {"Authorization": f"Bearer {player}"}
        assert (await stack.consumer("POST", f"/rewards/{reward_id}/claim", {}, headers=headers)).code == "OK"
    await check_sums(stack.database)


async def test_an_expired_token_leaves_the_code_good(stack: Stack, phone: Phone) -> None:
    challenge_id = (await start(stack)).data["challenge_id"]
    expired = {"Authorization": f"Bearer {stack.token('player_guest', seconds=-60)}"}
    refused = await verify(stack, challenge_id, phone.code(), headers=expired)
    assert refused.reason == "TOKEN_EXPIRED"
    assert (await verify(stack, challenge_id, phone.code())).code == "OK"


async def test_a_contact_is_linked_by_its_own_challenge(stack: Stack, phone: Phone) -> None:
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


async def test_another_players_contact_is_taken_and_the_code_is_good_for_logging_in(stack: Stack, phone: Phone) -> None:
    owner = await log_in(stack, phone)
    await let_resend(stack)
    challenge_id = (await start(stack)).data["challenge_id"]
    body = {"type": "phone", "value": PHONE, "challenge_id": challenge_id, "code": phone.code()}
    taken = await stack.consumer("POST", "/players/me/contacts", body, player="player_2")
    assert (taken.http, taken.reason) == (409, "CONTACT_TAKEN")
    assert (await verify(stack, challenge_id, body["code"])).data["player"]["id"] == owner["player"]["id"]


async def test_a_code_is_good_for_one_of_a_link_and_a_login(stack: Stack, phone: Phone) -> None:
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


# -- refresh ---------------------------------------------------------------------------------


async def test_a_refresh_token_turns(stack: Stack, phone: Phone) -> None:
    first = await log_in(stack, phone)
    second = (await refresh(stack, first["refresh_token"])).data
    assert second.keys() == first.keys()
    assert second["player"] == first["player"]
    assert second["refresh_token"] != first["refresh_token"]
    assert (await refresh(stack, second["refresh_token"])).code == "OK"


HERE, THERE = {"X-Forwarded-For": "198.51.100.7"}, {"X-Forwarded-For": "203.0.113.66"}
told_apart = pytest.mark.settings(trusted_proxies=(ipaddress.ip_network("127.0.0.0/8"),))


async def ended(stack: Stack, token: str, **headers: str) -> None:
    """The login of this refresh token, which counted, is over."""
    assert refused(await refresh(stack, token, **headers)) == (401, "UNAUTHENTICATED", "TOKEN_INVALID")


@told_apart
async def test_a_refresh_whose_answer_was_lost_is_answered_alike_once_more(stack: Stack, phone: Phone) -> None:
    first = (await log_in(stack, phone))["refresh_token"]
    lost = (await refresh(stack, first, **HERE)).data
    again = (await refresh(stack, first, **HERE)).data
    assert again["refresh_token"] == lost["refresh_token"]
    assert again["player"] == lost["player"]
    third = (await refresh(stack, again["refresh_token"], **THERE)).data["refresh_token"]
    assert (await refresh(stack, third, **HERE)).code == "OK"


@told_apart
@pytest.mark.parametrize("who", ["a third time", "from elsewhere", "too late", "after the next one"])
async def test_a_reused_refresh_token_ends_its_family(stack: Stack, phone: Phone, who: str) -> None:
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


async def test_a_thief_beside_the_owner_is_not_as_quick_as_it_for_ever(stack: Stack, phone: Phone) -> None:
    """Behind the same address, and within the moment in which the owner's answer might have been lost."""
    token = (await log_in(stack, phone))["refresh_token"]
    for _ in range(2):
        for _ in range(REPEATS_MAX):
            owners, thiefs = [(await refresh(stack, token)).data["refresh_token"] for _ in range(2)]
            assert owners == thiefs
            token = owners
        token = (await refresh(stack, token)).data["refresh_token"]  # Alone: it counts anew.
        token = (await refresh(stack, token)).data["refresh_token"]
    for _ in range(REPEATS_MAX):
        assert (await refresh(stack, token)).code == "OK"
        token = (await refresh(stack, token)).data["refresh_token"]
    counts = (await refresh(stack, token)).data["refresh_token"]
    await ended(stack, token)
    await ended(stack, counts)


async def test_of_rivals_with_one_refresh_token_two_win_the_same_and_the_others_end_it(
    stack: Stack, phone: Phone
) -> None:
    token = (await log_in(stack, phone))["refresh_token"]
    answers = await asyncio.gather(*(refresh(stack, token) for _ in range(20)))
    won = [answer.data["refresh_token"] for answer in answers if answer.code == "OK"]
    assert (len(won), len(set(won))) == (2, 1)
    assert {answer.http for answer in answers} == {200, 401}
    await ended(stack, won[0])


@told_apart
async def test_of_a_thief_and_the_owner_only_the_first_wins(stack: Stack, phone: Phone) -> None:
    token = (await log_in(stack, phone))["refresh_token"]
    answers = await asyncio.gather(*(refresh(stack, token, **who) for who in (HERE, THERE)))
    assert sorted(answer.http for answer in answers) == [200, 401]
    await ended(stack, next(answer for answer in answers if answer.http == 200).data["refresh_token"])


async def test_a_forged_refresh_token_ends_nothing(stack: Stack, phone: Phone) -> None:
    token = (await log_in(stack, phone))["refresh_token"]
    for forged in ("rt_", "rt_x", token[:-4] + "AAAA", "rt_" + "A" * 59, "é" * 20):
        assert (await refresh(stack, forged)).reason == "TOKEN_INVALID"
    assert (await refresh(stack, token)).code == "OK"
