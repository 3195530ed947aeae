"""Senders of login codes, and of reward codes that staff send again: a registry that plugins may extend (setting
LOGIN_SENDER).

    log      prints the code on standard output. For development.
    smtp     e-mail only, through SMTP_URL. smtps:// is implicit TLS. smtp:// uses STARTTLS if the server offers
             it, and requires it if the URL has a password.
    webhook  posts `{"type": "login.code", "contact_type", "contact", "code", "expires_at", "tenant_id"}` to
             SENDER_WEBHOOK_URL, with a Standard Webhooks signature. Any 2xx is a success. A reward's code has the type
             "reward.code", and `reward_id` and `name` instead of `expires_at`.

A plugin registers a function that builds a `Sender` from the settings. Only a `RewardSender` sends reward codes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate, make_msgid, parseaddr
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable
from urllib.parse import unquote, urlsplit

import aiosmtplib
import msgspec

from runtime import ids
from runtime.outgoing import signing
from runtime.outgoing.connector import Connector
from runtime.registry import Registry
from runtime.settings import Settings, SettingsError

ATTEMPT_SECONDS: Final = 10.0
"""The timeout of one send. Short, since a player waits for it."""

PERMANENT: Final = 500
"""SMTP replies from here on are final (RFC 5321, 4.2.1)."""


_POLICY: Final = SMTP.clone(max_line_length=998)
"""The longest line (RFC 5322, 2.1.1)."""


class LoginCode(NamedTuple):
    """A code to send. contact_type: "phone" or "email". expires_at: unix seconds."""

    tenant_id: str
    contact_type: str
    contact: str
    code: str
    expires_at: int


class RewardCode(NamedTuple):
    """The voucher code of a reward, to send. name: the prize's name at the win."""

    tenant_id: str
    contact_type: str
    contact: str
    reward_id: str
    name: str
    code: str


class SendFailed(Exception):
    """The code or mail was not sent. The message is for an operator and never contains the code, nor the address."""


class AddressRefused(SendFailed):
    """The mail server refused the address for good."""


class Sender(Protocol):
    """Sends login codes. `carries` lists the contact types that it can reach."""

    carries: frozenset[str]

    async def send(self, code: LoginCode) -> None:
        """Sends the code. Raises SendFailed."""
        ...

    async def close(self) -> None:
        """Closes open connections."""
        ...


@runtime_checkable
class RewardSender(Sender, Protocol):
    """A sender that also sends the codes of rewards."""

    async def send_reward(self, reward: RewardCode) -> None:
        """Sends the code. Raises SendFailed."""
        ...


SENDERS: Final[Registry[Callable[[Settings], Sender]]] = Registry("login sender")


class LogSender:
    """Prints codes, for development."""

    carries = frozenset({"phone", "email"})

    async def send(self, code: LoginCode) -> None:
        print(f"login code {code.code} for {code.contact}", flush=True)

    async def send_reward(self, reward: RewardCode) -> None:
        print(f"reward code {reward.code} for {reward.contact}", flush=True)

    async def close(self) -> None:
        """Nothing is open."""


class SmtpSender:
    """Sends mails, each over a new connection. address: the sender's."""

    carries = frozenset({"email"})

    def __init__(self, url: str, sender: str) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._tls = parts.scheme == "smtps"
        self._port = parts.port or (465 if self._tls else 587)
        self._user = unquote(parts.username) if parts.username else None
        self._password = unquote(parts.password) if parts.password else None
        self.address = sender

    async def send(self, code: LoginCode) -> None:
        minutes = max(1, round((code.expires_at - time.time()) / 60))
        text = (
            f"Your sign-in code: {code.code}\n\n"
            f"It can be used once and expires in {minutes} minutes. If you did not request it, ignore this email.\n"
        )
        await self.send_mail(self.mail(code.contact, "Your sign-in code", text))

    async def send_reward(self, reward: RewardCode) -> None:
        text = f"You won: {reward.name}\n\nYour code: {reward.code}\n"
        await self.send_mail(self.mail(reward.contact, "Your prize code", text))

    async def send_mail(self, mail: EmailMessage) -> str:
        """Sends a mail and returns the server's response. Raises SendFailed."""
        # The library would encode a long URL in a header, which breaks it. Addresses outside of ASCII need the library.
        is_plain = str(mail["To"]).isascii()
        try:
            _, response = await aiosmtplib.send(
                mail.as_bytes() if is_plain else mail,
                sender=parseaddr(self.address)[1],
                recipients=[str(mail["To"])],
                hostname=self._host,
                port=self._port,
                username=self._user,
                password=self._password,
                use_tls=self._tls,
                # Never send a password in clear text. Without one, use TLS if offered.
                start_tls=True if self._password and not self._tls else None,
                timeout=ATTEMPT_SECONDS,
            )
        except aiosmtplib.SMTPRecipientsRefused as error:
            code = max(one.code for one in error.recipients)
            kind = AddressRefused if code >= PERMANENT else SendFailed
            raise kind(f"{self._host}:{self._port}: the address was refused ({code})") from error
        except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
            raise SendFailed(f"{self._host}:{self._port}: {type(error).__name__}") from error
        return response

    def mail(self, contact: str, subject: str, text: str) -> EmailMessage:
        mail = EmailMessage(policy=_POLICY)
        mail["From"] = self.address
        mail["To"] = contact
        mail["Subject"] = subject
        mail["Date"] = formatdate()
        mail["Message-ID"] = make_msgid(domain=self.address.rpartition("@")[2].rstrip("> ") or None)
        mail.set_content(text)
        return mail

    async def close(self) -> None:
        """Nothing is open."""


class WebhookSender:
    """Posts codes to an operator's service, such as the adapter of an SMS gateway."""

    carries = frozenset({"phone", "email"})

    def __init__(self, url: str, secret: str, connector: Connector) -> None:
        self._url = url
        self._secret = secret
        self._connector = connector

    async def send(self, code: LoginCode) -> None:
        await self._post("login.code", code._asdict())

    async def send_reward(self, reward: RewardCode) -> None:
        await self._post("reward.code", reward._asdict())

    async def _post(self, type: str, fields: dict[str, Any]) -> None:
        body = msgspec.json.encode({"type": type, **fields})
        headers = signing.sign([self._secret], ids.make("msg"), int(time.time()), body)
        try:
            answer = await self._connector.post(self._url, body, {"Content-Type": "application/json", **headers})
        except Exception as error:  # Unreachable, or a malformed response.
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
