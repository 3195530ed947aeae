import asyncio
import re
from ipaddress import ip_network
from typing import Any

import pytest
import redis.asyncio

from runtime.operations.players.challenges import SENDS, SENDS_ADDRESS, TRIES_MAX, WRONG_ADDRESS
from runtime.outgoing import signing
from runtime.outgoing.senders import SENDERS
from runtime.settings import Settings, SettingsError
from tests.support.login import PHONE, Phone, let_resend, log_in, start, verify
from tests.support.mailbox import Mailbox
from tests.support.receiver import Receiver
from tests.support.stack import Stack, fields_of
from tests.support.tables import contents, everything_in


@pytest.mark.parametrize(("type", "contact"), [("phone", PHONE), ("CONTACT_TYPE_EMAIL", "ada@example.com")])
async def test_right_code_logs_in(stack: Stack, phone: Phone, type: str, contact: str) -> None:
    challenge = await start(stack, contact, type)
    assert set(challenge.data) == {"challenge_id", "expires_at", "resend_at"}
    assert challenge.data["expires_at"] - challenge.data["resend_at"] == 240
    answer = await verify(stack, challenge.data["challenge_id"], phone.code(contact))
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.data["player"]["contacts"][0]["value"] == contact
    headers = {"Authorization": f"Bearer {answer.data['token']}"}
    assert (await stack.consumer("GET", "/players/me", headers=headers)).data == answer.data["player"]


@pytest.mark.fault("One-time codes", size="20 at once", figure="1 login")
async def test_code_works_once(stack: Stack, phone: Phone) -> None:
    challenge_id = (await start(stack)).data["challenge_id"]
    code = phone.code()
    answers = await asyncio.gather(*(verify(stack, challenge_id, code) for _ in range(20)))
    assert sorted(answer.code for answer in answers) == ["NOT_FOUND"] * 19 + ["OK"]
    assert await stack.database.fetchval("SELECT count(*) FROM players") == 1


async def test_start_answers_known_and_unknown_contacts_alike(stack: Stack, phone: Phone) -> None:
    await log_in(stack, phone)
    await let_resend(stack)
    known, unknown = (await start(stack)).data, (await start(stack, "+15550199")).data
    assert known.keys() == unknown.keys()
    assert len(known["challenge_id"]) == len(unknown["challenge_id"])


@pytest.mark.fault("One-time codes", size="200 at once", figure="5 checks")
async def test_parallel_guesses_get_five_checks(stack: Stack, phone: Phone) -> None:
    challenge_id = (await start(stack)).data["challenge_id"]
    code = phone.code()
    guesses = [f"{(int(code) + 1 + nth) % 10**6:06}" for nth in range(200)]
    answers = await asyncio.gather(*(verify(stack, challenge_id, guess) for guess in guesses))
    assert {answer.reason for answer in answers} == {"CODE_WRONG"}
    left = sorted((answer.envelope["data"]["attempts_left"] for answer in answers), reverse=True)
    assert left[:TRIES_MAX] == [4, 3, 2, 1, 0]
    assert set(left[TRIES_MAX:]) == {0}
    assert await stack.database.fetchval("SELECT tries FROM login_challenges") == TRIES_MAX
    assert (await verify(stack, challenge_id, code)).reason == "CODE_WRONG"


async def test_start_after_five_wrong_codes_waits_ever_longer(stack: Stack, phone: Phone) -> None:
    for seconds in (60, 120, 240):
        challenge_id = (await start(stack)).data["challenge_id"]
        for _ in range(TRIES_MAX):
            await verify(stack, challenge_id, phone.wrong())
        refused = await start(stack)
        assert (refused.http, refused.reason) == (429, "RESEND_TOO_SOON")
        assert int(refused.headers["Retry-After"]) <= seconds
        await let_resend(stack, seconds // 2)
        assert (await start(stack)).reason == "RESEND_TOO_SOON"
        await let_resend(stack, seconds // 2)
    assert (await verify(stack, (await start(stack)).data["challenge_id"], phone.code())).code == "OK"
    assert await stack.database.fetchval("SELECT sum(wrong) FROM login_guesses") == 0


async def test_expired_code_is_refused(stack: Stack, phone: Phone) -> None:
    challenge_id = (await start(stack)).data["challenge_id"]
    await stack.database.execute("UPDATE login_challenges SET expires_at = now()")
    answer = await verify(stack, challenge_id, phone.code())
    assert (answer.http, answer.reason) == (401, "CODE_EXPIRED")


async def test_verify_of_an_unknown_or_another_tenants_challenge_is_refused(stack: Stack, phone: Phone) -> None:
    for challenge_id in ("chal_none", "chal_" + "0" * 32, "x" * 5000, "{}\r\n*"):
        answer = await verify(stack, challenge_id, "123456")
        assert (answer.http, answer.reason) == (404, "UNKNOWN_CHALLENGE"), challenge_id
    challenge_id = (await start(stack)).data["challenge_id"]
    answer = await verify(stack, challenge_id, phone.code(), headers={"X-Tenant-Id": "tenant_other"})
    assert answer.reason == "UNKNOWN_CHALLENGE"
    assert (await verify(stack, challenge_id, phone.code())).code == "OK"


@pytest.mark.settings(rate_limits=True)
async def test_guesses_of_an_address_are_bounded_and_right_codes_are_not_counted(stack: Stack, phone: Phone) -> None:
    challenge_id = (await start(stack)).data["challenge_id"]
    assert (await verify(stack, challenge_id, phone.wrong())).reason == "CODE_WRONG"
    fill = "UPDATE login_rates SET full_at = now() + make_interval(secs => $1) WHERE rate_key LIKE 'wrong-ip:%'"
    await stack.database.execute(fill, WRONG_ADDRESS.seconds * WRONG_ADDRESS.most)
    refused = await verify(stack, challenge_id, phone.code())
    assert (refused.http, refused.reason) == (429, "RATE_LIMITED")
    assert await stack.database.fetchval("SELECT tries FROM login_challenges") == 1
    await stack.database.execute(fill, 60.0)
    bucket = "SELECT full_at FROM login_rates WHERE rate_key LIKE 'wrong-ip:%'"
    before = await stack.database.fetchval(bucket)
    assert (await verify(stack, challenge_id, phone.code())).code == "OK"
    assert before == await stack.database.fetchval(bucket)


async def test_code_is_stored_nowhere_readable(stack: Stack, phone: Phone, valkey: redis.asyncio.Redis) -> None:
    await start(stack)
    code = phone.code()
    for table, rows in (await contents(stack.database)).items():
        assert code not in str(rows), table
        assert (PHONE in str(rows)) == (table == "login_challenges"), table
    stored = await everything_in(valkey)
    assert not [key for key, value in stored.items() if PHONE in key + value or code in value]


async def test_start_with_a_wrong_field_names_it(stack: Stack) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"contact_type": "phone", "contact": "0155501"}, "contact"),
        ({"contact_type": "pigeon", "contact": "x"}, "contact_type"),
        *(({"contact_type": "email", "contact": "nobody"}, "contact"), ({"contact_type": "email"}, "contact")),
        ({"contact_type": "email", "contact": 7}, "contact"),
        ({"contact_type": "email", "contact": "a@example.com", "code": "1"}, "code"),
    ]
    for body, field in cases:
        assert fields_of(await stack.consumer("POST", "/players/auth/start", body))[0] == field, body


