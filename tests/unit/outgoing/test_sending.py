import asyncio

import pytest

from runtime.outgoing import sending
from runtime.outgoing.senders import LoginCode, LogSender, SendFailed


class Hung(LogSender):
    async def send(self, code: LoginCode) -> None:
        await asyncio.sleep(0)  # sleeps: the others begin meanwhile
        raise SendFailed("no answer")


async def test_hung_sender_holds_up_few_players(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PLACES", 2), ("SLOW_SECONDS", 0.0), ("FAILURES_TO_OPEN", 2)):
        monkeypatch.setattr(sending, name, value)
    codes, one = sending.Sending(), LoginCode("acme", "email", "ann@example.com", "123456", 0)
    sends = [codes.send(Hung(), one, own=True) for _ in range(3)]
    failed = await asyncio.gather(*sends, return_exceptions=True)
    assert sorted(map(str, failed)) == [*["no answer"] * 2, "too many codes of the tenant are being sent"]
    with pytest.raises(SendFailed, match="hung"):
        await codes.send(LogSender(), one, own=True)
    await codes.send(LogSender(), one._replace(tenant_id="another"), own=True)
