"""The consumer edge: the API for widgets and players.

An operation's RoutePolicy decides how it is served. READ goes straight to Core. CACHED is a read that is the same for
all players. BEACON counts a page view. ACT and RATED first pass admission control, which checks the Idempotency-Key
and, for RATED, the rate limits in one call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from aiohttp import web

from runtime import messages as m
from runtime.actors.game.sessions import named_player
from runtime.actors.idempotency import cached_hash
from runtime.errors import Fault, Status, unknown
from runtime.http.admission.client_address import Client, client_of, is_trusted
from runtime.http.admission.control import Allowed
from runtime.http.admission.idempotency import REPLAYED, KeyedRequest, Replay, idempotency_key, replay_headers
from runtime.http.admission.rates import Limited, Policy
from runtime.http.admission.session_cache import OPEN, PLAYED, session_name
from runtime.http.admission.shared_rates import SharedRate
from runtime.http.auth.identity import Identity, not_staff, require_player, token_missing
from runtime.http.bodies import read_body
from runtime.http.edge import INTERNAL, Edge, Read, body_of, reader
from runtime.http.envelope import extra_headers, ok
from runtime.http.feeds import draw_file, log_tiles
from runtime.http.views import edge_view
from runtime.operations import API, OPERATIONS, Operation
from runtime.operations.row import Access, Consumer, RoutePolicy, SessionUse
from runtime.rules.entry import is_country
from runtime.settings import Network, Settings
from runtime.wire import codec
from runtime.wire.codec import View
from runtime.wire.schema import fields_of

CLOSED: Final = INTERNAL | {"player_id", "country"}
"""Request fields that this edge refuses: the token determines the player, and a trusted proxy its country."""

_UNCOUNTED: Final = Client("", "")
"""The client of a request without rate limits."""

_USER_AGENT_MAX: Final = 1_000

_encode: Final = msgspec.json.Encoder().encode


DRAW_FILE: Final = f"{API}/draws/{{id}}/file"
LOG: Final = f"{API}/log/{{tenant}}"


def mount(app: web.Application, edge: Edge) -> None:
    """Adds every route for players. `runtime.http.login` adds login and contacts."""
    # aiohttp tries the routes of a prefix in turn, each with its regular expression: the most used ones come first.
    hottest_first = sorted(served(), key=lambda row: row.consumer.policy is not RoutePolicy.RATED)
    for operation, consumer in hottest_first:
        kind = WithheldRoute if withheld(edge, consumer) and not consumer.withholds else _KINDS[consumer.policy]
        app.router.add_route(operation.verb, API + operation.path, kind(edge, operation, consumer).serve)
    app.router.add_get(DRAW_FILE, draw_file.handler(edge))
    scope = log_tiles.of_tenant(edge)
    app.router.add_get(LOG + log_tiles.CHECKPOINT, log_tiles.checkpoint_handler(edge, scope, staff=False))
    app.router.add_get(LOG + log_tiles.STAMP, log_tiles.stamp_handler(edge, scope, staff=False))
    app.router.add_get(LOG + log_tiles.TILE, log_tiles.tile_handler(edge, scope, staff=False))


def withheld(edge: Edge, consumer: Consumer) -> bool:
    """Whether the operator withholds the operation, or a text of its reply, from players."""
    return bool(consumer.setting) and not getattr(edge.settings, consumer.setting)


class Served(NamedTuple):
    """An operation that the edge serves, and its consumer options."""

    operation: Operation
    consumer: Consumer


def served() -> list[Served]:
    """The operations that the edge serves, in the table's order."""
    return [Served(operation, operation.consumer) for operation in OPERATIONS if operation.consumer is not None]


class Route(ABC):
    """Serves one operation on the edge."""

    def __init__(self, edge: Edge, operation: Operation, consumer: Consumer) -> None:
        self.edge, self.operation = edge, operation
        self.players_only, self.marks = consumer.access is Access.PLAYER, consumer.marks
        self.read, self.show = reader(operation, CLOSED), edge_view(operation)
        if consumer.withholds and withheld(edge, consumer):
            self.show = _without(consumer.withholds, self.show)

    @abstractmethod
    async def serve(self, request: web.Request) -> web.Response:
        """The response to a request. Raises Fault."""

    async def identify(self, request: web.Request) -> Identity | None:
        """The caller's identity; a player's, if only players are admitted."""
        identity = not_staff(await self.edge.auth.identify(request))
        return require_player(identity, headers=self.edge.auth.header_fallback) if self.players_only else identity


class ReadRoute(Route):
    """Passes a player's read to Core."""

    async def serve(self, request: web.Request) -> web.Response:
        edge, operation = self.edge, self.operation
        identity = await self.identify(request)
        message = self.read(request, await body_of(request, operation))
        message.scope = await edge.checked_scope(request, identity)
        if self.marks:
            setattr(message, self.marks, True)
        if operation.of_player and identity is not None:
            message.player_id = identity.player_id
        return ok(self.show(await edge.lookups.call(operation, message, request)))


