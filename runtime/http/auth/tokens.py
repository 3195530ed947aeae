"""JSON Web Tokens: mints own ones, and verifies own ones and another issuer's.

Own tokens are HS256 under a secret, which their `kid` names; a secret that was before goes on verifying. Players'
and staff's have secrets of their own: the consumer edge, which strangers reach, holds none that makes staff. Tokens
of another issuer are RS256, ES256 or EdDSA under the keys of its JWKS document, and settings map their claims
(external_issuer.py). The algorithm is a property of the key, never of the token (RFC 8725, 3.1), so neither `none` nor
a public key used as a secret can pass.

The audience says whose a token is: players' have one, staff's another, and neither opens the other's edge.
A player's token gives no role, whatever it claims. No token is taken that was made for longer than the settings allow.

Tokens are made and judged by Postgres's clock, as Core tells it (revocations.py), with a few seconds' leeway
for other issuers: one of the future would outlive what revokes the tokens that are issued until now.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import jwt
import structlog

from runtime import ids
from runtime import messages as m
from runtime.errors import Fault, Status
from runtime.http.auth.external_issuer import Foreign, Said
from runtime.http.auth.identity import IDENTIFIER, Identity
from runtime.http.auth.jwks import KEY_ALGORITHMS, JwksKeys
from runtime.http.auth.revocations import Revocations, login_key, player_key, sign_in_key, staff_key
from runtime.operations.players.revocations import LEEWAY_SECONDS
from runtime.settings import Settings
from runtime.wire.schema import fields_of
from runtime.wire.subjects import is_seen, subject_of

CACHE_MAX: Final = 20_000
TOKEN_CHARACTERS_MAX: Final = 8_192

_TIMES_ARE_OURS: Final[Any] = {
    "require": ["exp", "iat", "iss", "aud", "sub"],
    **dict.fromkeys(("verify_exp", "verify_iat", "verify_nbf"), False),
}
"""The library would judge them by this process's clock."""

_PLAYER: Final = re.compile(r"[A-Za-z0-9_.:@|+-]{1,128}")
"""A player's id: other issuers' subjects have `|` and `@` in them too."""

_SUBJECT: Final = fields_of(m.RevokeStaffRequest)["subject"]

log = structlog.get_logger(__name__)


class _Secret(NamedTuple):
    """A secret of HS256, and the audiences whose tokens it makes."""

    key: bytes
    audiences: tuple[str, ...]


