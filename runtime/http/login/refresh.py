"""Refresh tokens: opaque, signed, good for one use each (RFC 9700, 4.14.2).

A login begins a family. Each use of its token makes the next one and ends the last; a token that comes a
second time was stolen, or its thief has used it, so it ends the whole family and both must log in again. But an
answer can be lost: who used a token gets the very same next one for it once more, for a moment (REPEAT_SECONDS).

A token is `rt_` and base64url of family (16 bytes), generation (4), the tenant, and a MAC (24) over all: it
proves itself, and what Core keeps (a hash of the family, as the login's id, and the generation that counts;
runtime/operations/players/logins.py) cannot be made into one. A family lives REFRESH_TOKEN_SECONDS from its last use,
and LOGIN_SECONDS at most.
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


class _Place(NamedTuple):
    """What a refresh token holds: its login's family, which token of it this is, and whose."""

    family: bytes
    generation: int
    tenant_id: str


class Session(NamedTuple):
    """Who is logged in, by which login, and the refresh token that counts now."""

    scope: m.Scope
    player: m.Player
    login_id: str
    refresh_token: str


class Refresh:
    """Families of refresh tokens. `keys` key the MACs: the first the new ones, all verify."""

    def __init__(self, caller: Caller, keys: Sequence[bytes]) -> None:
        self._caller = caller
        self._keys = keys

    async def begin(self, scope: m.Scope, player_id: str, challenge_id: str) -> Session:
        """A new family, and the end of the challenge that it is by. NOT_FOUND UNKNOWN_PLAYER, UNKNOWN_CHALLENGE."""
        family = secrets.token_bytes(FAMILY_BYTES)
        request = m.BeginLoginRequest(
            scope=scope, player_id=player_id, login_id=_login_id(family), challenge_id=challenge_id
        )
        try:
            reply = await self._caller.call(BEGIN_LOGIN, request)
        except Fault as fault:
            if fault.status is not Status.UNAVAILABLE:
                raise
            # It may have begun, and the answer been lost: the code would be gone, with no token for it.
            reply = await self._caller.call(BEGIN_LOGIN, request)
        return Session(scope, reply.player, request.login_id, self._token(family, 0, scope.tenant_id))

    def login_of(self, token: str, tenant_id: str) -> str:
        """The id of the login that a token of this tenant's was ever made for, over or not; "" where there is none."""
        try:
            place = self._open(token)
        except Fault:
            return ""
        return _login_id(place.family) if place.tenant_id == tenant_id else ""

    async def turn(self, token: str, requester: str) -> Session:
        """Whose a token is, with the next one; of rivals with one token the first wins. requester: who uses it, hashed.

        UNAUTHENTICATED TOKEN_INVALID or TOKEN_EXPIRED; a reused one ends its family.
        """
        family, generation, tenant_id = self._open(token)
        request = m.TurnLoginRequest(
            scope=m.Scope(tenant_id=tenant_id), login_id=_login_id(family), generation=generation, requester=requester
        )
        reply = await self._caller.call(TURN_LOGIN, request)
        scope = m.Scope(tenant_id=tenant_id, merchant_id=reply.merchant_id)
        return Session(scope, reply.player, request.login_id, self._token(family, generation + 1, tenant_id))

    def _token(self, family: bytes, generation: int, tenant_id: str) -> str:
        place = family + generation.to_bytes(GENERATION_BYTES, "big") + tenant_id.encode()
        return _PREFIX + base64.urlsafe_b64encode(place + _mac(self._keys[0], place)).rstrip(b"=").decode()

    def _open(self, token: str) -> _Place:
        try:
            encoded = token.removeprefix(_PREFIX)
            raw = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error):
            raise invalid_refresh_token() from None
        place, mac = raw[:-MAC_BYTES], raw[-MAC_BYTES:]
        if not any(hmac.compare_digest(mac, _mac(key, place)) for key in self._keys):
            raise invalid_refresh_token()
        family, rest = place[:FAMILY_BYTES], place[FAMILY_BYTES:]
        generation, tenant_id = rest[:GENERATION_BYTES], rest[GENERATION_BYTES:]
        return _Place(family, int.from_bytes(generation, "big"), tenant_id.decode())


def _login_id(family: bytes) -> str:
    """The login's name, which opens nothing: a family cannot be told from it."""
    return f"login_{hashlib.sha256(family).hexdigest()[:32]}"


def _mac(key: bytes, place: bytes) -> bytes:
    return hmac.digest(key, b"refresh\0" + place, "sha256")[:MAC_BYTES]
