"""ALTCHA's proof of work: the client searches the number that hashes to the challenge, for about a second.

    challenge   SHA-256(salt + number) in hex, with a secret number from 0 to NUMBER_MAX
    salt        random, then "?expires=UNIX_SECONDS&". The closing "&" keeps digits from moving from number to salt
    signature   HMAC-SHA256 of the challenge under a secret key, in hex
    solution    base64 of the JSON of algorithm, challenge, salt, number and signature

See https://altcha.org/docs/v2/server-integration/ for the format, which other ALTCHA clients can solve.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

NUMBER_MAX: Final = 100_000
"""Half of them are tried on average: about a second on a phone, for each entry."""

VALID_SECONDS: Final = 600
ALGORITHM: Final = "SHA-256"
_SALT: Final = re.compile(r"[0-9a-f]{24}\?expires=([1-9][0-9]{9,10})&")
_NUMBER: Final = range(NUMBER_MAX + 1)


class Solved(NamedTuple):
    """A solution. digest: it may be used once, until expires_at (unix seconds)."""

    digest: bytes
    expires_at: int


def new_challenge(key: bytes, now: float) -> dict[str, Any]:
    """A challenge, as the client receives it."""
    salt = f"{secrets.token_hex(12)}?expires={int(now) + VALID_SECONDS}&"
    challenge = _challenge(salt, secrets.choice(_NUMBER))
    signature = _signature(key, challenge)
    return {
        "algorithm": ALGORITHM,
        "challenge": challenge,
        "maxnumber": NUMBER_MAX,
        "salt": salt,
        "signature": signature,
    }


def solved(keys: Sequence[bytes], solution: str, now: float) -> Solved | None:
    """The solution of a challenge made with one of the keys. None if it is wrong, malformed or expired."""
    try:
        given = json.loads(base64.b64decode(solution, validate=True))
        salt, number, signature = given["salt"], given["number"], given["signature"]
        expires = _SALT.fullmatch(salt)
        if expires is None or type(number) is not int or number not in _NUMBER or not signature.isascii():
            return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    challenge, expires_at = _challenge(salt, number), int(expires[1])
    known = any(hmac.compare_digest(_signature(key, challenge), signature) for key in keys)
    return Solved(bytes.fromhex(challenge), expires_at) if known and now < expires_at else None


def _challenge(salt: str, number: int) -> str:
    return hashlib.sha256(f"{salt}{number}".encode()).hexdigest()


def _signature(key: bytes, challenge: str) -> str:
    return hmac.digest(key, challenge.encode(), "sha256").hex()
