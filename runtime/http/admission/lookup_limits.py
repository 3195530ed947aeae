"""Names that everybody may ask about, as an edge knows them: of games, boards, quests, campaigns and revisions.

Anybody may make a name up, and each costs Core a look in the database, which keeps the plays of others waiting. So an
address has few looks at names that are nobody's. What the edge knows by its name costs nothing more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable
from typing import Any, Final

from aiohttp import web

from runtime.core import Caller
from runtime.errors import Fault
from runtime.http.admission.client_address import Client, client_of
from runtime.http.admission.local_rates import ClientRate, charge
from runtime.http.admission.rates import Policy
from runtime.operations import Operation
from runtime.settings import Network

REMEMBERED_MAX: Final = 10_000

LOOKUPS: Final = Policy("names", per_second=50, burst=500)
"""Of one address, at names that are nobody's: links that are dead are followed too."""

OWN: Final = frozenset({"", "reward"})
"""What everybody has ids of its own of."""


class Names:
    """Names as `caller` knows them."""

    def __init__(self, caller: Caller, proxies: tuple[Network, ...], *, limited: bool) -> None:
        self._caller = caller
        self._proxies = proxies
        self._lookups = ClientRate(LOOKUPS) if limited else None
        self._known: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    def call(self, operation: Operation, message: Any, request: web.Request) -> Awaitable[Any]:
        """Core's answer to a request's message. RATE_LIMITED for an address that tries name after name."""
        subject = operation.subject
        if subject in OWN or (message.scope.tenant_id, subject, message.id) in self._known:
            return self._caller.call(operation, message)
        return self._look(operation, message, request)

    async def _look(self, operation: Operation, message: Any, request: web.Request) -> Any:
        client = client_of(request, self._proxies)
        if self._lookups is not None:
            charge(self._lookups, request, client)
        try:
            reply = await self._caller.call(operation, message)
        except Fault as fault:
            if fault.reason != f"UNKNOWN_{operation.subject.upper()}":
                self._learn(operation, message, client)
            raise
        self._learn(operation, message, client)
        return reply

    def _learn(self, operation: Operation, message: Any, client: Client) -> None:
        """Whoever asks for what is there has its look back."""
        self._known[message.scope.tenant_id, operation.subject, message.id] = None
        if len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)
        if self._lookups is not None:
            self._lookups.give_back(client)
