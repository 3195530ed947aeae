"""CRMs: HubSpot's contacts, and any system that takes JSON."""

from __future__ import annotations

from typing import Final

import msgspec

from runtime.outgoing.connector import Connector
from runtime.outgoing.providers import DeliveryRequest, Failed, LoggedOutcome, Outcome, Skipped, signed_headers
from runtime.outgoing.services.requests import JSON, call
from runtime.outgoing.services.values import nested, text_at

HUBSPOT: Final = "https://api.hubapi.com"


async def upsert_contact(connector: Connector, request: DeliveryRequest) -> LoggedOutcome:
    """Creates or updates the player's contact in HubSpot, by e-mail address. Repeating it has no effect.

    Skipped without an address to which the player's entry consents. Properties without a value are omitted, since an
    empty one would clear the contact's.
    """
    if not request.secrets:
        return Failed("the private app's token is not set")
    email = text_at(request.body, "contact.email")
    if not email:
        return Skipped("no e-mail address, or no consent to send it")
    paths = dict(request.config.get("fields") or {})
    properties = {name: text for name, path in paths.items() if (text := text_at(request.body, path))}
    contact = {"idProperty": "email", "id": email, "objectWriteTraceId": request.id}
    body = msgspec.json.encode({"inputs": [{**contact, "properties": {**properties, "email": email}}]})
    url = f"{request.config.get('url') or HUBSPOT}/crm/v3/objects/contacts/batch/upsert"
    headers = {"Authorization": f"Bearer {request.secrets[0]}", "Content-Type": JSON}
    return await call(connector, request, url, body, headers)


async def post_mapped(connector: Connector, request: DeliveryRequest) -> Outcome:
    """POSTs an object of the mapped fields. `webhook-id` is the event's id, for deduplication."""
    body = msgspec.json.encode(nested(request.config["fields"], request.body))
    return await call(connector, request, str(request.config["url"]), body, signed_headers(request, JSON, body))
