"""The consumer edge: what widgets and players ask (spec.md, "Consumer edge").

Three ways to answer the rows that players may ask. Reads go to Core as they are. Those that everybody reads
alike are cached. What a player does (`ACT`) is admitted first: rates and Idempotency-Key, in one call.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec
from aiohttp import web

from runtime import messages as m
from runtime.actors.idempotency import request_hash
from runtime.errors import Fault, Status, unknown
from runtime.http.admission.client_address import Client, client_of
from runtime.http.admission.control import Allowed
from runtime.http.admission.idempotency import Asked, Replay, idempotency_key
from runtime.http.admission.local_rates import ClientRate, charge
from runtime.http.admission.lookup_limits import Ask
from runtime.http.admission.rates import Limited, Policy
from runtime.http.admission.session_cache import OPEN, PLAYED, named_player, session_name
from runtime.http.auth.identity import Identity, not_staff, require_player
from runtime.http.bodies import read_body
from runtime.http.edge import INTERNAL, Edge, body_of, reader
from runtime.http.envelope import Handler, extra_headers, ok
from runtime.http.views import edge_view
from runtime.operations import API, OPERATIONS, Operation
from runtime.operations.row import Access, Consumer, RoutePolicy, SessionUse
from runtime.wire import codec
from runtime.wire.codec import View

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
        make = _withheld if withheld else _MAKERS[consumer.policy]
        app.router.add_route(operation.verb, API + operation.path, make(edge, operation, consumer))


class Served(NamedTuple):
    """An operation that the edge serves, and how."""

    operation: Operation
    consumer: Consumer


def served() -> list[Served]:
    """The operations that the edge serves, in the table's order."""
    return [Served(operation, operation.consumer) for operation in OPERATIONS if operation.consumer is not None]


def _read(edge: Edge, operation: Operation, consumer: Consumer) -> Handler:
    """Core's answer to this player."""
    read, show = reader(operation, CLOSED), edge_view(operation)
    ask, for_player = edge.names.asking(operation), operation.of_player

    async def answer(request: web.Request) -> web.Response:
        identity = await _who(edge, consumer, request)
        message = read(request, await body_of(request, operation))
        message.scope = await edge.checked_scope(request, identity)
        if for_player and identity is not None:
            message.player_id = identity.player_id
        return ok(show(await ask(message, request)))

    return answer


def _cached(edge: Edge, operation: Operation, consumer: Consumer) -> Handler:
    """Core's answer to anybody, remembered; a player whose own place is in the answer gets an own one."""
    read, show = reader(operation, CLOSED), edge_view(operation)
    ask, for_player = edge.names.asking(operation), operation.of_player

    async def answer(request: web.Request) -> web.Response:
        identity = await _who(edge, consumer, request)
        message = read(request, b"")
        # A merchant that a player plays with narrows nothing of what is everybody's.
        message.scope = m.Scope(tenant_id=(await edge.checked_scope(request, identity)).tenant_id)
        if for_player and identity is not None and identity.player_id:
            message.player_id = identity.player_id
            return ok(show(await ask(message, request)))

        async def make() -> bytes:
            return _encode(show(await ask(message, request)))

        return ok(await edge.cache.get(message.scope.tenant_id, _cache_name(operation, message), make))

    return answer


def _withheld(edge: Edge, operation: Operation, consumer: Consumer) -> Handler:
    """What the operator shows to no player: it answers as what is not there."""

    async def answer(request: web.Request) -> web.Response:
        await edge.checked_scope(request, await _who(edge, consumer, request))
        raise unknown(operation.subject, codec.path_text("id", request.match_info["id"]))

    return answer


def _cache_name(operation: Operation, message: Any) -> str:
    """Everything that the answer depends on, but for the tenant."""
    return f"{operation.name}:{bytes(message).hex()}"


