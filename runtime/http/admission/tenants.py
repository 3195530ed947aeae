"""A cache of the existing tenants.

A client without a token can name any tenant, and rate limits, sessions and keys are per tenant: each invented tenant
would come with fresh limits, and add keys to the store. So the edge first asks Core whether an unknown tenant exists.
Tenants are never deleted, so existing ones stay cached until REMEMBERED_MAX others evict them; a nonexistent one is
cached for UNKNOWN_SECONDS.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Final, TypeVar

from aiohttp import web

from runtime import messages as m
from runtime.core import Caller
from runtime.errors import unknown
from runtime.http.admission.client_address import client_of
from runtime.http.admission.local_rates import ClientRate, charge
from runtime.http.admission.rates import Policy
from runtime.operations import BY_NAME
from runtime.settings import Network
from runtime.stores.single_flight import SingleFlight

REMEMBERED_MAX: Final = 10_000
"""The maximum number of existing, and of nonexistent, tenants in the cache."""

UNKNOWN_SECONDS: Final = 5.0
"""How long a tenant is cached as nonexistent: a tenant created meanwhile becomes usable after this time."""

LOOKUPS: Final = Policy("tenants", per_second=10, burst=100)
"""The rate limit of lookups of unknown tenants per address: each costs Core a query."""

T = TypeVar("T")

_LIST_TENANTS: Final = BY_NAME["ListTenants"]


class Tenants:
    """The tenants that `caller` is known to have."""

    def __init__(self, caller: Caller, proxies: tuple[Network, ...], *, limited: bool, processes: int = 1) -> None:
        self._caller = caller
        self._proxies = proxies
        self._lookups = ClientRate(LOOKUPS.divided(processes)) if limited else None
        self._known: OrderedDict[str, None] = OrderedDict()
        self._unknown_until: OrderedDict[str, float] = OrderedDict()
        self._in_flight = SingleFlight()

    async def check(self, tenant_id: str, request: web.Request) -> None:
        """NOT_FOUND UNKNOWN_TENANT; RATE_LIMITED for an address that guesses tenants. Concurrent requests share a
        lookup, which is charged to the first.
        """
        if tenant_id in self._known:
            return
        if self._unknown_until.get(tenant_id, 0.0) <= time.monotonic():
            if self._lookups is not None and not self._in_flight.under_way(tenant_id):
                charge(self._lookups, request, client_of(request, self._proxies))
            if await self._in_flight.share(tenant_id, lambda: self._ask(tenant_id)):
                return
        raise unknown("tenant", tenant_id)

    async def _ask(self, tenant_id: str) -> bool:
        message = m.ListTenantsRequest(scope=m.Scope(tenant_id=tenant_id), limit=1)
        found = bool((await self._caller.call(_LIST_TENANTS, message)).items)
        if found:
            _remember(self._known, tenant_id, None)
        else:
            _remember(self._unknown_until, tenant_id, time.monotonic() + UNKNOWN_SECONDS)
        return found


def _remember(memory: OrderedDict[str, T], name: str, value: T) -> None:
    memory[name] = value
    memory.move_to_end(name)
    if len(memory) > REMEMBERED_MAX:
        memory.popitem(last=False)
