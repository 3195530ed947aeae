"""Standard Webhooks signatures of outgoing and incoming messages.

`webhook-signature` is a space-separated list of `v1,` and base64 of HMAC-SHA256 over
`{webhook-id}.{webhook-timestamp}.{body}`. One valid signature suffices, so a secret is rotated by
signing with two. Source: github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md.

The tests compare this with the `standardwebhooks` package, which is not used here: verifying costs 1.9 times as much
and signing 1.4 (600 bytes), it takes one secret and no clock, and a malformed header raises ValueError.

A secret that begins with `whsec_` is the base64 of the key, as in the specification; any other is the
key itself, in UTF-8.
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
"""More than any rotation needs. Bounds the work that one request can cause."""

ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"
SERVICE_SIGNATURE: Final = "X-Service-Signature"

SECRET_LENGTH_MIN: Final = 16
"""Characters of a secret and bytes of its key. Shorter keys can be brute-forced from one observed signature."""

SECRET_LENGTH_MAX: Final = 512

TOKEN_BYTES: Final = 16

SECRET_BYTES: Final = 32

_PREFIX: Final = "whsec_"


class SignatureRefused(Exception):
    """The message has no valid signature, or its timestamp is outside the tolerance."""


def key_of(secret: str) -> bytes:
    """The key of a configured secret. ValueError if `whsec_` is not followed by base64."""
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError(f"must be base64 after {_PREFIX}") from None
    if not key:
        raise ValueError(f"must be base64 after {_PREFIX}")
    return key


def secret_problem(secret: Any) -> str | None:
    """The problem of a signing secret, or None; "" means no secret and is valid."""
    if secret == "":
        return None
    if not isinstance(secret, str) or not SECRET_LENGTH_MIN <= len(secret) <= SECRET_LENGTH_MAX:
        return f"must be a string of {SECRET_LENGTH_MIN} to {SECRET_LENGTH_MAX} characters"
    try:
        key = key_of(secret)
    except ValueError:
        return f"must be base64 after {_PREFIX}"
    return f"must be a key of at least {SECRET_LENGTH_MIN} bytes" if len(key) < SECRET_LENGTH_MIN else None


def make_secret() -> str:
    """A random secret in Standard Webhooks format."""
    return _PREFIX + base64.b64encode(os.urandom(SECRET_BYTES)).decode()


def sign(secrets: Sequence[str], message_id: str, unix_seconds: int, body: bytes) -> dict[str, str]:
    """The headers of a message: id, timestamp, and one signature for each secret."""
    headers = {ID: message_id, TIMESTAMP: str(unix_seconds)}
    if secrets:
        signatures = " ".join(_signature(key_of(secret), message_id, str(unix_seconds), body) for secret in secrets)
        headers[SIGNATURE] = headers[SERVICE_SIGNATURE] = signatures
    return headers


def verify(secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now: float) -> str:
    """The id of a message that was signed by one of `secrets` within the tolerance of `now` (unix seconds).

    `headers` are looked up by lower-case name (aiohttp's are case-insensitive). Raises SignatureRefused.
    """
    message_id, timestamp = headers.get(ID, ""), headers.get(TIMESTAMP, "")
    signatures = (headers.get(SIGNATURE) or headers.get(SERVICE_SIGNATURE) or "").split(" ")[:SIGNATURES_MAX]
    if not 0 < len(message_id) <= ID_CHARACTERS_MAX:
        raise SignatureRefused(f"{ID} is missing or too long")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        raise SignatureRefused(f"{TIMESTAMP} must be unix seconds")
    if abs(now - int(timestamp)) > TOLERANCE_SECONDS:
        raise SignatureRefused(f"{TIMESTAMP} is more than {TOLERANCE_SECONDS} s from now")
    for secret in secrets:
        expected = _signature(key_of(secret), message_id, timestamp, body).encode()
        if any(hmac.compare_digest(expected, one.encode("utf-8", "replace")) for one in signatures):
            return message_id
    raise SignatureRefused("no signature verifies")


def _signature(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    digest = hmac.digest(key, f"{message_id}.{timestamp}.".encode("utf-8", "replace") + body, "sha256")
    return f"v1,{base64.b64encode(digest).decode()}"


def callback_token(secret: str, tenant_id: str, task_id: str) -> str:
    """The token in a task's callback URL: derived from the prize's secret and valid for this task only.

    It cannot collide with a message signature: a signed message starts with an id and a dot.
    """
    digest = hmac.digest(key_of(secret), f"callback\n{tenant_id}\n{task_id}".encode("utf-8", "replace"), "sha256")
    return base64.urlsafe_b64encode(digest[:TOKEN_BYTES]).decode().rstrip("=")


def verify_callback_token(secrets: Sequence[str], tenant_id: str, task_id: str, token: str) -> None:
    """Raises SignatureRefused if the token matches none of the secrets for this task."""
    encoded = token.encode("utf-8", "replace")
    expected = [callback_token(secret, tenant_id, task_id).encode() for secret in secrets]
    if not any(hmac.compare_digest(one, encoded) for one in expected):
        raise SignatureRefused("the URL's token does not match this task")
