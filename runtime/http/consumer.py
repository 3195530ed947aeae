"""The consumer edge: what widgets and players ask (spec.md, "Consumer edge").

Three ways to answer the rows that players may ask. Reads go to Core as they are. Those that everybody reads
alike are cached. What a player does (`ACT`) is admitted first: rates and Idempotency-Key, in one call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from aiohttp import web

from runtime import messages as m
from runtime.actors.idempotency import request_hash
from runtime.errors import Fault, Status, unknown
from runtime.http.admission.client_address import Client, client_of
from runtime.http.admission.control import Allowed
from runtime.http.admission.idempotency import REPLAYED, Asked, Replay, idempotency_key, replay_headers
from runtime.http.admission.local_rates import ClientRate, charge
from runtime.http.admission.rates import Limited, Policy
from runtime.http.admission.session_cache import OPEN, PLAYED, named_player, session_name
from runtime.http.auth.identity import Identity, not_staff, require_player, token_missing
from runtime.http.bodies import read_body
from runtime.http.edge import INTERNAL, Edge, body_of, reader
from runtime.http.envelope import extra_headers, ok
from runtime.http.views import edge_view
from runtime.operations import API, OPERATIONS, Operation
from runtime.operations.row import Access, Consumer, RoutePolicy, SessionUse
from runtime.wire import codec

CLOSED: Final = INTERNAL | {"player_id"}
"""A player acts for nobody else: who plays is what the token says."""

_NOBODY: Final = Client("", "")
"""Whose rates are not asked for."""

_encode: Final = msgspec.json.Encoder().encode


def mount(app: web.Application, edge: Edge) -> None:
    """Adds every route that a row gives to players. Login and contacts are `runtime.http.login`'s."""
    # aiohttp tries the routes of a prefix in turn, each with its own expression: what is asked most comes first.
    hottest_first = sorted(served(), key=lambda row: row.consumer.policy is not RoutePolicy.RATED)
    for operation, consumer in hottest_first:
        withheld = consumer.setting and not getattr(edge.settings, consumer.setting)
        kind = WithheldRoute if withheld else _KINDS[consumer.policy]
        app.router.add_route(operation.verb, API + operation.path, kind(edge, operation, consumer).serve)


class Served(NamedTuple):
    """An operation that the edge serves, and how."""

    operation: Operation
    consumer: Consumer


def served() -> list[Served]:
    """The operations that the edge serves, in the table's order."""
    return [Served(operation, operation.consumer) for operation in OPERATIONS if operation.consumer is not None]


class Route(ABC):
    """How the edge answers one operation."""

    def __init__(self, edge: Edge, operation: Operation, consumer: Consumer) -> None:
        self.edge, self.operation = edge, operation
        self.players_only = consumer.access is Access.PLAYER
        self.read, self.show = reader(operation, CLOSED), edge_view(operation)

    @abstractmethod
    async def serve(self, request: web.Request) -> web.Response:
        """The answer to a request. Raises Fault."""

    async def identify(self, request: web.Request) -> Identity | None:
        """Who asks; a player, where only players may."""
        identity = not_staff(await self.edge.auth.identify(request))
        return require_player(identity, headers=self.edge.auth.header_fallback) if self.players_only else identity


class ReadRoute(Route):
    """Core's answer to this player."""

    async def serve(self, request: web.Request) -> web.Response:
        edge, operation = self.edge, self.operation
        identity = await self.identify(request)
        message = self.read(request, await body_of(request, operation))
        message.scope = await edge.checked_scope(request, identity)
        if operation.of_player and identity is not None:
            message.player_id = identity.player_id
        return ok(self.show(await edge.names.call(operation, message, request)))


class CachedRoute(Route):
    """Core's answer to anybody, remembered; a player whose own place is in the answer gets an own one."""

    async def serve(self, request: web.Request) -> web.Response:
        edge, operation = self.edge, self.operation
        identity = await self.identify(request)
        message = self.read(request, b"")
        # A merchant that a player plays with narrows nothing of what is everybody's.
        message.scope = m.Scope(tenant_id=(await edge.checked_scope(request, identity)).tenant_id)
        if operation.of_player and identity is not None and identity.player_id:
            message.player_id = identity.player_id
            return ok(self.show(await edge.names.call(operation, message, request)))
        # The name is all that the answer depends on, but for the tenant.
        name, make = f"{operation.name}:{bytes(message).hex()}", partial(self._made, message, request)
        return ok(await edge.cache.get(message.scope.tenant_id, name, make))

    async def _made(self, message: Any, request: web.Request) -> bytes:
        return _encode(self.show(await self.edge.names.call(self.operation, message, request)))


class WithheldRoute(Route):
    """What the operator shows to no player: it answers as what is not there."""

    async def serve(self, request: web.Request) -> web.Response:
        await self.edge.checked_scope(request, await self.identify(request))
        raise unknown(self.operation.subject, codec.path_text("id", request.match_info["id"]))