class Tokens:
    """Mints own tokens and verifies own and foreign ones.

    secrets: of players' tokens, the first signs, all verify; none where only another issuer's tokens count.
    staff_secrets: of staff's; None: the same. audience: players'; staff_audience: staff's. seconds_max: the longest
    life that is taken; of a login's tokens, login_seconds_max. foreign: what another issuer's tokens say, where there
    is one. Verified tokens are remembered until they expire, so a key that its issuer withdraws ends with the tokens
    it signed.
    """

    def __init__(
        self,
        *secrets: str | bytes,
        issuer: str,
        audience: str,
        staff_audience: str = "tombola-staff",
        staff_secrets: Iterable[str | bytes] | None = None,
        seconds_max: int = 2_592_000,
        login_seconds_max: int = 86_400,
        foreign: Foreign | None = None,
        revocations: Revocations | None = None,
    ) -> None:
        keys = {audience: _keys(secrets), staff_audience: _keys(secrets if staff_secrets is None else staff_secrets)}
        self._signing = {audience: own[0] for audience, own in keys.items() if own}
        self._secrets = {
            _kid(key): _Secret(key, tuple(audience for audience, own in keys.items() if key in own))
            for key in (*keys[audience], *keys[staff_audience])
        }
        self._issuer = issuer
        self._audience = audience
        self._staff_audience = staff_audience
        self._seconds_max = seconds_max
        self._login_seconds_max = login_seconds_max
        self._foreign = foreign
        self._keys = JwksKeys(foreign.jwks_url) if foreign is not None else None
        self._revocations = revocations
        self._jwt = jwt.PyJWT(options={"enforce_minimum_key_length": True})
        self._known: OrderedDict[str, Identity] = OrderedDict()

    @classmethod
    def of(cls, settings: Settings, revocations: Revocations | None = None) -> Tokens:
        """As the settings have them."""
        return cls(
            *settings.jwt_secrets,
            issuer=settings.jwt_issuer,
            audience=settings.jwt_audience,
            staff_audience=settings.jwt_staff_audience,
            staff_secrets=settings.jwt_staff_secrets,
            seconds_max=settings.token_seconds_max,
            login_seconds_max=settings.player_token_seconds,
            foreign=Foreign.of(settings),
            revocations=revocations,
        )

    async def close(self) -> None:
        """Drop the connection to the JWKS server."""
        if self._keys is not None:
            await self._keys.close()

    def now(self) -> float:
        """The time that tokens are made and judged by, unix seconds."""
        return time.time() if self._revocations is None else self._revocations.now()

    def mint(
        self,
        sub: str,
        *,
        tenant_id: str,
        seconds: int,
        merchant_id: str = "",
        roles: Iterable[str] = (),
        login_id: str = "",
        jti: str = "",
    ) -> str:
        """A token that ends in `seconds`: staff's with roles; without, a player's, and of the login `login_id`.

        jti: whose sign-in goes on; else it is one of its own. LookupError where there is no secret of such tokens.
        """
        now = int(self.now())
        named = sorted(roles)
        audience = self._staff_audience if named else self._audience
        secret = self._signing[audience]
        claims = {
            "iss": self._issuer,
            "aud": audience,
            "sub": sub,
            "iat": now,
            "exp": now + seconds,
            "jti": jti or secrets.token_urlsafe(12),
            "tenant_id": tenant_id,
            "merchant_id": merchant_id,
            "roles": named,
            **({"sid": login_id} if login_id else {}),
        }
        return self._jwt.encode(claims, secret, algorithm="HS256", headers={"kid": _kid(secret)})

    async def verify(self, token: str) -> Identity:
        """The identity in a token. UNAUTHENTICATED with TOKEN_INVALID or TOKEN_EXPIRED."""
        revocations = self._revocations
        identity = self._known.get(token)
        if identity is None:
            if revocations is not None:
                await revocations.read_first()
            identity = await self._verify_anew(token)
            if revocations is not None:
                longest_seconds = revocations.longest(identity.player_id, identity.login_id)
                if identity.expires_at - identity.issued_at > longest_seconds:
                    raise _invalid()  # It would outlive the memory of its revocation.
            self._known[token] = identity
            if len(self._known) > CACHE_MAX:
                self._known.popitem(last=False)
        elif identity.expires_at + LEEWAY_SECONDS <= self.now():
            del self._known[token]
            raise _expired()
        else:
            self._known.move_to_end(token)
        if revocations is not None:
            for key in identity.revocable:
                if revocations.revoked(key, identity.issued_at):
                    raise _invalid()
        return identity

    async def _verify_anew(self, token: str) -> Identity:
        try:
            if len(token) > TOKEN_CHARACTERS_MAX:
                raise jwt.InvalidTokenError("too long")
            header = jwt.get_unverified_header(token)
            if "crit" in header:
                raise jwt.InvalidTokenError("critical extensions are not understood")  # RFC 7515 section 4.1.11
            if header.get("alg") == "HS256" and self._secrets:
                return self._own(token, header.get("kid"))
            return await self._of_another(token, header)
        except jwt.ExpiredSignatureError:
            raise _expired() from None
        except Fault:
            raise
        except Exception as exc:  # Whatever an attacker's claims break in a parser is an invalid token.
            log.debug("token_refused", why=str(exc))
            raise _invalid() from None

    def _own(self, token: str, kid: object) -> Identity:
        """Who an own token names. A key id that is none of ours says nothing: every secret is tried then."""
        named = self._secrets.get(kid) if isinstance(kid, str) else None
        tried = [named] if named is not None else list(self._secrets.values())
        for secret in tried:
            with suppress(jwt.InvalidSignatureError):
                claims = self._claims(token, secret.key, "HS256", self._issuer, list(secret.audiences))
                if not isinstance(claims["aud"], str):
                    raise jwt.InvalidTokenError("a token is for one audience")
                staff = claims["aud"] == self._staff_audience
                roles = claims.get("roles") or []
                if not (isinstance(roles, list) and all(isinstance(role, str) for role in roles)):
                    raise jwt.InvalidTokenError("roles must be a list of strings")
                merchant_id = claims.get("merchant_id")
                merchant_id = "" if merchant_id is None else merchant_id
                said = Said(claims["tenant_id"], merchant_id, claims["sub"], frozenset(roles))
                return self._identity(token, claims, said, staff=staff, login_id=claims.get("sid", ""))
        raise jwt.InvalidSignatureError("no secret of ours made it")

    async def _of_another(self, token: str, header: Mapping[str, Any]) -> Identity:
        """Who another issuer's token names, as the settings tell it."""
        foreign, algorithm = self._foreign, header.get("alg")
        # Nothing is asked for that no key of theirs can have signed: tokens are anybody's to invent.
        if foreign is None or self._keys is None or algorithm not in KEY_ALGORITHMS.values():
            raise jwt.InvalidTokenError("no key of this issuer fits")
        key = await self._keys.get(header.get("kid"), str(algorithm))
        if key is None:
            raise jwt.InvalidTokenError("no key of this issuer fits")
        claims = self._claims(token, key, str(algorithm), foreign.issuer, foreign.audience)
        said = foreign.read(claims)
        if not said.roles and isinstance(said.subject, str) and ids.is_guest(said.subject):
            raise jwt.InvalidTokenError("who is a guest is for us to say: their name opens what they won")
        return self._identity(token, claims, said, staff=bool(said.roles), login_id="")

    def _claims(self, token: str, key: Any, algorithm: str, issuer: str, audience: str | list[str]) -> dict[str, Any]:
        claims = self._jwt.decode(
            token, key, algorithms=[algorithm], issuer=issuer, audience=audience, options=_TIMES_ARE_OURS
        )
        now = self.now()
        if claims["exp"] + LEEWAY_SECONDS <= now:
            raise jwt.ExpiredSignatureError("expired")
        if max(claims["iat"], claims.get("nbf", claims["iat"])) > now + LEEWAY_SECONDS:
            raise jwt.ImmatureSignatureError("of the future")
        return claims

    def _identity(self, token: str, claims: Mapping[str, Any], said: Said, *, staff: bool, login_id: Any) -> Identity:
        """The identity, once all of it is what it must be."""
        tenant_id, merchant_id, subject, roles = said
        if staff and isinstance(subject, str):
            subject = subject_of(subject)
        # Only "" is no merchant: whatever else is empty would make a merchant's staff the tenant's own.
        for identifier in (tenant_id, *([merchant_id] if merchant_id != "" else [])):
            if not isinstance(identifier, str) or not IDENTIFIER.fullmatch(identifier):
                raise jwt.InvalidTokenError("tenant and merchant must be identifiers")
        if not isinstance(subject, str) or not (_is_staff_subject(subject) if staff else _PLAYER.fullmatch(subject)):
            raise jwt.InvalidTokenError("a player must be an identifier, and staff's subject a text that can be shown")
        if not isinstance(login_id, str):
            raise jwt.InvalidTokenError("sid must be a string")
        life = claims["exp"] - claims["iat"]  # NaN and infinities are no life that is short enough.
        if not life <= (self._login_seconds_max if login_id else self._seconds_max):
            raise jwt.InvalidTokenError("made for longer than is taken")
        sign_in_id = _sign_in_id(token, claims) if staff else ""
        revocable: tuple[str, ...]
        if staff:
            revocable = (sign_in_key(tenant_id, sign_in_id), staff_key(tenant_id, subject))
        else:
            revocable = (login_key(tenant_id, login_id) if login_id else player_key(tenant_id, subject),)
        return Identity(
            tenant_id=tenant_id,
            merchant_id=merchant_id,
            player_id="" if staff else subject,
            roles=roles if staff else frozenset(),
            subject=subject,
            expires_at=int(claims["exp"]),
            login_id=login_id,
            sign_in_id=sign_in_id,
            revocable=revocable,
            issued_at=int(claims["iat"]),
        )


