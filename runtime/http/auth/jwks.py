"""The public keys of an external issuer, from its JWKS document (RFC 7517)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import aiohttp
import jwt
import msgspec
import structlog

from runtime.errors import Fault, Status
from runtime.stores.single_flight import SingleFlight

BYTES_MAX: Final = 256 * 1024
TIMEOUT_SECONDS: Final = 5.0
FRESH_SECONDS: Final = 3_600.0
RETRY_SECONDS: Final = 30.0
"""The minimum interval between fetches for unknown key ids: anyone can invent ids."""

KEY_ALGORITHMS: Final[Mapping[tuple[str, str | None], str]] = {
    ("RSA", None): "RS256",
    ("EC", "P-256"): "ES256",
    ("OKP", "Ed25519"): "EdDSA",
}
"""The one algorithm that a key of this type and curve verifies."""

log = structlog.get_logger(__name__)


class _Document(msgspec.Struct):
    """A JWK set."""

    keys: list[dict[str, Any]]


class JwksKeys:
    """The keys, fetched on first use and again for a new key id.

    If a refresh fails, the known keys stay in use. Requests with a known key do not wait for a refresh: otherwise an
    issuer that hangs would block them all.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._keys: dict[tuple[str | None, str], Any] = {}
        self._fetched_at = -math.inf
        self._tried_at = -math.inf
        self._fetching = SingleFlight()
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Waits for a running fetch, at most TIMEOUT_SECONDS."""
        await self._fetching.drain()
        if self._session is not None:
            await self._session.close()

    async def get(self, kid: object, algorithm: str) -> Any | None:
        """The key with this id for this algorithm; without an id, the key if it is the only one.

        UNAVAILABLE if no document was ever fetched.
        """
        found = self._find(kid, algorithm)
        if found is not None:
            if time.monotonic() - self._fetched_at >= FRESH_SECONDS and self._may_try():
                self._fetching.begin(self._url, self._fetch)
            return found
        if self._fetching.under_way(self._url) or self._may_try():
            await self._fetching.share(self._url, self._fetch)
        if self._fetched_at == -math.inf:
            raise Fault(
                Status.UNAVAILABLE, "STORE_UNAVAILABLE", "the issuer's keys cannot be fetched", retry_after_seconds=5
            )
        return self._find(kid, algorithm)

    def _may_try(self) -> bool:
        return time.monotonic() - self._tried_at >= RETRY_SECONDS

    def _find(self, kid: object, algorithm: str) -> Any | None:
        if isinstance(kid, str):
            return self._keys.get((kid, algorithm))
        fitting = [key for (_, its), key in self._keys.items() if its == algorithm]
        return fitting[0] if kid is None and len(fitting) == 1 else None

    async def _fetch(self) -> None:
        self._tried_at = time.monotonic()
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS))
        try:
            async with self._session.get(self._url, allow_redirects=False) as answer:
                if answer.status != 200:
                    raise ValueError(f"answered {answer.status}")
                body = bytearray()
                async for piece in answer.content.iter_any():
                    body += piece
                    if len(body) > BYTES_MAX:
                        raise ValueError(f"exceeds {BYTES_MAX} bytes")
            self._keys = _usable_keys(msgspec.json.decode(bytes(body), type=_Document).keys)
            self._fetched_at = time.monotonic()
        except Exception as exc:  # Any error in an external document keeps the known keys in use.
            log.warning("jwks_not_fetched", url=self._url, why=repr(exc))


def _usable_keys(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str | None, str], Any]:
    """{(kid, algorithm): key} of the supported signing keys. Skips the others."""
    keys: dict[tuple[str | None, str], Any] = {}
    for row in rows:
        try:
            kty = row.get("kty")
            algorithm = KEY_ALGORITHMS.get((str(kty), None if kty == "RSA" else row.get("crv")))
            if algorithm is None or row.get("use", "sig") != "sig" or row.get("alg", algorithm) != algorithm:
                continue
            keys[row.get("kid"), algorithm] = jwt.PyJWK(dict(row), algorithm=algorithm).key
        except (jwt.PyJWTError, ValueError, KeyError, TypeError) as exc:
            log.warning("jwk_unusable", kid=str(row.get("kid")), why=repr(exc))
    return keys
