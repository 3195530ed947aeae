"""Play sessions: self-contained, signed, single-use.

`sess_`, the nonce, the first 16 bytes of HMAC-SHA256(server key, tenant, game, nonce, key id and player)
in hex, then the key's id and the player, each after a dot. It verifies with no store at hand, and has
one spelling. The nonce is a ULID of the time of issue by the database's clock, and names the play: the
primary key of plays is what makes a session single-use.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runtime import ids
from runtime.errors import Fault, Status
from runtime.rules import keyed, seed_of
from runtime.settings import Key

PREFIX: Final = "sess_"
_MAC_BYTES: Final = 16
_NONCE: Final = slice(5, 31)
_MAC: Final = slice(31, 63)
_DOMAIN: Final = "tombola session"


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
    mac = _mac(key, tenant_id, game_id, nonce, player_id)
    return Session(f"{PREFIX}{nonce}{mac}.{key.id}.{player_id}", key, nonce, game_id, player_id)


def open_session(keys: Sequence[Key], tenant_id: str, game_id: str, token: str) -> Session:
    """The session of a token. PERMISSION_DENIED SESSION_INVALID: forged, cut, another tenant's or game's."""
    nonce, mac = token[_NONCE], token[_MAC]
    prefix, _, rest = token.partition(".")
    key_id, _, player_id = rest.partition(".")
    if len(prefix) == _MAC.stop and prefix.startswith(PREFIX):
        for key in keys:
            if key.id == key_id and hmac.compare_digest(
                mac.encode(), _mac(key, tenant_id, game_id, nonce, player_id).encode()
            ):
                return Session(token, key, nonce, game_id, player_id)
    raise Fault(Status.PERMISSION_DENIED, "SESSION_INVALID", "this session is not one of this game")


def _mac(key: Key, tenant_id: str, game_id: str, nonce: str, player_id: str) -> str:
    signer = keyed(key.secret).copy()
    # The player comes last, the only part that a caller of Core may spell as it likes.
    signer.update("\0".join((_DOMAIN, tenant_id, game_id, nonce, key.id, player_id)).encode())
    return signer.hexdigest()[: 2 * _MAC_BYTES]
