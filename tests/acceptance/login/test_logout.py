"""Logout of one login or of all, and the end of every login."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import jwt
import pytest

from runtime.app import running
from runtime.http.auth.tokens import Tokens
from tests.support.login import Phone, bearer, let_resend, log_in, log_out, refresh, start, verify
from tests.support.stack import OTHER_TENANT, Answer, Stack
from tests.support.world import World


def claims_of(token: str) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return claims


def life_of(token: str) -> int:
    claims = claims_of(token)
    return int(claims["exp"] - claims["iat"])


async def me(stack: Stack, token: str) -> Answer:
    return await stack.consumer("GET", "/players/me", headers=bearer(token))


async def test_logout_ends_its_login_and_no_other(stack: Stack, phone: Phone) -> None:
    here = await log_in(stack, phone)
    here = (await refresh(stack, here["refresh_token"])).data | {"before": here["token"]}
    await let_resend(stack)
    there = await log_in(stack, phone)
    answer = await log_out(stack, here["before"])
    assert (answer.data, answer.headers["Cache-Control"]) == ({}, "no-store")
    ended = await me(stack, here["token"])
    assert (ended.http, ended.reason) == (401, "TOKEN_INVALID")
    assert (await refresh(stack, here["refresh_token"])).reason == "TOKEN_INVALID"
    assert (await me(stack, there["token"])).code == "OK"
    assert (await refresh(stack, there["refresh_token"])).code == "OK"
    assert (await log_out(stack, here["token"])).reason == "TOKEN_INVALID"


async def test_logout_everywhere_ends_every_token_of_the_player(stack: Stack, phone: Phone) -> None:
    here = await log_in(stack, phone)
    await let_resend(stack)
    there = await log_in(stack, phone)
    neighbour = await log_in(stack, phone, "+15550199")
    of_no_login = stack.token(here["player"]["id"])
    elsewhere = stack.token(here["player"]["id"], tenant_id=OTHER_TENANT)
    assert (await log_out(stack, here["token"], everywhere=True)).code == "OK"
    for token in (here["token"], there["token"], of_no_login):
        assert (await me(stack, token)).reason == "TOKEN_INVALID"
    for token in (here["refresh_token"], there["refresh_token"]):
        assert (await refresh(stack, token)).reason == "TOKEN_INVALID"
    for token in (neighbour["token"], elsewhere):
        assert (await me(stack, token)).code == "OK"
    await let_resend(stack)
    assert (await me(stack, (await log_in(stack, phone))["token"])).code == "OK"


async def test_logout_of_a_guest_ends_its_token(stack: Stack) -> None:
    guest = stack.token("player_guest")
    assert (await log_out(stack, guest)).code == "OK"
    assert (await me(stack, guest)).reason == "TOKEN_INVALID"


@pytest.mark.parametrize("ahead_seconds", [0, 4])
async def test_logout_ends_tokens_made_by_a_clock_that_is_ahead(stack: Stack, ahead_seconds: int) -> None:
    with pytest.MonkeyPatch.context() as clock:
        now = time.time() + ahead_seconds
        clock.setattr(time, "time", lambda: now)
        tokens = [stack.token("player_ann"), stack.token("player_ann")]
    assert (await me(stack, tokens[1])).code == "OK"
    assert (await log_out(stack, tokens[0])).code == "OK"
    assert [(await me(stack, token)).reason for token in tokens] == ["TOKEN_INVALID"] * 2
    late = {"player_id": "player_ann", "everywhere": True}
    assert (await stack.core("POST", "/logins/end", late)).code == "OK"
    kept = "SELECT floor(extract(epoch FROM issued_until))::bigint FROM revocations"
    assert await stack.database.fetchval(kept) >= int(now)


async def test_token_never_outlives_the_memory_of_its_revocation(own_world: World, stack: Stack, phone: Phone) -> None:
    """Core forgets a logout by its own settings: an edge that is told of longer lives makes and takes none."""
    cores = stack.process.settings
    longer = replace(
        cores,
        core_rpc_addresses=(stack.process.rpc_address,),
        player_token_seconds=16 * cores.player_token_seconds,
        refresh_token_seconds=2 * cores.token_seconds_max,
        token_seconds_max=2 * cores.token_seconds_max,
    )
    game_id = await own_world.wheel(await own_world.prize(), access="public")
    async with running(longer, ["consumer"]) as process:
        there = replace(stack, process=process)
        guest = (await there.consumer("POST", f"/games/{game_id}/start", {})).data["guest_token"]
        logged_in = await log_in(there, phone)
        refreshed = (await refresh(there, logged_in["refresh_token"])).data
        assert life_of(guest) == cores.refresh_token_seconds
        for answer in (logged_in, refreshed):
            assert life_of(answer["token"]) == cores.player_token_seconds
            assert abs(answer["expires_at"] - claims_of(answer["token"])["exp"]) <= 1
        for token in (guest, logged_in["token"]):
            assert (await me(there, token)).code == "OK"
        mint = Tokens.of(longer).mint
        for seconds, login_id in ((cores.player_token_seconds, "login_x"), (cores.token_seconds_max, "")):
            good, longest = (
                mint("player_ann", tenant_id=stack.tenant_id, seconds=lives, login_id=login_id)
                for lives in (seconds, seconds + 1)
            )
            assert (await me(there, good)).code == "OK"
            assert (await me(there, longest)).reason == "TOKEN_INVALID"


async def test_reused_refresh_token_ends_access_tokens(stack: Stack, phone: Phone) -> None:
    first = await log_in(stack, phone)
    second = (await refresh(stack, first["refresh_token"])).data
    assert (await refresh(stack, first["refresh_token"])).code == "OK"  # Its answer may have been lost.
    assert (await refresh(stack, first["refresh_token"])).reason == "TOKEN_INVALID"
    async with asyncio.timeout(60):
        while (await me(stack, second["token"])).code == "OK":
            await asyncio.sleep(0.01)


async def test_logout_with_a_wrong_field_is_refused(stack: Stack, phone: Phone) -> None:
    token = (await log_in(stack, phone))["token"]
    assert (await stack.consumer("POST", "/players/auth/logout", {})).reason == "TOKEN_MISSING"
    for body, field in (({"everywhere": "yes"}, "everywhere"), ({"where": True}, "where")):
        answer = await stack.consumer("POST", "/players/auth/logout", body, headers=bearer(token))
        assert (answer.http, answer.envelope["data"]["violations"][0]["field"]) == (400, field)
    assert (await me(stack, token)).code == "OK"
    assert (await stack.consumer("POST", "/players/auth/logout", headers=bearer(token))).code == "OK"


async def test_login_ends_however_often_it_is_refreshed(stack: Stack, phone: Phone) -> None:
    token = (await log_in(stack, phone))["refresh_token"]
    settings = stack.process.settings
    lives = "SELECT extract(epoch FROM {} - created_at) FROM logins"
    assert int(await stack.database.fetchval(lives.format("ends_at"))) == settings.login_seconds
    await stack.database.execute("UPDATE logins SET ends_at = now() + interval '1 hour'")
    token = (await refresh(stack, token)).data["refresh_token"]
    assert await stack.database.fetchval("SELECT expires_at = ends_at FROM logins")
    await stack.database.execute("UPDATE logins SET expires_at = now(), ends_at = now()")
    answer = await refresh(stack, token)
    assert (answer.http, answer.reason) == (401, "TOKEN_EXPIRED")


async def test_replicas_during_a_secret_rotation_take_each_others_tokens(stack: Stack, phone: Phone) -> None:
    """And count together: with hashes of another secret, wrong guesses and sends would begin anew."""
    settings = replace(stack.process.settings, login_secret="l" * 32)
    old, new = settings.jwt_secret, "n" * 64
    before = replace(settings, jwt_old_secrets=(new,))
    after = replace(settings, jwt_secret=new, jwt_old_secrets=(old,))
    async with running(before, ["consumer"]) as one, running(after, ["consumer"]) as other:
        for contact, (first, second) in {"+15550100": (one, other), "+15550199": (other, one)}.items():
            here, there = replace(stack, process=first), replace(stack, process=second)
            challenge_id = (await start(here, contact)).data["challenge_id"]
            code = phone.code(contact)
            assert (await start(there, contact)).reason == "RESEND_TOO_SOON"
            assert (await verify(there, challenge_id, phone.wrong(contact))).reason == "CODE_WRONG"
            logged_in = (await verify(there, challenge_id, code)).data
            assert (await me(here, logged_in["token"])).code == "OK"
            again = (await refresh(here, logged_in["refresh_token"])).data
            assert (await me(there, again["token"])).code == "OK"
            assert (await refresh(there, again["refresh_token"])).code == "OK"
