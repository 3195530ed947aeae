"""The senders of login codes: mail and webhook."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from ipaddress import ip_network
from typing import Any

import pytest
from aiohttp import web
from aiosmtpd.smtp import SMTP

from runtime.operations.players.challenges import SENDS
from runtime.outgoing import signing
from runtime.outgoing.senders import SENDERS
from runtime.settings import Settings, SettingsError
from tests.support.login import PHONE, let_resend, start, verify
from tests.support.stack import Stack


class Mailbox:
    """A mail server on a port of its own: keeps what it is given."""

    def __init__(self) -> None:
        self.mails: list[str] = []
        self.port = 0
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
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

    async def test_code_is_sent_by_mail(self, stack: Stack, mailbox: Mailbox) -> None:
        challenge_id = (await start(stack, "ada@example.com", "email")).data["challenge_id"]
        (mail,) = mailbox.mails
        assert "To: ada@example.com" in mail
        assert "From: Shop <shop@example.com>" in mail
        matched = re.search(r"code is (\d{6})", mail)
        assert matched is not None
        assert (await verify(stack, challenge_id, matched[1])).code == "OK"

    async def test_phone_is_refused_by_the_mail_sender(self, stack: Stack) -> None:
        answer = await start(stack)
        assert (answer.http, answer.envelope["data"]["violations"][0]["field"]) == (400, "contact_type")

    async def test_mail_that_fails_uses_up_no_rate(self, stack: Stack, mailbox: Mailbox) -> None:
        """Of strangers' at first, then of who has proved to be the contact's."""
        for _ in range(2):
            await mailbox.close()
            for _ in range(SENDS.most + 1):
                refused = await start(stack, "ada@example.com", "email")
                assert (refused.http, refused.reason) == (503, "SENDER_UNAVAILABLE")
            await mailbox.open()
            challenge_id = (await start(stack, "ada@example.com", "email")).data["challenge_id"]
            matched = re.search(r"code is (\d{6})", mailbox.mails[-1])
            assert matched is not None
            assert (await verify(stack, challenge_id, matched[1])).code == "OK"
            await let_resend(stack)
        # Nothing was given back that was not taken: the two that left count.
        taken = "SELECT count(*) FROM login_rates WHERE rate_key LIKE 'sends%' AND full_at > now()"
        assert await stack.database.fetchval(taken) == 3


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

    async def test_code_is_sent_by_a_signed_webhook(
        self, stack: Stack, receiver: tuple[str, list[tuple[Any, bytes]]]
    ) -> None:
        challenge_id = (await start(stack)).data["challenge_id"]
        headers, body = receiver[1][0]
        signing.verify([self.SECRET], headers, body, float(headers["webhook-timestamp"]))
        matched = re.search(rb'"code":"(\d{6})"', body)
        assert matched is not None
        assert PHONE.encode() in body
        assert (await verify(stack, challenge_id, matched[1].decode())).code == "OK"


@pytest.mark.parametrize("secret", ["whsec_" + "QUFB" * 5, "whsec_ that is no base64"])
def test_sender_webhook_with_a_weak_secret_is_refused_at_the_start(secret: str) -> None:
    settings = Settings(sender_webhook_url="https://sms.example/codes", sender_webhook_secret=secret)
    with pytest.raises(SettingsError, match="SENDER_WEBHOOK_SECRET"):
        SENDERS.require("webhook", "sender")(settings)
