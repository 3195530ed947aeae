"""Who asks: JSON Web Tokens, the header fallback for development, and what an identity may do.

Own tokens are HS256 under a secret. Tokens of another issuer are RS256, ES256 or EdDSA under the keys of
its JWKS document. The algorithm is a property of the key, never of the token (RFC 8725 section 3.1), so
neither `none` nor a public key used as a secret can pass.

Expiry is judged by this process's clock with a few seconds' leeway; everything that costs money is judged
by Postgres's.
"""

from __future__ import annotations

import asyncio
import math
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import jwt
import msgspec
import structlog
from aiohttp import web

from runtime.errors import Fault, Status, invalid
from runtime.http.revocations import Revocations, login_key, player_key
from runtime.operations.row import MANAGEMENT, PLATFORM

LEEWAY_SECONDS: Final = 5
CACHE_MAX: Final = 20_000
TOKEN_CHARACTERS_MAX: Final = 8_192

JWKS_BYTES_MAX: Final = 256 * 1024
JWKS_TIMEOUT_SECONDS: Final = 5.0
JWKS_FRESH_SECONDS: Final = 3_600.0
JWKS_RETRY_SECONDS: Final = 30.0
"""An unknown key id asks for the document again, but not more often than this: ids are anybody's to invent."""

KEY_ALGORITHMS: Final[Mapping[tuple[str, str | None], str]] = {
    ("RSA", None): "RS256",
    ("EC", "P-256"): "ES256",
    ("OKP", "Ed25519"): "EdDSA",
}
"""The one algorithm that a key of this type and curve verifies."""

_REQUIRED: Final = ["exp", "iat", "iss", "aud", "sub"]
_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks. `player_id` is empty for staff; `expires_at` is unix seconds, 0 for a header identity.

    login_id: the login that the token is of, "" for a guest's and another issuer's. revocable: what it is
    revoked by (runtime/http/revocations.py). issued_at: unix seconds.
    """

    tenant_id: str
    merchant_id: str
    player_id: str
    roles: frozenset[str]
    subject: str
    expires_at: int
    login_id: str = ""
    revocable: str = ""
    issued_at: int = 0


class Tokens:
    """Mints own tokens and verifies own and foreign ones.

    `secret` is empty where only another issuer's tokens count. A token without a role is a player's,
    and its `sub` is the player's id. Verified tokens are remembered until they expire, so a key that
    its issuer withdraws ends with the tokens it signed.
    """

    def __init__(
        self,
        secret: str | bytes = b"",
        *,
        issuer: str,
        audience: str,
        jwks_url: str = "",
        jwks_issuer: str = "",
        jwks_audience: str = "",
        revocations: Revocations | None = None,
    ) -> None:
        self._secret = secret.encode() if isinstance(secret, str) else secret
        self._issuer = issuer
        self._audience = audience
        self._keys = JwksKeys(jwks_url) if jwks_url else None
        self._revocations = revocations
        self._jwks_issuer = jwks_issuer or issuer
        self._jwks_audience = jwks_audience or audience
        self._jwt = jwt.PyJWT(options={"enforce_minimum_key_length": True})
        self._known: OrderedDict[str, Identity] = OrderedDict()

    async def close(self) -> None:
        """Drop the connection to the JWKS server."""
        if self._keys is not None:
            await self._keys.close()

    def mint(
        self,
        sub: str,
        *,
        tenant_id: str,
        seconds: int,
        merchant_id: str = "",
        roles: Iterable[str] = (),
        login_id: str = "",
    ) -> str:
        """A token that ends in `seconds`. Without roles `sub` is a player's id, and `login_id` the login it is of."""
        now = int(time.time())
        claims = {
            "iss": self._issuer,
            "aud": self._audience,
            "sub": sub,
            "iat": now,
            "exp": now + seconds,
            "jti": secrets.token_urlsafe(12),
            "tenant_id": tenant_id,
            "merchant_id": merchant_id,
            "roles": sorted(roles),
            **({"sid": login_id} if login_id else {}),
        }
        return self._jwt.encode(claims, self._secret, algorithm="HS256")

    async def verify(self, token: str) -> Identity:
        """The identity in a token. UNAUTHENTICATED with TOKEN_INVALID or TOKEN_EXPIRED."""
        identity = self._known.get(token)
        if identity is None:
            identity = await self._verify_anew(token)
            self._known[token] = identity
            if len(self._known) > CACHE_MAX:
                self._known.popitem(last=False)
        elif identity.expires_at + LEEWAY_SECONDS <= time.time():
            del self._known[token]
            raise _expired()
        else:
            self._known.move_to_end(token)
        revocations = self._revocations
        if revocations is not None:
            if not revocations.known:
                await revocations.read()
            if revocations.revoked(identity.revocable, identity.issued_at):
                raise _invalid()
        return identity

    async def _verify_anew(self, token: str) -> Identity:
        try:
            if len(token) > TOKEN_CHARACTERS_MAX:
                raise jwt.InvalidTokenError("too long")
            key, algorithm, issuer, audience = await self._key(jwt.get_unverified_header(token))
            claims = self._jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=issuer,
                audience=audience,
                leeway=LEEWAY_SECONDS,
                options={"require": _REQUIRED},
            )
            return _identity(claims)
        except jwt.ExpiredSignatureError:
            raise _expired() from None
        except Fault:
            raise
        except Exception as exc:  # Whatever an attacker's claims break in a parser is an invalid token.
            log.debug("token_refused", why=str(exc))
            raise _invalid() from None

    async def _key(self, header: Mapping[str, Any]) -> tuple[Any, str, str, str]:
        """(key, its algorithm, issuer and audience) for a header; InvalidTokenError where no key of ours fits."""
        if "crit" in header:
            raise jwt.InvalidTokenError("critical extensions are not understood")  # RFC 7515 section 4.1.11
        algorithm = header.get("alg")
        if algorithm == "HS256" and self._secret:
            return self._secret, "HS256", self._issuer, self._audience
        if self._keys is not None and algorithm in KEY_ALGORITHMS.values():
            key = await self._keys.get(header.get("kid"), str(algorithm))
            if key is not None:
                return key, str(algorithm), self._jwks_issuer, self._jwks_audience
        raise jwt.InvalidTokenError("no key of this issuer fits")


