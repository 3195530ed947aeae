"""Delivery providers: two registries of functions that deliver a reward, or an event, to its receiver.

A plugin (setting PLUGINS) registers its provider here. A channel must also be registered in
`runtime.outgoing.channels.CHANNELS`, which validates its config.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from multidict import CIMultiDict

from runtime import trace
from runtime.outgoing.channels import INCLUDED
from runtime.outgoing.connector import Answer, Connector, Unreachable
from runtime.outgoing.redaction import redacted
from runtime.outgoing.signing import sign
from runtime.registry import Registry

ERROR_CHARACTERS_MAX: Final = 500
ANSWER_CHARACTERS_MAX: Final = 2_048
"""The most characters stored of a response."""

_CREDENTIAL: Final = re.compile("auth|cookie|key|token|secret", re.IGNORECASE)
"""Names of headers with credentials: the parts of such a value are redacted as well."""
_SEPARATORS: Final = re.compile("[\\s=,;:\"']+")
_PART_LENGTH_MIN: Final = 7
_PARTS_MAX: Final = 50

_TRANSPORT: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "expect", "upgrade"})
"""Transport headers: a receiver's config cannot set them, nor the signature's headers."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """Delivered; final. answer: the redacted start of the response (`response_text`)."""

    external_id: str = ""
    answer: str = ""
    http_status: int = 0


@dataclass(frozen=True, slots=True)
class Awaiting:
    """Handed over; a callback or staff reports the result.

    seconds: the timeout of that wait; None: CALLBACK_SECONDS; 0: no timeout.
    answer: as in Delivered.
    """

    external_id: str = ""
    seconds: float | None = None
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """Not delivered. retry_after_seconds: the pause that the receiver requested, or 0. final: do not retry.

    of_one: it concerns this delivery alone, so the receiver's circuit breaker does not count it.
    answer: as in Delivered.
    """

    error: str
    http_status: int = 0
    retry_after_seconds: float = 0.0
    final: bool = False
    answer: str = ""
    of_one: bool = False


@dataclass(frozen=True, slots=True)
class Stubbed:
    """The event was only logged: nothing was sent, and nothing will be."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """The event was not sent and will not be. why: for staff."""

    why: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """The event concerns no message: nothing is recorded."""


Outcome: TypeAlias = Delivered | Awaiting | Failed | Stubbed
LoggedOutcome: TypeAlias = Outcome | Skipped | Ignored
"""Of the delivery of an event. Only messages are ignored."""

Made = TypeVar("Made", bound=LoggedOutcome)


@dataclass(frozen=True, slots=True)
class DeliveryRequest:
    """One delivery. `id` is the receiver's idempotency key, the same at every attempt.

    config: the receiver's `{url, headers}`; secrets: decrypted, the current one first; unix_seconds: now.
    """

    id: str
    config: Mapping[str, Any]
    secrets: Sequence[str]
    unix_seconds: int
    body: Mapping[str, Any]
    tenant_id: str


DeliveryProvider: TypeAlias = Callable[[Connector, DeliveryRequest], Awaitable[Outcome]]
"""Makes one attempt and returns its outcome, within 15 s. Every exception is a bug."""

IntegrationProvider: TypeAlias = Callable[[Connector, DeliveryRequest], Awaitable[LoggedOutcome]]
"""As DeliveryProvider, for events: it may also skip one."""

CHANNEL_PROVIDERS: Final[Registry[DeliveryProvider]] = Registry("channel provider")
INTEGRATION_PROVIDERS: Final[Registry[IntegrationProvider]] = Registry("integration provider")


async def attempted(
    provider: Callable[[Connector, DeliveryRequest], Awaitable[Made]], connector: Connector, request: DeliveryRequest
) -> Made:
    """Runs a provider. Its lookups of names count for the request's tenant (runtime/outgoing/resolver.py)."""
    before = trace.tenant.set(request.tenant_id)
    try:
        return await provider(connector, request)
    finally:
        trace.tenant.reset(before)


async def post_signed(connector: Connector, request: DeliveryRequest) -> Answer:
    """POSTs the request's body as JSON with a Standard Webhooks signature. Raises Unreachable."""
    body = msgspec.json.encode(request.body)
    headers = signed_headers(request, "application/json", body)
    return await connector.post(str(request.config.get("url", "")), body, headers)


