"""Which tenants there are, as an edge remembers it.

Who has no token names a tenant as it likes, and rates, sessions and keys are kept by tenant: were an invented one
taken at its word, each would come with fresh limits and keys of its own in the store. So Core is asked for a name that
is new here before a rate is charged or a key is taken in it. A tenant that is there is never taken away, and so is
remembered until REMEMBERED_MAX others were asked for; that a name is none, for UNKNOWN_SECONDS.
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
"""Of tenants that are there, and of names that are none."""

UNKNOWN_SECONDS: Final = 5.0
"""For how long a name is taken to be none: a tenant that is made meanwhile waits so long."""

LOOKUPS: Final = Policy("tenants", per_second=10, burst=100)
"""New names of one address: each costs Core a look."""

T = TypeVar("T")

_LIST_TENANTS: Final = BY_NAME["ListTenants"]


class Tenants:
    """Tenants as `caller` knows them."""

    def __init__(self, caller: Caller, proxies: tuple[Network, ...], *, limited: bool) -> None:
        self._caller = caller
        self._proxies = proxies
        self._lookups = ClientRate(LOOKUPS) if limited else None
        self._known: OrderedDict[str, None] = OrderedDict()
        self._unknown_until: OrderedDict[str, float] = OrderedDict()
        self._asking = SingleFlight()

    async def check(self, tenant_id: str, request: web.Request) -> None:
        """NOT_FOUND UNKNOWN_TENANT; RATE_LIMITED for an address that tries name after name: each look is charged once,
        to who began it, whoever else waits for it.
        """
        if tenant_id in self._known:
            return
        if self._unknown_until.get(tenant_id, 0.0) <= time.monotonic():
            if self._lookups is not None and not self._asking.under_way(tenant_id):
                charge(self._lookups, request, client_of(request, self._proxies))
            if await self._asking.share(tenant_id, lambda: self._ask(tenant_id)):
                return
        raise unknown("tenant", tenant_id)

    async def _ask(self, tenant_id: str) -> bool:
        asked = m.ListTenantsRequest(scope=m.Scope(tenant_id=tenant_id), limit=1)
        found = bool((await self._caller.call(_LIST_TENANTS, asked)).items)
        if found:
            _remember(self._known, tenant_id, None)
        else:
            _remember(self._unknown_until, tenant_id, time.monotonic() + UNKNOWN_SECONDS)
        return found


def _remember(memory: OrderedDict[str, T], name: str, what: T) -> None:
    memory[name] = what
    memory.move_to_end(name)
    if len(memory) > REMEMBERED_MAX:
        memory.popitem(last=False)