def _identity(claims: Mapping[str, Any]) -> Identity:
    tenant_id, merchant_id, sub = claims["tenant_id"], claims.get("merchant_id") or "", claims["sub"]
    roles = claims.get("roles") or []
    if not (isinstance(roles, list) and all(isinstance(role, str) for role in roles)):
        raise jwt.InvalidTokenError("roles must be a list of strings")
    for identifier in (tenant_id, *([merchant_id] if merchant_id else [])):
        if not isinstance(identifier, str) or not _IDENTIFIER.fullmatch(identifier):
            raise jwt.InvalidTokenError("tenant_id and merchant_id must be identifiers")
    if not roles and not _IDENTIFIER.fullmatch(sub):
        raise jwt.InvalidTokenError("a player's sub must be an identifier")
    if not math.isfinite(claims["exp"]):
        raise jwt.InvalidTokenError("exp must be finite")
    login_id = claims.get("sid", "")
    if not isinstance(login_id, str):
        raise jwt.InvalidTokenError("sid must be a string")
    return Identity(
        tenant_id,
        merchant_id,
        "" if roles else sub,
        frozenset(roles),
        sub,
        int(claims["exp"]),
        login_id,
        "" if roles else login_key(tenant_id, login_id) if login_id else player_key(tenant_id, sub),
        int(claims["iat"]),
    )


def _invalid() -> Fault:
    return Fault(Status.UNAUTHENTICATED, "TOKEN_INVALID", "the token is not valid")


def _expired() -> Fault:
    return Fault(Status.UNAUTHENTICATED, "TOKEN_EXPIRED", "the token has expired")


