"""Who carries login codes to phones and mailboxes: a registry (settings LOGIN_SENDER), open to plugins.

    log      prints the code on standard output. For development.
    smtp     e-mail alone, by the server of SMTP_URL: smtps:// speaks TLS at once; smtp:// turns to TLS where
             the server offers it, and insists on it where the URL has a password.
    webhook  posts `{"type": "login.code", "contact_type", "contact", "code", "expires_at", "tenant_id"}` to
             SENDER_WEBHOOK_URL, signed as every outgoing call is (Standard Webhooks). Any 2xx is a success.

A plugin registers a function of the settings that makes a `Sender`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import Final, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

import aiosmtplib
import msgspec

from runtime import ids
from runtime.outgoing import signing
from runtime.outgoing.connector import Connector
from runtime.registry import Registry
from runtime.settings import Settings, SettingsError

ATTEMPT_SECONDS: Final = 10.0
"""How long one sending may take: somebody waits for it."""


class LoginCode(NamedTuple):
    """What is to be sent. contact_type: "phone" or "email". expires_at: unix seconds."""

    tenant_id: str
    contact_type: str
    contact: str
    code: str
    expires_at: int


class SendFailed(Exception):
    """The code did not leave. The message is for an operator and never holds the code."""


class Sender(Protocol):
    """Carries login codes. `carries` are the contact types that it can reach."""

    carries: frozenset[str]

    async def send(self, code: LoginCode) -> None:
        """Hands the code over. Raises SendFailed."""
        ...

    async def close(self) -> None:
        """Drops what it holds open."""
        ...


SENDERS: Final[Registry[Callable[[Settings], Sender]]] = Registry("login sender")


class LogSender:
    """Prints codes: whoever develops reads them there."""

    carries = frozenset({"phone", "email"})

    async def send(self, code: LoginCode) -> None:
        print(f"login code {code.code} for {code.contact}", flush=True)

    async def close(self) -> None:
        """Nothing is open."""


class SmtpSender:
    """Mails codes, each over a connection of its own."""

    carries = frozenset({"email"})

    def __init__(self, url: str, sender: str) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._tls = parts.scheme == "smtps"
        self._port = parts.port or (465 if self._tls else 587)
        self._user = unquote(parts.username) if parts.username else None
        self._password = unquote(parts.password) if parts.password else None
        self._sender = sender

    async def send(self, code: LoginCode) -> None:
        try:
            await aiosmtplib.send(
                self._mail(code),
                hostname=self._host,
                port=self._port,
                username=self._user,
                password=self._password,
                use_tls=self._tls,
                # A password never goes over a line that anybody reads; without one, TLS where it is offered.
                start_tls=True if self._password and not self._tls else None,
                timeout=ATTEMPT_SECONDS,
            )
        except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
            raise SendFailed(f"{self._host}:{self._port}: {type(error).__name__}") from error

    def _mail(self, code: LoginCode) -> EmailMessage:
        minutes = max(1, round((code.expires_at - time.time()) / 60))
        mail = EmailMessage()
        mail["From"] = self._sender
        mail["To"] = code.contact
        mail["Subject"] = "Your login code"
        mail["Date"] = formatdate()
        mail["Message-ID"] = make_msgid(domain=self._sender.rpartition("@")[2].rstrip("> ") or None)
        mail.set_content(
            f"Your login code is {code.code}\n\n"
            f"It can be used once, within {minutes} minutes. If you did not ask for it, ignore this message.\n"
        )
        return mail

    async def close(self) -> None:
        """Nothing is open."""


class WebhookSender:
    """Posts codes to a service of the operator's, such as an SMS gateway's adapter."""

    carries = frozenset({"phone", "email"})

    def __init__(self, url: str, secret: str, connector: Connector) -> None:
        self._url = url
        self._secret = secret
        self._connector = connector

    async def send(self, code: LoginCode) -> None:
        body = msgspec.json.encode({"type": "login.code", **code._asdict()})
        headers = signing.sign([self._secret], ids.make("msg"), int(time.time()), body)
        try:
            answer = await self._connector.post(self._url, body, {"Content-Type": "application/json", **headers})
        except Exception as error:  # Unreachable, or whatever a receiver's odd answer breaks.
            raise SendFailed(f"webhook: {error}") from error
        if not 200 <= answer.status < 300:
            raise SendFailed(f"webhook: answered {answer.status}")

    async def close(self) -> None:
        await self._connector.close()


def _log(settings: Settings) -> Sender:
    return LogSender()


def _smtp(settings: Settings) -> Sender:
    return SmtpSender(settings.smtp_url, settings.smtp_from)


def _webhook(settings: Settings) -> Sender:
    if problem := signing.secret_problem(settings.sender_webhook_secret):
        raise SettingsError({"SENDER_WEBHOOK_SECRET": problem})
    connector = Connector(settings.outbound_allow_cidrs, attempt_seconds=ATTEMPT_SECONDS)
    return WebhookSender(settings.sender_webhook_url, settings.sender_webhook_secret, connector)


SENDERS.register("log", _log)
SENDERS.register("smtp", _smtp)
SENDERS.register("webhook", _webhook)
