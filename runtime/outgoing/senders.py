"""Senders of login codes, and of reward codes that staff send again: a registry that plugins may extend (setting
LOGIN_SENDER).

    none     sends nothing, and starts of logins are refused. For players of an external issuer.
    log      prints the code on standard output. For development.
    smtp     e-mail only, through SMTP_URL. smtps:// is implicit TLS. smtp:// uses STARTTLS if the server offers
             it, and requires it if the URL has a password.
    webhook  posts `{"type": "login.code", "contact_type", "contact", "code", "expires_at", "tenant_id"}` to
             SENDER_WEBHOOK_URL, with a Standard Webhooks signature. Any 2xx is a success. A reward's code has the type
             "reward.code", and `reward_id` and `name` instead of `expires_at`.

A plugin registers a function that builds a `Sender` from the settings. Only a `RewardSender` sends reward codes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP, EmailPolicy
from email.utils import formatdate, make_msgid, parseaddr
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable
from urllib.parse import unquote, urlsplit

import aiosmtplib
import idna
import msgspec

from runtime import ids
from runtime.outgoing import connector, signing
from runtime.outgoing.connector import Connector
from runtime.registry import Registry
from runtime.settings import Settings, SettingsError

ATTEMPT_SECONDS: Final = 10.0
"""The timeout of one post to the webhook. Short, since a player waits for it."""

MAIL_SECONDS: Final = connector.ATTEMPT_SECONDS
"""The timeout of sending a mail, over all commands. The backfill (runtime/streams/backfill.py) sends again after it."""

QUIT_SECONDS: Final = 1.0
"""The timeout of ending the session, once the server has accepted the mail."""

PERMANENT: Final = 500
"""SMTP replies from here on are final (RFC 5321, 4.2.1)."""


class _Policy(EmailPolicy):
    """Folds headers, except links: an encoded link would be none. utf8, cte_type: 7 bits, which every server takes."""

    def fold(self, name: str, value: Any) -> str:
        is_link = name == "List-Unsubscribe" and value.isascii()
        return f"{name}: {value}{self.linesep}" if is_link else super().fold(name, value)

    def fold_binary(self, name: str, value: Any) -> bytes:
        return self.fold(name, value).encode("utf-8" if self.utf8 else "ascii", "surrogateescape")


_POLICY: Final = _Policy(linesep=SMTP.linesep, cte_type="7bit", max_line_length=76)
"""76: an encoded word has at most 75 characters (RFC 2047, 2)."""


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


class Answered(SendFailed):
    """The server answered, so it does not hang. The failure may be of this contact alone."""


class AddressRefused(Answered):
    """The mail server refused the address, or the mail to it, for good."""


class MailDeferred(SendFailed):
    """The mail server refused this mail for now, or did not answer about it. It may accept others."""


class DeferredByReply(MailDeferred, Answered):
    """The mail server refused this mail for now, by a reply."""


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


class NoSender:
    """Reaches no contact."""

    carries: frozenset[str] = frozenset()

    async def send(self, code: LoginCode) -> None:
        raise SendFailed("LOGIN_SENDER is none")

    async def close(self) -> None:
        """Nothing is open."""


class SmtpSender:
    """Sends mails, each over a new connection. address: the sender's. reply_to: for replies; empty: the sender's."""

    carries = frozenset({"email"})

    def __init__(self, url: str, sender: str, reply_to: str = "") -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._tls = parts.scheme == "smtps"
        self._port = parts.port or (465 if self._tls else 587)
        self._user = unquote(parts.username) if parts.username else None
        self._password = unquote(parts.password) if parts.password else None
        self.address = sender
        self._reply_to = reply_to

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
        client = aiosmtplib.SMTP(
            hostname=self._host,
            port=self._port,
            username=self._user,
            password=self._password,
            use_tls=self._tls,
            # Never send a password in clear text. Without one, use TLS if offered.
            start_tls=True if self._password and not self._tls else None,
            timeout=MAIL_SECONDS,
        )
        connected = False
        try:
            # Over all commands: the client's timeout is for each.
            async with asyncio.timeout(MAIL_SECONDS):
                await client.connect()
                connected = True
                response = await self._hand_over(client, mail)
            # Accepted: a failure to end the session must not send the mail again.
            with suppress(aiosmtplib.SMTPException, OSError, TimeoutError):
                await client.quit(timeout=QUIT_SECONDS)
        except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
            # A server that takes connections may hang up, or hang, for this address alone.
            of_mail = connected and not isinstance(error, aiosmtplib.SMTPSenderRefused)
            kind = MailDeferred if of_mail else SendFailed
            raise kind(f"{self._host}:{self._port}: {type(error).__name__}") from error
        finally:
            client.close()
        return response

    async def _hand_over(self, client: aiosmtplib.SMTP, mail: EmailMessage) -> str:
        recipient = str(mail["To"])
        is_plain = recipient.isascii()
        content = mail.as_bytes(policy=_POLICY.clone(utf8=not is_plain))
        options = [] if is_plain else ["SMTPUTF8"]
        try:
            sender = parseaddr(self.address)[1]
            _, response = await client.sendmail(sender, [recipient], content, mail_options=options)
        except aiosmtplib.SMTPRecipientsRefused as error:
            raise self._refused("address", max(one.code for one in error.recipients)) from error
        except aiosmtplib.SMTPDataError as error:
            raise self._refused("mail", error.code) from error
        except aiosmtplib.SMTPNotSupported as error:
            raise AddressRefused(f"{self._host}:{self._port}: the server requires addresses in ASCII") from error
        return response

    def _refused(self, what: str, code: int) -> SendFailed:
        kind = AddressRefused if code >= PERMANENT else DeferredByReply
        return kind(f"{self._host}:{self._port}: the {what} was refused ({code})")

    def mail(self, contact: str, subject: str, text: str) -> EmailMessage:
        mail = EmailMessage(policy=_POLICY)
        mail["From"] = self.address
        mail["To"] = _with_ascii_domain(contact)
        if self._reply_to:
            mail["Reply-To"] = self._reply_to
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
            kind = Answered if 400 <= answer.status < 500 else SendFailed
            raise kind(f"webhook: answered {answer.status}")

    async def close(self) -> None:
        await self._connector.close()


def _with_ascii_domain(address: str) -> str:
    """The address with its domain in ASCII (RFC 5891), which every mail server takes; unchanged if it has none."""
    local, at, domain = address.rpartition("@")
    try:
        return address if domain.isascii() else f"{local}{at}{idna.encode(domain).decode()}"
    except idna.IDNAError:
        return address


def _none(settings: Settings) -> Sender:
    return NoSender()


def _log(settings: Settings) -> Sender:
    return LogSender()


def _smtp(settings: Settings) -> Sender:
    return SmtpSender(settings.smtp_url, settings.smtp_from)


def _webhook(settings: Settings) -> Sender:
    if problem := signing.secret_problem(settings.sender_webhook_secret):
        raise SettingsError({"SENDER_WEBHOOK_SECRET": problem})
    connector = Connector(settings.outbound_allow_cidrs, attempt_seconds=ATTEMPT_SECONDS)
    return WebhookSender(settings.sender_webhook_url, settings.sender_webhook_secret, connector)


SENDERS.register("none", _none)
SENDERS.register("log", _log)
SENDERS.register("smtp", _smtp)
SENDERS.register("webhook", _webhook)
