"""Maps the claims of an external issuer's tokens to tenant, player or staff, by the settings JWKS_*.

The operator names the claims, the tenants that the issuer may act for, and the mapping of its roles to Tombola's. An
unmapped role grants nothing; a token without a mapped role is a player's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import jwt

from runtime.settings import Settings

EVERY: Final = "*"


class ClaimedIdentity(NamedTuple):
    """The identity claims of a token, not yet validated."""

    tenant_id: Any
    merchant_id: Any
    subject: Any
    roles: frozenset[str]


@dataclass(frozen=True, slots=True)
class ExternalIssuer:
    """An external issuer. tenants: those that it may act for. roles: its role names -> Tombola's."""

    jwks_url: str
    issuer: str
    audience: str
    tenants: frozenset[str] = frozenset({EVERY})
    tenant_claim: str = "tenant_id"
    merchant_claim: str = "merchant_id"
    player_claim: str = "sub"
    roles_claim: str = "roles"
    roles: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings) -> ExternalIssuer | None:
        """The issuer in the settings; None if there is none."""
        if not settings.jwks_url:
            return None
        return cls(
            jwks_url=settings.jwks_url,
            issuer=settings.jwks_issuer,
            audience=settings.jwks_audience,
            tenants=frozenset(settings.jwks_tenants),
            tenant_claim=settings.jwks_tenant_claim,
            merchant_claim=settings.jwks_merchant_claim,
            player_claim=settings.jwks_player_claim,
            roles_claim=settings.jwks_roles_claim,
            roles=dict(pair.rsplit("=", 1) for pair in settings.jwks_role_map),
        )

    def read(self, claims: Mapping[str, Any]) -> ClaimedIdentity:
        """Reads verified claims. InvalidTokenError for a tenant that the issuer may not act for."""
        tenant_id = _claim(claims, self.tenant_claim)
        if tenant_id is None and len(self.tenants) == 1 and EVERY not in self.tenants:
            (tenant_id,) = self.tenants
        if EVERY not in self.tenants and tenant_id not in self.tenants:
            raise jwt.InvalidTokenError("the issuer may not act for this tenant: see JWKS_TENANTS")
        roles = frozenset(self.roles[name] for name in _names(_claim(claims, self.roles_claim)) if name in self.roles)
        subject = claims["sub"] if roles else _claim(claims, self.player_claim)
        merchant_id = _claim(claims, self.merchant_claim)
        return ClaimedIdentity(tenant_id, "" if merchant_id is None else merchant_id, subject, roles)


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by name or by path (`realm_access.roles`); None if it is missing."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _names(value: Any) -> Iterable[str]:
    """The strings of a list, or the words of a string (as in OAuth's `scope`)."""
    if isinstance(value, str):
        return value.split()
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
