"""Login by phone and e-mail, and linking of further contacts: the consumer edge's own routes.

    POST /players/auth/start     {contact_type, contact, refresh_token?} -> {challenge_id, expires_at, resend_at}
    POST /players/auth/verify    {challenge_id, code} -> {token, refresh_token, expires_at, player}
    POST /players/auth/refresh   {refresh_token} -> the same
    POST /players/auth/logout    {everywhere?} -> {}
    POST /players/me/contacts    {type, value, challenge_id, code} -> contact

`start` never looks up the owner of a contact, so its response and its timing are the same for known and unknown ones. A
guest's token sent with `verify` merges the guest into the player who logs in. An expired token is refused before the
code is checked, so the code still works without it. A code stays valid until its login has begun, whatever fails before
that.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import structlog
from aiohttp import web

from runtime import ids
from runtime import messages as m
from runtime.errors import Fault, Status, invalid
from runtime.http.admission.client_address import Client, client_of
from runtime.http.auth.identity import Identity, not_staff, require_player
from runtime.http.bodies import read_body
from runtime.http.edge import Edge
from runtime.http.envelope import ok
from runtime.http.login import rows
from runtime.http.login.challenges import Challenges
from runtime.http.login.refresh import Refresh, Session
from runtime.http.login.rows import LoginRow
from runtime.operations import API
from runtime.operations.players.logins import END_LOGINS
from runtime.operations.players.profiles import LINK_CONTACT, RESOLVE_PLAYER
from runtime.outgoing.senders import SENDERS, LoginCode, Sender, SendFailed
from runtime.outgoing.sending import Sending
from runtime.settings import SettingsError
from runtime.wire import codec
from runtime.wire.contacts import normalized
from runtime.wire.schema import refused

_PLAYER: Final = codec.view(m.Player, "number")
_CONTACT: Final = codec.view(m.Contact, "number")
_NO_STORE: Final = {"Cache-Control": "no-store"}
"""Responses with credentials must not be cached (RFC 6749, 5.1)."""

_CONTACT_TYPES: Final = {
    name: kind for kind in (m.ContactType.PHONE, m.ContactType.EMAIL) for name in (kind.proto_name, kind.name.lower())
}

log = structlog.get_logger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def mount(app: web.Application, edge: Edge) -> None:
    """Adds the login routes to the consumer edge. SettingsError if LOGIN_SENDER is unknown."""
    make = SENDERS.get(edge.settings.login_sender)
    if make is None:
        raise SettingsError({"LOGIN_SENDER": f"must be one of {', '.join(SENDERS.names())}"})
    sender = make(edge.settings)

    def keys(use: bytes, secrets: Sequence[str] = edge.settings.jwt_secrets) -> list[bytes]:
        """Separate keys for each use, so that a value signed for one use is invalid for another."""
        return [hmac.digest(secret.encode(), use, "sha256") for secret in secrets]

    (counter_key,) = keys(b"login", [edge.settings.login_secret or edge.settings.jwt_secret])
    login = Login(
        edge,
        sender,
        Challenges(edge.caller, keys(b"login"), counter_key, limit_addresses=edge.settings.rate_limits),
        Refresh(edge.caller, keys(b"refresh")),
        Sending(),
    )
    for row, handler in login.routes().items():
        app.router.add_post(API + row.path, handler)

    async def close(_: web.Application) -> None:
        await sender.close()

    app.on_cleanup.append(close)


@dataclass(frozen=True, slots=True)
class Login:
    """The handlers and their dependencies."""

    edge: Edge
    sender: Sender
    challenges: Challenges
    refreshes: Refresh
    sending: Sending

    def routes(self) -> dict[LoginRow, Handler]:
        """Each row's handler."""
        return {
            rows.START: self.start,
            rows.VERIFY: self.verify,
            rows.REFRESH: self.refresh,
            rows.LOGOUT: self.logout,
            rows.LINK: self.link,
        }

    async def start(self, request: web.Request) -> web.Response:
        """Creates a challenge and sends its code."""
        scope = await self.edge.checked_scope(request, not_staff(await self.edge.auth.identify(request)))
        contact_type, contact, token = _texts(await read_body(request), rows.START)
        kind = _contact_type(contact_type, "contact_type")
        value = normalized(kind, contact, field="contact")
        if kind.name.lower() not in self.sender.carries:
            allowed = " or ".join(sorted(self.sender.carries))
            off = "cannot be used: logins by code are off (LOGIN_SENDER=none); sign in at your own issuer"
            raise invalid("contact_type", f"must be {allowed}" if allowed else off)
        client, login_id = self._client(request), self.refreshes.login_of(token, scope.tenant_id)
        issued = await self.challenges.issue(scope, _contact_key(kind, value), client, login_id)
        try:
            if issued.own_sender:
                await self.challenges.send(scope, value, issued)
            else:
                code = LoginCode(scope.tenant_id, kind.name.lower(), value, issued.code, issued.expires_at)
                await self.sending.send(self.sender, code, own=False)
        except (SendFailed, Fault) as error:
            if isinstance(error, Fault) and error.reason == "CORE_UNAVAILABLE":
                raise  # The code may have been sent, so its limits stay charged.
            if isinstance(error, SendFailed):  # Core has logged a failure of the tenant's own sender.
                log.error("login_code_not_sent", sender=self.edge.settings.login_sender, why=str(error))
            await self.challenges.withdraw(scope, issued.challenge_id, client, login_id)
            raise Fault(
                Status.UNAVAILABLE, "SENDER_UNAVAILABLE", "the code could not be sent; try again", retry_after_seconds=5
            ) from error
        return ok(
            {"challenge_id": issued.challenge_id, "expires_at": issued.expires_at, "resend_at": issued.resend_at},
            headers=_NO_STORE,
        )

    async def verify(self, request: web.Request) -> web.Response:
        """Exchanges a code for a player's tokens."""
        identity = not_staff(await self.edge.auth.identify(request))
        scope = await self.edge.checked_scope(request, identity)
        challenge_id, code = _texts(await read_body(request), rows.VERIFY)
        verified = await self.challenges.answer(scope, challenge_id, code, self._client(request))
        kind, _, value = verified.partition(":")
        guest = identity.player_id if identity is not None and identity.tenant_id == scope.tenant_id else ""
        resolved = await self.edge.caller.call(
            RESOLVE_PLAYER,
            m.ResolvePlayerRequest(
                scope=scope, contact=m.Contact(type=_CONTACT_TYPES[kind], value=value), guest_player_id=guest
            ),
        )
        if guest:
            # The merge has revoked the guest's tokens; this applies it on this edge without waiting for the next poll.
            with suppress(Fault):
                await self.edge.revocations.read()
        session = await self.refreshes.begin(scope, resolved.player.id, challenge_id)
        merged = {"guest_merged": resolved.guest_merged} if guest else {}
        return await self._logged_in(session, **merged)

    async def refresh(self, request: web.Request) -> web.Response:
        """Exchanges a refresh token for new tokens."""
        (token,) = _texts(await read_body(request), rows.REFRESH)
        return await self._logged_in(await self.refreshes.turn(token, self.challenges.requester(self._client(request))))

    async def logout(self, request: web.Request) -> web.Response:
        """Ends the token's login, or all of the player's; on this edge immediately."""
        identity = await self._player(request)
        (everywhere,) = _flags(await read_body(request), rows.LOGOUT)
        await self.edge.caller.call(
            END_LOGINS,
            m.EndLoginsRequest(
                scope=await self.edge.checked_scope(request, identity),
                player_id=identity.player_id,
                login_id=identity.login_id,
                everywhere=everywhere,
                issued_at=identity.issued_at,
                **self.challenges.rated(self._client(request)),
            ),
        )
        await self.edge.revocations.read()
        return ok({}, headers=_NO_STORE)

    async def link(self, request: web.Request) -> web.Response:
        """Adds a contact, verified by its own challenge, to a player. Guests must use `verify` instead.

        Otherwise an attacker who planted a guest's token in a victim's browser would hold a token of the victim's
        account.
        """
        identity = await self._player(request)
        if not identity.login_id and ids.is_guest(identity.player_id):
            message = "guests cannot add contacts: sign in by /players/auth/verify with this token to keep the rewards"
            raise Fault(Status.PERMISSION_DENIED, "LOGIN_REQUIRED", message)
        scope = await self.edge.checked_scope(request, identity)
        type, text, challenge_id, code = _texts(await read_body(request), rows.LINK)
        kind = _contact_type(type, "type")
        value = normalized(kind, text)
        await self.challenges.answer(
            scope, challenge_id, code, self._client(request), contact=_contact_key(kind, value)
        )
        linked = await self.edge.caller.call(
            LINK_CONTACT,
            m.LinkContactRequest(
                scope=scope,
                player_id=identity.player_id,
                contact=m.Contact(type=kind, value=value, verified=True),
                challenge_id=challenge_id,
            ),
        )
        return ok(_CONTACT(linked.contact))

    async def _player(self, request: web.Request) -> Identity:
        auth = self.edge.auth
        return require_player(await auth.identify(request), headers=auth.header_fallback)

    def _client(self, request: web.Request) -> Client:
        return client_of(request, self.edge.settings.trusted_proxies)

    async def _logged_in(self, session: Session, **more: bool) -> web.Response:
        revocations = self.edge.revocations
        await revocations.read_first()
        seconds = min(self.edge.settings.player_token_seconds, revocations.longest(session.player.id, session.login_id))
        token = self.edge.tokens.mint(
            session.player.id,
            tenant_id=session.scope.tenant_id,
            merchant_id=session.scope.merchant_id,
            seconds=seconds,
            login_id=session.login_id,
        )
        answer = {
            "token": token,
            "refresh_token": session.refresh_token,
            "expires_at": int(self.edge.tokens.now()) + seconds,
            "player": _PLAYER(session.player),
            **more,
        }
        return ok(answer, headers=_NO_STORE)


