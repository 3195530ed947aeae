"""The session cache: what is known of a session for as long as it may be played, so that most need no look-up.

    {tenant}s:<session_id>      OPEN or PLAYED

An admission (control.py) reads it. That a session is played once only is the durable store's to say.
"""

from __future__ import annotations

from typing import Final

from runtime.stores.ephemeral import Ephemeral

OPEN: Final = b"open"
PLAYED: Final = b"played"


class SessionCache:
    """Keeps sessions' states, each for `seconds`."""

    def __init__(self, store: Ephemeral, *, seconds: int) -> None:
        self._store = store
        self._seconds = seconds

    def hold(self, tenant_id: str, session_id: str, state: bytes) -> None:
        """Keep what play() will want to know. Empty state reads as none."""
        self._store.post("SET", session_key(tenant_id, session_id), state, "EX", self._seconds)


def session_key(tenant_id: str, session_id: str) -> str:
    """Where a session's state is."""
    return f"{{{tenant_id}}}s:{session_id}"


def session_name(session_id: str) -> str:
    """The nonce and the signature of a session's token: as good a name as the whole, and of one length."""
    return session_id[5:63]


def named_player(session_id: str) -> str:
    """Whose session it says that it is: the last of a token's parts."""
    return session_id.split(".", 3)[-1]
