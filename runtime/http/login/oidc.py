"""Sign-in at an external issuer: OpenID Connect Core 1.0, authorization code with PKCE (RFC 7636).

The issuer is JWKS_ISSUER; its endpoints come from its discovery document. The browser is sent there and returns with a
code, which the edge exchanges for an ID token, so that pages call only the edge. The token is verified and mapped by
the settings JWKS_*, like every token of that issuer (auth/external_issuer.py), except that its audience is the
dashboard's client.
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
from runtime.http.auth.external_issuer import ExternalIssuer
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
    """The used part of the issuer's discovery document (OpenID Connect Discovery 1.0)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class _TokenResponse(msgspec.Struct):
    """The token endpoint's response."""

    id_token: str


class Issuer:
    """The issuer at which staff sign in. Call `close` when done."""

    def __init__(self, settings: Settings, external: ExternalIssuer, revocations: Revocations) -> None:
        self._client_id, self._client_secret = settings.oidc_client_id, settings.oidc_client_secret
        self._scope = " ".join(settings.oidc_scopes)
        self._issuer = external.issuer
        self._tokens = Tokens(
            issuer=settings.jwt_issuer,
            audience=settings.jwt_audience,
            seconds_max=settings.token_seconds_max,
            external=replace(external, audience=settings.oidc_client_id),
            revocations=revocations,
        )
        self._discovered: _Discovered | None = None
        self._discovering = SingleFlight()
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def of(cls, settings: Settings, revocations: Revocations) -> Issuer | None:
        """The issuer in the settings; None if there is none."""
        external = ExternalIssuer.of(settings)
        return cls(settings, external, revocations) if external is not None and settings.oidc_client_id else None

    async def close(self) -> None:
        """Closes the connections to the issuer."""
        await self._discovering.drain()
        await self._tokens.close()
        if self._session is not None:
            await self._session.close()

    async def start(self, redirect_uri: str) -> dict[str, str]:
        """The URL to send the browser to, and the values that it must store: `{url, state, nonce, verifier}`.

        Created here, because pages without https have no SHA-256. Only the page stores them.
        """
        found = await self._discover()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        fields = {
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
        url = f"{found.authorization_endpoint}{joined}{urlencode(fields)}"
        return {"url": url, "state": state, "nonce": nonce, "verifier": verifier}

    async def finish(self, code: str, verifier: str, nonce: str, redirect_uri: str) -> Identity:
        """Exchanges the code for an identity. UNAUTHENTICATED TOKEN_INVALID, TOKEN_EXPIRED; UNAVAILABLE."""
        fields = {
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
            fields["client_id"] = self._client_id
            if self._client_secret:
                fields["client_secret"] = self._client_secret
        status, body = await self._ask("POST", found.token_endpoint, data=fields, headers=headers)
        if 400 <= status < 500:
            log.info("code_refused", status=status, body=body[:200].decode(errors="replace"))
            raise Fault(Status.UNAUTHENTICATED, "TOKEN_INVALID", "the issuer rejected the code; sign in again")
        try:
            tokens = msgspec.json.decode(body, type=_TokenResponse)
        except msgspec.DecodeError:
            raise self._unavailable(f"answered {status} without an ID token") from None
        identity = await self._tokens.verify(tokens.id_token)
        token_nonce = jwt.decode(tokens.id_token, options={"verify_signature": False}).get("nonce")
        if not isinstance(token_nonce, str) or not hmac.compare_digest(token_nonce.encode(), nonce.encode()):
            raise Fault(Status.UNAUTHENTICATED, "TOKEN_INVALID", "the ID token is from another sign-in; sign in again")
        return identity

    async def _discover(self) -> _Discovered:
        if self._discovered is None:
            await self._discovering.share("", self._read)
        if self._discovered is None:
            raise self._unavailable("has no discovery document")
        return self._discovered

    async def _read(self) -> None:
        status, body = await self._ask("GET", f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        try:
            found = msgspec.json.decode(body, type=_Discovered)
        except msgspec.DecodeError as error:
            raise self._unavailable(f"answered {status}: {error}") from None
        if found.issuer != self._issuer:
            raise self._unavailable(f"calls itself {found.issuer!r}, which is not JWKS_ISSUER")
        self._discovered = found

    async def _ask(self, verb: str, url: str, **more: Any) -> tuple[int, bytes]:
        """(status, body) of the issuer's response. UNAVAILABLE."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS))
        try:
            async with self._session.request(verb, url, allow_redirects=False, **more) as answer:
                body = await answer.content.read(BYTES_MAX)
                while len(body) < BYTES_MAX and (piece := await answer.content.read(BYTES_MAX - len(body))):
                    body += piece
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise self._unavailable(repr(error)) from None
        if answer.status >= 500:
            raise self._unavailable(f"answered {answer.status}")
        return answer.status, body

    def _unavailable(self, why: str) -> Fault:
        log.warning("issuer_unusable", issuer=self._issuer, why=why)
        message = "the sign-in issuer is unavailable; try again"
        return Fault(Status.UNAVAILABLE, "STORE_UNAVAILABLE", message, retry_after_seconds=_RETRY_SECONDS)


def _challenge(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def checked_text(name: str, value: str) -> None:
    """INVALID_ARGUMENT for a sign-in field that is empty, too long or not printable."""
    if not 0 < len(value) <= TEXT_CHARACTERS_MAX or not value.isprintable():
        raise invalid(name, f"must be 1 to {TEXT_CHARACTERS_MAX} printable characters")