class ActRoute(Route):
    """Admitted, done by Core once for each Idempotency-Key, and answered. The hottest path of the product."""

    def __init__(self, edge: Edge, operation: Operation, consumer: Consumer) -> None:
        super().__init__(edge, operation, consumer)
        settings = edge.settings
        self.proxies = settings.trusted_proxies
        self.rated = consumer.policy is RoutePolicy.RATED and settings.rate_limits
        self.plays = operation.session is SessionUse.PLAYS
        self.opens = operation.session is SessionUse.OPENS
        self.guests = ClientRate(Policy("guest", settings.rate_guest_per_second, settings.rate_guest_burst))

    async def serve(self, request: web.Request) -> web.Response:
        edge, plays, rated = self.edge, self.plays, self.rated
        identity = await edge.auth.identify(request)
        if identity is not None or self.players_only:
            require_player(identity, headers=edge.auth.header_fallback)
        elif self.opens:
            if rated:
                charge(self.guests, request, client_of(request, self.proxies))
            await edge.revocations.read_first()
        body = await read_body(request)
        message = self.read(request, body)
        scope = message.scope = await edge.checked_scope(request, identity)
        player_id = message.player_id = identity.player_id if identity is not None else ""
        key = idempotency_key(request)
        # A start's key is kept by this edge alone: Core would ask the store a second time.
        message.idempotency_key = "" if self.opens else key
        if not rated and not key:
            return ok(self._data(await edge.names.call(self.operation, message, request), scope))
        session = session_name(message.session_id) if plays else ""
        asked = Asked(f"{request.method} {request.path}", key, request_hash(message)) if key else None
        client = client_of(request, self.proxies) if rated else _NOBODY
        admission = await edge.admission.admit(
            scope.tenant_id,
            player_id=player_id,
            ip=client.address,
            network=client.network,
            # Who shows a session is the one who opened it. Who starts without a token shows nothing, so another's
            # answer is never theirs; their own is kept for the guest whom it makes.
            owner=player_id or (f"session {session}" if plays else ""),
            asked=asked if player_id or plays else None,
            session_id=session,
        )
        if isinstance(admission, Allowed):
            # With a key, Core knows whether this is the play that the key was for; and what others do with a session
            # that is not theirs, Core refuses as it does before it is played.
            if admission.session == PLAYED and not key and player_id in ("", named_player(message.session_id)):
                edge.admission.settle(admission, None)
                raise Fault(Status.ALREADY_EXISTS, "SESSION_PLAYED", "this session was played already")
            return await self._settled(message, admission, asked, request)
        if isinstance(admission, Replay):
            return ok(admission.answer, headers={**(admission.headers or {}), **REPLAYED})
        if isinstance(admission, Limited):
            extra_headers(request).update(admission.headers)
        raise admission.fault()

    async def _settled(
        self, message: Any, admission: Allowed, asked: Asked | None, request: web.Request
    ) -> web.Response:
        """Core's answer, kept for replays where the request has a key; a refusal leaves the key free."""
        edge, tenant_id = self.edge, message.scope.tenant_id
        try:
            reply = await edge.names.call(self.operation, message, request)
            headers = {**(admission.headers or {}), **replay_headers()}
            data = self._data(reply, message.scope)
        except BaseException as error:
            edge.admission.settle(admission, None)
            if admission.headers:
                extra_headers(request).update(admission.headers)
            if isinstance(error, Fault) and error.reason == "TOKEN_MISSING":
                # Core knows that the game needs a player, not which headers would say who it is.
                raise token_missing(headers=edge.auth.header_fallback) from None
            raise
        if self.opens:
            # Once its session has ended, a start that is asked for again is better begun anew.
            seconds = edge.settings.session_ttl_seconds
            edge.admission.settle(admission, data, seconds)
            if asked is not None and reply.guest_player_id:
                # Without the token: it is replayed to who shows that one alone, and opens all of a guest's for a month.
                edge.admission.keep(tenant_id, reply.guest_player_id, asked, _encode(self.show(reply)), seconds)
        else:
            # What is not kept here, the rows answer again.
            edge.admission.settle(admission, None if self.operation.confides else data)
        if self.plays:
            self._hold(tenant_id, message.session_id, PLAYED)
        return ok(data, headers=headers)

    def _hold(self, tenant_id: str, session_id: str, state: bytes) -> None:
        """Keeps a session's state for as long as it may be played: a second play is then refused without a look."""
        self.edge.sessions.hold(tenant_id, session_name(session_id), state)

    def _data(self, reply: Any, scope: m.Scope) -> bytes:
        """What is answered. A guest that was made for a session gets the token that makes it one later on."""
        edge, shown = self.edge, self.show(reply)
        if self.opens:
            self._hold(scope.tenant_id, reply.session_id, OPEN)
            if guest_id := reply.guest_player_id:
                # A guest has no other way back to what it won, until it logs in.
                seconds = min(edge.settings.refresh_token_seconds, edge.revocations.longest(guest_id, ""))
                shown["guest_token"] = edge.tokens.mint(
                    guest_id, tenant_id=scope.tenant_id, merchant_id=scope.merchant_id, seconds=seconds
                )
        return _encode(shown)


_KINDS: Final[Mapping[RoutePolicy, type[Route]]] = {
    RoutePolicy.READ: ReadRoute,
    RoutePolicy.CACHED: CachedRoute,
    RoutePolicy.ACT: ActRoute,
    RoutePolicy.RATED: ActRoute,
}
