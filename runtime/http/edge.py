"""What the two edges have in common: how they ask who asks, and how they reach Core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from runtime import messages as m
from runtime.core import Caller
from runtime.ephemeral import Ephemeral
from runtime.http.auth import Auth, Identity, Tokens
from runtime.http.limits import Limits, Policy
from runtime.operations import API, BY_NAME, Operation
from runtime.settings import Settings

ALIASES: Final[Mapping[str, Mapping[str, str]]] = {"prize": {"prize_id": "id"}}
"""What an edge calls a resource's field -> the field, by resource (contract.md, "Core messages")."""


@dataclass(frozen=True, slots=True)
class Edge:
    """What an edge's handlers work with. `caller` is Core itself, or an RPC client where it is elsewhere."""

    settings: Settings
    caller: Caller
    tokens: Tokens
    auth: Auth
    store: Ephemeral
    limits: Limits

    @classmethod
    def build(cls, settings: Settings, caller: Caller, store: Ephemeral) -> Edge:
        """An edge as the settings have it."""
        tokens = Tokens(
            settings.jwt_secret,
            issuer=settings.jwt_issuer,
            audience=settings.jwt_audience,
            jwks_url=settings.jwks_url,
            jwks_issuer=settings.jwks_issuer,
            jwks_audience=settings.jwks_audience,
        )
        auth = Auth(tokens, header_fallback=settings.header_fallback, default_tenant=settings.default_tenant)
        limits = Limits(
            store,
            player=Policy("player", settings.rate_player_per_second, settings.rate_player_burst),
            ip=Policy("ip", settings.rate_ip_per_second, settings.rate_ip_burst),
        )
        return cls(settings, caller, tokens, auth, store, limits)

    async def call(self, name: str, request: Any) -> Any:
        """Core's reply to the operation of this name. Raises Fault."""
        return await self.caller.call(BY_NAME[name], request)

    def scope(self, request: web.Request, identity: Identity | None) -> m.Scope:
        """Whose data the request is about. Raises INVALID_ARGUMENT where it names no tenant."""
        tenant_id = self.auth.tenant(request, identity)
        same_tenant = identity is not None and identity.tenant_id == tenant_id
        return m.Scope(tenant_id=tenant_id, merchant_id=identity.merchant_id if identity and same_tenant else "")


def operation(name: str) -> Operation:
    """The table's row of this name."""
    return BY_NAME[name]


def path(row_path: str) -> str:
    """A route's path under /api/v1."""
    return API + row_path