class CachedRoute(Route):
    """Serves a public read from the cache. A response with the player's own rank is not cached."""

    async def serve(self, request: web.Request) -> web.Response:
        edge, operation = self.edge, self.operation
        identity = await self.identify(request)
        message = self.read(request, b"")
        # The player's merchant does not restrict public data.
        message.scope = m.Scope(tenant_id=(await edge.checked_scope(request, identity)).tenant_id)
        if self.marks:
            setattr(message, self.marks, True)
        if operation.of_player and identity is not None and identity.player_id:
            message.player_id = identity.player_id
            return ok(self.show(await edge.lookups.call(operation, message, request)))
        # The response depends only on the tenant and the message, so they are the cache key.
        name, make = f"{operation.name}:{bytes(message).hex()}", partial(self._made, message, request)
        return ok(await edge.cache.get(message.scope.tenant_id, name, make))

    async def _made(self, message: Any, request: web.Request) -> bytes:
        return _encode(self.show(await self.edge.lookups.call(self.operation, message, request)))


class WithheldRoute(Route):
    """An operation that the operator withholds from players: it responds as if the resource did not exist."""

    async def serve(self, request: web.Request) -> web.Response:
        await self.edge.checked_scope(request, await self.identify(request))
        raise unknown(self.operation.subject, codec.path_text("id", request.match_info["id"]))


class BeaconRoute(Route):
    """Passes a count to Core. Visitors who object to tracking are not counted."""

    def __init__(self, edge: Edge, operation: Operation, consumer: Consumer) -> None:
        super().__init__(edge, operation, consumer)
        if edge.settings.country_header:
            self.read = _located(self.read, edge.settings)

    async def serve(self, request: web.Request) -> web.Response:
        edge, operation = self.edge, self.operation
        identity = await self.identify(request)
        message = self.read(request, await read_body(request))
        message.scope = await edge.checked_scope(request, identity)
        message.client_address = client_of(request, edge.settings.trusted_proxies).address
        objects = "1" in (request.headers.get("Sec-GPC"), request.headers.get("DNT"))
        message.user_agent = "" if objects else request.headers.get("User-Agent", "")[:_USER_AGENT_MAX]
        return ok(self.show(await edge.lookups.call(operation, message, request)))


