"""Play sessions: self-contained, signed, single-use.

Format: `sess_`, the nonce, the first 16 bytes of HMAC-SHA256(server key, tenant, game, nonce, key id, terms and
player) in hex, then key id, terms and player, each after a dot. It is verified without a store, and each session has
one spelling. The nonce is a ULID of the issue time by the database's clock, and names the play: the primary key of
plays makes the session single-use.

The terms are the first half of the game's revision hash and, if a start shows a plan, `-` and the player's ordinal in
the game (the number of earlier plays). The seed of a session with a plan is derived from player, game and ordinal, so
that another start shows the same plan. Any other seed is derived from the nonce.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from runtime import ids
from runtime import messages as m
from runtime.actors.game.state import GameState, PlayerState
from runtime.errors import Fault, Status
from runtime.rules import keyed, seed_hash, seed_of
from runtime.settings import Key

PREFIX: Final = "sess_"
REVISION_CHARACTERS: Final = 32
"""Characters of the revision hash in a session: 128 bits, enough to prevent a second preimage."""
_MAC_BYTES: Final = 16
_NONCE: Final = slice(5, 31)
_MAC: Final = slice(31, 63)
_DOMAIN: Final = "tombola session"
_PLAN_DOMAIN: Final = "tombola plan"


class Session(msgspec.Struct):
    """The content of a session token. issued_ms: by the database's clock. ordinal: -1 if no plan was shown.

    revision: `REVISION_CHARACTERS` of the game's revision hash.
    """

    token: str
    key: Key
    nonce: str
    game_id: str
    player_id: str
    revision: str
    ordinal: int
    seed: bytes
    issued_ms: int

    @property
    def play_id(self) -> str:
        """The id of the only play of this session."""
        return f"play_{self.nonce}"


def commitment_of(hashed_seed: str, revision_hash: str, token: str) -> str:
    """The commitment of a start: one hash of the seed, the game's terms and the session."""
    return hashlib.sha256(f"{hashed_seed}:{revision_hash}:{token}".encode()).hexdigest()


def issue(
    keys: Sequence[Key],
    tenant_id: str,
    game_id: str,
    player_id: str,
    now: float,
    revision_hash: str,
    *,
    ordinal: int = -1,
) -> Session:
    """A new session, signed with the first key. `now` is the database's time in unix seconds."""
    key = keys[0]
    nonce, revision = ids.ulid_at(now), revision_hash[:REVISION_CHARACTERS]
    terms = revision if ordinal < 0 else f"{revision}-{ordinal}"
    mac = _mac(key, tenant_id, game_id, nonce, terms, player_id)
    seed = _seed(key, tenant_id, game_id, nonce, player_id, ordinal)
    token = f"{PREFIX}{nonce}{mac}.{key.id}.{terms}.{player_id}"
    return Session(
        token=token,
        key=key,
        nonce=nonce,
        game_id=game_id,
        player_id=player_id,
        revision=revision,
        ordinal=ordinal,
        seed=seed,
        issued_ms=ids.unix_ms(nonce),
    )


def next_session(state: GameState, player: PlayerState) -> m.NextSession:
    """A new session for the player. If it shows a plan, that is the next play's, and always the same one."""
    snapshot = state.snapshot
    session = issue(
        state.keys,
        snapshot.tenant_id,
        snapshot.game_id,
        player.player_id,
        state.now,
        snapshot.revision_hash,
        ordinal=player.plays if snapshot.shows_plan else -1,
    )
    hashed = seed_hash(session.seed)
    return m.NextSession(
        session_id=session.token,
        seed_hash=hashed,
        commitment=commitment_of(hashed, snapshot.revision_hash, session.token),
        revision_hash=snapshot.revision_hash,
        expires_at=session.issued_ms // 1000 + state.session_seconds,
        drop_plan=[
            m.PlannedDrop(id=drop.id, type=drop.type, at_ms=drop.at_ms)
            for drop in snapshot.rules.seed_generator.plan(snapshot.rules.config, session.seed)
        ],
    )


def open_session(
    keys: Sequence[Key], tenant_id: str, game_id: str, token: str, *, elsewhere: AbstractSet[str] = frozenset()
) -> Session:
    """Verifies and parses a token. PERMISSION_DENIED SESSION_INVALID: forged, truncated, or of another tenant or game.

    elsewhere: ids of keys that other processes sign with and this one lacks; a token with such a key is UNAVAILABLE.
    """
    nonce, mac = token[_NONCE], token[_MAC]
    prefix, _, rest = token.partition(".")
    key_id, _, rest = rest.partition(".")
    terms, _, player_id = rest.partition(".")
    if len(prefix) == _MAC.stop and prefix.startswith(PREFIX):
        for key in keys:
            if key.id == key_id and hmac.compare_digest(
                mac.encode(), _mac(key, tenant_id, game_id, nonce, terms, player_id).encode()
            ):
                revision, _, number = terms.partition("-")
                ordinal = int(number) if number else -1
                seed = _seed(key, tenant_id, game_id, nonce, player_id, ordinal)
                return Session(
                    token=token,
                    key=key,
                    nonce=nonce,
                    game_id=game_id,
                    player_id=player_id,
                    revision=revision,
                    ordinal=ordinal,
                    seed=seed,
                    issued_ms=ids.unix_ms(nonce),
                )
    if key_id in elsewhere:
        raise Fault(
            Status.UNAVAILABLE, "OVERLOADED", "this process lacks the session's key; try again", retry_after_seconds=1
        )
    message = "the session is invalid or belongs to another game; start a new one"
    raise Fault(Status.PERMISSION_DENIED, "SESSION_INVALID", message)


def named_player(token: str) -> str:
    """The player that a session token claims, not verified; "" without a token."""
    return token.split(".", 3)[-1]


def _seed(key: Key, tenant_id: str, game_id: str, nonce: str, player_id: str, ordinal: int) -> bytes:
    """The session's secret seed: HMAC-SHA256(server key, nonce or plan identity)."""
    if ordinal < 0:
        return seed_of(key.secret, nonce.encode())
    return seed_of(key.secret, "\0".join((_PLAN_DOMAIN, tenant_id, game_id, str(ordinal), player_id)).encode())


def _mac(key: Key, tenant_id: str, game_id: str, nonce: str, terms: str, player_id: str) -> str:
    signer = keyed(key.secret).copy()
    # The player comes last: it is the only part with arbitrary characters.
    signer.update("\0".join((_DOMAIN, tenant_id, game_id, nonce, key.id, terms, player_id)).encode())
    return signer.hexdigest()[: 2 * _MAC_BYTES]
