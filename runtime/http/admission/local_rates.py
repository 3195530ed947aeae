"""Rate limits local to an edge process, for every route. Start and play have shared limits as well.

They protect the process, so each process has its own and needs no store. Logins and new guests are also limited over
all processes (shared_rates.py). They count the requests of an address, and of its network, per class of routes, before
any work is done; larger requests count more. A flood of one class does not block the others.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from enum import Enum
from operator import itemgetter
from typing import Final

from aiohttp import web

from runtime.http.admission.client_address import Client, record_client
from runtime.http.admission.rates import Limited, Policy
from runtime.http.bodies import ON_BODY
from runtime.http.envelope import extra_headers
from runtime.operations import API
from runtime.settings import Network

ADDRESSES_MAX: Final = 20_000
"""The maximum number of buckets of one class; beyond it the fullest quarter is dropped."""

TIMES_PLAYS: Final = 4
"""The limit of each class, as a multiple of the limit of starts and plays: pages read more than they play. For start
and play themselves, the factor keeps this limit above the shared one, for bodies smaller than TIMES_PLAYS times
CHARGED_BYTES, so that it never refuses what the shared limit admits."""

CHARGED_BYTES: Final = 2 * 1024
"""A request is charged once more per CHARGED_BYTES of its body: decoding time grows with the size."""


class RouteClass(Enum):
    """The rate limit class of a request. GAMEPLAY is start and play; control.py has the limit per player."""

    GAMEPLAY = "gameplay"
    READ = "read"
    WRITE = "write"
    VIEW = "view"
    LOGIN = "login"
    STAFF = "staff"
    CALLBACK = "callback"
    OTHER = "other"

    __hash__ = object.__hash__
    """By identity: Enum's own hash is a Python function, too slow for each request."""


_GAMES: Final = f"{API}/games/"
_STAFF: Final = f"{API}/admin"
_LOGIN: Final = (f"{API}/players/auth/", f"{API}/players/me/contacts")
_SIGN_IN: Final = (f"{API}/admin/auth/link", f"{API}/admin/auth/oidc")
_CALLBACK: Final = f"{API}/fulfillment/"


def route_class(method: str, path: str) -> RouteClass:
    """The class of any request on either edge, also for unknown routes. A preflight counts as a read."""
    if method == "OPTIONS":
        return RouteClass.READ
    if path.startswith(_GAMES):
        if path.endswith(("/start", "/play")):
            return RouteClass.GAMEPLAY
    elif not path.startswith(API):
        return RouteClass.OTHER  # Health, documents and unknown paths.
    elif path.startswith(_STAFF):
        return RouteClass.LOGIN if path.startswith(_SIGN_IN) else RouteClass.STAFF
    elif path.startswith(_LOGIN):
        return RouteClass.LOGIN
    elif path.startswith(_CALLBACK):
        return RouteClass.CALLBACK
    if method in ("GET", "HEAD"):
        return RouteClass.READ
    return RouteClass.VIEW if path.endswith("/views") else RouteClass.WRITE


class LocalRate:
    """In-memory GCRA: one bucket per key, with one policy."""

    def __init__(self, policy: Policy, *, keys_max: int = ADDRESSES_MAX) -> None:
        self._policy = policy
        self._interval_us, self._tolerance_us = policy.interval_us, policy.tolerance_us
        self._keys_max = keys_max
        self._tats: dict[str, int] = {}

    def take(self, key: str, times: int = 1) -> Limited | None:
        """Charges the key's bucket `times` times, at most its capacity. Returns Limited, without charging, if it holds
        less.
        """
        now = time.monotonic_ns() // 1000
        tat = self._tats.get(key, now)
        tat = (now if tat < now else tat) + (self._interval_us if times == 1 else self._cost_us(times))
        excess_us = tat - now - self._tolerance_us
        if excess_us > 0:
            headers = {"RateLimit-Policy": self._policy.header, "RateLimit": self._policy.empty(excess_us)}
            return Limited(self._policy.name, excess_us / 1_000_000, headers)
        self._tats[key] = tat
        if len(self._tats) > self._keys_max:
            self._forget(now)
        return None

    def give_back(self, key: str, times: int = 1) -> None:
        """Undoes a `take`."""
        if key in self._tats:
            self._tats[key] -= self._cost_us(times)

    def _cost_us(self, times: int) -> int:
        return min(self._interval_us * times, self._tolerance_us)

    def _forget(self, now: int) -> None:
        """Drops full buckets, which are equivalent to unknown ones, and then those that would be full soonest.

        An attacker who floods from many addresses to get its own bucket dropped would have to empty all of them.
        """
        emptiest = sorted(((key, tat) for key, tat in self._tats.items() if tat > now), key=itemgetter(1))
        self._tats = dict(emptiest[-(self._keys_max * 3 // 4) :])


class ClientRate:
    """A rate limit per address and per network."""

    def __init__(self, policy: Policy) -> None:
        self._addresses = LocalRate(policy)
        self._networks = LocalRate(policy.of_network())

    def take(self, client: Client, times: int = 1) -> Limited | None:
        """Charges both, or neither if one of them holds less."""
        limited = self._addresses.take(client.address, times)
        if limited is None and client.network:
            limited = self._networks.take(client.network, times)
            if limited is not None:
                self._addresses.give_back(client.address, times)
        return limited

    def give_back(self, client: Client) -> None:
        """Undoes a `take`."""
        self._addresses.give_back(client.address)
        if client.network:
            self._networks.give_back(client.network)


Gate = Callable[[web.Request], Awaitable[None] | None]
"""Raises RATE_LIMITED for a request over its limit, at once or when awaited."""

Charge = Callable[[web.Request, Client, int], Awaitable[None]]
"""Charges a client so many times. RATE_LIMITED."""


def gate(ip: Policy, login: Charge, proxies: Iterable[Network]) -> Gate:
    """Limits each address per class of requests. ip: the policy of starts and plays; login: charges logins, whose limit
    holds over all processes.
    """
    proxies = tuple(proxies)
    rates: dict[RouteClass, ClientRate] = {
        one: ClientRate(
            replace(ip, name=one.value, per_second=ip.per_second * TIMES_PLAYS, burst=ip.burst * TIMES_PLAYS)
        )
        for one in RouteClass
    }

    def admit(request: web.Request) -> Awaitable[None] | None:
        client = record_client(request, proxies)
        one = route_class(request.method, request.path)
        length = request.content_length
        times = 1
        if one is RouteClass.STAFF:
            pass  # Staff are authenticated before their bodies are read, and import large files of codes.
        elif length is not None:
            times += min(length, request.client_max_size) // CHARGED_BYTES
        elif request.body_exists:
            # Charged as it arrives: a small play that a proxy forwards in chunks still counts as small.
            request[ON_BODY] = _charged_by_size(rates[one], request, client)
        if one is RouteClass.LOGIN:
            return login(request, client, times)
        charge(rates[one], request, client, times)
        return None

    return admit


def _charged_by_size(rate: ClientRate, request: web.Request, client: Client) -> Callable[[int], None]:
    charged = 0

    def on_body(size: int) -> None:
        nonlocal charged
        times = size // CHARGED_BYTES - charged
        if times:
            charged += times
            charge(rate, request, client, times)

    return on_body


def charge(rate: ClientRate, request: web.Request, client: Client, times: int = 1) -> None:
    """Charges the client. Raises RATE_LIMITED and sets its headers."""
    limited = rate.take(client, times)
    if limited is not None:
        extra_headers(request).update(limited.headers)
        raise limited.fault()