class JwksKeys:
    """The public keys of another issuer (RFC 7517), fetched when first needed and when a key id is new.

    A document that cannot be had again leaves the keys known so far in force.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._keys: dict[tuple[str | None, str], Any] = {}
        self._fetched_at = -math.inf
        self._tried_at = -math.inf
        self._lock = asyncio.Lock()
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, kid: object, algorithm: str) -> Any | None:
        """The key with this id that verifies this algorithm; without an id, the only such key there is.

        UNAVAILABLE where no document was ever fetched.
        """
        fresh = time.monotonic() - self._fetched_at < JWKS_FRESH_SECONDS
        found = self._find(kid, algorithm)
        if found is not None and fresh:
            return found
        async with self._lock:  # One fetch for all who wait.
            if time.monotonic() - self._tried_at >= JWKS_RETRY_SECONDS:
                await self._fetch()
        if self._fetched_at == -math.inf:
            raise Fault(
                Status.UNAVAILABLE, "STORE_UNAVAILABLE", "the issuer's keys cannot be fetched", retry_after_seconds=5
            )
        return self._find(kid, algorithm)

    def _find(self, kid: object, algorithm: str) -> Any | None:
        if isinstance(kid, str):
            return self._keys.get((kid, algorithm))
        fitting = [key for (_, its), key in self._keys.items() if its == algorithm]
        return fitting[0] if kid is None and len(fitting) == 1 else None

    async def _fetch(self) -> None:
        self._tried_at = time.monotonic()
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=JWKS_TIMEOUT_SECONDS))
        try:
            async with self._session.get(self._url, allow_redirects=False) as answer:
                if answer.status != 200:
                    raise ValueError(f"answered {answer.status}")
                body = bytearray()
                async for piece in answer.content.iter_any():
                    body += piece
                    if len(body) > JWKS_BYTES_MAX:
                        raise ValueError(f"exceeds {JWKS_BYTES_MAX} bytes")
            document = msgspec.json.decode(bytes(body), type=dict[str, Any])
            self._keys = _usable_keys(document["keys"])
            self._fetched_at = time.monotonic()
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError, RecursionError) as exc:
            log.warning("jwks_not_fetched", url=self._url, why=repr(exc))


def _usable_keys(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str | None, str], Any]:
    """{(kid, algorithm): key} of the signing keys that we can use; the others are passed over."""
    keys: dict[tuple[str | None, str], Any] = {}
    for row in rows:
        kty = row.get("kty")
        algorithm = KEY_ALGORITHMS.get((str(kty), None if kty == "RSA" else row.get("crv")))
        if algorithm is None or row.get("use", "sig") != "sig" or row.get("alg", algorithm) != algorithm:
            continue
        try:
            keys[row.get("kid"), algorithm] = jwt.PyJWK(dict(row), algorithm=algorithm).key
        except (jwt.PyJWTError, ValueError, KeyError, TypeError) as exc:
            log.warning("jwk_unusable", kid=str(row.get("kid")), why=repr(exc))
    return keys


class Auth:
    """What an edge asks of a request.

    With `header_fallback` (development only) X-Tenant-Id, X-Merchant-Id, X-Player-Id and X-Roles
    make an identity where there is no token; without it they are never believed.
    """

    def __init__(self, tokens: Tokens, *, header_fallback: bool = False, default_tenant: str = "") -> None:
        self._tokens = tokens
        self._header_fallback = header_fallback
        self._default_tenant = default_tenant

    async def identify(self, request: web.Request) -> Identity | None:
        """Who asks; None for nobody. A token that is not valid is refused, whatever the headers say."""
        credential = request.headers.get("Authorization")
        if credential is not None:
            scheme, _, token = credential.partition(" ")
            if scheme.lower() != "bearer" or not token:
                raise Fault(Status.UNAUTHENTICATED, "TOKEN_INVALID", "Authorization must be a Bearer token")
            return await self._tokens.verify(token.strip())
        if self._header_fallback:
            return self._from_headers(request)
        return None

    def _from_headers(self, request: web.Request) -> Identity | None:
        player_id = _header_identifier(request, "X-Player-Id")
        roles = frozenset(filter(None, map(str.strip, request.headers.get("X-Roles", "").split(","))))
        if not player_id and not roles:
            return None
        tenant_id = _header_identifier(request, "X-Tenant-Id") or self._default_tenant
        if not tenant_id:
            raise invalid("X-Tenant-Id", "is needed: there is no default tenant")
        merchant_id = _header_identifier(request, "X-Merchant-Id")
        return Identity(tenant_id, merchant_id, player_id, roles, player_id or "header", 0)

    def tenant(self, request: web.Request, identity: Identity | None) -> str:
        """The tenant that the request is about.

        An identity's own; another that X-Tenant-Id names only for the role `platform`. Without a
        credential X-Tenant-Id or `?tenant_id=` selects, and grants nothing (contract.md).
        """
        if identity is None:
            named = _header_identifier(request, "X-Tenant-Id") or request.query.get("tenant_id", "")
            if named and not _IDENTIFIER.fullmatch(named):
                raise invalid("tenant_id", "is not an identifier")
            if not named and not self._default_tenant:
                raise invalid("tenant_id", "is needed: send X-Tenant-Id")
            return named or self._default_tenant
        if PLATFORM in identity.roles:
            return _header_identifier(request, "X-Tenant-Id") or identity.tenant_id
        return identity.tenant_id


def require_player(identity: Identity | None) -> Identity:
    """A player's identity. TOKEN_MISSING for nobody, ROLE_REQUIRED for staff."""
    if identity is None:
        raise _missing()
    if not identity.player_id:
        raise Fault(Status.PERMISSION_DENIED, "ROLE_REQUIRED", "this route is a player's", roles=["player"])
    return identity


def require_roles(identity: Identity | None, allowed: frozenset[str] = MANAGEMENT) -> Identity:
    """An identity with any of the roles. TOKEN_MISSING for nobody, ROLE_REQUIRED for who lacks them all."""
    if identity is None:
        raise _missing()
    if not identity.roles & allowed:
        names = sorted(allowed)
        raise Fault(Status.PERMISSION_DENIED, "ROLE_REQUIRED", f"needs a role of {', '.join(names)}", roles=names)
    return identity


def _missing() -> Fault:
    return Fault(Status.UNAUTHENTICATED, "TOKEN_MISSING", "this route needs a Bearer token")


def _header_identifier(request: web.Request, name: str) -> str:
    value = request.headers.get(name, "")
    if value and not _IDENTIFIER.fullmatch(value):
        raise invalid(name, "is not an identifier")
    return value
