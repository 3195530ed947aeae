"""Logging in as people do: a code that the log sender printed."""

from __future__ import annotations

import re
from typing import Any

import pytest
import redis.asyncio

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
