"""E-mails to players: the deliveries of integrations of type email.

The event of a win, or one that the backfill makes, is delivered as a mail instead of a request. So messages have the
integrations' delivery log, retry schedule and backfill, and one event is one mail, unless two workers read it at the
same time: nothing is claimed before sending. Everything that a mail says is read at each attempt: a reward that was
revoked, or an address that is gone, takes effect at once, and neither is stored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from email.message import EmailMessage
from html import escape
from typing import Any, Final
from urllib.parse import quote, urlencode

import asyncpg
import msgspec
import structlog

import sql
from runtime.actors.address_limit import TOO_MANY_MESSAGES, AddressLimit
from runtime.actors.tenant_sender import sender_of
from runtime.errors import Fault
from runtime.events import Event, PrizeWon
from runtime.outgoing.providers import Delivered, Failed, Ignored, LoggedOutcome, Skipped, Stubbed
from runtime.outgoing.senders import AddressRefused, MailDeferred, SendFailed, SmtpSender
from runtime.outgoing.vault import VaultError, code_context, vault_of
from runtime.rules import mail
from runtime.settings import Key, Settings
from runtime.stores.database import Database
from runtime.stores.keyring import Keyring
from runtime.wire.contacts import canonical, masked

EMAIL: Final = "email"
"""The type of the integrations."""

PREFIX: Final = "message."
"""The prefix of the event types in their log, such as message.won."""

_ADDRESS: Final = re.compile(r"[^\s<>()\[\],;:\"']+@[^\s<>()\[\],;:\"']+")

_GONE: Final = ("expired", "revoked", "failed")

_SQL: Final = sql.load("messages")

log = structlog.get_logger(__name__)


class Mailing:
    """Sends the messages of one process."""

    def __init__(self, settings: Settings, database: Database, keyring: Keyring) -> None:
        self._settings = settings
        self._database = database
        self._keyring = keyring
        self._limit = AddressLimit(keyring, database)

    async def deliver(self, event: Event) -> tuple[Event, LoggedOutcome]:
        """Sends the message that an event causes. Returns the event, with the message's type, and the outcome.

        Ignored if it causes none: an emitted event, a win of points, or a win that the campaign does not report.
        """
        try:
            return await self._deliver(event)
        except Exception as error:
            log.error("message_failed", event_id=event.id, exc_info=error)
            return event, Failed(f"the message cannot be made: {type(error).__name__}", of_one=True)

    async def _deliver(self, event: Event) -> tuple[Event, LoggedOutcome]:
        data: Any = msgspec.to_builtins(event.data)
        about = (str(data.get("player_id", "")), str(data.get("reward_id", "")), str(data.get("draw_id", "")))
        if causes_none(event):
            return event, Ignored()
        try:
            database = self._database.route(event.tenant_id)
            facts = await database.fetchrow(_SQL["facts"], event.tenant_id, event.campaign_id, *about)
        except (Fault, asyncpg.PostgresError) as error:
            return event, Failed(f"the message's facts cannot be read: {type(error).__name__}")
        if facts is None:
            return event, Skipped("the campaign does not exist")
        kind = _kind_of(event, facts)
        template = mail.template_of(facts["messages"], kind)
        if template is None:
            is_win = event.type == PrizeWon.TYPE
            return event, Ignored() if is_win else Skipped("the campaign does not send this message")
        event = msgspec.structs.replace(event, type=PREFIX + kind)
        if why := _why_not(kind, facts):
            return event, Skipped(why)
        try:
            sender = sender_of(self._settings, event.tenant_id, facts["sender"])
        except (VaultError, ValueError) as error:
            return event, Failed(f"the mail server's URL cannot be decrypted: {error}")
        if sender is None:
            log.info("message_not_sent", kind=kind, event_id=event.id, tenant_id=event.tenant_id)
            return event, Stubbed()
        try:
            values = self._values(event, facts)
        except (VaultError, ValueError) as error:
            return event, Failed(f"the code cannot be decrypted: {error}", of_one=True)
        made = mail.rendered(kind, template, values, language=facts["language"], default=facts["messages"]["language"])
        stops = stop_hashes(self._keyring.code, event.tenant_id, facts["email"])
        link = self._unsubscribe_url(event.tenant_id, facts["player_id"], kind)
        message = composed(sender, event.id, facts["email"], made, link)
        try:
            if await database.fetchval(_SQL["stops"], event.tenant_id, stops, kind):
                return event, Skipped("staff unsubscribed the address")
            return event, await self._send(sender, message, event.tenant_id, facts)
        except (Fault, asyncpg.PostgresError) as error:
            return event, Failed(f"the limits of the address cannot be read: {type(error).__name__}")

    async def _send(self, sender: SmtpSender, message: EmailMessage, tenant_id: str, facts: Any) -> LoggedOutcome:
        """Sends a mail within the limit of its address. A mail that is tried again is counted once."""
        address, verified = facts["email"], facts["is_verified"]
        if not await self._limit.take(tenant_id, "email", address, verified=verified):
            return Skipped(TOO_MANY_MESSAGES)
        try:
            return Delivered(answer=_without_addresses(await sender.send_mail(message)))
        except AddressRefused as error:
            return Skipped(str(error))
        except SendFailed as error:
            await self._limit.give_back(tenant_id, "email", address, verified=verified)
            return Failed(str(error), of_one=isinstance(error, MailDeferred))

    def _unsubscribe_url(self, tenant_id: str, player_id: str, kind: str) -> str:
        (token, *_) = unsubscribe_tokens(self._keyring.code, tenant_id, player_id, kind)
        query = urlencode({"tenant_id": tenant_id, "player_id": player_id, "kind": kind, "token": token})
        return f"{self._settings.consumer_url}/unsubscribe?{query}"

    def _values(self, event: Event, facts: Any) -> dict[str, str]:
        """The values of the placeholders. Raises VaultError."""
        code = ""
        if facts["ciphertext"] is not None:
            context = code_context(event.tenant_id, facts["prize_id"])
            code = vault_of(self._keyring.code).open(facts["key_id"], facts["ciphertext"], context)
        page = f"p/{quote(facts['game_id'])}" if facts["game_id"] else f"c/{quote(event.campaign_id)}"
        return {
            "player_name": mail.name_shown(facts["player_name"]),
            "campaign": facts["campaign"],
            "claim_url": f"{address_of(self._settings, facts['host'])}/{page}?tenant_id={quote(event.tenant_id)}",
            "prize": facts["prize"] or "",
            "expires_at": mail.local_time(facts["expires_at"], facts["timezone"]),
            "code": code,
            "draw": facts["draw"] or "",
        }


def causes_none(event: Event) -> bool:
    """Whether an event causes no message in any campaign: an emitted event, or a win of points."""
    data: Any = msgspec.to_builtins(event.data)
    return event.emitted is True or (event.type == PrizeWon.TYPE and not data.get("reward_id"))


def _kind_of(event: Event, facts: Any) -> str:
    """The kind of message. A win whose code comes with it is reported by the code's message, if there is one."""
    if event.type.startswith(PREFIX):
        return event.type.removeprefix(PREFIX)
    has_code = facts["is_fulfilled_at_once"] and facts["ciphertext"] is not None
    return "code_delivered" if has_code and mail.template_of(facts["messages"], "code_delivered") else "won"


