"""A receiver of mail: a real SMTP server that keeps what it got."""

import asyncio
from collections.abc import AsyncIterator
from email import message_from_string
from email.message import EmailMessage
from email.policy import default
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP


class Mailbox:
    def __init__(self) -> None:
        self.mails: list[str] = []
        self.replies: list[str] = []
        self.refused: set[str] = set()
        self.pause_seconds = 0.0
        self.port = 0
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: SMTP(self, loop=loop), "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        await asyncio.sleep(self.pause_seconds)  # sleeps: a slow server
        if address in self.refused:
            return "550 unknown"
        envelope.rcpt_tos.append(address)
        return "250 known"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        await asyncio.sleep(self.pause_seconds)  # sleeps: a slow server
        if self.replies:
            return self.replies.pop(0)
        self.mails.append(envelope.content.decode())
        return f"250 kept for <{envelope.rcpt_tos[0]}>"

    @property
    def parsed(self) -> list[EmailMessage]:
        return [message_from_string(mail, policy=default) for mail in self.mails]


@pytest.fixture
async def mailbox() -> AsyncIterator[Mailbox]:
    mailbox = Mailbox()
    await mailbox.open()
    yield mailbox
    await mailbox.close()
