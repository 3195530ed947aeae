"""Login: a code that is guessed five times at most and works once, tokens that turn, and three senders."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from ipaddress import ip_network
from typing import Any

import pytest
import redis.asyncio
from aiohttp import web
from aiosmtpd.smtp import SMTP

from ops.servers.valkey import Valkey
from runtime.http.login.challenges import RESEND_SECONDS, SENDS_IP_MAX, SENDS_SECONDS, TRIES_MAX
from runtime.outgoing import signing
from tests.support.invariants import check_sums
from tests.support.stack import Answer, Stack

PHONE = "+15550100"


class Phone:
    """What the log sender printed: the last code for each contact."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._codes: dict[str, str] = {}

    def code(self, contact: str = PHONE) -> str:
        printed = self._capsys.readouterr().out
        for line in printed.splitlines():
            if matched := re.fullmatch(r"login code (\d{6}) for (\S+)", line):
                self._codes[matched[2]] = matched[1]
        return self._codes[contact]

    def wrong(self, contact: str = PHONE) -> str:
        return f"{(int(self.code(contact)) + 1) % 10**6:06}"


@pytest.fixture
def phone(capsys: pytest.CaptureFixture[str]) -> Phone:
    return Phone(capsys)


async def start(stack: Stack, contact: str = PHONE, contact_type: str = "CONTACT_TYPE_PHONE", **headers: str) -> Answer:
    return await stack.consumer(
        "POST", "/players/auth/start", {"contact_type": contact_type, "contact": contact}, headers=headers
    )


async def verify(stack: Stack, challenge_id: str, code: str, **options: Any) -> Answer:
    return await stack.consumer("POST", "/players/auth/verify", {"challenge_id": challenge_id, "code": code}, **options)


async def log_in(
    stack: Stack, phone: Phone, contact: str = PHONE, type: str = "phone", **options: Any
) -> dict[str, Any]:
    challenge = (await start(stack, contact, type)).data
    answer: dict[str, Any] = (await verify(stack, challenge["challenge_id"], phone.code(contact), **options)).data
    return answer


async def let_resend(valkey: redis.asyncio.Redis) -> None:
    """As if RESEND_SECONDS had gone by."""
    for key in await valkey.keys("*ls:*"):
        await valkey.delete(key)


async def refresh(stack: Stack, token: str) -> Answer:
    return await stack.consumer("POST", "/players/auth/refresh", {"refresh_token": token})


# -- challenge and verify --------------------------------------------------------------------


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


class TestByAddress:
    @pytest.fixture
    def extra_settings(self) -> dict[str, Any]:
        return {"rate_limits": True}

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


async def test_a_guest_of_a_public_game_keeps_everything(
    stack: Stack, phone: Phone, valkey: redis.asyncio.Redis
) -> None:
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
    await let_resend(valkey)
    player = (await log_in(stack, phone, headers={"Authorization": f"Bearer {guest}"}))["token"]
    points, rewards, plays = await owned(player)
    assert points == before[0][0] + before[1][0]
    assert rewards == before[0][1] | before[1][1]
    assert plays == 12
    assert await owned(guest) == (0, set(), 0)
    # The game goes on, for the player and for what is left of the guest.
    await play(stack, game_id, player)
    await play(stack, game_id, guest)
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


async def test_a_contact_is_linked_by_its_own_challenge(
    stack: Stack, phone: Phone, valkey: redis.asyncio.Redis
) -> None:
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
    await let_resend(valkey)
    assert (await log_in(stack, phone, "ada@example.com", "email"))["player"]["id"] == mine


async def test_another_players_contact_is_taken(stack: Stack, phone: Phone, valkey: redis.asyncio.Redis) -> None:
    await log_in(stack, phone)
    await let_resend(valkey)
    challenge_id = (await start(stack)).data["challenge_id"]
    body = {"type": "phone", "value": PHONE, "challenge_id": challenge_id, "code": phone.code()}
    taken = await stack.consumer("POST", "/players/me/contacts", body, player="player_2")
    assert (taken.http, taken.reason) == (409, "CONTACT_TAKEN")


# -- refresh ---------------------------------------------------------------------------------


async def test_a_refresh_token_turns(stack: Stack, phone: Phone) -> None:
    first = await log_in(stack, phone)
    second = (await refresh(stack, first["refresh_token"])).data
    assert second.keys() == first.keys()
    assert second["player"] == first["player"]
    assert second["refresh_token"] != first["refresh_token"]
    assert (await refresh(stack, second["refresh_token"])).code == "OK"


