"""The common part of the two edges: identifying the caller, reading a request and calling Core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from runtime import messages as m
from runtime.core import Caller
from runtime.errors import invalid
from runtime.http.admission.control import AdmissionControl
from runtime.http.admission.local_rates import Gate, gate
from runtime.http.admission.lookup_limits import LookupLimiter
from runtime.http.admission.origins import Origins
from runtime.http.admission.rates import Policy
from runtime.http.admission.session_cache import SessionCache
from runtime.http.admission.shared_rates import SharedRate
from runtime.http.admission.tenants import Tenants
from runtime.http.auth.credentials import Auth
from runtime.http.auth.identity import Identity
from runtime.http.auth.revocations import Revocations
from runtime.http.auth.tokens import Tokens
from runtime.http.bodies import read_body
from runtime.http.cache import Cache
from runtime.http.cors import TENANT
from runtime.http.login.api_tokens import StaffAuth
from runtime.http.uploads import read_upload
from runtime.http.views import ALIASES
from runtime.operations import API, Operation
from runtime.settings import Settings
from runtime.stores.ephemeral import Ephemeral
from runtime.wire import codec
from runtime.wire.schema import fields_of

INTERNAL: Final = frozenset(
    {"scope", "id", "idempotency_key", "update_mask", "guest_player_id", "callback_id", "issued_at"}
    | {"may_decide", "reveal", "for_players", "client_address", "client_network"}
    | {"user_agent"}
)
"""Request fields that the edge sets itself; a body with one of them is refused."""


@dataclass(frozen=True, slots=True)
class Edge:
    """The dependencies of an edge's handlers. `caller` is Core itself, or an RPC client of a remote Core."""

    settings: Settings
    caller: Caller
    tokens: Tokens
    auth: Auth
    store: Ephemeral
    admission: AdmissionControl
    sessions: SessionCache
    tenants: Tenants
    lookups: LookupLimiter
    origins: Origins
    cache: Cache
    revocations: Revocations

    @classmethod
    def build(cls, settings: Settings, caller: Caller, store: Ephemeral, *, staff: bool = False) -> Edge:
        """Builds an edge from the settings. Call `close` when done. staff: accept API tokens."""
        revocations = Revocations(caller)
        tokens = Tokens.of(settings, revocations)
        auth = Auth(tokens, header_fallback=settings.header_fallback, default_tenant=settings.default_tenant)
        if staff:
            auth = StaffAuth(tokens, settings, caller, revocations)
        player = Policy("player", settings.rate_player_per_second, settings.rate_player_burst)
        limited, processes, proxies = settings.rate_limits, settings.processes, settings.trusted_proxies
        return cls(
            settings=settings,
            caller=caller,
            tokens=tokens,
            auth=auth,
            store=store,
            admission=AdmissionControl(store, player=player, ip=ip_policy(settings)),
            sessions=SessionCache(store, seconds=settings.session_ttl_seconds),
            tenants=Tenants(caller, proxies, limited=limited, processes=processes),
            lookups=LookupLimiter(caller, proxies, limited=limited, processes=processes),
            origins=Origins(caller, settings.cors_origins, proxies, limited=limited, processes=processes),
            cache=Cache(store),
            revocations=revocations,
        )

    async def close(self) -> None:
        """Closes the connections that the edge opened."""
        await self.tokens.close()

    def new_gate(self) -> Gate | None:
        """A rate limiter by class of request, with its own buckets; None if rate limits are off."""
        settings = self.settings
        if not settings.rate_limits:
            return None
        login = Policy("login", settings.rate_login_per_second, settings.rate_login_burst)
        return gate(ip_policy(settings), SharedRate(self.store, login).charge, settings.trusted_proxies)

    def scope(self, request: web.Request, identity: Identity | None) -> m.Scope:
        """The tenant and merchant of the request. Raises INVALID_ARGUMENT if it names no tenant."""
        tenant_id = self.auth.tenant(request, identity)
        # A merchant belongs to its tenant: a platform user acting for another tenant has no merchant there.
        own = identity is not None and identity.tenant_id == tenant_id
        if identity is not None and identity.expires_at:
            request[TENANT] = tenant_id
        return m.Scope(tenant_id=tenant_id, merchant_id=identity.merchant_id if identity is not None and own else "")

    async def checked_scope(self, request: web.Request, identity: Identity | None) -> m.Scope:
        """`scope`, after checking that the tenant exists, unless the token is the tenant's own. NOT_FOUND."""
        scope = self.scope(request, identity)
        if identity is None or not identity.expires_at or identity.tenant_id != scope.tenant_id:
            await self.tenants.check(scope.tenant_id, request)
            request[TENANT] = scope.tenant_id
        return scope


def ip_policy(settings: Settings) -> Policy:
    """The rate limit of starts and plays per address."""
    return Policy("ip", settings.rate_ip_per_second, settings.rate_ip_burst)


Read = Callable[[web.Request, bytes], Any]


def reader(operation: Operation, closed: frozenset[str] = INTERNAL) -> Read:
    """The function that reads the operation's message from an edge's request: (request, body) -> message.

    It sets the path's id, but not scope and player. A resource is the body itself, not wrapped.
    Raises INVALID_ARGUMENT.
    """
    message = operation.request
    if not operation.has_body:

        def read(request: web.Request, body: bytes) -> Any:
            return codec.from_query(message, request.query, closed)

    elif operation.resource:
        resource, holds = operation.resource, fields_of(message)[operation.resource].type
        aliases = ALIASES.get(holds, {})
        updates = "update_mask" in fields_of(message)

        def read(request: web.Request, body: bytes) -> Any:
            made, names = codec.decode_resource(holds, body, aliases)
            _refuse_other_id(made, request)
            return message(**{resource: made, **({"update_mask": names} if updates else {})})

    else:

        def read(request: web.Request, body: bytes) -> Any:
            return codec.decode(message, body, closed)

    if "{id}" not in operation.path:
        return read

    def read_with_id(request: web.Request, body: bytes) -> Any:
        made = read(request, body)
        made.id = codec.path_text("id", request.match_info["id"])
        return made

    return read_with_id


def _refuse_other_id(resource: Any, request: web.Request) -> None:
    named = request.match_info.get("id")
    if named is not None and resource.id and resource.id != named:
        raise invalid("id", f"must equal {named!r}, the id in the path")


async def body_of(request: web.Request, operation: Operation) -> bytes:
    """The request's body; b"" for an operation without one."""
    if operation.upload:
        return await read_upload(request, operation.upload)
    return await read_body(request) if operation.has_body else b""


def path(below: str) -> str:
    """A path under /api/v1."""
    return API + below
