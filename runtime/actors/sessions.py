"""Play sessions: self-contained, signed, single-use.

`sess_` and base64url of: the server key's id, the game, the player, a nonce, and the first 16 bytes of
HMAC-SHA256(server key, all that and the tenant). It verifies with no store at hand. The nonce is a
ULID of the time of issue by the database's clock, and names the play: the primary key of plays is
what makes a session single-use.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runtime import ids
from runtime.errors import Fault, Status
from runtime.rules import seed_of
from runtime.settings import Key

PREFIX: Final = "sess_"
_MAC_BYTES: Final = 16
_DOMAIN: Final = b"tombola session\0"


@dataclass(slots=True)
class Session:
    """What a session's token says. issued_ms: of the database's clock."""

    token: str
    key: Key
    nonce: str
    game_id: str
    player_id: str

    @property
    def issued_ms(self) -> int:
        return ids.unix_ms(self.nonce)

    @property
    def play_id(self) -> str:
        """The identifier of the one play that this session may have."""
        return f"play_{self.nonce}"

    @property
    def seed(self) -> bytes:
        """The session's secret: HMAC-SHA256(server key, nonce)."""
        return seed_of(self.key.secret, self.nonce.encode())


def issue(keys: Sequence[Key], tenant_id: str, game_id: str, player_id: str, now: float) -> Session:
    """A new session, signed with the first key. `now` is the database's time in unix seconds."""
    key = keys[0]
    nonce = ids.ulid_at(now)
    body = "\0".join((key.id, game_id, player_id, nonce)).encode()
    return Session(_spell(body + _mac(key, tenant_id, body)), key, nonce, game_id, player_id)


def open_session(keys: Sequence[Key], tenant_id: str, game_id: str, token: str) -> Session:
    """The session of a token. PERMISSION_DENIED SESSION_INVALID: forged, cut, another tenant's or game's."""
    try:
        raw = urlsafe_b64decode(token[len(PREFIX) :] + "=" * (-(len(token) - len(PREFIX)) % 4))
        body, mac = raw[:-_MAC_BYTES], raw[-_MAC_BYTES:]
        key_id, game, player, nonce = body.decode().split("\0")
        key = next(key for key in keys if key.id == key_id)
        # The decoder passes over strange characters and spare bits: only the spelling that was issued counts.
        if token == _spell(raw) and hmac.compare_digest(mac, _mac(key, tenant_id, body)) and game == game_id:
            return Session(token, key, nonce, game_id, player)
    except (ValueError, StopIteration):
        pass
    raise Fault(Status.PERMISSION_DENIED, "SESSION_INVALID", "this session is not one of this game")


def _spell(raw: bytes) -> str:
    return PREFIX + urlsafe_b64encode(raw).decode().rstrip("=")


def _mac(key: Key, tenant_id: str, body: bytes) -> bytes:
    return hmac.digest(key.secret, _DOMAIN + tenant_id.encode() + b"\0" + body, "sha256")[:_MAC_BYTES]
