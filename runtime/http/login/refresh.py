"""Refresh tokens: opaque, signed, good for one use each (RFC 9700, 4.14.2).

A login begins a family. Each use of its token makes the next one and ends the last; a token that comes a
second time was stolen, or its thief has used it, so it ends the whole family and both must log in again.

A token is `rt_` and base64url of family (16 bytes), generation (4) and a MAC (24) over both: it proves
itself, and what the store holds cannot be made into one. The store holds the family's current generation
and whose it is; it is the ephemeral one, which fails closed, and losing it logs players out, no more.

    tombola:refresh:{<family>}   hash: g generation, t tenant, m merchant, p player
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from typing import Any, Final, NamedTuple

from redis.exceptions import RedisError

from runtime.errors import Fault, Status
from runtime.stores.ephemeral import Ephemeral, Script
from runtime.stores.pipeline import Arg, EphemeralDown

FAMILY_BYTES: Final = 16
GENERATION_BYTES: Final = 4
MAC_BYTES: Final = 24
_PREFIX: Final = "rt_"

_BEGIN: Final = Script(
    """
redis.call('HSET', KEYS[1], 'g', 0, 't', ARGV[1], 'm', ARGV[2], 'p', ARGV[3])
return redis.call('EXPIRE', KEYS[1], ARGV[4])
"""
)

_READ: Final = Script(
    """
-- ARGV: generation. {} gone | {0} reused, and the family is over | {1, tenant, merchant, player}
local found = redis.call('HMGET', KEYS[1], 'g', 't', 'm', 'p')
if not found[1] then return {} end
if found[1] ~= ARGV[1] then
  redis.call('DEL', KEYS[1])
  return {0}
end
return {1, found[2], found[3], found[4]}
"""
)

_TURN: Final = Script(
    """
-- ARGV: generation, seconds. 1 turned | 0 reused or gone, and the family is over
if redis.call('HGET', KEYS[1], 'g') ~= ARGV[1] then
  redis.call('DEL', KEYS[1])
  return 0
end
redis.call('HINCRBY', KEYS[1], 'g', 1)
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
"""
)


class Session(NamedTuple):
    """Whose a token is, and the token's place: family and generation."""

    tenant_id: str
    merchant_id: str
    player_id: str
    family: bytes
    generation: int


class Refresh:
    """Families of refresh tokens. Each lives `seconds` from its last use."""

    def __init__(self, store: Ephemeral, secret: bytes, *, seconds: int) -> None:
        self._store = store
        self._secret = secret
        self._seconds = seconds

    async def begin(self, tenant_id: str, merchant_id: str, player_id: str) -> str:
        """The first token of a new family."""
        family = secrets.token_bytes(FAMILY_BYTES)
        await self._ask(_BEGIN, family, [tenant_id, merchant_id, player_id, self._seconds])
        return self._token(family, 0)

    async def read(self, token: str) -> Session:
        """Whose a token is. UNAUTHENTICATED TOKEN_INVALID or TOKEN_EXPIRED; a reused one ends its family."""
        family, generation = self._open(token)
        found = await self._ask(_READ, family, [generation])
        if not found:
            raise Fault(Status.UNAUTHENTICATED, "TOKEN_EXPIRED", "the refresh token has expired; log in again")
        if not found[0]:
            raise _invalid()
        tenant_id, merchant_id, player_id = (part.decode() for part in found[1:])
        return Session(tenant_id, merchant_id, player_id, family, generation)

    async def rotate(self, session: Session) -> str:
        """Ends the token that was read and makes the next. Of rivals with one token the first wins."""
        if not await self._ask(_TURN, session.family, [session.generation, self._seconds]):
            raise _invalid()
        return self._token(session.family, session.generation + 1)

    async def _ask(self, script: Script, family: bytes, args: list[Arg]) -> Any:
        try:
            return await self._store.script(script, [f"tombola:refresh:{{{family.hex()}}}"], args)
        except RedisError as error:
            raise EphemeralDown(str(error)) from error

    def _token(self, family: bytes, generation: int) -> str:
        place = family + generation.to_bytes(GENERATION_BYTES, "big")
        return _PREFIX + base64.urlsafe_b64encode(place + self._mac(place)).rstrip(b"=").decode()

    def _open(self, token: str) -> tuple[bytes, int]:
        try:
            encoded = token.removeprefix(_PREFIX)
            raw = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error):
            raise _invalid() from None
        place, mac = raw[:-MAC_BYTES], raw[-MAC_BYTES:]
        if len(place) != FAMILY_BYTES + GENERATION_BYTES or not hmac.compare_digest(mac, self._mac(place)):
            raise _invalid()
        return place[:FAMILY_BYTES], int.from_bytes(place[FAMILY_BYTES:], "big")

    def _mac(self, place: bytes) -> bytes:
        return hmac.digest(self._secret, b"refresh\0" + place, "sha256")[:MAC_BYTES]


def _invalid() -> Fault:
    return Fault(Status.UNAUTHENTICATED, "TOKEN_INVALID", "the refresh token is not valid; log in again")
