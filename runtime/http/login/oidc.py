"""Signing in at another issuer: OpenID Connect Core 1.0, authorization code with PKCE (RFC 7636), as a public client.

The issuer is that of JWKS_ISSUER; its addresses are those of its discovery document. The browser is sent there and
comes back with a code, which the edge turns into an ID token: so pages ask nobody but the edge. What the token says
is verified and mapped by the settings JWKS_*, as every token of that issuer (auth/external_issuer.py), but for
its audience, which is the dashboard's client.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
import jwt
import msgspec
import structlog

from runtime.errors import Fault, Status, invalid
from runtime.http.auth.external_issuer import Foreign
from runtime.http.auth.identity import Identity
from runtime.http.auth.jwks import BYTES_MAX, TIMEOUT_SECONDS
from runtime.http.auth.revocations import Revocations
from runtime.http.auth.tokens import Tokens
from runtime.settings import Settings
from runtime.stores.single_flight import SingleFlight

TEXT_CHARACTERS_MAX: Final = 4_096
_RETRY_SECONDS: Final = 5

log = structlog.get_logger(__name__)


class _Discovered(msgspec.Struct):
    """What is needed of the issuer's discovery document (OpenID Connect Discovery 1.0)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class _Given(msgspec.Struct):
    """What the token endpoint gives."""

    id_token: str


class Issuer:
    """The issuer that staff sign in at. `close` when done."""

    def __init__(self, settings: Settings, foreign: Foreign, revocations: Revocations) -> None:
        self._client_id, self._client_secret = settings.oidc_client_id, settings.oidc_client_secret
        self._scope = " ".join(settings.oidc_scopes)
        self._issuer = foreign.issuer
        self._tokens = Tokens(
            issuer=settings.jwt_issuer,
            audience=settings.jwt_audience,
            seconds_max=settings.token_seconds_max,
            foreign=replace(foreign, audience=settings.oidc_client_id),
            revocations=revocations,
        )
        self._discovered: _Discovered | None = None
        self._discovering = SingleFlight()
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def of(cls, settings: Settings, revocations: Revocations) -> Issuer | None:
        """As the settings have it; None where there is none."""
        foreign = Foreign.of(settings)
        return cls(settings, foreign, revocations) if foreign is not None and settings.oidc_client_id else None

    async def close(self) -> None:
        """Drops the connections to the issuer."""
        await self._discovering.drain()
        await self._tokens.close()
        if self._session is not None:
            await self._session.close()

    async def start(self, redirect_uri: str) -> dict[str, str]:
        """Where to send the browser, and what it must keep: `{url, state, nonce, verifier}`.

        Made here, since pages that are not served by https have no SHA-256; kept by the page alone.
        """
        found = await self._discover()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        asked = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": redirect_uri,
            "scope": self._scope,
            "state": state,
            "nonce": nonce,
            "code_challenge": _challenge(verifier),
            "code_challenge_method": "S256",
        }
        joined = "&" if urlsplit(found.authorization_endpoint).query else "?"
        url = f"{found.authorization_endpoint}{joined}{urlencode(asked)}"
        return {"url": url, "state": state, "nonce": nonce, "verifier": verifier}

    async def finish(self, code: str, verifier: str, nonce: str, redirect_uri: str) -> Identity:
        """Whom the issuer names for the code. UNAUTHENTICATED TOKEN_INVALID, TOKEN_EXPIRED; UNAVAILABLE."""
        asked = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        found = await self._discover()
        headers = {"Accept": "application/json"}
        if self._client_secret and "client_secret_basic" in found.token_endpoint_auth_methods_supported:
            named = f"{quote(self._client_id, safe='')}:{quote(self._client_secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(named.encode()).decode()}"
        else:
            asked["client_id"] = self._client_id
            if self._client_secret:
                asked["client_secret"] = self._client_secret
        status, body = await self._ask("POST", found.token_endpoint, data=asked, headers=headers)
        if 400 <= status < 500:
            log.info("code_refused", status=status, body=body[:200].decode(errors="replace"))
            raise Fault(Status.UNAUTHENTICATED, "TOKEN_INVALID", "the issuer does not take the code: sign in again")
        try:
            given = msgspec.json.decode(body, type=_Given)
        except msgspec.DecodeError:
            raise self._away(f"answered {status} without an ID token") from None
        identity = await self._tokens.verify(given.id_token)
        said = jwt.decode(given.id_token, options={"verify_signature": False}).get("nonce")
        if not isinstance(said, str) or not hmac.compare_digest(said.encode(), nonce.encode()):
            raise Fault(Status.UNAUTHENTICATED, "TOKEN_INVALID", "the ID token is of another sign-in")
        return identity

    async def _discover(self) -> _Discovered:
        if self._discovered is None:
            await self._discovering.share("", self._read)
        if self._discovered is None:
            raise self._away("has no discovery document")
        return self._discovered

    async def _read(self) -> None:
        status, body = await self._ask("GET", f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        try:
            found = msgspec.json.decode(body, type=_Discovered)
        except msgspec.DecodeError as error:
            raise self._away(f"answered {status}: {error}") from None
        if found.issuer != self._issuer:
            raise self._away(f"calls itself {found.issuer!r}, which is not JWKS_ISSUER")
        self._discovered = found

    async def _ask(self, verb: str, url: str, **more: Any) -> tuple[int, bytes]:
        """(status, body) of the issuer's answer. UNAVAILABLE."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS))
        try:
            async with self._session.request(verb, url, allow_redirects=False, **more) as answer:
                body = await answer.content.read(BYTES_MAX)
                while len(body) < BYTES_MAX and (piece := await answer.content.read(BYTES_MAX - len(body))):
                    body += piece
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise self._away(repr(error)) from None
        if answer.status >= 500:
            raise self._away(f"answered {answer.status}")
        return answer.status, body

    def _away(self, why: str) -> Fault:
        log.warning("issuer_unusable", issuer=self._issuer, why=why)
        message = "the issuer that staff sign in at cannot be used now"
        return Fault(Status.UNAVAILABLE, "STORE_UNAVAILABLE", message, retry_after_seconds=_RETRY_SECONDS)


def _challenge(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def checked_text(name: str, value: str) -> None:
    """INVALID_ARGUMENT naming the field where a text of a sign-in's is empty, too long or cannot be shown."""
    if not 0 < len(value) <= TEXT_CHARACTERS_MAX or not value.isprintable():
        raise invalid(name, f"must be a text of 1 to {TEXT_CHARACTERS_MAX} characters that can be shown")