class ActRoute(Route):
    """Passes an admitted action to Core, once per Idempotency-Key. The hottest path of the product."""

    def __init__(self, edge: Edge, operation: Operation, consumer: Consumer) -> None:
        super().__init__(edge, operation, consumer)
        settings = edge.settings
        self.proxies = settings.trusted_proxies
        self.rated = consumer.policy is RoutePolicy.RATED and settings.rate_limits
        self.plays = operation.session is SessionUse.PLAYS
        self.opens = operation.session is SessionUse.OPENS
        self.mints = "guest_player_id" in fields_of(operation.reply)
        self.located = bool(settings.country_header) and "country" in fields_of(operation.request)
        if self.located:
            self.read = _located(self.read, settings)
        if settings.rate_limits and "client_address" in fields_of(operation.request):
            self.read = _addressed(self.read, self.proxies)
        guests = Policy("guest", settings.rate_guest_per_second, settings.rate_guest_burst)
        self.guests = SharedRate(edge.store, guests)

    async def serve(self, request: web.Request) -> web.Response:
        edge, plays, rated = self.edge, self.plays, self.rated
        identity = await edge.auth.identify(request)
        if identity is not None or self.players_only:
            require_player(identity, headers=edge.auth.header_fallback)
        elif self.mints:
            if edge.settings.rate_limits:
                await self.guests.charge(request, client_of(request, self.proxies))
            await edge.revocations.read_first()
        body = await read_body(request)
        message = self.read(request, body)
        scope = message.scope = await edge.checked_scope(request, identity)
        player_id = message.player_id = identity.player_id if identity is not None else ""
        key = idempotency_key(request)
        # Only the edge stores a start's key: Core would query the store a second time.
        message.idempotency_key = "" if self.opens else key
        if not rated and not key:
            try:
                reply = await edge.lookups.call(self.operation, message, request)
            except Fault as fault:
                self._reword(fault)
                raise
            return ok(self._data(reply, scope))
        session = session_name(message.session_id) if plays else ""
        # A retry may come from another country.
        content = replace(message, country="") if self.located else message
        keyed = KeyedRequest(f"{request.method} {request.path}", key, cached_hash(content)) if key else None
        client = client_of(request, self.proxies) if rated else _UNCOUNTED
        admission = await edge.admission.admit(
            scope.tenant_id,
            player_id=player_id,
            ip=client.address,
            network=client.network,
            holder=named_player(message.session_id) if plays else "",
            # The session proves who opened it. A start without a token proves nothing, so it never gets a stored
            # response; its own response is stored for the guest that it creates.
            owner=player_id or (f"session {session}" if plays else ""),
            keyed=keyed if player_id or plays else None,
            # Read only to refuse a played session at once. With a key, Core checks whether this is a retry of the
            # key's own play.
            session_id="" if key else session,
        )
        if isinstance(admission, Allowed):
            # A session of another player goes to Core, which refuses it alike before and after it is played.
            if admission.session == PLAYED and player_id in ("", named_player(message.session_id)):
                edge.admission.settle(admission, None)
                raise Fault(Status.ALREADY_EXISTS, "SESSION_PLAYED", "the session has already been played")
            return await self._settled(message, admission, keyed, request)
        if isinstance(admission, Replay):
            return ok(admission.answer, headers={**(admission.headers or {}), **REPLAYED})
        if isinstance(admission, Limited):
            extra_headers(request).update(admission.headers)
        raise admission.fault()

    async def _settled(
        self, message: Any, admission: Allowed, keyed: KeyedRequest | None, request: web.Request
    ) -> web.Response:
        """Core's reply, stored for replays if the request has a key. A refusal releases the key."""
        edge, tenant_id = self.edge, message.scope.tenant_id
        try:
            reply = await edge.lookups.call(self.operation, message, request)
            headers = {**(admission.headers or {}), **replay_headers()}
            data = self._data(reply, message.scope)
        except BaseException as error:
            edge.admission.settle(admission, None)
            if admission.headers:
                extra_headers(request).update(admission.headers)
            self._reword(error)
            raise
        if self.opens:
            # Stored only as long as the session: after that, a retried start needs a new session.
            seconds = edge.settings.session_ttl_seconds
            edge.admission.settle(admission, data, seconds)
            if keyed is not None and reply.guest_player_id:
                # Without the guest's token: only a request with that token gets this replay.
                edge.admission.store_response(
                    tenant_id, reply.guest_player_id, keyed, _encode(self.show(reply)), seconds
                )
        else:
            # A confidential reply is not stored here: a retry goes to Core.
            edge.admission.settle(admission, None if self.operation.confidential else data)
        if self.plays:
            self._cache_state(tenant_id, message.session_id, PLAYED)
        return ok(data, headers=headers)

    def _reword(self, error: BaseException) -> None:
        """Raises a TOKEN_MISSING with this edge's message: Core does not know which credentials the edge accepts."""
        if isinstance(error, Fault) and error.reason == "TOKEN_MISSING":
            raise token_missing(headers=self.edge.auth.header_fallback) from None

    def _cache_state(self, tenant_id: str, session_id: str, state: bytes) -> None:
        """Caches a session's state while it can be played, so that a second play is refused without asking Core."""
        self.edge.sessions.store(tenant_id, named_player(session_id), session_name(session_id), state)

    def _data(self, reply: Any, scope: m.Scope) -> bytes:
        """The response's data. A new guest gets a token for its later requests."""
        edge, shown = self.edge, self.show(reply)
        if self.opens:
            self._cache_state(scope.tenant_id, reply.session_id, OPEN)
        if self.mints and (guest_id := reply.guest_player_id):
            # Until the guest signs in, this token is its only access to what it won.
            seconds = min(edge.settings.refresh_token_seconds, edge.revocations.longest(guest_id, ""))
            shown["guest_token"] = edge.tokens.mint(
                guest_id, tenant_id=scope.tenant_id, merchant_id=scope.merchant_id, seconds=seconds
            )
        return _encode(shown)


def _without(text: str, show: View) -> View:
    """A view whose field `text` is always empty."""

    def shown(reply: Any) -> dict[str, Any]:
        return {**show(reply), text: ""}

    return shown


def _addressed(read: Read, proxies: Sequence[Network]) -> Read:
    """A reader that also sets the client's address and network, by which Core limits guesses."""

    def read_addressed(request: web.Request, body: bytes) -> Any:
        message = read(request, body)
        message.client_address, message.client_network = client_of(request, tuple(proxies))
        return message

    return read_addressed


def _located(read: Read, settings: Settings) -> Read:
    """A reader that also sets the message's country, from the header of a trusted proxy."""

    def read_located(request: web.Request, body: bytes) -> Any:
        message = read(request, body)
        if is_trusted(request.remote or "", settings.trusted_proxies):
            country = request.headers.get(settings.country_header, "").strip().upper()
            message.country = country if is_country(country) else ""
        return message

    return read_located


_KINDS: Final[Mapping[RoutePolicy, type[Route]]] = {
    RoutePolicy.READ: ReadRoute,
    RoutePolicy.CACHED: CachedRoute,
    RoutePolicy.ACT: ActRoute,
    RoutePolicy.RATED: ActRoute,
    RoutePolicy.BEACON: BeaconRoute,
}
