"""A cache of the origins whose pages may call the consumer edge.

CORS_ORIGINS applies to all tenants. Tenants and campaigns have their own (runtime/operations/campaigns/origins.py).
The edge refreshes a tenant's lists in the background while requests use the old ones, so a change takes effect within
STALE_SECONDS and no play waits for it. A preflight names no tenant, so whether any tenant lists an origin is cached the
same way. An invented origin costs Core at most one index lookup per FRESH_SECONDS, limited by LOOKUPS per address, and
the cache has at most REMEMBERED_MAX entries.
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
from runtime.operations.campaigns.hosts import FIND_HOST
from runtime.operations.campaigns.origins import FIND_ORIGIN, LIST_ORIGINS
from runtime.settings import Network
from runtime.stores.single_flight import SingleFlight
from runtime.wire.origins import candidates

FRESH_SECONDS: Final = 2.0
"""An entry is not refreshed before this age."""

STALE_SECONDS: Final = 5.0
"""An entry up to this age is used while it is refreshed; with an older one, the request waits for the refresh."""

REMEMBERED_MAX: Final = 10_000
"""The maximum size of each cache."""

LOOKUPS: Final = Policy("origins", per_second=10, burst=100)
"""The rate limit of lookups of unknown origins per address: each costs Core a query."""

K = TypeVar("K")
V = TypeVar("V")


class Subject(NamedTuple):
    """The subject of a request: a tenant, one of its campaigns, or a game, quest, leaderboard or draw."""

    tenant_id: str
    part_id: str = ""
    campaign_id: str = ""


class Lists(NamedTuple):
    """A subject's origins: the tenant's, and those of the relevant campaigns."""

    tenant: frozenset[str]
    campaigns: frozenset[str]


class Origins:
    """Allowed origins, from the setting and from `caller`."""

    def __init__(
        self,
        caller: Caller,
        setting: Iterable[str],
        proxies: tuple[Network, ...] = (),
        *,
        limited: bool = False,
        processes: int = 1,
    ) -> None:
        self._caller = caller
        self._setting = frozenset(setting)
        self._proxies = proxies
        self._lookups = ClientRate(LOOKUPS.divided(processes)) if limited else None
        self._tenants: _Memory[Subject, Lists] = _Memory()
        self._parts: _Memory[Subject, Lists] = _Memory()
        # Separate, so that invented origins cannot evict registered ones.
        self._registered: _Memory[str, bool] = _Memory()
        self._unregistered: _Memory[str, bool] = _Memory()
        self._hosts: _Memory[str, m.FindHostReply] = _Memory()
        self._other_hosts: _Memory[str, m.FindHostReply] = _Memory()
        self._in_flight = SingleFlight()

    @property
    def allows_all(self) -> bool:
        """Whether the setting allows all origins."""
        return "*" in self._setting

    async def may_call(self, origin: str, request: web.Request) -> bool:
        """Whether any tenant allows the origin: the only possible check for a preflight, and for a refusal before the
        tenant is known. Raises RATE_LIMITED for an address that guesses origins, and Core's faults.
        """
        names = candidates(origin)
        if self.allows_all or not self._setting.isdisjoint(names):
            return True
        if not names:
            return False
        memory = self._registered if origin in self._registered else self._unregistered
        return await self._cached(memory, origin, lambda: self._find(origin), request)

    async def may_read(self, origin: str, subject: Subject, request: web.Request) -> bool:
        """Whether pages of the origin may read responses about the subject. Raises like `may_call`."""
        names = candidates(origin)
        if self.allows_all or not self._setting.isdisjoint(names):
            return True
        if not names:
            return False
        whole = Subject(subject.tenant_id)
        lists = await self._cached(self._tenants, whole, lambda: self._list(whole), None)
        if not lists.tenant.isdisjoint(names):
            return True
        if lists.campaigns.isdisjoint(names) or subject == whole:
            return not lists.campaigns.isdisjoint(names)
        # Some campaign allows it: check whether it is this one.
        lists = await self._cached(self._parts, subject, lambda: self._list(subject), request)
        return not lists.campaigns.isdisjoint(names)

    async def frame_ancestors(self, tenant_id: str, *, game_id: str = "", campaign_id: str = "") -> tuple[str, ...]:
        """The origins that may frame the page of a game or campaign, as sources of a Content-Security-Policy. Only the
        setting's if the subject does not exist or Core does not respond.
        """
        subject = Subject(tenant_id, game_id, campaign_id)
        try:
            lists = await self._cached(self._parts, subject, lambda: self._list(subject), None)
        except Fault:
            lists = Lists(frozenset(), frozenset())
        named = self._setting | lists.tenant | lists.campaigns
        return tuple(sorted(one for one in named if "[" not in one))  # A policy cannot express an IPv6 address.

    async def campaign_of(self, host: str, request: web.Request) -> m.FindHostReply:
        """A brand's host: its tenant and campaign. Empty for other hosts. Raises like `may_call`."""
        memory = self._hosts if host in self._hosts else self._other_hosts
        return await self._cached(memory, host, lambda: self._find_host(host), request)

    async def _cached(
        self,
        memory: _Memory[K, V],
        name: K,
        ask: Callable[[], Coroutine[Any, Any, V]],
        request: web.Request | None,
    ) -> V:
        """The cached value, or a lookup, which is charged to the client of `request` if that is not None."""
        found = memory.get(name)
        if found is not None and found.age_seconds < STALE_SECONDS:
            if found.age_seconds >= FRESH_SECONDS:
                self._in_flight.begin(name, ask)
            return found.value
        if found is None and request is not None and self._lookups is not None and not self._in_flight.under_way(name):
            charge(self._lookups, request, client_of(request, self._proxies))
        answer: V = await self._in_flight.share(name, ask)
        return answer

    async def _list(self, subject: Subject) -> Lists:
        message = m.ListOriginsRequest(
            scope=m.Scope(tenant_id=subject.tenant_id), part_id=subject.part_id, campaign_id=subject.campaign_id
        )
        reply: m.ListOriginsReply = await self._caller.call(LIST_ORIGINS, message)
        lists = Lists(frozenset(reply.tenant), frozenset(reply.campaigns))
        memory = self._parts if subject.part_id or subject.campaign_id else self._tenants
        memory.put(subject, lists)
        return lists

    async def _find(self, origin: str) -> bool:
        known: bool = (await self._caller.call(FIND_ORIGIN, m.FindOriginRequest(origin=origin))).known
        memory, other = (self._registered, self._unregistered) if known else (self._unregistered, self._registered)
        memory.put(origin, known)
        other.forget(origin)
        return known

    async def _find_host(self, host: str) -> m.FindHostReply:
        found: m.FindHostReply = await self._caller.call(FIND_HOST, m.FindHostRequest(host=host))
        memory, other = (self._hosts, self._other_hosts) if found.tenant_id else (self._other_hosts, self._hosts)
        memory.put(host, found)
        other.forget(host)
        return found


class _Known(NamedTuple, Generic[V]):
    value: V
    age_seconds: float


class _Memory(Generic[K, V]):
    """A bounded cache of the last reply and its time, by name."""

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
