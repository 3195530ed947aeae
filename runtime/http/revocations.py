"""Tokens that were revoked, as an edge remembers them: no request asks a store whether its token is.

Core keeps them durably and hands out what is new (`ListRevocations`); an edge reads it every `EVERY_SECONDS`.
So a revoked token lives at most that long, plus the time of one reading, on an edge that Core answers; on the
edge that revoked it no longer than its own answer takes. With Core away nothing that a token opens is done.
"""

from __future__ import annotations

import time
from typing import Final

from runtime import messages as m
from runtime.core import Caller
from runtime.operations.logins import LIST_REVOCATIONS
from runtime.stores.single_flight import SingleFlight

EVERY_SECONDS: Final = 1.0
FOR_EVER: Final = 2**62


class Revocations:
    """What was revoked, by the key of an identity: `login_key`, `player_key`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._since = ""
        self._issued_until: dict[str, int] = {}
        self._kept_until: dict[str, int] = {}
        self._purge_at = 0.0
        self._first = SingleFlight()
        self.known = False
        """Whether everything there was has been read once."""

    def revoked(self, key: str, issued_at: float) -> bool:
        """Whether the token of this key, issued then (unix seconds), was revoked."""
        until = self._issued_until.get(key)
        return until is not None and issued_at <= until

    async def read_first(self) -> None:
        """Reads everything there was, once for all who wait for it. Raises Fault where Core does not answer.

        Only until it is known: who has just revoked something needs a reading that began after that.
        """
        if not self.known:
            await self._first.share("first", self.read)

    async def read(self) -> None:
        """Reads what is new. Raises Fault where Core does not answer."""
        more = True
        while more:
            request = m.ListRevocationsRequest(since=self._since)
            reply: m.ListRevocationsReply = await self._caller.call(LIST_REVOCATIONS, request)
            for row in reply.revocations:
                key = (login_key if row.kind == m.RevocationKind.LOGIN else player_key)(row.tenant_id, row.subject)
                self._issued_until[key] = row.issued_until or FOR_EVER
                self._kept_until[key] = row.kept_until
            self._since, more = reply.since, reply.more
        self.known = True
        if (now := time.time()) >= self._purge_at:
            self._purge_at = now + 60
            for key in [key for key, until in self._kept_until.items() if until < now]:
                del self._issued_until[key], self._kept_until[key]


def login_key(tenant_id: str, login_id: str) -> str:
    """The key of the tokens of a login."""
    return f"l{tenant_id}\0{login_id}"


def player_key(tenant_id: str, player_id: str) -> str:
    """The key of a player's tokens that belong to no login."""
    return f"p{tenant_id}\0{player_id}"
