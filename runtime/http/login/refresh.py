"""Refresh tokens: opaque, signed, and rotated on each use (RFC 9700, 4.14.2).

A login starts a family. Each use of its token issues the next generation and invalidates the last. A reused token has
been stolen, or its thief has used it first, so the whole family ends and both must sign in again. But a response can be
lost: for a moment (REPEAT_SECONDS) the same client gets the same next token again.

A token is `rt_` and the base64url of family (16 bytes), generation (4), tenant, and a MAC (24) over all, so it is
self-authenticating. Core stores a hash of the family, as the login's id, and the current generation
(runtime/operations/players/logins.py), from which no token can be derived. A family lives REFRESH_TOKEN_SECONDS from
its last use, and at most LOGIN_SECONDS.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final, NamedTuple

from runtime import messages as m
from runtime.core import Caller
from runtime.errors import Fault, Status
from runtime.operations.players.logins import BEGIN_LOGIN, TURN_LOGIN, invalid_refresh_token

FAMILY_BYTES: Final = 16
GENERATION_BYTES: Final = 4
MAC_BYTES: Final = 24
_PREFIX: Final = "rt_"


class _Content(NamedTuple):
    """The content of a refresh token: the login's family, the generation and the tenant."""

    family: bytes
    generation: int
    tenant_id: str


class Session(NamedTuple):
    """A logged-in player, the login, and the current refresh token."""

    scope: m.Scope
    player: m.Player
    login_id: str
    refresh_token: str


class Refresh:
    """Families of refresh tokens. `keys` are the MAC keys: the first signs, all verify."""

    def __init__(self, caller: Caller, keys: Sequence[bytes]) -> None:
        self._caller = caller
        self._keys = keys

    async def begin(self, scope: m.Scope, player_id: str, challenge_id: str) -> Session:
        """Starts a family and consumes its challenge. NOT_FOUND UNKNOWN_PLAYER, UNKNOWN_CHALLENGE."""
        family = secrets.token_bytes(FAMILY_BYTES)
        request = m.BeginLoginRequest(
            scope=scope, player_id=player_id, login_id=_login_id(family), challenge_id=challenge_id
        )
        try:
            reply = await self._caller.call(BEGIN_LOGIN, request)
        except Fault as fault:
            if fault.status is not Status.UNAVAILABLE:
                raise
            # The login may have begun and the reply been lost: without a retry the code would be consumed for nothing.
            reply = await self._caller.call(BEGIN_LOGIN, request)
        return Session(scope, reply.player, request.login_id, self._token(family, 0, scope.tenant_id))

    def login_of(self, token: str, tenant_id: str) -> str:
        """The id of the login, active or ended, that a token of this tenant was issued for; "" if there is none."""
        try:
            content = self._open(token)
        except Fault:
            return ""
        return _login_id(content.family) if content.tenant_id == tenant_id else ""

    async def turn(self, token: str, requester: str) -> Session:
        """Rotates a token: its player and the next token. Of concurrent uses the first wins. requester: a hash of the
        client.

        UNAUTHENTICATED TOKEN_INVALID or TOKEN_EXPIRED; a reused token ends its family.
        """
        family, generation, tenant_id = self._open(token)
        request = m.TurnLoginRequest(
            scope=m.Scope(tenant_id=tenant_id), login_id=_login_id(family), generation=generation, requester=requester
        )
        reply = await self._caller.call(TURN_LOGIN, request)
        scope = m.Scope(tenant_id=tenant_id, merchant_id=reply.merchant_id)
        return Session(scope, reply.player, request.login_id, self._token(family, generation + 1, tenant_id))

    def _token(self, family: bytes, generation: int, tenant_id: str) -> str:
        content = family + generation.to_bytes(GENERATION_BYTES, "big") + tenant_id.encode()
        return _PREFIX + base64.urlsafe_b64encode(content + _mac(self._keys[0], content)).rstrip(b"=").decode()

    def _open(self, token: str) -> _Content:
        try:
            encoded = token.removeprefix(_PREFIX)
            raw = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error):
            raise invalid_refresh_token() from None
        content, mac = raw[:-MAC_BYTES], raw[-MAC_BYTES:]
        if not any(hmac.compare_digest(mac, _mac(key, content)) for key in self._keys):
            raise invalid_refresh_token()
        family, rest = content[:FAMILY_BYTES], content[FAMILY_BYTES:]
        generation, tenant_id = rest[:GENERATION_BYTES], rest[GENERATION_BYTES:]
        return _Content(family, int.from_bytes(generation, "big"), tenant_id.decode())


def _login_id(family: bytes) -> str:
    """The login's id: a hash, so it is no credential and does not reveal the family."""
    return f"login_{hashlib.sha256(family).hexdigest()[:32]}"


def _mac(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, b"refresh\0" + content, "sha256")[:MAC_BYTES]