def _texts(body: bytes, row: LoginRow) -> list[str]:
    """The fields of a route's body, in order; "" for an omitted one. INVALID_ARGUMENT lists every invalid field."""
    names = (*row.fields, *row.optional)
    value = codec.parse(body)
    found = [(name, "is not a known field") for name in value if name not in names]
    for name in names:
        text: Any = value.get(name)
        if text is None or text == "":
            if name in row.fields:
                found.append((name, "is required"))
        elif not isinstance(text, str):
            found.append((name, "must be a string"))
        elif problem := rows.text_of(name).text_problem(text):
            found.append((name, problem))
    if found:
        raise refused(found)
    return [value.get(name) or "" for name in names]


def _flags(body: bytes, row: LoginRow) -> list[bool]:
    """The flags of a route's body, in order; an omitted one is false."""
    value = codec.parse(body)
    found = [(name, "is not a known field") for name in value if name not in row.flags]
    found += [(name, "must be true or false") for name in row.flags if not isinstance(value.get(name, False), bool)]
    if found:
        raise refused(found)
    return [value.get(name, False) for name in row.flags]


def _contact_type(name: str, field: str) -> m.ContactType:
    kind = _CONTACT_TYPES.get(name)
    if kind is None:
        raise invalid(field, "must be CONTACT_TYPE_PHONE or CONTACT_TYPE_EMAIL")
    return kind


def _contact_key(kind: m.ContactType, value: str) -> str:
    return f"{kind.name.lower()}:{value}"
