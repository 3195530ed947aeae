"""Signatures of what goes out and comes in, as Standard Webhooks defines them.

`webhook-signature` is a space-separated list of `v1,` and base64 of HMAC-SHA256 over
`{webhook-id}.{webhook-timestamp}.{body}`; one that verifies suffices, so a secret is rotated by
signing with two. Source: github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md.

Not by the `standardwebhooks` package, which the tests hold this to: it verifies at 1.9 times the cost and signs at
1.4 (600 bytes), knows one secret and no clock but its own, and a malformed header escapes it as ValueError.

A secret that begins with `whsec_` is base64 of the key, as that specification has it; any other is
the key itself, in UTF-8.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

TOLERANCE_SECONDS: Final = 300
ID_CHARACTERS_MAX: Final = 256
SIGNATURES_MAX: Final = 16
"""More than anyone's rotation needs; it bounds what one request can make us compute."""

ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"
SERVICE_SIGNATURE: Final = "X-Service-Signature"

SECRET_LENGTH_MIN: Final = 16
"""Of a secret in characters, and of its key in bytes: shorter ones are guessed from one signature that somebody saw."""

SECRET_LENGTH_MAX: Final = 512

TOKEN_BYTES: Final = 16

SECRET_BYTES: Final = 32

_PREFIX: Final = "whsec_"


class SignatureRefused(Exception):
    """The message is not signed with one of the secrets, or not now."""


def key_of(secret: str) -> bytes:
    """The key that a configured secret stands for. ValueError where `whsec_` is not followed by base64."""
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError(f"after {_PREFIX} must come base64") from None
    if not key:
        raise ValueError(f"after {_PREFIX} must come base64")
    return key


def secret_problem(secret: Any) -> str | None:
    """What is wrong with a secret that is to sign, or None; "" is none."""
    if secret == "":
        return None
    if not isinstance(secret, str) or not SECRET_LENGTH_MIN <= len(secret) <= SECRET_LENGTH_MAX:
        return f"must be a text of {SECRET_LENGTH_MIN} to {SECRET_LENGTH_MAX} characters"
    try:
        key = key_of(secret)
    except ValueError:
        return f"must be base64 after {_PREFIX}"
    return f"must be a key of at least {SECRET_LENGTH_MIN} bytes" if len(key) < SECRET_LENGTH_MIN else None


def make_secret() -> str:
    """A secret that nobody guesses, as Standard Webhooks writes one."""
    return _PREFIX + base64.b64encode(os.urandom(SECRET_BYTES)).decode()


def sign(secrets: Sequence[str], message_id: str, unix_seconds: int, body: bytes) -> dict[str, str]:
    """The headers of a message: id and timestamp always, one signature for each secret."""
    headers = {ID: message_id, TIMESTAMP: str(unix_seconds)}
    if secrets:
        signatures = " ".join(_signature(key_of(secret), message_id, str(unix_seconds), body) for secret in secrets)
        headers[SIGNATURE] = headers[SERVICE_SIGNATURE] = signatures
    return headers


def verify(secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now: float) -> str:
    """The id of a message that one of `secrets` signed within the tolerance of `now` (unix seconds).

    `headers` are looked up by lower-case name (aiohttp's are case-insensitive). Raises SignatureRefused.
    """
    message_id, timestamp = headers.get(ID, ""), headers.get(TIMESTAMP, "")
    given = (headers.get(SIGNATURE) or headers.get(SERVICE_SIGNATURE) or "").split(" ")[:SIGNATURES_MAX]
    if not 0 < len(message_id) <= ID_CHARACTERS_MAX:
        raise SignatureRefused(f"{ID} is missing or too long")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        raise SignatureRefused(f"{TIMESTAMP} must be unix seconds")
    if abs(now - int(timestamp)) > TOLERANCE_SECONDS:
        raise SignatureRefused(f"{TIMESTAMP} is more than {TOLERANCE_SECONDS} s from now")
    for secret in secrets:
        right = _signature(key_of(secret), message_id, timestamp, body).encode()
        if any(hmac.compare_digest(right, one.encode("utf-8", "replace")) for one in given):
            return message_id
    raise SignatureRefused("no signature verifies")


def _signature(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    digest = hmac.digest(key, f"{message_id}.{timestamp}.".encode("utf-8", "replace") + body, "sha256")
    return f"v1,{base64.b64encode(digest).decode()}"


def callback_token(secret: str, tenant_id: str, task_id: str) -> str:
    """What the URL of a task's callback carries: made of the prize's secret, and of no other task's use.

    Not a signature that anybody could be made to give: a signed message begins with an id and a dot.
    """
    digest = hmac.digest(key_of(secret), f"callback\n{tenant_id}\n{task_id}".encode("utf-8", "replace"), "sha256")
    return base64.urlsafe_b64encode(digest[:TOKEN_BYTES]).decode().rstrip("=")


def verify_callback_token(secrets: Sequence[str], tenant_id: str, task_id: str, token: str) -> None:
    """Raises SignatureRefused where none of the secrets made this token for this task."""
    given = token.encode("utf-8", "replace")
    right = [callback_token(secret, tenant_id, task_id).encode() for secret in secrets]
    if not any(hmac.compare_digest(one, given) for one in right):
        raise SignatureRefused("the URL's token is not this task's")