@pytest.mark.settings(login_sender="none")
async def test_login_without_a_sender_is_refused_with_the_reason(stack: Stack) -> None:
    answer = await start(stack)
    (problem,) = answer.envelope["data"]["violations"]
    assert (answer.http, problem["field"]) == (400, "contact_type") and "LOGIN_SENDER=none" in problem["description"]


class TestBySmtp:
    @pytest.fixture
    def extra_settings(self, mailbox: Mailbox) -> dict[str, Any]:
        url = f"smtp://127.0.0.1:{mailbox.port}"
        login = {"login_sender": "smtp", "rate_limits": True}
        return {**login, "smtp_url": url, "smtp_from": "Shop <shop@example.com>"}

    async def test_phone_is_refused_by_the_mail_sender(self, stack: Stack) -> None:
        answer = await start(stack)
        assert (answer.http, answer.envelope["data"]["violations"][0]["field"]) == (400, "contact_type")

    async def test_failed_mail_is_charged_to_its_address_alone(self, stack: Stack, mailbox: Mailbox) -> None:
        for _ in range(2):
            await mailbox.close()
            for _ in range(SENDS.most + 1):
                refused = await start(stack, "ada@example.com", "email")
                assert (refused.http, refused.reason) == (503, "SENDER_UNAVAILABLE")
            await mailbox.open()
            challenge_id = (await start(stack, "ada@example.com", "email")).data["challenge_id"]
            assert {"To: ada@example.com", "From: Shop <shop@example.com>"} <= {*mailbox.mails[-1].splitlines()}
            [code] = re.findall(r"code: (\d{6})", mailbox.mails[-1])
            assert (await verify(stack, challenge_id, code)).code == "OK"
            await let_resend(stack)
        # Nothing was given back that was not taken: the two that left count.
        taken = "SELECT count(*) FROM login_rates WHERE rate_key LIKE $1 AND full_at > now() + $2 * interval '1 s'"
        assert await stack.database.fetchval(taken, "sends%", 0.0) == 4
        assert await stack.database.fetchval(taken, "sends-ip:%", 2 * SENDS.most * SENDS_ADDRESS.seconds) == 1


class TestByWebhook:
    SECRET = "whsec_" + "c2VjcmV0IG9mIHRoZSB0ZXN0cw=="

    @pytest.fixture
    def extra_settings(self, receiver: Receiver) -> dict[str, Any]:
        to = {"sender_webhook_url": receiver.url, "sender_webhook_secret": self.SECRET}
        return {"login_sender": "webhook", "outbound_allow_cidrs": (ip_network("127.0.0.0/8"),), **to}

    async def test_code_is_sent_by_a_signed_webhook(self, stack: Stack, receiver: Receiver) -> None:
        challenge_id = (await start(stack)).data["challenge_id"]
        got = await receiver.next()
        signing.verify([self.SECRET], got.headers, got.body, float(got.headers["webhook-timestamp"]))
        assert got.json["contact"] == PHONE
        assert (await verify(stack, challenge_id, got.json["code"])).code == "OK"


@pytest.mark.parametrize("secret", ["whsec_" + "QUFB" * 5, "whsec_ that is no base64"])
def test_sender_webhook_with_a_weak_secret_is_refused_at_the_start(secret: str) -> None:
    settings = Settings(sender_webhook_url="https://sms.example/codes", sender_webhook_secret=secret)
    with pytest.raises(SettingsError, match="SENDER_WEBHOOK_SECRET"):
        SENDERS.require("webhook", "sender")(settings)
