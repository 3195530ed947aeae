import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runtime.outgoing import sending
from runtime.outgoing.senders import LoginCode, LogSender, MailDeferred, SendFailed, SmtpSender, WebhookSender

ONE = LoginCode("acme", "email", "ann@example.com", "123456", 0)


class Failing(LogSender):
    def __init__(self, error: SendFailed) -> None:
        self._error = error

    async def send(self, code: LoginCode) -> None:
        await asyncio.sleep(0)  # sleeps: the others begin meanwhile
        raise self._error


async def test_hung_sender_holds_up_few_players(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PLACES", 2), ("SLOW_SECONDS", 0.0), ("FAILURES_TO_OPEN", 2)):
        monkeypatch.setattr(sending, name, value)
    codes, hung = sending.Sending(), Failing(MailDeferred("no answer"))
    failed = await asyncio.gather(*(codes.send(hung, ONE, own=True) for _ in range(3)), return_exceptions=True)
    assert sorted(map(str, failed)) == [*["no answer"] * 2, "too many codes of the tenant are being sent"]
    with pytest.raises(SendFailed, match="hung"):
        await codes.send(LogSender(), ONE, own=True)
    await codes.send(LogSender(), ONE._replace(tenant_id="another"), own=True)


async def test_answer_about_one_contact_closes_the_breaker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SLOW_SECONDS", 0.0), ("FAILURES_TO_OPEN", 1), ("OPEN_SECONDS", 0.0)):
        monkeypatch.setattr(sending, name, value)

    async def post(url: str, *_: Any) -> Any:
        return SimpleNamespace(status=int(url))

    def webhook(status: int) -> WebhookSender:
        return WebhookSender(str(status), "whsec_c2VjcmV0", cast(Any, SimpleNamespace(post=post)))

    codes, refused = sending.Sending(), SmtpSender("smtp://mail.example", "us@example.com")._refused
    for answered in (Failing(refused("address", 550)), Failing(refused("mail", 451)), webhook(422)):
        for sender, is_closed in ((webhook(503), False), (answered, True)):
            with pytest.raises(SendFailed):
                await codes.send(sender, ONE, own=True)
            assert codes._breakers["acme"].is_closed == is_closed
