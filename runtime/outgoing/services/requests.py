"""One request to a service, and the outcome that its response means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from runtime.outgoing.connector import Answer, Connector, Unreachable
from runtime.outgoing.providers import (
    ERROR_CHARACTERS_MAX,
    Delivered,
    DeliveryRequest,
    Failed,
    Outcome,
    response_text,
)
from runtime.outgoing.services.values import cell_of

JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"

_OF_ONE: Final = (400, 422)
"""Statuses that concern one event: such a failure does not open the circuit breaker."""


async def call(
    connector: Connector,
    request: DeliveryRequest,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    method: str = "POST",
    credentials: Sequence[str] = (),
) -> Outcome:
    """Sends a request. credentials: of its headers; the stored response must not contain them."""
    try:
        answer = await connector.send(method, url, body, headers)
    except (Unreachable, ValueError) as error:
        return Failed(str(error)[:ERROR_CHARACTERS_MAX])
    return outcome_of(answer, request, credentials)


def outcome_of(answer: Answer, request: DeliveryRequest, credentials: Sequence[str] = ()) -> Outcome:
    """2xx is delivered. Every other status is retried: an operator may correct the account or the config meanwhile."""
    text = response_text(answer, request, credentials)
    if 200 <= answer.status < 300 and answer.status != 207:  # 207 Multi-Status: the one item failed.
        return Delivered(answer=text, http_status=answer.status)
    of_one = answer.status in _OF_ONE
    return Failed(f"HTTP {answer.status}", answer.status, answer.retry_after_seconds, answer=text, of_one=of_one)


def encoded(format: str, fields: Mapping[str, Any]) -> tuple[str, bytes]:
    """The content type and the body of `fields`, as json or form."""
    if format == "json":
        return JSON, msgspec.json.encode(fields)
    return FORM, urlencode({name: cell_of(value) for name, value in fields.items()}).encode()
