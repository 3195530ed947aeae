"""The session cache: a session's state while it can be played, which saves most database lookups.

    {tenant:bucket}s:<session_id>      OPEN or PLAYED; the bucket is the session's player's

Admission control (control.py) reads it. The durable store, not this cache, ensures that a session is played once.
"""

from __future__ import annotations

from typing import Final

from runtime.stores.ephemeral import Ephemeral, tag_of

OPEN: Final = b"open"
PLAYED: Final = b"played"


class SessionCache:
    """Caches session states, each for `seconds`."""

    def __init__(self, store: Ephemeral, *, seconds: int) -> None:
        self._store = store
        self._seconds = seconds

    def store(self, tenant_id: str, player_id: str, session_id: str, state: bytes) -> None:
        """Stores the state of a player's session. An empty state reads as None."""
        self._store.post("SET", session_key(tag_of(tenant_id, player_id), session_id), state, "EX", self._seconds)


def session_key(tag: str, session_id: str) -> str:
    """The key of a session's state. tag: its player's (`tag_of`)."""
    return f"{{{tag}}}s:{session_id}"


def session_name(session_id: str) -> str:
    """The nonce and signature of a session token: as unique as the whole token, but of fixed length."""
    return session_id[5:63]