def signed_headers(request: DeliveryRequest, content_type: str, body: bytes) -> CIMultiDict[str]:
    """The config's headers, and those of Standard Webhooks and of the trace."""
    headers: CIMultiDict[str] = CIMultiDict()
    for name, value in (request.config.get("headers") or {}).items():
        if name.lower() not in _TRANSPORT:
            headers[name] = str(value)
    headers["Content-Type"] = content_type
    headers.update(sign(request.secrets, request.id, request.unix_seconds, body))
    if trace_id := trace.current.get():
        headers["traceparent"] = f"00-{trace_id}-{token_hex(8)}-01"
    return headers


async def webhook(connector: Connector, request: DeliveryRequest) -> Outcome:
    """Any 2xx is delivered. 410 Gone is final (Standard Webhooks); every other status is retried."""
    try:
        answer = await post_signed(connector, request)
    except (Unreachable, ValueError) as error:
        return Failed(str(error)[:ERROR_CHARACTERS_MAX])
    text = response_text(answer, request)
    if 200 <= answer.status < 300:
        return Delivered(answer=text, http_status=answer.status)
    final = answer.status == 410
    return Failed(f"HTTP {answer.status}", answer.status, answer.retry_after_seconds, final=final, answer=text)


ANSWER_WORD_MIN: Final = 3
_PERSONAL: Final = frozenset(INCLUDED)


def response_text(answer: Answer, request: DeliveryRequest, credentials: Sequence[str] = ()) -> str:
    """The start of a response, as text. Since a receiver may echo the request, it redacts secrets, signatures, header
    values, `credentials`, the callback's token and the winner's answers. Empty if the request had a player's contact or
    entry.
    """
    if not _PERSONAL.isdisjoint(request.body):
        return ""
    named = [(name, str(value)) for name, value in (request.config.get("headers") or {}).items()]
    confidential = {*credentials, *(value for _, value in named)}
    # The token after `Bearer`, for instance.
    parts = (_SEPARATORS.split(value)[:_PARTS_MAX] for name, value in named if _CREDENTIAL.search(name))
    confidential |= {part for found in parts for part in found if len(part) >= _PART_LENGTH_MIN}
    for secret in request.secrets:
        confidential |= {secret, secret.removeprefix("whsec_")}
    data = request.body.get("data")
    confidential |= {*_answered(data), callback_token_of(data)}
    return redacted(answer.body.replace(b"\0", b""), confidential)[:ANSWER_CHARACTERS_MAX]


def storable(text: object, most: int = ERROR_CHARACTERS_MAX) -> str:
    """Makes external text storable in Postgres; a plugin or a mail server may return anything."""
    return str(text).replace("\0", "").encode("utf-8", "replace").decode()[:most]


def callback_token_of(data: Any) -> str:
    """The token in a delivery's callback URL; '' if it has none."""
    return str(data.get("callback_url", "")).partition("&token=")[2] if isinstance(data, Mapping) else ""


def _answered(data: Any) -> Iterator[str]:
    """The winner's answers, line by line. Very short lines are skipped: they identify no one."""
    answers = data.get("answers") if isinstance(data, Mapping) else None
    for answer in answers.values() if isinstance(answers, Mapping) else ():
        yield from (line for line in str(answer).splitlines() if len(line) >= ANSWER_WORD_MIN)


async def workflow(connector: Connector, request: DeliveryRequest) -> Outcome:
    """As webhook, but a 2xx only means that the workflow started; its callback reports the result."""
    outcome = await webhook(connector, request)
    if not isinstance(outcome, Delivered):
        return outcome
    return Awaiting(seconds=request.config.get("callback_seconds"), answer=outcome.answer)


async def await_staff(connector: Connector, request: DeliveryRequest) -> Outcome:
    """Waits, without a timeout, until an admin fulfils it."""
    return Awaiting(seconds=0)


async def nothing_to_deliver(connector: Connector, request: DeliveryRequest) -> Outcome:
    return Delivered()


CHANNEL_PROVIDERS.register("none", nothing_to_deliver)
CHANNEL_PROVIDERS.register("webhook", webhook)
CHANNEL_PROVIDERS.register("workflow", workflow)
CHANNEL_PROVIDERS.register("manual", await_staff)
# voucher_code takes a code from the database: runtime/streams/delivery.py.

INTEGRATION_PROVIDERS.register("webhook", webhook)
INTEGRATION_PROVIDERS.register("workflow", webhook)
