import re
from typing import Any

import pytest

from runtime.operations.players.challenges import RESEND_SECONDS
from tests.support.stack import Answer, Stack

PHONE = "+15550100"


class Phone:
    """What the log sender printed: the last code for each contact."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._codes: dict[str, str] = {}

    def code(self, contact: str = PHONE) -> str:
        for line in self._capsys.readouterr().out.splitlines():
            if matched := re.fullmatch(r"login code (\d{6}|\d{20}) for (\S+)", line):
                self._codes[matched[2]] = matched[1]
        return self._codes[contact]

    def wrong(self, contact: str = PHONE) -> str:
        code = self.code(contact)
        return f"{(int(code) + 1) % 10 ** len(code):0{len(code)}}"


async def start(
    stack: Stack,
    contact: str = PHONE,
    contact_type: str = "CONTACT_TYPE_PHONE",
    refresh_token: str | None = None,
    **headers: str,
) -> Answer:
    body = {"contact_type": contact_type, "contact": contact, "refresh_token": refresh_token}
    return await stack.consumer("POST", "/players/auth/start", body, headers=headers)


async def verify(stack: Stack, challenge_id: str, code: str, **options: Any) -> Answer:
    return await stack.consumer("POST", "/players/auth/verify", {"challenge_id": challenge_id, "code": code}, **options)


async def log_in(
    stack: Stack, phone: Phone, contact: str = PHONE, type: str = "phone", **options: Any
) -> dict[str, Any]:
    challenge = (await start(stack, contact, type)).data
    return (await verify(stack, challenge["challenge_id"], phone.code(contact), **options)).data


async def let_resend(stack: Stack, seconds: int = RESEND_SECONDS) -> None:
    """As if so long had gone by since the last code, for who waits for one; the other rates stay as they are."""
    for statement in (
        "UPDATE login_rates SET full_at = full_at - make_interval(secs => $1) WHERE rate_key LIKE 'resend:%'",
        "UPDATE login_guesses SET wait_until = wait_until - make_interval(secs => $1)",
    ):
        await stack.database.execute(statement, float(seconds))


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def refresh(stack: Stack, token: str, **headers: str) -> Answer:
    return await stack.consumer("POST", "/players/auth/refresh", {"refresh_token": token}, headers=headers)


async def log_out(stack: Stack, token: str, **body: Any) -> Answer:
    return await stack.consumer("POST", "/players/auth/logout", body, headers=bearer(token))
