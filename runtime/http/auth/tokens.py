"""JSON Web Tokens: mints the service's own tokens, and verifies them and an external issuer's.

Own tokens are HS256; `kid` names the secret, and previous secrets still verify. Players and staff have separate
secrets: the public consumer edge has none that could mint a staff token. External tokens are RS256, ES256 or EdDSA
under the keys of the issuer's JWKS document; settings map their claims (external_issuer.py). The key determines the
algorithm, never the token (RFC 8725, 3.1), so neither `none` nor a public key used as a secret passes.

Players and staff have different audiences, and each edge accepts only its own. A player's token grants no role,
whatever it claims. A token with a longer lifetime than the settings allow is refused.

Tokens are issued and checked by Postgres's clock, which Core reports (revocations.py), with a few seconds' leeway for
external issuers. A token issued in the future would escape a revocation of all tokens issued until now.
"""

from __future__ import annotations

import hashlib
import json
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
from runtime.http.auth.external_issuer import ClaimedIdentity, ExternalIssuer
from runtime.http.auth.identity import IDENTIFIER, Identity
from runtime.http.auth.jwks import KEY_ALGORITHMS, JwksKeys
from runtime.http.auth.revocations import Revocations, login_key, player_key, sign_in_key, staff_key
from runtime.operations.players.revocations import LEEWAY_SECONDS
from runtime.settings import Settings
from runtime.wire.schema import fields_of
from runtime.wire.scope import PLAYER_ID
from runtime.wire.subjects import is_visible, subject_of

CACHE_MAX: Final = 20_000
TOKEN_CHARACTERS_MAX: Final = 8_192

_TIMES_ARE_OURS: Final[Any] = {
    "require": ["exp", "iat", "iss", "aud", "sub"],
    **dict.fromkeys(("verify_exp", "verify_iat", "verify_nbf"), False),
}
"""Times are checked here, because the library would use this process's clock."""

_SUBJECT: Final = fields_of(m.RevokeStaffRequest)["subject"]

log = structlog.get_logger(__name__)


class _Secret(NamedTuple):
    """An HS256 secret and the audiences that it signs for."""

    key: bytes
    audiences: tuple[str, ...]