def _act(edge: Edge, operation: Operation, consumer: Consumer) -> Handler:
    """Admitted, done by Core once for each Idempotency-Key, and answered. The hottest path of the product."""
    read, show = reader(operation, CLOSED), edge_view(operation)
    settings, control, ask = edge.settings, edge.admission, edge.names.asking(operation)
    proxies, rated = settings.trusted_proxies, consumer.policy is RoutePolicy.RATED and settings.rate_limits
    players_only = consumer.access is Access.PLAYER
    plays, opens = operation.session is SessionUse.PLAYS, operation.session is SessionUse.OPENS
    guests = ClientRate(Policy("guest", settings.rate_guest_per_second, settings.rate_guest_burst))

    async def answer(request: web.Request) -> web.Response:
        identity = await edge.auth.identify(request)
        if identity is not None or players_only:
            require_player(identity)
        elif opens:
            if rated:
                charge(guests, request, client_of(request, proxies))
            await edge.revocations.read_first()
        body = await read_body(request)
        message = read(request, body)
        scope = message.scope = await edge.checked_scope(request, identity)
        player_id = message.player_id = identity.player_id if identity is not None else ""
        key = message.idempotency_key = idempotency_key(request)
        if not rated and not key:
            return ok(_data(edge, operation, show, await ask(message, request), scope))
        session = session_name(message.session_id) if plays else ""
        asked = Asked(f"{request.method} {request.path}", key, request_hash(message)) if key else None
        client = client_of(request, proxies) if rated else _NOBODY
        admission = await control.admit(
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
                control.settle(admission, None)
                raise Fault(Status.ALREADY_EXISTS, "SESSION_PLAYED", "this session was played already")
            return await _settled(edge, operation, ask, show, message, admission, asked, request)
        if isinstance(admission, Replay):
            return ok(admission.answer, headers={**(admission.headers or {}), "Idempotency-Replayed": "true"})
        if isinstance(admission, Limited):
            extra_headers(request).update(admission.headers)
        raise admission.fault()

    return answer


async def _settled(
    edge: Edge,
    operation: Operation,
    ask: Ask,
    show: View,
    message: Any,
    admission: Allowed,
    asked: Asked | None,
    request: web.Request,
) -> web.Response:
    """Core's answer, kept for replays where the request has a key; a refusal leaves the key free."""
    tenant_id = message.scope.tenant_id
    try:
        reply = await ask(message, request)
        data = _data(edge, operation, show, reply, message.scope)
    except BaseException:
        edge.admission.settle(admission, None)
        if admission.headers:
            extra_headers(request).update(admission.headers)
        raise
    if operation.session is SessionUse.OPENS:
        # Once its session has ended, a start that is asked for again is better begun anew.
        seconds = edge.settings.session_ttl_seconds
        edge.admission.settle(admission, data, seconds)
        if asked is not None and reply.guest_player_id:
            # Without the token: it is replayed to who shows that one alone, and opens all of a guest's for a month.
            edge.admission.keep(tenant_id, reply.guest_player_id, asked, _encode(show(reply)), seconds)
    else:
        # What is not kept here, the rows answer again.
        edge.admission.settle(admission, None if operation.confides else data)
    if operation.session is SessionUse.PLAYS:
        _hold(edge, tenant_id, message.session_id, PLAYED)
    return ok(data, headers=admission.headers)


def _hold(edge: Edge, tenant_id: str, session_id: str, state: bytes) -> None:
    """Keeps a session's state for as long as it may be played: a second play is then refused without a look."""
    edge.sessions.hold(tenant_id, session_name(session_id), state)


def _data(edge: Edge, operation: Operation, show: View, reply: Any, scope: m.Scope) -> bytes:
    """What is answered. A guest that was made for a session gets the token that makes it one later on."""
    shown = show(reply)
    if operation.session is SessionUse.OPENS:
        _hold(edge, scope.tenant_id, reply.session_id, OPEN)
        if reply.guest_player_id:
            shown["guest_token"] = edge.tokens.mint(
                reply.guest_player_id,
                tenant_id=scope.tenant_id,
                merchant_id=scope.merchant_id,
                # A guest has no other way back to what it won, until it logs in.
                seconds=min(edge.settings.refresh_token_seconds, edge.revocations.longest(reply.guest_player_id, "")),
            )
    return _encode(shown)


async def _who(edge: Edge, consumer: Consumer, request: web.Request) -> Identity | None:
    identity = not_staff(await edge.auth.identify(request))
    return require_player(identity) if consumer.access is Access.PLAYER else identity


_MAKERS: Final = {
    RoutePolicy.READ: _read,
    RoutePolicy.CACHED: _cached,
    RoutePolicy.ACT: _act,
    RoutePolicy.RATED: _act,
}
