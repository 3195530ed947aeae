"""Text messages: Twilio, any SMS gateway with an HTTP API, and the incoming webhooks of Slack and Discord.

None of them detects a repeated request. A retry after a lost response sends the message again.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from runtime.outgoing.connector import Connector
from runtime.outgoing.providers import DeliveryRequest, Failed, LoggedOutcome, Outcome, Skipped, signed_headers
from runtime.outgoing.services.fields import TEXT_LENGTH_MAX
from runtime.outgoing.services.requests import FORM, call, encoded
from runtime.outgoing.services.values import filled, nested, text_at

TWILIO: Final = "https://api.twilio.com"
DISCORD_LENGTH_MAX: Final = 2_000
NO_NUMBER: Final = Skipped("no phone number, or no consent to send it")


def recipient_of(config: Mapping[str, Any], body: Mapping[str, Any]) -> str:
    """The phone number that gets a message: `to`, otherwise the player's; "" if there is none."""
    return str(config.get("to") or "") or text_at(body, "contact.phone")


def _message(request: DeliveryRequest) -> str:
    return filled(str(request.config["text"]), request.body)[:TEXT_LENGTH_MAX]


async def twilio(connector: Connector, request: DeliveryRequest) -> LoggedOutcome:
    """Sends an SMS through Twilio. 400 is final: the number cannot receive it."""
    config = request.config
    if not request.secrets:
        return Failed("the auth token is not set")
    if not (to := recipient_of(config, request.body)):
        return NO_NUMBER
    account = str(config["account_sid"])
    url = f"{config.get('url') or TWILIO}/2010-04-01/Accounts/{quote(account, safe='')}/Messages.json"
    sender = str(config["from"])
    by = "MessagingServiceSid" if sender.startswith("MG") and len(sender) == 34 else "From"
    _, body = encoded("form", {"To": to, by: sender, "Body": _message(request)})
    basic = b64encode(f"{account}:{request.secrets[0]}".encode()).decode()
    headers = {"Authorization": f"Basic {basic}", "Content-Type": FORM}
    outcome = await call(connector, request, url, body, headers, credentials=[basic])
    refused = isinstance(outcome, Failed) and outcome.http_status == 400
    return replace(outcome, final=True) if refused and isinstance(outcome, Failed) else outcome


async def sms_gateway(connector: Connector, request: DeliveryRequest) -> LoggedOutcome:
    """Sends an SMS through a gateway's HTTP API: the fields of the config, as JSON or a form."""
    config = request.config
    if not (to := recipient_of(config, request.body)):
        return NO_NUMBER
    fields = config.get("fields") or {"to": "to", "text": "text"}
    content_type, body = encoded(
        str(config.get("format", "json")), nested(fields, {**request.body, "to": to, "text": _message(request)})
    )
    return await call(connector, request, str(config["url"]), body, signed_headers(request, content_type, body))


async def slack(connector: Connector, request: DeliveryRequest) -> Outcome:
    """Posts to an incoming webhook of Slack. Escaped, so that a player's name cannot mention a channel."""
    text = _escaped(request)
    return await _post_text(connector, request, {"text": text})


async def discord(connector: Connector, request: DeliveryRequest) -> Outcome:
    """Posts to a webhook of Discord, without mentions."""
    text = _message(request)[:DISCORD_LENGTH_MAX]
    return await _post_text(connector, request, {"content": text, "allowed_mentions": {"parse": []}})


def _escaped(request: DeliveryRequest) -> str:
    text = _message(request)
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, entity)
    return text


async def _post_text(connector: Connector, request: DeliveryRequest, fields: Mapping[str, Any]) -> Outcome:
    """The webhook's URL is the secret: it is the only credential."""
    if not request.secrets:
        return Failed("the webhook's URL is not set")
    content_type, body = encoded("json", fields)
    return await call(connector, request, request.secrets[0], body, {"Content-Type": content_type})
