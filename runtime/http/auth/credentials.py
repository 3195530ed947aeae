"""A request's credential: a Bearer token, or headers in development."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from runtime.errors import Fault, Status, invalid
from runtime.http.auth.identity import IDENTIFIER, IDENTIFIER_CHARACTERS_MAX, Identity
from runtime.http.auth.tokens import Tokens
from runtime.http.core_guard import check_host
from runtime.http.headers import single_header
from runtime.operations.row import PLATFORM

_IDENTIFIER_RULE: Final = f"must be an identifier: 1 to {IDENTIFIER_CHARACTERS_MAX} letters, digits and _ . : -"


class Auth:
    """Reads the identity and the tenant of a request.

    With `header_fallback` (development only), a request without a token takes its identity from X-Tenant-Id,
    X-Merchant-Id, X-Player-Id and X-Roles, unless its Host is foreign. Otherwise those headers are ignored.
    """

    def __init__(self, tokens: Tokens, *, header_fallback: bool = False, default_tenant: str = "") -> None:
        self._tokens = tokens
        self.header_fallback = header_fallback
        self._default_tenant = default_tenant

    async def identify(self, request: web.Request) -> Identity | None:
        """The identity; None without a credential. An invalid token is refused, even with valid headers."""
        credential = request.headers.get("Authorization")
        if credential is not None:
            scheme, _, token = credential.partition(" ")
            if scheme.lower() != "bearer" or not token:
                raise Fault(Status.UNAUTHENTICATED, "TOKEN_INVALID", "Authorization must be a Bearer token")
            return await self._tokens.verify(token.strip())
        if self.header_fallback:
            return self._from_headers(request)
        return None

    def _from_headers(self, request: web.Request) -> Identity | None:
        player_id = _header_identifier(request, "X-Player-Id")
        roles = frozenset(filter(None, map(str.strip, request.headers.get("X-Roles", "").split(","))))
        if not player_id and not roles:
            return None
        # DNS rebinding: a page under a name that resolves to this host could set any header and act as staff.
        check_host(request.headers.get("Host", ""))
        tenant_id = _header_identifier(request, "X-Tenant-Id") or self._default_tenant
        if not tenant_id:
            raise invalid("X-Tenant-Id", "is required: no default tenant is configured")
        merchant_id = _header_identifier(request, "X-Merchant-Id")
        return Identity(
            tenant_id=tenant_id,
            merchant_id=merchant_id,
            player_id=player_id,
            roles=roles,
            subject=player_id or "header",
            expires_at=0,
        )

    def tenant(self, request: web.Request, identity: Identity | None) -> str:
        """The tenant of the request.

        The identity's own; only the role `platform` may select another by X-Tenant-Id. Without a credential,
        X-Tenant-Id or `?tenant_id=` selects the tenant but grants nothing.
        """
        if identity is None:
            named = _header_identifier(request, "X-Tenant-Id") or request.query.get("tenant_id", "")
            if named and not IDENTIFIER.fullmatch(named):
                raise invalid("tenant_id", _IDENTIFIER_RULE)
            if not named and not self._default_tenant:
                raise invalid("tenant_id", "is required: send X-Tenant-Id")
            return named or self._default_tenant
        if PLATFORM in identity.roles:
            return _header_identifier(request, "X-Tenant-Id") or identity.tenant_id
        return identity.tenant_id


def _header_identifier(request: web.Request, name: str) -> str:
    value = single_header(request, name) or ""
    if value and not IDENTIFIER.fullmatch(value):
        raise invalid(name, _IDENTIFIER_RULE)
    return value