def _why_not(kind: str, facts: Any) -> str:
    """Why a message is not sent; "" if it is."""
    if facts["is_erased"]:
        return "the player was erased"
    if facts["is_suspended"]:
        return "the player is suspended"
    if kind in facts["unsubscribed"]:
        return "the player unsubscribed"
    if not facts["email"]:
        return "the player has no e-mail address"
    if facts["status"] in _GONE or (kind == "reminder" and facts["status"] != "won"):
        return f"the reward is {facts['status']}"
    if facts["draw_status"] == "cancelled":
        return "the draw was cancelled"
    if kind == "code_delivered" and facts["ciphertext"] is None:
        return "the reward has no code"
    return ""


def _without_addresses(response: str) -> str:
    """A mail server's response with its addresses masked: the log of deliveries outlives a player's erasure."""
    return _ADDRESS.sub(lambda found: masked(found[0]), response)


def address_of(settings: Settings, host: str) -> str:
    """The beginning of a campaign's links: with its host name, otherwise the service's address."""
    return f"https://{host}" if host else settings.consumer_url


def unsubscribe_tokens(keys: Sequence[Key], tenant_id: str, player_id: str, kind: str) -> list[str]:
    """The tokens that end a kind of message to a player: the first is sent, the others are of earlier CODE_KEYS."""
    found = vault_of(keys).fingerprints(f"{kind}:{player_id}", f"unsubscribe/{tenant_id}")
    return [one.hex() for one in found]


def stop_hashes(keys: Sequence[Key], tenant_id: str, address: str) -> list[bytes]:
    """Hashes of an address for messages that staff ended: the first is stored, the others are of earlier keys."""
    return vault_of(keys).fingerprints(canonical("email", address), f"message-stops/{tenant_id}")


def composed(sender: SmtpSender, message_id: str, address: str, made: mail.Mail, link: str = "") -> EmailMessage:
    """The mail, as text and HTML. message_id: the same at every attempt, so that a server can detect a duplicate.

    link: where to unsubscribe (RFC 8058); "": in a sample.
    """
    word = mail.built_in()[made.language]["unsubscribe"]
    text, html = made.text, made.html
    if link:
        text = f"{text}\n\n{word}: {link}\n"
        html = f'{html}<p><small><a href="{escape(link)}">{escape(word)}</a></small></p>'
    message = sender.mail(address, made.subject, text)
    page = f'<!doctype html><html lang="{made.language}" dir="auto"><body>{html}</body></html>'
    message.add_alternative(page, "html")
    message.replace_header("Message-ID", f"<{message_id}@{message['Message-ID'].rpartition('@')[2]}")
    if link:
        message["List-Unsubscribe"] = f"<{link}>"
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    return message