class Tokens:
    """Mints own tokens and verifies own and external ones.

    secrets: for players' tokens; the first signs, all verify; empty if only external tokens are accepted.
    staff_secrets: for staff's; None: the same. audience: players'; staff_audience: staff's. seconds_max: the longest
    lifetime accepted; login_seconds_max: for a login's tokens. external: the external issuer, if any. Verified tokens
    are cached until they expire, so a token signed by a withdrawn key stays valid until then.
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
        external: ExternalIssuer | None = None,
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
        self._external = external
        self._keys = JwksKeys(external.jwks_url) if external is not None else None
        self._revocations = revocations
        self._jwt = jwt.PyJWT(options={"enforce_minimum_key_length": True})
        self._known: OrderedDict[str, Identity] = OrderedDict()

    @classmethod
    def of(cls, settings: Settings, revocations: Revocations | None = None) -> Tokens:
        """Builds it from the settings."""
        return cls(
            *settings.jwt_secrets,
            issuer=settings.jwt_issuer,
            audience=settings.jwt_audience,
            staff_audience=settings.jwt_staff_audience,
            staff_secrets=settings.jwt_staff_secrets,
            seconds_max=settings.token_seconds_max,
            login_seconds_max=settings.player_token_seconds,
            external=ExternalIssuer.of(settings),
            revocations=revocations,
        )

    async def close(self) -> None:
        """Closes the connection to the JWKS server."""
        if self._keys is not None:
            await self._keys.close()

    def now(self) -> float:
        """The current time for issuing and checking tokens, in Unix seconds."""
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
        """Mints a token that expires in `seconds`: a staff token if it has roles, else a player's of login `login_id`.

        jti: continues that sign-in; empty: a new one. Raises LookupError without a secret for such tokens.
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
        if revocations is not None and not revocations.known:
            await revocations.read_first()  # Also for a cached token: a database that was down may serve again.
        identity = self._known.get(token)
        if identity is None:
            identity = await self._verify_uncached(token)
            if revocations is not None:
                longest_seconds = revocations.longest(identity.player_id, identity.login_id)
                if identity.expires_at - identity.issued_at > longest_seconds:
                    raise _invalid()  # It would outlive the record of its revocation.
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

    async def _verify_uncached(self, token: str) -> Identity:
        try:
            if len(token) > TOKEN_CHARACTERS_MAX:
                raise jwt.InvalidTokenError("too long")
            header = jwt.get_unverified_header(token)
            if "crit" in header:
                raise jwt.InvalidTokenError("critical extensions are not supported")  # RFC 7515 section 4.1.11
            if header.get("alg") == "HS256" and self._secrets:
                return self._own_token(token, header.get("kid"))
            return await self._external_token(token, header)
        except jwt.ExpiredSignatureError:
            raise _expired() from None
        except Fault:
            raise
        except Exception as exc:  # Any parser error caused by hostile claims means an invalid token.
            log.debug("token_refused", why=str(exc))
            raise _invalid() from None

    def _own_token(self, token: str, kid: object) -> Identity:
        """The identity in an own token. With an unknown key id, every secret is tried."""
        named = self._secrets.get(kid) if isinstance(kid, str) else None
        tried = [named] if named is not None else list(self._secrets.values())
        for secret in tried:
            with suppress(jwt.InvalidSignatureError):
                claims = self._claims(token, secret.key, "HS256", self._issuer, list(secret.audiences))
                if not isinstance(claims["aud"], str):
                    raise jwt.InvalidTokenError("aud must be a single audience")
                staff = claims["aud"] == self._staff_audience
                roles = claims.get("roles") or []
                if not (isinstance(roles, list) and all(isinstance(role, str) for role in roles)):
                    raise jwt.InvalidTokenError("roles must be a list of strings")
                merchant_id = claims.get("merchant_id")
                merchant_id = "" if merchant_id is None else merchant_id
                claimed = ClaimedIdentity(claims["tenant_id"], merchant_id, claims["sub"], frozenset(roles))
                return self._identity(token, claims, claimed, staff=staff, login_id=claims.get("sid", ""))
        raise jwt.InvalidSignatureError("no configured secret verifies it")

    async def _external_token(self, token: str, header: Mapping[str, Any]) -> Identity:
        """The identity in an external issuer's token, by the configured claims."""
        external, algorithm = self._external, header.get("alg")
        # Fetch no keys for an algorithm that the issuer cannot use: anyone can forge such tokens.
        if external is None or self._keys is None or algorithm not in KEY_ALGORITHMS.values():
            raise jwt.InvalidTokenError("no key of this issuer fits")
        key = await self._keys.get(header.get("kid"), str(algorithm))
        if key is None:
            raise jwt.InvalidTokenError("no key of this issuer fits")
        claims = self._claims(token, key, str(algorithm), external.issuer, external.audience)
        claimed = external.read(claims)
        if not claimed.roles and isinstance(claimed.subject, str) and ids.is_own(claimed.subject):
            raise jwt.InvalidTokenError("an external issuer must not issue tokens of this service's own players")
        return self._identity(token, claims, claimed, staff=bool(claimed.roles), login_id="")

    def _claims(self, token: str, key: Any, algorithm: str, issuer: str, audience: str | list[str]) -> dict[str, Any]:
        claims = self._jwt.decode(
            token, key, algorithms=[algorithm], issuer=issuer, audience=audience, options=_TIMES_ARE_OURS
        )
        now = self.now()
        if claims["exp"] + LEEWAY_SECONDS <= now:
            raise jwt.ExpiredSignatureError("expired")
        if max(claims["iat"], claims.get("nbf", claims["iat"])) > now + LEEWAY_SECONDS:
            raise jwt.ImmatureSignatureError("issued in the future")
        return claims

    def _identity(
        self, token: str, claims: Mapping[str, Any], claimed: ClaimedIdentity, *, staff: bool, login_id: Any
    ) -> Identity:
        """Validates the claims and builds the identity."""
        tenant_id, merchant_id, subject, roles = claimed
        if staff and isinstance(subject, str):
            subject = subject_of(subject)
        # Only "" means no merchant: any other empty value would turn merchant staff into tenant staff.
        for identifier in (tenant_id, *([merchant_id] if merchant_id != "" else [])):
            if not isinstance(identifier, str) or not IDENTIFIER.fullmatch(identifier):
                raise jwt.InvalidTokenError("tenant and merchant must be identifiers")
        if not isinstance(subject, str) or not (_is_staff_subject(subject) if staff else PLAYER_ID.fullmatch(subject)):
            raise jwt.InvalidTokenError("a player must be an identifier, and a staff subject a printable text")
        if not isinstance(login_id, str):
            raise jwt.InvalidTokenError("sid must be a string")
        life = claims["exp"] - claims["iat"]  # NaN and infinity fail the comparison below.
        if not life <= (self._login_seconds_max if login_id else self._seconds_max):
            raise jwt.InvalidTokenError("its lifetime exceeds the maximum")
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
    """Whether the audit log can show it and log-out can name it; any other subject would go unrecorded.

    Invisible characters are refused: with them, one person could pass as a second one in an approval.
    """
    return bool(subject) and is_visible(subject) and _SUBJECT.text_problem(subject) is None


def _sign_in_id(token: str, claims: Mapping[str, Any]) -> str:
    """The sign-in id of a staff token, from the issuer's session (`sid`) or else the token. It is not a credential."""
    claimed = [claims[name] for name in ("sid", "jti") if isinstance(claims.get(name), str) and claims[name]]
    named = [claims["iss"], *(claimed[:1] or [token])]
    return f"signin_{hashlib.sha256(json.dumps(named).encode()).hexdigest()[:32]}"


def _keys(secrets: Iterable[str | bytes]) -> list[bytes]:
    return [secret.encode() if isinstance(secret, str) else secret for secret in secrets if secret]


def _kid(secret: bytes) -> str:
    """A public name of a secret: a hash, which does not reveal a secret with a key's entropy."""
    return hashlib.blake2b(secret, digest_size=8, person=b"tombola kid").hexdigest()


def _invalid() -> Fault:
    return Fault(Status.UNAUTHENTICATED, "TOKEN_INVALID", "the token is not valid")


def _expired() -> Fault:
    return Fault(Status.UNAUTHENTICATED, "TOKEN_EXPIRED", "the token has expired")
