"""Rate limits per address over all processes, for requests that are rare and expensive: logins and new guests.

Processes that share a port share its clients, so a limit per process would grow with their number. This process's own
limit comes first, and protects it without a store; it alone counts while the store is away.
"""

from __future__ import annotations

from aiohttp import web

from runtime.http.admission.client_address import Client
from runtime.http.admission.control import AdmissionControl
from runtime.http.admission.local_rates import ClientRate, charge
from runtime.http.admission.rates import Limited, Policy
from runtime.http.envelope import extra_headers
from runtime.stores.ephemeral import Ephemeral


class SharedRate:
    """A rate limit per address and per network, with its own buckets."""

    def __init__(self, store: Ephemeral, policy: Policy) -> None:
        self._name = policy.name
        self._local = ClientRate(policy)
        self._shared = AdmissionControl(store, player=policy, ip=policy)

    async def charge(self, request: web.Request, client: Client, times: int = 1) -> None:
        """Charges the client, here `times` times. RATE_LIMITED."""
        charge(self._local, request, client, times)
        address, network = (f"{self._name}:{one}" if one else "" for one in client)
        admission = await self._shared.admit("", ip=address, network=network)
        if isinstance(admission, Limited):
            extra_headers(request).update(admission.headers)
            raise admission.fault()
