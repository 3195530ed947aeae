"""Captchas of entry forms: a registry that plugins may extend (`captcha` of a form).

altcha      a proof of work (runtime/rules/proof_of_work.py), without any third party. The widget solves it.
siteverify  the token of Cloudflare Turnstile, hCaptcha or another service with the same API, checked at
            CAPTCHA_VERIFY_URL. Your own page shows the service's widget.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.sealed_seeds import derived
from runtime.errors import Fault, Status
from runtime.outgoing.connector import Connector, Unreachable
from runtime.registry import Registry
from runtime.rules.proof_of_work import Solved, new_challenge, solved
from runtime.wire.scope import tenant_of

ATTEMPT_SECONDS: Final = 5.0
TOKEN_SECONDS: Final = 600
"""How long a checked token is remembered. The services accept each once, and for at most five minutes."""


class Captcha(NamedTuple):
    """offer: what a refusal tells the client. verify: the solution, or None if it is wrong, used or too old."""

    offer: Callable[[Engine, m.SubmitEntryRequest], dict[str, Any]]
    verify: Callable[[Engine, m.SubmitEntryRequest], Awaitable[Solved | None]]


CAPTCHAS: Final[Registry[Captcha]] = Registry("captcha")

PURGES: Final = {"purge_captchas": sql.load("entries")["purge_captchas"]}


def required(engine: Engine, name: str, request: m.SubmitEntryRequest) -> Fault:
    """FAILED_PRECONDITION CAPTCHA_REQUIRED, with the captcha to solve."""
    offer = CAPTCHAS.require(name, "captcha").offer(engine, request)
    message = "solve the captcha and send its solution in captcha"
    if request.captcha:
        message = "the captcha's solution is wrong, used or too old: solve the new one"
    return Fault(Status.FAILED_PRECONDITION, "CAPTCHA_REQUIRED", message, captcha={"kind": name, **offer})


async def verify(engine: Engine, name: str, request: m.SubmitEntryRequest) -> Solved:
    """The solution that the request carries. FAILED_PRECONDITION CAPTCHA_REQUIRED if it is missing or wrong."""
    found = await CAPTCHAS.require(name, "captcha").verify(engine, request) if request.captcha else None
    if found is None:
        raise required(engine, name, request)
    return found


def _purpose(request: m.SubmitEntryRequest) -> tuple[str, str, str]:
    return "captcha", tenant_of(request), request.id


def _offer_work(engine: Engine, request: m.SubmitEntryRequest) -> dict[str, Any]:
    return new_challenge(derived(engine.keyring.server[0], *_purpose(request)), engine.clock.now())


async def _verify_work(engine: Engine, request: m.SubmitEntryRequest) -> Solved | None:
    keys = [derived(key, *_purpose(request)) for key in engine.keyring.server]
    return solved(keys, request.captcha, engine.clock.now())


def _offer_token(engine: Engine, request: m.SubmitEntryRequest) -> dict[str, Any]:
    return {"site_key": engine.settings.captcha_site_key}


async def _verify_token(engine: Engine, request: m.SubmitEntryRequest) -> Solved | None:
    settings = engine.settings
    if not settings.captcha_verify_url:
        message = "the form's captcha needs CAPTCHA_VERIFY_URL and CAPTCHA_SECRET"
        raise Fault(Status.UNAVAILABLE, "CAPTCHA_UNAVAILABLE", message, retry_after_seconds=60)
    body = urlencode({"secret": settings.captcha_secret, "response": request.captcha}).encode()
    connector = Connector(settings.outbound_allow_cidrs, attempt_seconds=ATTEMPT_SECONDS)
    try:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = await connector.post(settings.captcha_verify_url, body, headers)
        found = json.loads(answer.body)
    except (Unreachable, ValueError):
        message = "the captcha's service does not answer"
        raise Fault(Status.UNAVAILABLE, "CAPTCHA_UNAVAILABLE", message, retry_after_seconds=5) from None
    finally:
        await connector.close()
    if not (isinstance(found, dict) and found.get("success") is True):
        return None
    return Solved(hashlib.sha256(request.captcha.encode()).digest(), int(time.time()) + TOKEN_SECONDS)


CAPTCHAS.register("altcha", Captcha(_offer_work, _verify_work))
CAPTCHAS.register("siteverify", Captcha(_offer_token, _verify_token))
