"""Delivery providers: two open registries of functions that bring a reward, or an event, to its receiver.

A plugin (setting PLUGINS) adds one by registering it here; a channel is registered in
`runtime.outgoing.channels.CHANNELS` too, where the catalogue learns what its config holds.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final, TypeAlias

import msgspec
import structlog
from multidict import CIMultiDict

from runtime import trace
from runtime.outgoing.connector import Answer, Connector, Unreachable
from runtime.outgoing.signing import sign
from runtime.registry import Registry

ERROR_CHARACTERS_MAX: Final = 500
ANSWER_CHARACTERS_MAX: Final = 2_048
"""What is kept of an answer."""

_OURS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "expect", "upgrade"})
"""Headers that say how the message is sent: a receiver's config cannot set them, nor the signature's."""

HIDDEN: Final = "****"
_SIGNATURE: Final = re.compile(r"v1a?,[A-Za-z0-9+/\\]{20,}={0,2}")
"""A signature of Standard Webhooks, whichever it is of."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Delivered:
    """It is there. Final. answer: how the receiver's began, fit to be kept (`words_of`)."""

    external_id: str = ""
    answer: str = ""
    http_status: int = 0


@dataclass(frozen=True, slots=True)
class Awaiting:
    """It was handed over; a callback or a person says how it ends.

    seconds: for how long that is awaited before it is given up; None: CALLBACK_SECONDS; 0: for ever.
    answer: as of Delivered.
    """

    external_id: str = ""
    seconds: float | None = None
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """It is not there. retry_after_seconds: what the receiver asked for, 0 = nothing. final: never try again.

    answer: as of Delivered.
    """

    error: str
    http_status: int = 0
    retry_after_seconds: float = 0.0
    final: bool = False
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Stubbed:
    """A stub stood in for a provider: nothing was sent, and nothing will be."""


Outcome: TypeAlias = Delivered | Awaiting | Failed | Stubbed


@dataclass(frozen=True, slots=True)
class DeliveryRequest:
    """One thing to deliver. `id` is the receiver's idempotency key, the same at every attempt.

    config: the receiver's `{url, headers}`; secrets: opened, the current one first; unix_seconds: now.
    """

    id: str
    config: Mapping[str, Any]
    secrets: Sequence[str]
    unix_seconds: int
    body: Mapping[str, Any]
    tenant_id: str


DeliveryProvider: TypeAlias = Callable[[Connector, DeliveryRequest], Awaitable[Outcome]]
"""Makes one attempt, and says how it ended. Raises nothing but bugs, and ends within 15 s."""

CHANNEL_PROVIDERS: Final[Registry[DeliveryProvider]] = Registry("channel provider")
INTEGRATION_PROVIDERS: Final[Registry[DeliveryProvider]] = Registry("integration provider")


async def post_signed(connector: Connector, request: DeliveryRequest) -> Answer:
    """POSTs the request's body as JSON, signed as Standard Webhooks has it. Raises Unreachable."""
    body = msgspec.json.encode(request.body)
    headers: CIMultiDict[str] = CIMultiDict()
    for name, value in (request.config.get("headers") or {}).items():
        if name.lower() not in _OURS:
            headers[name] = str(value)
    headers["Content-Type"] = "application/json"
    headers.update(sign(request.secrets, request.id, request.unix_seconds, body))
    if trace_id := trace.current.get():
        headers["traceparent"] = f"00-{trace_id}-{token_hex(8)}-01"
    return await connector.post(str(request.config.get("url", "")), body, headers)


async def webhook(connector: Connector, request: DeliveryRequest) -> Outcome:
    """Delivered by any 2xx. 410 Gone is final (Standard Webhooks); every other answer may change."""
    try:
        answer = await post_signed(connector, request)
    except (Unreachable, ValueError) as error:
        return Failed(str(error)[:ERROR_CHARACTERS_MAX])
    words = words_of(answer, request)
    if 200 <= answer.status < 300:
        return Delivered(answer=words, http_status=answer.status)
    final = answer.status == 410
    return Failed(f"HTTP {answer.status}", answer.status, answer.retry_after_seconds, final=final, answer=words)


ANSWER_WORD_MIN: Final = 3


def words_of(answer: Answer, request: DeliveryRequest) -> str:
    """How an answer began, as text. It may repeat what was sent in confidence: the secrets, the signatures, the
    values of the receiver's own headers, the callback's token and what a winner answered are left out.
    """
    text = answer.body.decode("utf-8", "replace").replace("\0", "")
    confided = {str(value) for value in (request.config.get("headers") or {}).values()}
    for secret in request.secrets:
        confided |= {secret, secret.removeprefix("whsec_")}
    data = request.body.get("data")
    confided |= {*_answered(data), callback_token_of(data)}
    for value in sorted(confided, key=len, reverse=True):
        if value:
            text = text.replace(value, HIDDEN)
    return _SIGNATURE.sub(HIDDEN, text)[:ANSWER_CHARACTERS_MAX]


def callback_token_of(data: Any) -> str:
    """The token in the URL of a delivery's callback; '' where it has none."""
    return str(data.get("callback_url", "")).partition("&token=")[2] if isinstance(data, Mapping) else ""


def _answered(data: Any) -> Iterator[str]:
    """What a winner answered, line by line; what is shorter than a word says nothing of anybody."""
    answers = data.get("answers") if isinstance(data, Mapping) else None
    for answer in answers.values() if isinstance(answers, Mapping) else ():
        yield from (line for line in str(answer).splitlines() if len(line) >= ANSWER_WORD_MIN)


async def workflow(connector: Connector, request: DeliveryRequest) -> Outcome:
    """As webhook, but a 2xx only says that the workflow began: its callback says how it ended."""
    outcome = await webhook(connector, request)
    if not isinstance(outcome, Delivered):
        return outcome
    return Awaiting(seconds=request.config.get("callback_seconds"), answer=outcome.answer)


async def by_hand(connector: Connector, request: DeliveryRequest) -> Outcome:
    """Waits for an admin's fulfill, for as long as that takes."""
    return Awaiting(seconds=0)


async def at_once(connector: Connector, request: DeliveryRequest) -> Outcome:
    """There is nothing to deliver."""
    return Delivered()


def logged(kind: str) -> DeliveryProvider:
    """A stub: says in the log that it would have delivered, and what to register instead."""

    async def stub(connector: Connector, request: DeliveryRequest) -> Outcome:
        log.info("stub_delivery", integration_type=kind, event_id=request.id, tenant_id=request.tenant_id)
        return Stubbed()

    return stub


CHANNEL_PROVIDERS.register("none", at_once)
CHANNEL_PROVIDERS.register("webhook", webhook)
CHANNEL_PROVIDERS.register("workflow", workflow)
CHANNEL_PROVIDERS.register("manual", by_hand)
# voucher_code takes a code from the database: runtime/streams/delivery.py.

INTEGRATION_PROVIDERS.register("webhook", webhook)
INTEGRATION_PROVIDERS.register("workflow", webhook)

STUBS: Final[Mapping[str, DeliveryProvider]] = {
    kind: logged(kind) for kind in ("spreadsheet", "sms", "messaging", "crm")
}
"""Stand in for a type until a provider is registered under its name (spec.md, "Events", rule 4)."""


def integration_provider(kind: str) -> DeliveryProvider | None:
    """The provider of integrations of this type; None where there is none."""
    return INTEGRATION_PROVIDERS.get(kind) or STUBS.get(kind)


def posts(kind: str) -> bool:
    """Whether the type's own provider POSTs, so that its config must hold a receiver."""
    return INTEGRATION_PROVIDERS.get(kind) is webhook
