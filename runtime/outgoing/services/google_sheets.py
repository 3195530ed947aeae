"""Google Sheets: each event is a row that `spreadsheets.values.append` adds, with a service account's token.

Appending is not idempotent: a retry after a lost response adds the row again. Its column `id` shows the repetition.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote, urlencode

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from runtime.outgoing.connector import ATTEMPT_SECONDS, Connector, Unreachable, check_url
from runtime.outgoing.providers import ERROR_CHARACTERS_MAX, DeliveryRequest, Failed, Outcome
from runtime.outgoing.services.requests import FORM, JSON, call
from runtime.outgoing.services.values import cell_of, value_at

API: Final = "https://sheets.googleapis.com"
TOKEN_URL: Final = "https://oauth2.googleapis.com/token"
SCOPE: Final = "https://www.googleapis.com/auth/spreadsheets"
GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
KEY_LENGTH_MAX: Final = 8_000
PEM_LENGTH_MAX: Final = 3_600
"""Of an RSA key of 4,096 bits. OpenSSL checks each key, which stops the process: for over a second at 8,192 bits."""
COLUMNS: Final = ("id", "type", "occurred_at", "campaign_id", "data.player_id")

ASSERTION_SECONDS: Final = 3_600
"""The longest lifetime of an assertion that Google accepts."""

MARGIN_SECONDS: Final = 60.0
"""How long before its end a token is replaced."""

TOKENS_MAX: Final = 1_000

_tokens: OrderedDict[bytes, tuple[str, float]] = OrderedDict()
"""Access tokens and the monotonic time until which they are used, by the SHA-256 of the service account's key."""


class _Account(msgspec.Struct):
    """The used part of the key file of a service account."""

    client_email: str
    private_key: str
    private_key_id: str = ""
    token_uri: str = TOKEN_URL


class _Token(msgspec.Struct):
    access_token: str
    expires_in: float = 0.0


class _NoToken(Exception):
    """The token endpoint returned no token. status: of its response, or 0."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


def account_key(value: Any) -> Iterable[tuple[str, str]]:
    """The problem of a service account's key file."""
    wrong = "must be the JSON key file of a Google service account"
    if not isinstance(value, str) or len(value) > KEY_LENGTH_MAX:
        yield "", wrong
        return
    try:
        account = msgspec.json.decode(value, type=_Account)
        if len(account.private_key) > PEM_LENGTH_MAX:
            yield "", "must have an RSA key of at most 4,096 bits: create a key of 2,048 bits, as Google does"
            return
        key = _loaded(account.private_key)
    except (ValueError, TypeError, msgspec.DecodeError):
        yield "", wrong
        return
    if not isinstance(key, RSAPrivateKey):
        yield "", f"{wrong}, with an RSA key"
    elif problem := check_url(account.token_uri):
        yield "", f"has a token_uri that {problem}"


@lru_cache(maxsize=256)
def _loaded(pem: str) -> PrivateKeyTypes:
    """Cached, since OpenSSL takes some 30 ms for each key, in which no other thread runs either."""
    return load_pem_private_key(pem.encode(), None)


async def append_row(connector: Connector, request: DeliveryRequest) -> Outcome:
    """Appends the event's row. Values are written RAW, so that no cell is a formula."""
    try:
        async with asyncio.timeout(ATTEMPT_SECONDS):  # Of both requests.
            return await _append_row(connector, request)
    except TimeoutError:
        return Failed(f"no answer within {ATTEMPT_SECONDS:g} s")


async def _append_row(connector: Connector, request: DeliveryRequest) -> Outcome:
    if not request.secrets:
        return Failed("the service account's key is not set")
    secret, config = request.secrets[0], request.config
    try:
        token = await _token(connector, secret, request.unix_seconds)
    except (_NoToken, Unreachable) as error:
        return Failed(f"no token: {error}"[:ERROR_CHARACTERS_MAX], getattr(error, "status", 0))
    sheet = str(config.get("sheet", "")).replace("'", "''")
    cells = quote(f"'{sheet}'!A1" if sheet else "A1", safe="")
    base = f"{config.get('url') or API}/v4/spreadsheets/{quote(str(config['spreadsheet_id']), safe='')}"
    query = urlencode({"valueInputOption": "RAW", "insertDataOption": "INSERT_ROWS"})
    row = [cell_of(value_at(request.body, path)) for path in config.get("columns") or COLUMNS]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": JSON}
    body = msgspec.json.encode({"majorDimension": "ROWS", "values": [row]})
    url = f"{base}/values/{cells}:append?{query}"
    outcome = await call(connector, request, url, body, headers, credentials=[token])
    if isinstance(outcome, Failed) and outcome.http_status == 401:
        _tokens.pop(_digest(secret), None)
    return outcome


async def _token(connector: Connector, secret: str, now: int) -> str:
    """An access token, cached until shortly before it expires. Raises _NoToken, Unreachable."""
    known = _tokens.get(_digest(secret))
    if known and known[1] > time.monotonic():
        return known[0]
    asked_at = time.monotonic()
    token = await _requested(connector, msgspec.json.decode(secret, type=_Account), now)
    _tokens[_digest(secret)] = (token.access_token, asked_at + token.expires_in - MARGIN_SECONDS)
    while len(_tokens) > TOKENS_MAX:
        _tokens.popitem(last=False)
    return token.access_token


async def _requested(connector: Connector, account: _Account, now: int) -> _Token:
    claims: Mapping[str, Any] = {
        "iss": account.client_email,
        "scope": SCOPE,
        "aud": account.token_uri,
        "iat": now,
        "exp": now + ASSERTION_SECONDS,
    }
    headers = {"kid": account.private_key_id} if account.private_key_id else None
    key: Any = _loaded(account.private_key)
    assertion = jwt.encode(dict(claims), key, algorithm="RS256", headers=headers)
    body = urlencode({"grant_type": GRANT, "assertion": assertion}).encode()
    answer = await connector.post(account.token_uri, body, {"Content-Type": FORM})
    if answer.status != 200:
        raise _NoToken(f"HTTP {answer.status}", answer.status)
    try:
        return msgspec.json.decode(answer.body, type=_Token)
    except msgspec.DecodeError:
        raise _NoToken("the response is no token", answer.status) from None


def _digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
