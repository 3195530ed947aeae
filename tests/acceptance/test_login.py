"""Login: a code that is guessed five times at most and works once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis.asyncio

from ops.servers.valkey import Valkey
from runtime.http.login.challenges import RESEND_SECONDS, SENDS_IP_MAX, SENDS_SECONDS, TRIES_MAX
from tests.support.login import PHONE, Phone, let_resend, log_in, refresh, start, verify
from tests.support.stack import AS_SHIPPED, Stack


@pytest.mark.parametrize(("type", "contact"), [("phone", PHONE), ("CONTACT_TYPE_EMAIL", "ada@example.com")])
async def test_a_right_code_logs_in(stack: Stack, phone: Phone, type: str, contact: str) -> None:
    challenge = await start(stack, contact, type)
    assert set(challenge.data) == {"challenge_id", "expires_at", "resend_at"}
    assert challenge.data["expires_at"] - challenge.data["resend_at"] == 240
    answer = await verify(stack, challenge.data["challenge_id"], phone.code(contact))
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.data["player"]["contacts"][0]["value"] == contact
    headers = {"Authorization": f"Bearer {answer.data['token']}"}
    me = (await stack.consumer("GET", "/players/me", headers=headers)).data
    assert me == answer.data["player"]


async def test_a_code_works_once(stack: Stack, phone: Phone) -> None:
    challenge_id = (await start(stack)).data["challenge_id"]
    code = phone.code()
    answers = await asyncio.gather(*(verify(stack, challenge_id, code) for _ in range(20)))
    assert sorted(answer.code for answer in answers) == ["NOT_FOUND"] * 19 + ["OK"]
    assert await stack.database.fetchval("SELECT count(*) FROM players") == 1


async def test_a_second_login_is_the_same_player(stack: Stack, phone: Phone, valkey: redis.asyncio.Redis) -> None:
    first = await log_in(stack, phone)
    await let_resend(valkey)
    second = await log_in(stack, phone)
    assert second["player"]["id"] == first["player"]["id"]


async def test_known_and_unknown_contacts_are_answered_alike(
    stack: Stack, phone: Phone, valkey: redis.asyncio.Redis
) -> None:
    await log_in(stack, phone)
    await let_resend(valkey)
    known, unknown = (await start(stack)).data, (await start(stack, "+15550199")).data
    assert known.keys() == unknown.keys()
    assert len(known["challenge_id"]) == len(unknown["challenge_id"])


async def test_another_code_is_sent_after_a_minute(stack: Stack, phone: Phone, valkey: redis.asyncio.Redis) -> None:
    first = (await start(stack)).data["challenge_id"]
    refused = await start(stack)
    assert (refused.http, refused.code, refused.reason) == (429, "RESOURCE_EXHAUSTED", "RESEND_TOO_SOON")
    assert 1 <= int(refused.headers["Retry-After"]) <= RESEND_SECONDS
    ttl = await valkey.pttl((await valkey.keys("*ls:*"))[0])
    assert 0 < ttl <= 1000 * RESEND_SECONDS
    await let_resend(valkey)
    assert (await start(stack)).data["challenge_id"] != first


async def test_wrong_codes_count_down(stack: Stack, phone: Phone) -> None:
    challenge_id = (await start(stack)).data["challenge_id"]
    code, wrong = phone.code(), phone.wrong()
    for left in (4, 3, 2, 1, 0, 0):
        answer = await verify(stack, challenge_id, wrong)
        assert (answer.http, answer.reason, answer.envelope["data"]["attempts_left"]) == (401, "CODE_WRONG", left)
    # The right one comes too late.
    assert (await verify(stack, challenge_id, code)).reason == "CODE_WRONG"


async def test_parallel_guesses_get_five_checks(stack: Stack, phone: Phone, valkey: redis.asyncio.Redis) -> None:
    challenge_id = (await start(stack)).data["challenge_id"]
    code = phone.code()
    guesses = [f"{(int(code) + 1 + nth) % 10**6:06}" for nth in range(200)]
    answers = await asyncio.gather(*(verify(stack, challenge_id, guess) for guess in guesses))
    assert {answer.reason for answer in answers} == {"CODE_WRONG"}
    left = sorted((answer.envelope["data"]["attempts_left"] for answer in answers), reverse=True)
    assert left[:TRIES_MAX] == [4, 3, 2, 1, 0]
    assert set(left[TRIES_MAX:]) == {0}
    checked = await valkey.hget((await valkey.keys("*lh:*"))[0], "n")
    assert int(checked or 0) == TRIES_MAX
    assert (await verify(stack, challenge_id, code)).reason == "CODE_WRONG"


async def test_a_new_code_gives_no_more_tries(stack: Stack, phone: Phone, valkey: redis.asyncio.Redis) -> None:
    first = (await start(stack)).data["challenge_id"]
    for _ in range(3):
        await verify(stack, first, phone.wrong())
    await let_resend(valkey)
    second = (await start(stack)).data["challenge_id"]
    assert (await verify(stack, second, phone.wrong())).envelope["data"]["attempts_left"] == 1
    # The first challenge shares what is left.
    assert (await verify(stack, first, phone.wrong())).envelope["data"]["attempts_left"] == 0
    assert (await verify(stack, second, phone.code())).reason == "CODE_WRONG"
    await let_resend(valkey)
    assert (await start(stack)).reason == "RESEND_TOO_SOON"


async def test_a_success_forgets_the_wrong_tries(stack: Stack, phone: Phone, valkey: redis.asyncio.Redis) -> None:
    challenge_id = (await start(stack)).data["challenge_id"]
    for _ in range(4):
        await verify(stack, challenge_id, phone.wrong())
    assert (await verify(stack, challenge_id, phone.code())).code == "OK"
    await let_resend(valkey)
    again = (await start(stack)).data["challenge_id"]
    assert (await verify(stack, again, phone.wrong())).envelope["data"]["attempts_left"] == 4


async def test_a_code_expires(stack: Stack, phone: Phone, valkey: redis.asyncio.Redis) -> None:
    challenge_id = (await start(stack)).data["challenge_id"]
    await valkey.hset((await valkey.keys("*lh:*"))[0], "x", "1000")
    answer = await verify(stack, challenge_id, phone.code())
    assert (answer.http, answer.reason) == (401, "CODE_EXPIRED")


@pytest.mark.parametrize("challenge_id", ["chal_none", "chal_" + "0" * 48, "x" * 5000, "{}\r\n*"])
async def test_an_unknown_challenge_is_told(stack: Stack, challenge_id: str) -> None:
    answer = await verify(stack, challenge_id, "123456")
    assert (answer.http, answer.reason) == (404, "UNKNOWN_CHALLENGE")


async def test_another_tenants_challenge_is_unknown(stack: Stack, phone: Phone) -> None:
    challenge_id = (await start(stack)).data["challenge_id"]
    answer = await verify(stack, challenge_id, phone.code(), headers={"X-Tenant-Id": "tenant_other"})
    assert answer.reason == "UNKNOWN_CHALLENGE"
    assert (await verify(stack, challenge_id, phone.code())).code == "OK"


async def test_codes_to_one_contact_are_bounded(stack: Stack, phone: Phone, valkey: redis.asyncio.Redis) -> None:
    for _ in range(10):
        assert (await start(stack)).code == "OK"
        await let_resend(valkey)
    refused = await start(stack)
    assert (refused.http, refused.reason) == (429, "RATE_LIMITED")
    assert (await start(stack, "+15550199")).code == "OK"


@pytest.mark.settings(rate_limits=True)
class TestByAddress:
    async def test_codes_for_one_address_are_bounded(
        self, stack: Stack, phone: Phone, valkey: redis.asyncio.Redis
    ) -> None:
        assert (await start(stack)).code == "OK"
        (key,) = await valkey.keys("*li:127.0.0.1")
        assert int(await valkey.get(key) or 0) == 1
        await valkey.set(key, SENDS_IP_MAX, keepttl=True)
        refused = await start(stack, "+15550199")
        assert (refused.http, refused.reason) == (429, "RATE_LIMITED")
        assert 1 <= int(refused.headers["Retry-After"]) <= SENDS_SECONDS


async def test_neither_codes_nor_contacts_lie_open_in_the_store(
    stack: Stack, phone: Phone, valkey: redis.asyncio.Redis
) -> None:
    await start(stack)
    code = phone.code()
    for key in await valkey.keys("*"):
        assert PHONE.encode() not in key
        if await valkey.type(key) == b"hash":
            assert code.encode() not in b" ".join([*await valkey.hkeys(key), (await valkey.hget(key, "h")) or b""])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"contact_type": "phone", "contact": "0155501"}, "contact"),
        ({"contact_type": "pigeon", "contact": "x"}, "contact_type"),
        ({"contact_type": "email", "contact": "nobody"}, "contact"),
        ({"contact_type": "email"}, "contact"),
        ({"contact_type": "email", "contact": 7}, "contact"),
        ({"contact_type": "email", "contact": "a@example.com", "code": "1"}, "code"),
    ],
)
async def test_what_is_wrong_with_a_start_is_named(stack: Stack, body: dict[str, Any], field: str) -> None:
    answer = await stack.consumer("POST", "/players/auth/start", body)
    assert (answer.http, answer.envelope["data"]["violations"][0]["field"]) == (400, field)


@pytest.mark.settings(**AS_SHIPPED)
async def test_nobody_logs_in_without_the_store(stack: Stack, phone: Phone, valkey_server: Valkey) -> None:
    challenge_id = (await start(stack)).data["challenge_id"]
    token = (await log_in(stack, phone, "+15550199"))["refresh_token"]
    valkey_server.freeze()
    try:
        for answer in (
            await start(stack, "+15550177"),
            await verify(stack, challenge_id, phone.code()),
            await refresh(stack, token),
        ):
            assert (answer.http, answer.code, answer.reason) == (503, "UNAVAILABLE", "STORE_UNAVAILABLE")
            assert "Retry-After" in answer.headers
    finally:
        valkey_server.thaw()
