"""Limits lookups of unknown public ids: games, leaderboards, quests, campaigns and revisions.

Anyone can invent ids, and each costs Core a database query that delays other players. So an address has a limited
number of lookups of ids that do not exist. An id that the edge knows to exist costs nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable
from typing import Any, Final

from aiohttp import web

from runtime.core import Caller
from runtime.errors import Fault, Status
from runtime.http.admission.client_address import Client, client_of
from runtime.http.admission.local_rates import ClientRate, charge
from runtime.http.admission.rates import Policy
from runtime.operations import Operation
from runtime.settings import Network

REMEMBERED_MAX: Final = 10_000

LOOKUPS: Final = Policy("names", per_second=50, burst=500)
"""The rate limit per address for ids that do not exist. It tolerates dead links."""

OWN: Final = frozenset({"", "reward"})
"""Subjects that are not limited: each player has ids of its own."""

_UNCLEAR: Final = (Status.UNAVAILABLE, Status.INTERNAL)
"""Failures that may have cost Core a query: not refunded, or there would be no limit when the store is slow."""


class LookupLimiter:
    """Calls Core, and limits per address the calls about ids that are not known to exist."""

    def __init__(self, caller: Caller, proxies: tuple[Network, ...], *, limited: bool, processes: int = 1) -> None:
        self._caller = caller
        self._proxies = proxies
        self._lookups = ClientRate(LOOKUPS.divided(processes)) if limited else None
        self._known: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    def call(self, operation: Operation, message: Any, request: web.Request) -> Awaitable[Any]:
        """Calls Core. RATE_LIMITED for an address that guesses ids."""
        subject = operation.subject
        if subject in OWN or (message.scope.tenant_id, subject, message.id) in self._known:
            return self._caller.call(operation, message)
        return self._call_unknown(operation, message, request)

    async def _call_unknown(self, operation: Operation, message: Any, request: web.Request) -> Any:
        client = client_of(request, self._proxies)
        if self._lookups is not None:
            charge(self._lookups, request, client)
        try:
            reply = await self._caller.call(operation, message)
        except Fault as fault:
            # Another refusal does not prove that the id exists: an invalid body is refused before the lookup.
            if fault.reason != f"UNKNOWN_{operation.subject.upper()}" and fault.status not in _UNCLEAR:
                self._refund(client)
            raise
        self._refund(client)
        self._known[message.scope.tenant_id, operation.subject, message.id] = None
        if len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)
        return reply

    def _refund(self, client: Client) -> None:
        if self._lookups is not None:
            self._lookups.give_back(client)
