"""Whose pages may ask the consumer edge, as it remembers it.

CORS_ORIGINS says it for all tenants, each tenant and campaign for itself (runtime/operations/campaigns/origins.py).
The edge asks Core for a tenant's lists once in so many seconds, beside a request that has the old ones, so a changed
list holds within STALE_SECONDS and no play waits for it. A preflight names no tenant: whether an origin is any's is
remembered as long. What a stranger makes up costs Core one look at an index for each FRESH_SECONDS and name, no
more than LOOKUPS of an address, and here no more than REMEMBERED_MAX entries.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from aiohttp import web

from runtime import messages as m
from runtime.core import Caller
from runtime.errors import Fault
from runtime.http.admission.client_address import client_of
from runtime.http.admission.local_rates import ClientRate, charge
from runtime.http.admission.rates import Policy
from runtime.operations.campaigns.origins import FIND_ORIGIN, LIST_ORIGINS
from runtime.settings import Network
from runtime.stores.single_flight import SingleFlight
from runtime.wire.origins import candidates

FRESH_SECONDS: Final = 2.0
"""For so long nothing is asked again."""

STALE_SECONDS: Final = 5.0
"""For so long what is known counts while it is asked again; who comes later waits for the answer."""

REMEMBERED_MAX: Final = 10_000
"""Of tenants and their games and campaigns, of origins that are somebody's, and of origins that are nobody's."""

LOOKUPS: Final = Policy("origins", per_second=10, burst=100)
"""New names of one address: each costs Core a look."""

K = TypeVar("K")
V = TypeVar("V")


class Subject(NamedTuple):
    """What a request is about: a tenant, or one game or one campaign of it."""

    tenant_id: str
    game_id: str = ""
    campaign_id: str = ""


class Lists(NamedTuple):
    """What of a subject's origins is written down where: with the tenant, and with what of its campaigns matters."""

    tenant: frozenset[str]
    campaigns: frozenset[str]


class Origins:
    """Origins as the setting and `caller` know them."""

    def __init__(
        self, caller: Caller, setting: Iterable[str], proxies: tuple[Network, ...] = (), *, limited: bool = False
    ) -> None:
        self._caller = caller
        self._setting = frozenset(setting)
        self._proxies = proxies
        self._lookups = ClientRate(LOOKUPS) if limited else None
        self._tenants: _Memory[Subject, Lists] = _Memory()
        self._parts: _Memory[Subject, Lists] = _Memory()
        # Apart, so that what strangers make up drives out nobody's.
        self._somebodys: _Memory[str, bool] = _Memory()
        self._nobodys: _Memory[str, bool] = _Memory()
        self._asking = SingleFlight()

    @property
    def everybody(self) -> bool:
        """Whether the setting lets all pages ask."""
        return "*" in self._setting

    async def may_ask(self, origin: str, request: web.Request) -> bool:
        """Whether the origin is any tenant's: all that a preflight, or what is refused before its tenant is known, can
        go by. Raises RATE_LIMITED for an address that tries name after name, and what keeps Core from answering.
        """
        names = candidates(origin)
        if self.everybody or not self._setting.isdisjoint(names):
            return True
        if not names:
            return False
        memory = self._somebodys if origin in self._somebodys else self._nobodys
        return await self._recall(memory, origin, lambda: self._find(origin), request)

    async def may_read(self, origin: str, subject: Subject, request: web.Request) -> bool:
        """Whether pages of the origin may read what is answered about the subject. Raises as `may_ask` does."""
        names = candidates(origin)
        if self.everybody or not self._setting.isdisjoint(names):
            return True
        if not names:
            return False
        whole = Subject(subject.tenant_id)
        lists = await self._recall(self._tenants, whole, lambda: self._list(whole), None)
        if not lists.tenant.isdisjoint(names):
            return True
        if lists.campaigns.isdisjoint(names) or subject == whole:
            return not lists.campaigns.isdisjoint(names)
        # Of some campaign: of this one?
        lists = await self._recall(self._parts, subject, lambda: self._list(subject), request)
        return not lists.campaigns.isdisjoint(names)

    async def frame_ancestors(self, tenant_id: str, *, game_id: str = "", campaign_id: str = "") -> tuple[str, ...]:
        """Whose pages may frame the page of a game or campaign, as sources of a Content-Security-Policy: none but the
        setting's where there is no such, or Core cannot be asked.
        """
        subject = Subject(tenant_id, game_id, campaign_id)
        try:
            lists = await self._recall(self._parts, subject, lambda: self._list(subject), None)
        except Fault:
            lists = Lists(frozenset(), frozenset())
        named = self._setting | lists.tenant | lists.campaigns
        return tuple(sorted(one for one in named if "[" not in one))  # A policy has no way to say an IPv6 address.

    async def _recall(
        self,
        memory: _Memory[K, V],
        name: K,
        ask: Callable[[], Coroutine[Any, Any, V]],
        request: web.Request | None,
    ) -> V:
        """What is known of the name, or is asked for: at the expense of who asks, where `request` is given."""
        found = memory.get(name)
        if found is not None and found.age_seconds < STALE_SECONDS:
            if found.age_seconds >= FRESH_SECONDS:
                self._asking.begin(name, ask)
            return found.value
        if found is None and request is not None and self._lookups is not None and not self._asking.under_way(name):
            charge(self._lookups, request, client_of(request, self._proxies))
        answer: V = await self._asking.share(name, ask)
        return answer

    async def _list(self, subject: Subject) -> Lists:
        asked = m.ListOriginsRequest(
            scope=m.Scope(tenant_id=subject.tenant_id), game_id=subject.game_id, campaign_id=subject.campaign_id
        )
        reply: m.ListOriginsReply = await self._caller.call(LIST_ORIGINS, asked)
        lists = Lists(frozenset(reply.tenant), frozenset(reply.campaigns))
        memory = self._parts if subject.game_id or subject.campaign_id else self._tenants
        memory.put(subject, lists)
        return lists

    async def _find(self, origin: str) -> bool:
        known: bool = (await self._caller.call(FIND_ORIGIN, m.FindOriginRequest(origin=origin))).known
        memory, other = (self._somebodys, self._nobodys) if known else (self._nobodys, self._somebodys)
        memory.put(origin, known)
        other.forget(origin)
        return known


class _Known(NamedTuple, Generic[V]):
    value: V
    age_seconds: float


class _Memory(Generic[K, V]):
    """What was answered last, and when, by name."""

    def __init__(self) -> None:
        self._entries: OrderedDict[K, tuple[V, float]] = OrderedDict()

    def __contains__(self, name: K) -> bool:
        return name in self._entries

    def get(self, name: K) -> _Known[V] | None:
        if (entry := self._entries.get(name)) is None:
            return None
        value, known_at = entry
        return _Known(value, time.monotonic() - known_at)

    def put(self, name: K, value: V) -> None:
        self._entries[name] = value, time.monotonic()
        self._entries.move_to_end(name)
        if len(self._entries) > REMEMBERED_MAX:
            self._entries.popitem(last=False)

    def forget(self, name: K) -> None:
        self._entries.pop(name, None)
