"""A request's credential: a Bearer token, or headers where development allows them."""

from __future__ import annotations

from aiohttp import web

from runtime.errors import Fault, Status, invalid
from runtime.http.auth.identity import IDENTIFIER, Identity
from runtime.http.auth.tokens import Tokens
from runtime.http.core_guard import check_host
from runtime.operations.row import PLATFORM


class Auth:
    """Reads the identity and the tenant of a request.

    With `header_fallback` (development only) X-Tenant-Id, X-Merchant-Id, X-Player-Id and X-Roles make an identity
    where there is no token. Otherwise they are ignored; under a host name that is not ours they are refused.
    """

    def __init__(self, tokens: Tokens, *, header_fallback: bool = False, default_tenant: str = "") -> None:
        self._tokens = tokens
        self.header_fallback = header_fallback
        self._default_tenant = default_tenant

    async def identify(self, request: web.Request) -> Identity | None:
        """The identity; None without a credential. An invalid token is refused, whatever the headers say."""
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
        # DNS rebinding: a page whose name points here could set any header, and so become staff.
        check_host(request.headers.get("Host", ""))
        tenant_id = _header_identifier(request, "X-Tenant-Id") or self._default_tenant
        if not tenant_id:
            raise invalid("X-Tenant-Id", "is needed: there is no default tenant")
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
        """The tenant that the request is about.

        The identity's own; X-Tenant-Id selects another for the role `platform` alone. Without a credential X-Tenant-Id
        or `?tenant_id=` selects one, and grants nothing (contract.md).
        """
        if identity is None:
            named = _header_identifier(request, "X-Tenant-Id") or request.query.get("tenant_id", "")
            if named and not IDENTIFIER.fullmatch(named):
                raise invalid("tenant_id", "is not an identifier")
            if not named and not self._default_tenant:
                raise invalid("tenant_id", "is needed: send X-Tenant-Id")
            return named or self._default_tenant
        if PLATFORM in identity.roles:
            return _header_identifier(request, "X-Tenant-Id") or identity.tenant_id
        return identity.tenant_id


def _header_identifier(request: web.Request, name: str) -> str:
    value = request.headers.get(name, "")
    if value and not IDENTIFIER.fullmatch(value):
        raise invalid(name, "is not an identifier")
    return value