def _is_staff_subject(subject: str) -> bool:
    """Whether the audit log can show it, and log-out name it: what is no such text would go unnoted.

    Of characters that cannot be seen it has none: two people for the second look at what one asks would look alike.
    """
    return bool(subject) and is_seen(subject) and _SUBJECT.text_problem(subject) is None


def _sign_in_id(token: str, claims: Mapping[str, Any]) -> str:
    """The sign-in that a token of staff's is of: its issuer's session (`sid`), or else the token. It opens nothing."""
    said = [claims[name] for name in ("sid", "jti") if isinstance(claims.get(name), str) and claims[name]]
    named = [claims["iss"], *(said[:1] or [token])]
    return f"signin_{hashlib.sha256(json.dumps(named).encode()).hexdigest()[:32]}"


def _keys(secrets: Iterable[str | bytes]) -> list[bytes]:
    return [secret.encode() if isinstance(secret, str) else secret for secret in secrets if secret]


def _kid(secret: bytes) -> str:
    """The name of a secret, from which it cannot be told: it has the entropy of a key."""
    return hashlib.blake2b(secret, digest_size=8, person=b"tombola kid").hexdigest()


def _invalid() -> Fault:
    return Fault(Status.UNAUTHENTICATED, "TOKEN_INVALID", "the token is not valid")


def _expired() -> Fault:
    return Fault(Status.UNAUTHENTICATED, "TOKEN_EXPIRED", "the token has expired")
