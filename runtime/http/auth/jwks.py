"""The public keys of another issuer, as its JWKS document has them (RFC 7517)."""

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
"""An unknown key id asks for the document again, but not more often than this: ids are anybody's to invent."""

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
    """The keys, fetched when first needed and when a key id is new.

    A document that cannot be had again leaves the keys known so far in force, and nobody whose key is known waits for
    it: an issuer that hangs would hold up every request.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._keys: dict[tuple[str | None, str], Any] = {}
        self._fetched_at = -math.inf
        self._tried_at = -math.inf
        self._fetching = SingleFlight()
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Waits for a document that is on its way, TIMEOUT_SECONDS at the most."""
        await self._fetching.drain()
        if self._session is not None:
            await self._session.close()

    async def get(self, kid: object, algorithm: str) -> Any | None:
        """The key with this id that verifies this algorithm; without an id, the only such key there is.

        UNAVAILABLE where no document was ever fetched.
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
        except Exception as exc:  # Whatever another's document breaks in a parser leaves the keys known in force.
            log.warning("jwks_not_fetched", url=self._url, why=repr(exc))


def _usable_keys(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str | None, str], Any]:
    """{(kid, algorithm): key} of the signing keys that we can use; the others are passed over."""
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
