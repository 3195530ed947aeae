"""What each tenant may hold of a pool of connections, so that none takes them from all the others.

A statement that waits for a row that somebody forgot to let go holds its connection until it is given up, and a
tenant's requests come again and again. So a tenant never holds all of them; and once one of its statements was
not answered in time, it shares a few with the other tenants of whom that is true, until one is answered and none
was late for a while.

Whose work it is says `trace.tenant`; work of no tenant (a sweep) has no share.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

PART: Final = 4
"""One connection of so many is beyond any tenant's share, and so many are all that blocked tenants have."""


class _Share:
    """A tenant's. inside: who has a place or waits for one."""

    __slots__ = ("places", "inside")

    def __init__(self, places: int) -> None:
        self.places = asyncio.Semaphore(places)
        self.inside = 0


class Shares:
    """Of a pool of `size`. quiet_seconds: how long no statement of a blocked tenant must have been late."""

    def __init__(self, size: int, quiet_seconds: float) -> None:
        self._most = size - size // PART
        self._quiet_seconds = quiet_seconds
        self._shares: dict[str, _Share] = {}
        self._blocked: dict[str, float] = {}  # when it was last late
        self._blocked_places = asyncio.Semaphore(max(1, size // PART))

    def waits(self, tenant_id: str) -> bool:
        """Whether `enter` may have to wait."""
        share = self._shares.get(tenant_id)
        return (share is not None and share.inside >= self._most) or tenant_id in self._blocked

    async def enter(self, tenant_id: str) -> bool:
        """Waits for a place, for as long as the caller lets it. What it returns is for `leave`."""
        if not tenant_id:
            return False
        share = self._shares.get(tenant_id)
        if share is None:
            share = self._shares[tenant_id] = _Share(self._most)
        share.inside += 1
        try:
            await share.places.acquire()
            try:
                if tenant_id not in self._blocked:
                    return False
                await self._enter_blocked(tenant_id)
                return True
            except BaseException:
                share.places.release()
                raise
        except BaseException:
            self._out(tenant_id, share)
            raise

    async def _enter_blocked(self, tenant_id: str) -> None:
        try:
            await self._blocked_places.acquire()
        except asyncio.CancelledError:
            if tenant_id in self._blocked:  # Who waits in vain would be late, had it a place.
                self._blocked[tenant_id] = time.monotonic()
            raise

    def leave(self, tenant_id: str, entered: bool) -> None:
        """Gives the place back. entered: what `enter` returned."""
        if not tenant_id:
            return
        share = self._shares[tenant_id]
        share.places.release()
        self._out(tenant_id, share)
        if entered:
            self._blocked_places.release()

    def _out(self, tenant_id: str, share: _Share) -> None:
        share.inside -= 1
        if not share.inside:
            del self._shares[tenant_id]

    def late(self, tenant_id: str) -> None:
        """A statement of the tenant's was not answered in time: the next ones will wait for the same rows."""
        if tenant_id:
            self._blocked[tenant_id] = time.monotonic()

    def answered(self, tenant_id: str) -> None:
        """One was."""
        if self._blocked and time.monotonic() - self._blocked.get(tenant_id, 0.0) > self._quiet_seconds:
            self._blocked.pop(tenant_id, None)
