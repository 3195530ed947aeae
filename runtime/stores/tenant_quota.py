"""Per-tenant quotas of a connection pool, so that one tenant cannot starve the others.

A statement that waits for a row lock holds its connection until it times out, and the tenant's requests keep coming. So
no tenant may use the whole pool. A tenant with a statement that timed out counts as blocked: all blocked tenants share
a few connections, until one statement succeeds and none has timed out for a while.

`trace.tenant` names the tenant; work without a tenant (a sweep) has no quota.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

PART: Final = 4
"""1/PART of the pool is reserved: no tenant's quota includes it, and blocked tenants share that many connections."""


class _Share:
    """A tenant's share. inside: requests that have a connection or wait for one."""

    __slots__ = ("places", "inside")

    def __init__(self, places: int) -> None:
        self.places = asyncio.Semaphore(places)
        self.inside = 0


class TenantQuotas:
    """The shares of a pool of `size`. quiet_seconds: how long a blocked tenant must be without a timeout."""

    def __init__(self, size: int, quiet_seconds: float) -> None:
        self._limit = size - size // PART
        self._quiet_seconds = quiet_seconds
        self._shares: dict[str, _Share] = {}
        self._blocked: dict[str, float] = {}  # time of the last timeout
        self._answered: dict[str, float] = {}  # time of the last answer, of blocked tenants
        self._blocked_places = asyncio.Semaphore(max(1, size // PART))

    def waits(self, tenant_id: str) -> bool:
        """Whether `enter` may have to wait."""
        share = self._shares.get(tenant_id)
        return (share is not None and share.inside >= self._limit) or tenant_id in self._blocked

    def blocks(self, tenant_id: str) -> bool:
        """Whether the tenant counts as blocked."""
        return tenant_id in self._blocked

    async def enter(self, tenant_id: str) -> bool:
        """Waits for a slot; the caller sets the timeout. Returns whether it also took a slot of the blocked tenants.

        Pass the result to `leave`.
        """
        if not tenant_id:
            return False
        share = self._shares.get(tenant_id)
        if share is None:
            share = self._shares[tenant_id] = _Share(self._limit)
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
            self._exit(tenant_id, share)
            raise

    async def _enter_blocked(self, tenant_id: str) -> None:
        began = time.monotonic()
        try:
            await self._blocked_places.acquire()
        except asyncio.CancelledError:
            # A wait in vain counts as a timeout, unless the tenant was answered meanwhile: then it only asks too much.
            if tenant_id in self._blocked and self._answered.get(tenant_id, 0.0) < began:
                self._blocked[tenant_id] = time.monotonic()
            raise

    def leave(self, tenant_id: str, blocked: bool) -> None:
        """Releases the slot. blocked: the result of `enter`."""
        if not tenant_id:
            return
        share = self._shares[tenant_id]
        share.places.release()
        self._exit(tenant_id, share)
        if blocked:
            self._blocked_places.release()

    def _exit(self, tenant_id: str, share: _Share) -> None:
        share.inside -= 1
        if not share.inside:
            del self._shares[tenant_id]

    def record_timeout(self, tenant_id: str) -> None:
        """Records a timed-out statement: the tenant's next ones will wait for the same rows."""
        if tenant_id:
            self._blocked[tenant_id] = time.monotonic()

    def record_answer(self, tenant_id: str) -> None:
        """Records a statement that was answered; unblocks the tenant after the quiet time."""
        if tenant_id not in self._blocked:
            return
        now = self._answered[tenant_id] = time.monotonic()
        if now - self._blocked[tenant_id] > self._quiet_seconds:
            del self._blocked[tenant_id], self._answered[tenant_id]
