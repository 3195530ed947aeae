"""What another issuer's tokens say: tenant, player or staff, by the settings JWKS_*.

Its claims have its own names and mean what it means by them. So the operator names the claims, the tenants that
it may speak for, and which of its roles are which of ours; a role that is not named gives nothing, and who has
none of ours is a player.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import jwt

from runtime.settings import Settings

EVERY: Final = "*"


class Said(NamedTuple):
    """Whom a token names. Not checked yet for being identifiers."""

    tenant_id: Any
    merchant_id: Any
    subject: Any
    roles: frozenset[str]


@dataclass(frozen=True, slots=True)
class Foreign:
    """Another issuer. tenants: those that it may speak for. roles: its roles' names to ours."""

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
    def of(cls, settings: Settings) -> Foreign | None:
        """As the settings have it; None where there is none."""
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

    def read(self, claims: Mapping[str, Any]) -> Said:
        """Whom verified claims name. InvalidTokenError for a tenant that the issuer may not speak for."""
        tenant_id = _claim(claims, self.tenant_claim)
        if tenant_id is None and len(self.tenants) == 1 and EVERY not in self.tenants:
            (tenant_id,) = self.tenants
        if EVERY not in self.tenants and tenant_id not in self.tenants:
            raise jwt.InvalidTokenError("the issuer may not speak for this tenant")
        roles = frozenset(self.roles[name] for name in _names(_claim(claims, self.roles_claim)) if name in self.roles)
        subject = claims["sub"] if roles else _claim(claims, self.player_claim)
        merchant_id = _claim(claims, self.merchant_claim)
        return Said(tenant_id, "" if merchant_id is None else merchant_id, subject, roles)


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name, or by its path (`realm_access.roles`); None where there is none."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _names(value: Any) -> Iterable[str]:
    """The texts of a list, or the words of a text (as OAuth's `scope` is written)."""
    if isinstance(value, str):
        return value.split()
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
