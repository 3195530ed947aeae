"""Play sessions: self-contained, signed, single-use.

`sess_` and base64url of: the server key's id, a 16-byte nonce, the game, the player, and the first 16
bytes of HMAC-SHA256(server key, all that and the tenant). It verifies with no store at hand. The
nonce begins with the 48-bit time of issue in milliseconds of the database's clock, and is the play's
identifier: the primary key of plays is what makes a session single-use.
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
    nonce: bytes
    game_id: str
    player_id: str

    @property
    def issued_ms(self) -> int:
        return int.from_bytes(self.nonce[:6], "big")

    @property
    def play_id(self) -> str:
        """The identifier of the one play that this session may have."""
        return ids.encode("play", self.nonce)

    @property
    def seed(self) -> bytes:
        """The session's secret: HMAC-SHA256(server key, nonce)."""
        return seed_of(self.key.secret, self.nonce)


def issue(keys: Sequence[Key], tenant_id: str, game_id: str, player_id: str, now: float) -> Session:
    """A new session, signed with the first key. `now` is the database's time in unix seconds."""
    key = keys[0]
    nonce = int(now * 1000).to_bytes(6, "big") + ids.random_bytes(10)
    body = b"\0".join((key.id.encode(), game_id.encode(), player_id.encode(), nonce))
    token = PREFIX + urlsafe_b64encode(body + _mac(key, tenant_id, body)).decode().rstrip("=")
    return Session(token, key, nonce, game_id, player_id)


def open_session(keys: Sequence[Key], tenant_id: str, game_id: str, token: str) -> Session:
    """The session of a token. PERMISSION_DENIED SESSION_INVALID: forged, cut, another tenant's or game's."""
    try:
        raw = urlsafe_b64decode(token[len(PREFIX) :] + "=" * (-(len(token) - len(PREFIX)) % 4))
        body, mac = raw[:-_MAC_BYTES], raw[-_MAC_BYTES:]
        # The nonce may hold zero bytes: only the first three separators count.
        key_id, game, player, nonce = body.split(b"\0", 3)
        key = next(key for key in keys if key.id == key_id.decode())
        if (
            token.startswith(PREFIX)
            and len(nonce) == 16
            and hmac.compare_digest(mac, _mac(key, tenant_id, body))
            and game.decode() == game_id
        ):
            return Session(token, key, nonce, game_id, player.decode())
    except (ValueError, StopIteration):
        pass
    raise Fault(Status.PERMISSION_DENIED, "SESSION_INVALID", "this session is not one of this game")


def _mac(key: Key, tenant_id: str, body: bytes) -> bytes:
    return hmac.digest(key.secret, _DOMAIN + tenant_id.encode() + b"\0" + body, "sha256")[:_MAC_BYTES]