async def test_a_reused_refresh_token_ends_its_family(stack: Stack, phone: Phone) -> None:
    first = (await log_in(stack, phone))["refresh_token"]
    second = (await refresh(stack, first)).data["refresh_token"]
    reused = await refresh(stack, first)
    assert (reused.http, reused.reason) == (401, "TOKEN_INVALID")
    assert (await refresh(stack, second)).http == 401


async def test_of_rivals_with_one_refresh_token_at_most_one_wins(stack: Stack, phone: Phone) -> None:
    token = (await log_in(stack, phone))["refresh_token"]
    answers = await asyncio.gather(*(refresh(stack, token) for _ in range(20)))
    assert [answer.code for answer in answers].count("OK") == 1
    assert {answer.http for answer in answers} == {200, 401}
    winner = next(answer for answer in answers if answer.code == "OK")
    assert (await refresh(stack, winner.data["refresh_token"])).http == 401


async def test_a_forged_refresh_token_ends_nothing(stack: Stack, phone: Phone) -> None:
    token = (await log_in(stack, phone))["refresh_token"]
    for forged in ("rt_", "rt_x", token[:-4] + "AAAA", "rt_" + "A" * 59, "é" * 20):
        assert (await refresh(stack, forged)).reason == "TOKEN_INVALID"
    assert (await refresh(stack, token)).code == "OK"


# -- senders ---------------------------------------------------------------------------------


class Mailbox:
    """A mail server on a port of its own: keeps what it is given."""

    def __init__(self) -> None:
        self.mails: list[str] = []
        self.port = 0
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listens, again on the port that it had."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: SMTP(self, loop=loop), "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.mails.append(envelope.content.decode())
        return "250 kept"


class TestBySmtp:
    @pytest.fixture
    async def mailbox(self) -> AsyncIterator[Mailbox]:
        mailbox = Mailbox()
        await mailbox.open()
        yield mailbox
        await mailbox.close()

    @pytest.fixture
    def extra_settings(self, mailbox: Mailbox) -> dict[str, Any]:
        url = f"smtp://127.0.0.1:{mailbox.port}"
        return {"login_sender": "smtp", "smtp_url": url, "smtp_from": "Shop <shop@example.com>"}

    async def test_a_code_comes_by_mail(self, stack: Stack, mailbox: Mailbox) -> None:
        challenge_id = (await start(stack, "ada@example.com", "email")).data["challenge_id"]
        (mail,) = mailbox.mails
        assert "To: ada@example.com" in mail
        assert "From: Shop <shop@example.com>" in mail
        matched = re.search(r"code is (\d{6})", mail)
        assert matched is not None
        assert (await verify(stack, challenge_id, matched[1])).code == "OK"

    async def test_a_phone_cannot_be_reached(self, stack: Stack) -> None:
        answer = await start(stack)
        assert (answer.http, answer.envelope["data"]["violations"][0]["field"]) == (400, "contact_type")

    async def test_a_mail_that_did_not_leave_may_be_asked_for_again(self, stack: Stack, mailbox: Mailbox) -> None:
        await mailbox.close()
        refused = await start(stack, "ada@example.com", "email")
        assert (refused.http, refused.reason) == (503, "SENDER_UNAVAILABLE")
        await mailbox.open()
        assert (await start(stack, "ada@example.com", "email")).code == "OK"


class TestByWebhook:
    SECRET = "whsec_" + "c2VjcmV0IG9mIHRoZSB0ZXN0cw=="

    @pytest.fixture
    async def receiver(self) -> AsyncIterator[tuple[str, list[tuple[Any, bytes]]]]:
        received: list[tuple[Any, bytes]] = []

        async def take(request: web.Request) -> web.Response:
            received.append((request.headers, await request.read()))
            return web.Response(status=204)

        app = web.Application()
        app.router.add_post("/codes", take)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/codes", received
        await runner.cleanup()

    @pytest.fixture
    def extra_settings(self, receiver: tuple[str, list[tuple[Any, bytes]]]) -> dict[str, Any]:
        return {
            "login_sender": "webhook",
            "sender_webhook_url": receiver[0],
            "sender_webhook_secret": self.SECRET,
            "outbound_allow_cidrs": (ip_network("127.0.0.0/8"),),
        }

    async def test_a_code_comes_signed(self, stack: Stack, receiver: tuple[str, list[tuple[Any, bytes]]]) -> None:
        challenge_id = (await start(stack)).data["challenge_id"]
        headers, body = receiver[1][0]
        signing.verify([self.SECRET], headers, body, float(headers["webhook-timestamp"]))
        matched = re.search(rb'"code":"(\d{6})"', body)
        assert matched is not None
        assert PHONE.encode() in body
        assert (await verify(stack, challenge_id, matched[1].decode())).code == "OK"
